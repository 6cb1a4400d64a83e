r"""A guarded acquisition function from names and numbers, which Ax can store."""

from collections.abc import Mapping
from typing import Any

from botorch import acquisition
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.martingale_mixture import MartingaleMixtureUCB

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
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of ``GuardedAcquisition`` from a model and the two classes.

    Both are made by the input constructors that are registered with BoTorch.

    Args:
        model: For both.
        search: Class of the acquisition function that is guarded, or its name in
            ``botorch.acquisition``.
        search_options: Arguments of its input constructor beside those below.
        band: Class of the band.
        band_options: Its arguments.
        temperature: See ``GuardedAcquisition``.
        ucb_every: See ``GuardedAcquisition``.
        training_data: BoTorch's data sets, which some acquisition functions ask for.
        X_baseline: ``n x d`` observed points, which some acquisition functions ask for.
        posterior_transform: For both.
        X_pending: ``p x d`` points under evaluation, for both.

    Raises:
        UnsupportedError: If there is no such acquisition function, or it has no input
            constructor.
    """
    shared = {"model": model, "posterior_transform": posterior_transform}
    given = {"training_data": training_data, "X_baseline": X_baseline, **shared}
    searched = search_class(search)
    own = {name: value for name, value in given.items() if value is not None}
    inputs = get_acqf_input_constructor(searched)(**own, **(search_options or {}))
    bound = get_acqf_input_constructor(band)(**shared, **(band_options or {}))
    return {
        "acqf": searched(**inputs),
        "band": band(**bound),
        "temperature": temperature,
        "ucb_every": ucb_every,
        "X_pending": X_pending,
    }


def search_class(search: str | type[AcquisitionFunction]) -> type[AcquisitionFunction]:
    r"""The acquisition function of BoTorch with that name; ``UnsupportedError`` if none."""
    found = getattr(acquisition, search, None) if isinstance(search, str) else search
    if not (isinstance(found, type) and issubclass(found, AcquisitionFunction)):
        raise UnsupportedError(
            f"botorch.acquisition has no acquisition function {search!r}; give its class, "
            "or a name such as 'qLogNoisyExpectedImprovement'."
        )
    try:
        get_acqf_input_constructor(found)
    except RuntimeError as error:
        raise UnsupportedError(
            f"{found.__name__} has no input constructor in BoTorch; build it yourself and "
            "give it to GuardedAcquisition."
        ) from error
    return found
