r"""The best safe point of a box, or of a box in which some columns take listed values."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import UnsupportedError
from botorch.optim import optimize_acqf
from botorch.optim.initializers import initialize_q_batch
from botorch.optim.parameter_constraints import evaluate_feasibility
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import whole_number
from kernelucb._numerics.domains import (
    FixedFeatures,
    LinearConstraints,
    check_one_domain,
    checked_fixed,
    checked_inequalities,
    checked_limits,
    with_fixed,
)
from kernelucb.certificates import MixedSpace
from kernelucb.safety.safe_set import SafeSet, no_safe_point

# Each line from a safe point is tried at this many lengths, halved from one to the next:
# the shortest is 1/4096 of the way to a random point of the box.
_LENGTHS = 13
# How many points are compared altogether before numbers are searched.
_COMPARED = 4096


def optimize_acqf_safely(
    acq_function: AcquisitionFunction,
    safe_set: SafeSet,
    bounds: Tensor | None = None,
    q: int = 1,
    num_restarts: int = 8,
    raw_samples: int = 256,
    *,
    space: MixedSpace | None = None,
    fixed_features: FixedFeatures | None = None,
    inequality_constraints: LinearConstraints | None = None,
    options: dict[str, Any] | None = None,
) -> tuple[Tensor, Tensor]:
    r"""BoTorch's ``optimize_acqf``, restricted to a safe set.

    Searches by SLSQP from starting points inside the set, with the constraints' margins as
    nonlinear constraints, steps back if the optimiser left the set, and checks the result
    again: every returned point is in the safe set, without a tolerance. Known safe points
    are candidates too. With ``q > 1`` the points are chosen one after the other, with the
    earlier points pending; safety does not depend on pending points.

    A finite ``space`` is searched by evaluating every point. In other mixed spaces 4,096
    Sobol points and the known safe points rank the combinations of listed values, and the
    continuous inputs are searched in the best ``num_restarts`` combinations.

    Example:
        >>> safe_set = SafeSet(acqf, thresholds=0.5, safe_points=X0)
        >>> x, value = optimize_acqf_safely(acqf, safe_set, bounds)
        >>> space = MixedSpace(bounds, discrete_dims={1: [1, 2, 3]}, one_hot=[[3, 4, 5]])
        >>> x, value = optimize_acqf_safely(acqf, safe_set, space=space)

    Arguments: see ``optimize_acqf``; ``bounds`` is ``2 x d``. ``acq_function`` must score
    one point at a time, and linear constraints must be on single points; the constraints of
    ``space`` are added to them. ``raw_samples`` is the number of Sobol points, and also of
    lines from safe points.

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
    whole_number("q", q)
    if bounds is not None:
        box, inequalities = checked_limits(bounds).to(bounds), []
        combinations = [checked_fixed(fixed_features, box.shape[1])]
    else:
        assert space is not None
        region = space.region(fixed_features)
        combinations = space.fixed_features_list(fixed_features)
        box = torch.stack([region.lower.amin(0), region.upper.amax(0)])
        inequalities = space.constraints
    further = checked_inequalities(inequality_constraints or [], box.shape[1])
    limits = [*inequalities, *further] or None
    counts = whole_number("num_restarts", num_restarts), raw_samples
    search = SafeSearch(acq_function, safe_set, box, combinations, limits, *counts, options)
    pending = getattr(acq_function, "X_pending", None)
    points, values = list[Tensor](), list[Tensor]()
    try:
        for _ in range(q):
            if points:
                before = [] if pending is None else [pending]
                acq_function.set_X_pending(torch.cat([*before, *points]))
            found = (
                search.at(combinations[0])
                if space is None
                else search.finalists(num_restarts)
            )
            point, value = search.best_of(found)
            points.append(point)
            values.append(value)
    finally:
        if q > 1:
            acq_function.set_X_pending(pending)
    return torch.cat(points), torch.stack(values) if q > 1 else values[0]


class SafeSearch(NamedTuple):
    r"""The safe search of a box in which some columns take listed values."""

    acqf: AcquisitionFunction
    safe_set: SafeSet
    bounds: Tensor  # `2 x d` limits, which hold the values as well
    # Values of the same columns, at least one; `{}` where all are open
    combinations: Sequence[FixedFeatures]
    inequalities: LinearConstraints | None
    num_restarts: int = 8
    raw_samples: int = 256
    options: dict[str, Any] | None = None

    def finalists(self, most_searched: int) -> Tensor:
        r"""``n x d`` candidates for the best safe point: all safe ones of a finite space.

        In other spaces 4,096 Sobol points and the known safe points rank the combinations
        by their best safe point; combinations without a safe point come last. The
        continuous inputs are searched in the first ``most_searched`` combinations.
        """
        dimension = self.bounds.shape[1]
        if len(self.combinations[0]) == dimension:
            rows = [[row[i] for i in range(dimension)] for row in self.combinations]
            points = self._feasible(self.bounds.new_tensor(rows), {})
            return points[self.safe_set.is_safe(points)]
        count = max(1, _COMPARED // len(self.combinations))
        seed = int(torch.randint(2**31, ()))
        drawn = draw_sobol_samples(self.bounds, n=count, q=1, seed=seed).squeeze(-2)
        if self.safe_set.safe_points is not None:
            drawn = torch.cat([self.safe_set.safe_points.to(drawn), drawn])
        moved = [self._feasible(drawn, row) for row in self.combinations]
        pool, chosen = torch.cat(moved), list(range(len(moved)))
        counts = torch.tensor([len(each) for each in moved], device=pool.device)
        owners = torch.arange(len(moved), device=pool.device).repeat_interleave(counts)
        safe = self.safe_set.is_safe(pool)
        pool, owners = pool[safe], owners[safe]
        if len(chosen) > most_searched:
            with torch.no_grad():
                values = in_parts(pool.unsqueeze(-2), self.acqf)
            promising = owners[values.argsort(descending=True)].tolist()
            chosen = list(dict.fromkeys([*promising, *chosen]))
        found = [self.at(self.combinations[i]) for i in chosen[:most_searched]]
        return torch.cat([pool, *found])

    def at(self, combination: FixedFeatures) -> Tensor:
        r"""``n x d`` safe candidates of one combination, searched; maybe none."""
        # Fixed columns have no room in the box. Given as fixed features, BoTorch puts their
        # values into nonlinear constraints twice, right for last columns only (its #3332).
        box = with_fixed(self.bounds, combination)
        found = starts = _safe_starts(self, combination)
        if len(starts) > 0:
            searched, _ = optimize_acqf(
                self.acqf,
                box,
                q=1,
                num_restarts=len(starts),
                batch_initial_conditions=starts.unsqueeze(-2),
                nonlinear_inequality_constraints=self.safe_set.nonlinear_inequality_constraints,
                post_processing_func=partial(self.safe_set.repair, anchors=starts),
                return_best_only=False,
                retry_on_optimization_warning=False,
                inequality_constraints=self.inequalities,
                options=self.options,
            )
            # A little inside of the edge as well: there the margin's sign is round-off.
            ends = searched.squeeze(-2)
            nearest = starts[torch.cdist(ends, starts).argmin(-1)]
            steps = ends.new_tensor([1e-9, 1e-6, 1e-3]).reshape(-1, 1, 1)
            inner = (ends + steps * (nearest - ends)).flatten(end_dim=1)
            found = torch.cat([inner, starts])
        if self.safe_set.safe_points is not None:
            found = torch.cat([self.safe_set.safe_points.to(found), found])
        # Steps back end at starting points, so the limits hold; safety is asked again.
        found = self._feasible(found, combination)
        return found[self.safe_set.is_safe(found)]

    @torch.no_grad()
    def best_of(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The best of ``n x d`` points that is safe, ``1 x d``, and its value."""
        values = in_parts(X.unsqueeze(-2), self.acqf) if len(X) else X.new_empty(0)
        for index in values.argsort(descending=True):
            # Alone, as it will be asked about: margins round otherwise among others.
            if bool(self.safe_set.is_safe(point := X[index].unsqueeze(0))):
                return point, values[index]
        raise no_safe_point("no point that was tried")

    def _feasible(self, X: Tensor, fixed: FixedFeatures) -> Tensor:
        return feasible(X, self.bounds, fixed, self.inequalities)


def feasible(
    X: Tensor, bounds: Tensor, fixed: FixedFeatures, inequalities: LinearConstraints | None
) -> Tensor:
    r"""Set the fixed columns of ``n x d`` points; keep what the other limits allow."""
    points = with_fixed(X, fixed)
    inside = (bounds[0] <= points) & (bounds[1] >= points)
    inside = with_fixed(inside, dict.fromkeys(fixed, 1.0)).all(-1)  # whatever its limits
    return points[inside & evaluate_feasibility(points.unsqueeze(-2), inequalities)]


def gen_safe_initial_conditions(
    acq_function: AcquisitionFunction,
    bounds: Tensor,
    q: int = 1,
    num_restarts: int = 8,
    raw_samples: int = 256,
    fixed_features: FixedFeatures | None = None,
    options: dict[str, Any] | None = None,
    inequality_constraints: LinearConstraints | None = None,
    equality_constraints: LinearConstraints | None = None,
    *,
    safe_set: SafeSet,
) -> Tensor:
    r"""Starting points for ``optimize_acqf`` at which the margin is at least zero.

    Candidates are Sobol points of the box, the known safe points, and points on lines from
    safe points towards random points of the box (half of the lines along a single
    coordinate) at lengths halved 12 times, which finds sets too thin for Sobol points.
    BoTorch's heuristic picks among the safe ones by value.

    Use it as ``ic_generator=partial(gen_safe_initial_conditions, safe_set=safe_set)``: the
    arguments are those of ``gen_batch_initial_conditions``, for ``q = 1`` and without
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
    checked_limits(bounds)
    whole_number("num_restarts", num_restarts)
    whole_number("raw_samples", raw_samples)
    if q != 1:
        raise UnsupportedError("Safe starting points are for q=1; use sequential=True.")
    if equality_constraints:
        raise UnsupportedError(
            "A safe set takes no equality constraints: points around safe ones would all "
            "violate them. Use fixed_features, or remove a column."
        )
    fixed = checked_fixed(fixed_features, bounds.shape[1])
    given = bounds, [fixed], inequality_constraints, num_restarts, raw_samples, options
    starts = _safe_starts(SafeSearch(acq_function, safe_set, *given), fixed)
    if len(starts) == 0:
        raise no_safe_point("no point that was tried")
    return starts.unsqueeze(-2)


@torch.no_grad()
def _safe_starts(search: SafeSearch, fixed: FixedFeatures) -> Tensor:
    r"""Up to ``num_restarts`` safe points of one combination; none if none is known."""
    safe_set, seed = search.safe_set, (search.options or {}).get("seed")
    sobol = draw_sobol_samples(search.bounds, n=search.raw_samples, q=1, seed=seed)
    sobol = with_fixed(sobol.squeeze(-2), fixed)
    anchors = sobol[safe_set.margin(sobol) >= 0.0]
    if safe_set.safe_points is not None:
        anchors = torch.cat([safe_set.safe_points.to(sobol), anchors])
    pool = torch.cat([sobol, anchors, _on_lines(anchors, sobol)])
    pool = feasible(pool, search.bounds, fixed, search.inequalities)
    pool = pool[safe_set.margin(pool) >= 0.0]
    if len(pool) <= search.num_restarts:
        return pool
    values = in_parts(pool.unsqueeze(-2), search.acqf)
    if bool((values == values[0]).all()):
        return pool[torch.randperm(len(pool), device=pool.device)[: search.num_restarts]]
    return initialize_q_batch(pool.unsqueeze(-2), values, search.num_restarts)[0].squeeze(
        -2
    )


def _on_lines(anchors: Tensor, towards: Tensor) -> Tensor:
    r"""Points on lines from random anchors towards each of ``n x d`` points."""
    if len(anchors) == 0:
        return anchors
    count = len(towards)
    origins = anchors[torch.randint(len(anchors), (count,), device=towards.device)]
    steps = towards - origins
    column = torch.randint(steps.shape[-1], (count, 1), device=steps.device)
    single = torch.zeros_like(steps).scatter(1, column, steps.gather(1, column))
    steps[::2] = single[::2]
    lengths = torch.rand(count, 1, 1).to(steps) * 0.5 + 0.5
    halvings = steps.new_tensor(0.5).pow(torch.arange(_LENGTHS).to(steps))
    lengths = lengths * halvings.unsqueeze(-1)
    lines = origins.unsqueeze(-2) + lengths * steps.unsqueeze(-2)
    return lines.reshape(-1, towards.shape[-1])
