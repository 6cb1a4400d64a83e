r"""The best safe point of a box."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.optim import optimize_acqf
from torch import Tensor

from kernelucb.exceptions import NoSafePointError
from kernelucb.safety.safe_set import SafeSet
from kernelucb.safety.starts import feasible, gen_safe_initial_conditions


def best_in_box(
    acq_function: AcquisitionFunction,
    safe_set: SafeSet,
    bounds: Tensor,
    counts: tuple[int, int],
    shared: dict[str, Any],
) -> tuple[Tensor, Tensor]:
    r"""One safe point, ``1 x d``, and its value.

    Args:
        acq_function: What is maximised.
        safe_set: The safe set; its known safe points compete.
        bounds: ``2 x d`` limits.
        counts: Numbers of restarts and of raw samples.
        shared: ``fixed_features``, ``inequality_constraints`` and ``options``, which
            starts and optimiser share.

    Raises:
        NoSafePointError: If no point is known to be safe.
    """
    shared = {**shared, "fixed_features": _in_order(shared["fixed_features"], bounds)}
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


def _in_order(
    fixed_features: Mapping[int, float | Tensor] | None, bounds: Tensor
) -> dict[int, float | Tensor] | None:
    r"""Fixed columns from left to right, counted from 0.

    BoTorch gives the values to nonlinear constraints in the order of the mapping, as if
    that were the order of the columns.
    """
    if not fixed_features:
        return None
    dimension = bounds.shape[-1]
    return dict(sorted((i % dimension, value) for i, value in fixed_features.items()))
