r"""Optimise an acquisition function without ever leaving the safe set."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import whole_number
from kernelucb._numerics.domains import check_one_domain
from kernelucb._numerics.parts import in_parts
from kernelucb.certificates import MixedSpace
from kernelucb.safety.boxes import best_in_box
from kernelucb.safety.combinations import CombinedBox, safe_finalists
from kernelucb.safety.points import no_safe_point
from kernelucb.safety.safe_set import SafeSet
from kernelucb.safety.starts import LinearConstraints, check_search


@checked
def optimize_acqf_safely(
    acq_function: AcquisitionFunction,
    safe_set: SafeSet,
    bounds: Tensor | None = None,
    q: int = 1,
    num_restarts: int = 8,
    raw_samples: int = 256,
    *,
    space: MixedSpace | None = None,
    fixed_features: Mapping[int, float | Tensor] | None = None,
    inequality_constraints: LinearConstraints = None,
    options: dict[str, Any] | None = None,
) -> tuple[Tensor, Tensor]:
    r"""BoTorch's ``optimize_acqf``, restricted to a safe set.

    Searches by SLSQP from starting points inside the set, with the constraints' margins as
    nonlinear constraints, steps back if the optimiser left the set, and checks the result
    again: what is returned is safe, without a tolerance. Known safe points compete too,
    even where the bands do not show that they are safe (with few data). With ``q > 1``
    points are chosen one after the other, the earlier ones pending; safety does not depend
    on pending points.

    **Mixed spaces.** With ``space`` in place of ``bounds`` some inputs take listed values.
    On a finite space every point is looked at, and the best safe one is returned. Else the
    combinations of listed values (at most ``max_combinations`` of the space) are compared
    by 4,096 Sobol points altogether and by the known safe points moved to each, and the
    continuous inputs are searched in the ``num_restarts`` most promising combinations.

    Example:
        >>> safe_set = SafeSet(acqf, thresholds=0.5, safe_points=X0)
        >>> x, value = optimize_acqf_safely(acqf, safe_set, bounds)
        >>> space = MixedSpace(bounds, discrete_dims={1: [1, 2, 3]}, one_hot=[[3, 4, 5]])
        >>> x, value = optimize_acqf_safely(acqf, safe_set, space=space)

    Arguments are those of ``optimize_acqf``: an ``acq_function`` that scores one point at a
    time, ``2 x d`` ``bounds``, linear constraints on single points, to which those of
    ``space`` are added. ``raw_samples`` is the number of Sobol points and of lines from
    safe points each.

    Returns:
        ``q x d`` points, and their acquisition values (one number for ``q=1``).

    Raises:
        NoSafePointError: If no point is known to be safe.
        BotorchTensorDimensionError: If ``bounds`` are not ``2 x d``, or ``space`` has
            another number of columns than the bands.
        ValueError: If a number is not a whole number of at least 1, not exactly one of
            ``bounds`` and ``space`` is given, or a fixed value does not fit the space.
        InputDataError: If the space's linear constraints leave none of its combinations.
    """
    check_one_domain(bounds=bounds, space=space)
    counts = (num_restarts, raw_samples)
    shared: dict[str, Any] = {
        "fixed_features": fixed_features,
        "inequality_constraints": inequality_constraints,
        "options": options,
    }
    if space is None:
        box = cast(Tensor, bounds)
        check_search(box, *counts)
        search = partial(best_in_box, acq_function, safe_set, box, counts, shared)
    else:
        check_search(space.bounds, *counts)
        combined = _combined(space, safe_set, shared)
        search = partial(_best_in_space, acq_function, safe_set, combined, counts, shared)
    if whole_number("q", q) == 1:
        return search()
    return _one_by_one(acq_function, search, q)


def _one_by_one(
    acq_function: AcquisitionFunction,
    search: Callable[[], tuple[Tensor, Tensor]],
    q: int,
) -> tuple[Tensor, Tensor]:
    r"""``q x d`` points and their values, the earlier ones pending."""
    pending = acq_function.X_pending
    before = [] if pending is None else [pending]
    points, values = [], []
    try:
        for _ in range(q):
            point, value = search()
            points.append(point)
            values.append(value)
            acq_function.set_X_pending(torch.cat([*before, *points]))
    finally:
        acq_function.set_X_pending(pending)
    return torch.cat(points), torch.stack(values)


def _combined(space: MixedSpace, safe_set: SafeSet, shared: dict[str, Any]) -> CombinedBox:
    r"""The space with its fixed columns and all linear constraints."""
    for constraint in safe_set.constraints:
        state = getattr(constraint.band, "regression", None)
        dimension = getattr(state, "dimension", space.dimension)
        if dimension != space.dimension:
            raise BotorchTensorDimensionError(
                f"space has {space.dimension} columns; a band of safe_set has {dimension}."
            )
    fixed = shared["fixed_features"]
    region = space.region(fixed)
    bounds = torch.stack([region.lower.amin(0), region.upper.amax(0)])
    inequalities = [*space.constraints, *(shared["inequality_constraints"] or [])]
    return CombinedBox(bounds, space.fixed_features_list(fixed), inequalities or None)


def _best_in_space(
    acq_function: AcquisitionFunction,
    safe_set: SafeSet,
    space: CombinedBox,
    counts: tuple[int, int],
    shared: dict[str, Any],
) -> tuple[Tensor, Tensor]:
    r"""One safe point, ``1 x d``, and its value; the other arguments as for a box."""

    def search(combination: dict[int, float]) -> Tensor:
        own = {"fixed_features": combination, "inequality_constraints": space.inequalities}
        limits = (safe_set, space.bounds, counts, {**shared, **own})
        return best_in_box(acq_function, *limits)[0]

    finalists = safe_finalists(acq_function, safe_set, space, search, counts[0])
    if len(finalists) == 0:
        raise no_safe_point("no point of the space that was tried")
    with torch.no_grad():
        value, index = in_parts(finalists.unsqueeze(-2), acq_function).max(0)
    return finalists[index].unsqueeze(0), value
