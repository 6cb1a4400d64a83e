r"""A guarded acquisition function from names and numbers, which Ax can store."""

from collections.abc import Mapping
from typing import Any

from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import (
    ACQF_INPUT_CONSTRUCTOR_REGISTRY,
    get_acqf_input_constructor,
)
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.martingale_mixture import MartingaleMixtureUCB
from kernelucb.regression.observed import observed_inputs

Options = Mapping[str, Any]


@checked
def guarded_inputs(
    model: Model,
    *,
    search: str | type[AcquisitionFunction] = "qLogNoisyExpectedImprovement",
    search_options: Options | None = None,
    band: type[KernelUCB] = MartingaleMixtureUCB,
    band_options: Options | None = None,
    temperature: float = 0.02,
    ucb_every: int | None = None,
    training_data: Any = None,
    X_baseline: Tensor | None = None,
    bounds: Any = None,
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of ``GuardedAcquisition`` from a model and the two classes.

    Both are made by the input constructors that are registered with BoTorch.

    Args:
        model: For both.
        search: Class of the acquisition function that is guarded, or its name, under which
            BoTorch has its input constructor.
        search_options: Arguments of its input constructor beside those below.
        band: Class of the band.
        band_options: Its arguments.
        temperature: See ``GuardedAcquisition``.
        ucb_every: See ``GuardedAcquisition``.
        training_data: BoTorch's data sets, which some acquisition functions ask for.
        X_baseline: ``n x d`` observed points, which some acquisition functions ask for and
            whose lower bounds are compared; by default those that the model has observed.
        bounds: Ranges of the inputs, which some acquisition functions ask for.
        posterior_transform: For both.
        X_pending: ``p x d`` points under evaluation, for both.

    Raises:
        UnsupportedError: If there is no such acquisition function, or it has no input
            constructor.
    """
    shared = {"model": model, "posterior_transform": posterior_transform}
    data = {"training_data": training_data, "X_baseline": X_baseline, "bounds": bounds}
    searched = search_class(search)
    own = {name: value for name, value in (data | shared).items() if value is not None}
    inputs = get_acqf_input_constructor(searched)(**own, **(search_options or {}))
    bound = get_acqf_input_constructor(band)(**shared, **(band_options or {}))
    return {
        "acqf": searched(**inputs),
        "band": band(**bound),
        "observed": observed_inputs(model) if X_baseline is None else X_baseline,
        "temperature": temperature,
        "ucb_every": ucb_every,
        "X_pending": X_pending,
    }


def search_class(search: str | type[AcquisitionFunction]) -> type[AcquisitionFunction]:
    r"""The one with an input constructor of that name; ``UnsupportedError`` if none."""
    known = {each.__name__: each for each in ACQF_INPUT_CONSTRUCTOR_REGISTRY}
    found = known.get(search) if isinstance(search, str) else search
    if found is None:
        raise UnsupportedError(
            f"BoTorch has no acquisition function {search!r} with an input constructor; "
            "import the module that registers one, or give a name such as "
            "'qLogNoisyExpectedImprovement'."
        )
    if found not in ACQF_INPUT_CONSTRUCTOR_REGISTRY:
        raise UnsupportedError(
            f"{found.__name__} has no input constructor in BoTorch; register one with "
            "botorch.acquisition.input_constructors.acqf_input_constructor, or build the "
            "function yourself and give it to GuardedAcquisition."
        )
    return found
