r"""Objective and constraints from one model of several outputs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import as_double, finite, finite_scalar
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.martingale_mixture import MartingaleMixtureUCB
from kernelucb.acquisition.outcome_bands import (
    BoundClasses,
    BoundOptions,
    Builder,
    Noise,
    NormBounds,
    band_builders,
    build_bands,
)
from kernelucb.acquisition.scalarized import ScalarizedUCB
from kernelucb.confidence.outcome_constraints import OutcomeConstraints, Side
from kernelucb.regression.from_model import single_output_models

Limits = tuple[float | None, float | None]
Weights = dict[int, float]


class Row(NamedTuple):
    r"""A constraint on ``sum_j weights[j] f_j``, which holds on one side of a threshold."""

    weights: Weights
    threshold: float
    side: Side


@checked
def constrained_inputs(
    model: Model | Sequence[Model],
    *,
    constraints: Mapping[int, Limits] | Sequence[Callable[..., Any]] | None = None,
    constraints_tuple: tuple[Tensor, Tensor] | None = None,
    objective_index: int | Sequence[int] = 0,
    posterior_transform: PosteriorTransform | None = None,
    norm_bound: NormBounds = None,
    noise_std: Noise | Sequence[Noise] = None,
    delta: float = 0.05,
    bound: BoundClasses = MartingaleMixtureUCB,
    options: BoundOptions = None,
    maximize: bool = True,
    temperature: float = 0.02,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of ``ConstrainedUCB`` from those of ``ConstrainedUCB.from_model``.

    Instead of limits, BoTorch and Ax give ``constraints_tuple``: ``(A, b)``, ``k x m`` and
    ``k x 1``, for the constraints ``A f(x) <= b`` on ``m`` outputs (a row may weigh
    several), and the same as functions of samples in ``constraints``, which are not read.

    Raises:
        ValueError: See ``ConstrainedUCB.from_model``.
        BotorchTensorDimensionError: If ``(A, b)`` do not fit the outputs.
        UnsupportedError: If constraints are given as functions alone, or the model or the
            transform cannot be represented.
    """
    singles = single_output_models(model)
    rows = constraint_rows(constraints, constraints_tuple, len(singles))
    weights, offset = objective_weights(posterior_transform, objective_index, len(singles))
    builders = band_builders(len(singles), bound, norm_bound, noise_std, options)
    _check_options(builders)
    index, weight = next(iter(weights.items()))
    summed = {j for row in rows if len(row.weights) > 1 for j in row.weights}
    # A sum takes no terms with a transform of their own.
    alone = len(weights) == 1 and index not in summed
    if alone:
        own = {"maximize": maximize, "posterior_transform": _transform(weight, offset)}
        builders[index] = partial(builders[index], **own)
    used = sorted({*weights, *(j for row in rows for j in row.weights)})
    bands = build_bands(builders, singles, used, delta, len(used))
    objective = bands[index]
    if not alone:
        terms = [bands[j] for j in weights]
        objective = ScalarizedUCB(
            terms, [*weights.values()], offset=offset, maximize=maximize
        )
    return {
        "band": objective,
        "constraints": OutcomeConstraints(
            [_band_of(bands, row.weights) for row in rows],
            [row.threshold for row in rows],
            sides=[row.side for row in rows],
        ),
        "temperature": temperature,
        "X_pending": X_pending,
    }


def _band_of(bands: Mapping[int, KernelUCB], weights: Weights) -> KernelUCB:
    r"""The band of an output, or of a sum of several."""
    if len(weights) == 1:
        return bands[next(iter(weights))]
    return ScalarizedUCB([bands[j] for j in weights], [*weights.values()])


def _transform(weight: float, offset: float) -> ScalarizedPosteriorTransform | None:
    if (weight, offset) == (1.0, 0.0):
        return None
    return ScalarizedPosteriorTransform(as_double([weight]), offset)


def objective_weights(
    transform: PosteriorTransform | None, index: int | Sequence[int], count: int
) -> tuple[Weights, float]:
    r"""Weights of the outputs of which the objective is the sum, and an offset."""
    if not isinstance(index, int):
        raise UnsupportedError(
            "objective_index names several objectives, and a bound is for one; weigh them "
            "by a posterior_transform, or give limits for all but one in constraints."
        )
    if not 0 <= index < count:
        raise ValueError(
            f"objective_index is {index}; the model has the outputs {_numbers(count)}."
        )
    if transform is None:
        return {index: 1.0}, 0.0
    if not isinstance(transform, ScalarizedPosteriorTransform):
        raise UnsupportedError(
            f"The posterior transform is {type(transform).__name__}; use "
            "ScalarizedPosteriorTransform with one weight, or one for each output."
        )
    given = transform.get_buffer("weights").double().tolist()
    offset = finite_scalar("The offset of the posterior transform", transform.offset)
    if len(given) == 1:
        given = [given[0] if j == index else 0.0 for j in range(count)]
    elif index != 0:
        raise ValueError(
            "objective_index and a posterior transform with a weight for each output both "
            "say what the objective is; leave out objective_index."
        )
    if len(given) != count:
        raise UnsupportedError(
            f"The posterior transform has {len(given)} weights; the model has {count} "
            "outputs."
        )
    weights = {j: weight for j, weight in enumerate(given) if weight != 0.0}
    if not weights:
        raise UnsupportedError("All weights of the posterior transform are 0.")
    return weights, offset


def constraint_rows(
    constraints: Any, constraints_tuple: tuple[Tensor, Tensor] | None, count: int
) -> list[Row]:
    r"""The constraints on ``count`` outputs, as ``constrained_inputs`` takes them."""
    named = isinstance(constraints, Mapping)
    if named and constraints_tuple is not None:
        raise ValueError(
            "constraints and constraints_tuple are both given (in Ax, the latter are those "
            "of the experiment); give one of them."
        )
    if constraints and not named and constraints_tuple is None:
        raise UnsupportedError(
            "constraints are functions of samples, from which no threshold can be read; "
            "give {output: (lower, upper)}, or constraints_tuple as Ax does."
        )
    rows = _from_limits(constraints, count) if named else []
    if constraints_tuple is not None:
        rows = _from_matrix(*constraints_tuple, count)
    if not rows:
        raise ValueError(
            "There are no constraints; give one, such as constraints={1: (0.9, None)}, or "
            "use a bound without any, such as MartingaleMixtureUCB or ScalarizedUCB."
        )
    return rows


def matrix_of(rows: Sequence[Row], count: int) -> tuple[Tensor, Tensor]:
    r"""``(A, b)``, ``k x count`` and ``k x 1``, such that the rows are ``A f(x) <= b``."""
    signs = [1.0 if row.side == "<=" else -1.0 for row in rows]
    pairs = list(zip(signs, rows, strict=True))
    matrix = [[sign * row.weights.get(j, 0.0) for j in range(count)] for sign, row in pairs]
    return as_double(matrix), as_double([[sign * row.threshold] for sign, row in pairs])


def _from_limits(constraints: Mapping[int, Limits], count: int) -> list[Row]:
    r"""One row for each limit of ``{output: (lower, upper)}``."""
    rows = []
    for output, (lower, upper) in constraints.items():
        name = f"constraints[{output}]"
        if not 0 <= output < count:
            raise ValueError(f"{name}: the model has the outputs {_numbers(count)}.")
        if lower is None and upper is None:
            raise ValueError(f"{name} has no limit; leave it out.")
        if lower is not None and upper is not None and lower >= upper:
            raise ValueError(
                f"{name}: the lower limit {lower:g} must be below the upper {upper:g}."
            )
        sides: tuple[tuple[Side, float | None], ...] = ((">=", lower), ("<=", upper))
        rows += [
            Row({output: 1.0}, finite_scalar(f"{name} (None for no limit)", limit), side)
            for side, limit in sides
            if limit is not None
        ]
    return rows


def _from_matrix(matrix: Tensor, limits: Tensor, count: int) -> list[Row]:
    r"""One row for each of ``A f(x) <= b``."""
    if matrix.dim() != 2 or matrix.shape[1] != count or limits.numel() != len(matrix):
        raise BotorchTensorDimensionError(
            f"constraints_tuple must be `k x {count}` and `k x 1`, got shapes "
            f"{tuple(matrix.shape)} and {tuple(limits.shape)}."
        )
    finite("constraints_tuple", matrix)
    finite("constraints_tuple", limits)
    rows = []
    pairs = zip(matrix.double().tolist(), limits.reshape(-1).tolist(), strict=True)
    for coefficients, limit in pairs:
        weights = {j: weight for j, weight in enumerate(coefficients) if weight != 0.0}
        if not weights:
            raise ValueError("constraints_tuple has a row without weights; leave it out.")
        if len(weights) > 1:
            rows.append(Row(weights, limit, "<="))
            continue
        ((output, weight),) = weights.items()
        rows.append(Row({output: 1.0}, limit / weight, "<=" if weight > 0.0 else ">="))
    return rows


def _check_options(builders: Sequence[Builder]) -> None:
    r"""Refuse options that are for the objective alone."""
    given = {name for builder in builders for name in getattr(builder, "keywords", ())}
    for name in sorted(given & {"maximize", "posterior_transform", "X_pending"}):
        raise ValueError(
            f"options holds {name}, which is for the objective alone; give it as an "
            "argument of its own."
        )


def _numbers(count: int) -> str:
    return "0" if count == 1 else f"0 to {count - 1}"
