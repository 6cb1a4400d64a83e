r"""Starting points inside a safe set, however thin it is."""

from collections.abc import Mapping
from typing import Annotated, Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.optim.initializers import initialize_q_batch
from botorch.optim.parameter_constraints import evaluate_feasibility
from botorch.optim.utils import fix_features
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import finite, tensor, whole_number
from kernelucb._numerics.parts import in_parts
from kernelucb.safety.points import no_safe_point
from kernelucb.safety.safe_set import SafeSet

# Columns, their coefficients, and what the sum must at least be.
LinearConstraints = list[tuple[Annotated[Tensor, torch.int64], Tensor, float]] | None

# Each line from a safe point is tried at this many lengths, halved from one to the next:
# the shortest is 1/4096 of the way to a random point of the box.
_LENGTHS = 13


@checked
@torch.no_grad()
def gen_safe_initial_conditions(
    acq_function: AcquisitionFunction,
    bounds: Tensor,
    q: int = 1,
    num_restarts: int = 8,
    raw_samples: int = 256,
    fixed_features: Mapping[int, float | Tensor] | None = None,
    options: dict[str, Any] | None = None,
    inequality_constraints: LinearConstraints = None,
    equality_constraints: LinearConstraints = None,
    *,
    safe_set: SafeSet,
) -> Tensor:
    r"""Starting points for ``optimize_acqf`` at which the margin is at least zero.

    Candidates are Sobol points of the box, the known safe points, and points on lines from
    safe points towards random points of the box (half of the lines along a single
    coordinate) at lengths halved 12 times, which finds sets too thin for Sobol points.
    Unsafe candidates are dropped; BoTorch's heuristic picks among the others by value.

    Use it as ``ic_generator=partial(gen_safe_initial_conditions, safe_set=safe_set)``.

    Arguments are those of ``gen_batch_initial_conditions``, for ``q = 1`` and without
    equality constraints. ``raw_samples`` is the number of Sobol points and of lines each;
    of the ``options``, ``seed`` of the Sobol points is used.

    Returns:
        ``r x 1 x d`` starting points, ``1 <= r <= num_restarts``.

    Raises:
        BotorchTensorDimensionError: If ``bounds`` are not ``2 x d``.
        ValueError: If a number is not a whole number of at least 1.
        NoSafePointError: If no point was found at which the margin is at least zero.
        UnsupportedError: If ``q`` is above 1 or there are equality constraints.
    """
    check_search(bounds, num_restarts, raw_samples)
    if q != 1:
        raise UnsupportedError("Safe starting points are for q=1; use sequential=True.")
    if equality_constraints:
        raise UnsupportedError(
            "A safe set takes no equality constraints: points around safe ones would all "
            "violate them. Use fixed_features, or remove a column."
        )
    pool = _candidates(safe_set, bounds, raw_samples, (options or {}).get("seed"))
    pool = feasible(pool, bounds, fixed_features, inequality_constraints)
    pool = pool[safe_set.margin(pool) >= 0.0].unsqueeze(-2)
    if len(pool) == 0:
        raise no_safe_point("no point that was tried")
    if len(pool) <= num_restarts:
        return pool
    values = in_parts(pool, acq_function)
    if bool((values == values[0]).all()):
        return pool[torch.randperm(len(pool), device=pool.device)[:num_restarts]]
    return initialize_q_batch(pool, values, n=num_restarts)[0]


def check_search(bounds: Tensor, num_restarts: int, raw_samples: int) -> None:
    r"""Check the box and the numbers of points of a search."""
    if tensor("bounds", bounds).dim() != 2 or len(bounds) != 2:
        raise BotorchTensorDimensionError(
            f"bounds must be `2 x d`, got shape {tuple(bounds.shape)}."
        )
    finite("bounds", bounds)
    whole_number("num_restarts", num_restarts)
    whole_number("raw_samples", raw_samples)


def feasible(
    X: Tensor,
    bounds: Tensor,
    fixed_features: Mapping[int, float | Tensor] | None,
    inequality_constraints: LinearConstraints,
) -> Tensor:
    r"""Set the fixed columns of ``n x d`` points; keep what the other limits allow."""
    points = fix_features(X, fixed_features)
    inside = ((bounds[0] <= points) & (bounds[1] >= points)).all(-1)
    allowed = evaluate_feasibility(points.unsqueeze(-2), inequality_constraints)
    return points[inside & allowed]


def _candidates(
    safe_set: SafeSet, bounds: Tensor, raw_samples: int, seed: int | None
) -> Tensor:
    r"""Sobol points, safe points, and points on lines from safe points."""
    sobol = draw_sobol_samples(bounds, n=raw_samples, q=1, seed=seed).squeeze(-2)
    anchors = sobol[safe_set.margin(sobol) >= 0.0]
    if safe_set.safe_points is not None:
        anchors = torch.cat([safe_set.safe_points.to(sobol), anchors])
    if len(anchors) == 0:
        return sobol
    origins = anchors[torch.randint(len(anchors), (raw_samples,), device=sobol.device)]
    steps = sobol - origins
    column = torch.randint(steps.shape[-1], (raw_samples, 1), device=steps.device)
    single = torch.zeros_like(steps).scatter(1, column, steps.gather(1, column))
    steps[::2] = single[::2]
    lengths = torch.rand(raw_samples, 1, 1).to(steps) * 0.5 + 0.5
    halvings = steps.new_tensor(0.5).pow(torch.arange(_LENGTHS).to(steps))
    lengths = lengths * halvings.unsqueeze(-1)
    lines = origins.unsqueeze(-2) + lengths * steps.unsqueeze(-2)
    return torch.cat([sobol, anchors, lines.reshape(-1, sobol.shape[-1])])
