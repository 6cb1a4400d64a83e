r"""A guarded acquisition function from names and numbers, which Ax can store."""

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, getclosurevars, signature
from typing import Any

from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import (
    ACQF_INPUT_CONSTRUCTOR_REGISTRY,
    get_acqf_input_constructor,
)
from botorch.acquisition.objective import (
    IdentityMCObjective,
    LinearMCObjective,
    MCAcquisitionObjective,
    PosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from botorch.utils.constraints import get_outcome_constraint_transforms
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import as_double
from kernelucb._numerics.domains import FixedFeatures, LinearConstraints
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.constrained_inputs import (
    Limits,
    constrained_inputs,
    constraint_rows,
    matrix_of,
    objective_weights,
)
from kernelucb.acquisition.martingale_mixture import MartingaleMixtureUCB
from kernelucb.acquisition.meta import MetaPI, MetaUCB
from kernelucb.acquisition.scalarized import ScalarizedUCB
from kernelucb.regression.from_model import observed_inputs, single_output_models

Options = Mapping[str, Any]

# Options of the bands that have an argument of their own.
_SHARED = ("norm_bound", "noise_std", "delta")


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
    fixed_features: FixedFeatures | None = None,
    inequality_constraints: LinearConstraints | None = None,
    posterior_transform: PosteriorTransform | None = None,
    constraints: Mapping[int, Limits] | Sequence[Callable[..., Any]] | None = None,
    constraints_tuple: tuple[Tensor, Tensor] | None = None,
    objective_index: int = 0,
    objective: MCAcquisitionObjective | None = None,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of ``GuardedAcquisition`` from a model and the two classes.

    Both are made by the input constructors that are registered with BoTorch. With outcome
    constraints the bands are those of ``ConstrainedUCB.from_model``, which share ``delta``,
    and the search is told of the constraints, too.

    Args:
        model: For both.
        search: Class of the acquisition function that is guarded, or its name, under which
            BoTorch has its input constructor.
        search_options: Arguments of its input constructor beside those below.
        band: Class of the band; with constraints that of each outcome, also where the
            objective is a sum of several.
        band_options: Its arguments.
        temperature: See ``GuardedAcquisition``.
        ucb_every: See ``GuardedAcquisition``.
        training_data: BoTorch's data sets, which some acquisition functions ask for.
        X_baseline: ``n x d`` observed points, which some acquisition functions ask for and
            whose lower bounds are compared; by default those that the model has observed.
        bounds: Ranges ``(lower, upper)`` of the ``d`` inputs, which limit the domain; some
            acquisition functions ask for them, too.
        fixed_features: See ``GuardedAcquisition``.
        inequality_constraints: See ``GuardedAcquisition``.
        posterior_transform: For both.
        constraints: Outcome constraints, ``{output: (lower, upper)}``; functions of samples
            are accepted beside ``constraints_tuple`` and not read.
        constraints_tuple: The same as ``(A, b)`` for ``A f(x) <= b``, as Ax gives them.
        objective_index: With constraints, which output is the objective.
        objective: With constraints, the objective as a ``LinearMCObjective``, as Ax gives
            it, in place of ``posterior_transform``.
        X_pending: ``p x d`` points under evaluation, for both.

    Raises:
        UnsupportedError: If there is no such acquisition function, or it has no input
            constructor, or it takes no constraints where there are some.
        ValueError: If a constraint has no limit or no output, or the objective is given
            twice.
    """
    if isinstance(objective, IdentityMCObjective):
        objective = None
    searched, told = search_class(search), {}
    if constraints is None and constraints_tuple is None:
        if objective is not None or objective_index != 0:
            raise UnsupportedError(
                "objective and objective_index are taken only with constraints; without, "
                "the objective is what posterior_transform says."
            )
        bound = get_acqf_input_constructor(band)(
            model=model, posterior_transform=posterior_transform, **(band_options or {})
        )
        bands: dict[str, Any] = {"band": band(**bound)}
        told["posterior_transform"] = posterior_transform
    else:
        _check_constrained(searched, band)
        bands, told = _constrained(
            model,
            band,
            band_options or {},
            (constraints, constraints_tuple),
            (_transform_of(objective, posterior_transform), objective_index),
        )
    data = {"training_data": training_data, "X_baseline": X_baseline, "bounds": bounds}
    own = {name: value for name, value in (data | told).items() if value is not None}
    construct = get_acqf_input_constructor(searched)
    return {
        **bands,
        "acqf": searched(**construct(model=model, **own, **(search_options or {}))),
        "observed": observed_inputs(model) if X_baseline is None else X_baseline,
        "bounds": None if bounds is None else as_double(bounds).mT,
        "fixed_features": fixed_features,
        "inequality_constraints": inequality_constraints,
        "temperature": temperature,
        "ucb_every": ucb_every,
        "X_pending": X_pending,
    }


def _check_constrained(searched: type[AcquisitionFunction], band: type[KernelUCB]) -> None:
    r"""Refuse a search that takes no constraints, and bands not of single outcomes."""
    if "constraints" not in input_parameters(searched):
        raise UnsupportedError(
            f"{searched.__name__} takes no constraints; search with "
            "qLogNoisyExpectedImprovement, say."
        )
    if issubclass(band, ScalarizedUCB):
        raise UnsupportedError(
            "With constraints band is the class of the band of each outcome, such as "
            "MartingaleMixtureUCB; their sum follows from posterior_transform."
        )
    if issubclass(band, MetaUCB | MetaPI):
        raise UnsupportedError(
            f"{band.__name__} has the prior of one outcome and cannot keep outcome "
            "constraints; use MartingaleMixtureUCB or KernelFamilyUCB."
        )


def _transform_of(
    objective: MCAcquisitionObjective | None, transform: PosteriorTransform | None
) -> PosteriorTransform | None:
    if objective is None:
        return transform
    if transform is not None:
        raise ValueError(
            "objective and posterior_transform both say what the objective is; give one "
            "of them."
        )
    if not isinstance(objective, LinearMCObjective):
        raise UnsupportedError(
            f"The objective is {type(objective).__name__}; a band is for a weighted sum of "
            "outcomes, LinearMCObjective."
        )
    return ScalarizedPosteriorTransform(objective.get_buffer("weights"))


def _constrained(
    model: Model,
    band: type[KernelUCB],
    options: Options,
    limits: tuple[Any, Any],
    objective: tuple[PosteriorTransform | None, int],
) -> tuple[dict[str, Any], dict[str, Any]]:
    r"""Bands and constraints of a guard, and what the search is told of them."""
    count = len(single_output_models(model))
    shared = {name: options[name] for name in _SHARED if name in options}
    inputs = constrained_inputs(
        model,
        constraints=limits[0],
        constraints_tuple=limits[1],
        posterior_transform=objective[0],
        objective_index=objective[1],
        bound=band,
        options={name: each for name, each in options.items() if name not in _SHARED},
        **shared,
    )
    weights, _ = objective_weights(*objective, count)
    rows = constraint_rows(*limits, count)
    told = {
        "constraints": get_outcome_constraint_transforms(matrix_of(rows, count)),
        "objective": LinearMCObjective(
            as_double([weights.get(j, 0.0) for j in range(count)])
        ),
    }
    return {name: inputs[name] for name in ("band", "constraints")}, told


def input_parameters(searched: type[AcquisitionFunction]) -> Mapping[str, Parameter]:
    r"""What the input constructor of a class takes, which BoTorch has wrapped."""
    constructor: Any = get_acqf_input_constructor(searched)
    inner = getclosurevars(constructor).nonlocals.get("f", constructor)
    return signature(inner).parameters


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
