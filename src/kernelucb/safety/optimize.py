r"""Optimise an acquisition function without ever leaving the safe set."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import whole_number
from kernelucb.exceptions import NoSafePointError
from kernelucb.safety.safe_set import SafeSet
from kernelucb.safety.starts import (
    LinearConstraints,
    check_search,
    feasible,
    gen_safe_initial_conditions,
)


@checked
def optimize_acqf_safely(
    acq_function: AcquisitionFunction,
    safe_set: SafeSet,
    bounds: Tensor,
    q: int = 1,
    num_restarts: int = 8,
    raw_samples: int = 256,
    *,
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

    Example:
        >>> safe_set = SafeSet(acqf, thresholds=0.5, safe_points=X0)
        >>> x, value = optimize_acqf_safely(acqf, safe_set, bounds)

    Arguments are those of ``optimize_acqf``: an ``acq_function`` that scores one point at a
    time, ``2 x d`` ``bounds``, linear constraints on single points. ``raw_samples`` is the
    number of Sobol points and of lines from safe points each.

    Returns:
        ``q x d`` points, and their acquisition values (one number for ``q=1``).

    Raises:
        NoSafePointError: If no point is known to be safe.
        BotorchTensorDimensionError: If ``bounds`` are not ``2 x d``.
        ValueError: If a number is not a whole number of at least 1.
    """
    check_search(bounds, num_restarts, raw_samples)
    shared = {
        "fixed_features": _in_order(fixed_features, bounds.shape[-1]),
        "inequality_constraints": inequality_constraints,
        "options": options,
    }
    counts = (num_restarts, raw_samples)
    search = partial(_best_point, acq_function, safe_set, bounds, counts, shared)
    if whole_number("q", q) == 1:
        return search()
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


def _in_order(
    fixed_features: Mapping[int, float | Tensor] | None, dimension: int
) -> dict[int, float | Tensor] | None:
    r"""Fixed columns from left to right, counted from 0.

    BoTorch gives the values to nonlinear constraints in the order of the mapping, as if
    that were the order of the columns.
    """
    if not fixed_features:
        return None
    return dict(sorted((i % dimension, value) for i, value in fixed_features.items()))


def _best_point(
    acq_function: AcquisitionFunction,
    safe_set: SafeSet,
    bounds: Tensor,
    counts: tuple[int, int],
    shared: dict[str, Any],
) -> tuple[Tensor, Tensor]:
    r"""One safe point, ``1 x d``, and its value; ``shared`` by starts and optimiser."""
    limits = (bounds, shared["fixed_features"], shared["inequality_constraints"])
    finalists = bounds[:0]
    if safe_set.safe_points is not None:
        finalists = feasible(safe_set.safe_points.to(bounds), *limits)
    try:
        starts = gen_safe_initial_conditions(
            acq_function, bounds, 1, *counts, safe_set=safe_set, **shared
        )
    except NoSafePointError:
        if not bool(safe_set.is_safe(finalists).any()):
            raise
    else:
        found, _ = optimize_acqf(
            acq_function,
            bounds,
            q=1,
            num_restarts=len(starts),
            batch_initial_conditions=starts,
            nonlinear_inequality_constraints=safe_set.nonlinear_inequality_constraints,
            post_processing_func=partial(safe_set.repair, anchors=starts.squeeze(-2)),
            return_best_only=False,
            retry_on_optimization_warning=False,
            **shared,
        )
        finalists = torch.cat([finalists, found.squeeze(-2), starts.squeeze(-2)])
    # Steps back end at starting points, so the limits still hold; safety is asked again.
    finalists = safe_set.filter(feasible(finalists, *limits))
    with torch.no_grad():
        values = acq_function(finalists.unsqueeze(-2))
    value, index = values.max(0)
    return finalists[index].unsqueeze(0), value
