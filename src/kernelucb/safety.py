r"""Safe search: evaluate only points whose bands keep every constraint."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.optim import optimize_acqf
from botorch.optim.initializers import initialize_q_batch
from botorch.optim.parameter_constraints import evaluate_feasibility
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from kernelucb._numerics import domains
from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import tensor, whole_number
from kernelucb.certificates import MixedSpace
from kernelucb.certificates.spaces import as_domain
from kernelucb.confidence import outcome_constraints
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.band import BandLike, joined_assumptions
from kernelucb.confidence.sets import Described
from kernelucb.exceptions import NoSafePointError, UncertifiedError

# Shares of the way from a safe point: nearly all of it for points that an optimiser left
# just outside, then ever smaller steps, and the safe point itself.
_STEPS = (
    *(1.0 - 0.5**k for k in range(50, 0, -1)),
    *(0.5**k for k in range(2, 21)),
    0.0,
)
_LENGTHS = 13  # on a line from a safe point, each half of the last: down to 1/4096
_COMPARED = 4096  # points by which combinations of listed values are ranked

SearchOptions = dict[str, bool | float | int | str]  # as BoTorch's optimisers take them


def no_safe_point(subject: str) -> NoSafePointError:
    r"""Error for an empty safe set, with advice."""
    return NoSafePointError(
        f"{subject[0].upper()}{subject[1:]} is known to be safe. Give safe_points: points "
        "known to satisfy the constraints, and observe the constraints there, several "
        "times if need be, until the band around them clears the threshold. If they are "
        "given, the norm bound or the noise scale may be too loose for the threshold."
    )


class SafeSet(outcome_constraints.OutcomeConstraints):
    r"""Points at which the bands keep every constraint, and how to stay among them.

    A point is in the set if the band of every constraint lies on the right side of its
    threshold there, or if the point is one of ``safe_points``. If the bands are certified
    and the given assumptions are true, then with probability one minus the sum of the
    bands' ``delta`` no point of the set violates a constraint, in any round and however
    often the point is evaluated. The constraints are on the functions, not on noisy
    outcomes.

    Bands that are not certified, anytime and for all points at once are refused; of a band
    that is certified at listed points (``NormFromTasks``) no other point is in the set.
    With ``allow_estimated=True`` a band may rest on estimates or hold for single rounds or
    points; the probability of a violation is then unknown, and ``assumptions`` says so
    first. Bands whose assumptions are violated are always refused.

    Source: the safe set of Sui et al. (2015), with the bands' own theorems in place of
    their Lipschitz constant. Pending points do not change the set.

    Example:
        >>> safe_set = SafeSet(MartingaleMixtureUCB(pressure, norm_bound=4.0, delta=0.05),
        ...                    thresholds=9.0, sides="<=", safe_points=X0)
        >>> x, value = optimize_acqf_safely(acqf, safe_set, bounds)
        >>> x, value = optimize_acqf_discrete(acqf, q=1, choices=safe_set.filter(choices))

    Args:
        bands: Confidence band of each constrained outcome, such as
            ``MartingaleMixtureUCB``. Their failure probabilities add up; ``outcome_bands``
            divides one ``delta`` among the outcomes of a model, and leaves a part for the
            objective's band by ``num_bounds``.
        thresholds: One threshold for all outcomes or one for each, outcome units.
        sides: ``">="`` or ``"<="``, one side for all outcomes or one for each.
        names: Names of the outcomes; see ``OutcomeConstraints``.
        units: Units of the outcomes by these names, for print.
        safe_points: ``m x d`` points known to be safe: beforehand, or since an earlier
            round, in whose safe set they were (the same event, so no ``delta`` is lost).
        allow_estimated: Whether to accept bands that are not certified.

    Raises:
        UncertifiedError: If a band is not certified and ``allow_estimated`` is not set, or
            an assumption of a band is violated.
        ValueError: If thresholds or sides do not fit.
        BotorchTensorDimensionError: If ``safe_points`` is not ``m x d``.
        InputDataError: If a safe point is not finite.
    """

    def __init__(
        self,
        bands: BandLike | Sequence[BandLike],
        thresholds: float | Sequence[float] = 0.0,
        *,
        sides: outcome_constraints.Side | Sequence[outcome_constraints.Side] = ">=",
        names: Sequence[str] | None = None,
        units: Mapping[str, str] | None = None,
        safe_points: Tensor | None = None,
        allow_estimated: bool = False,
    ) -> None:
        super().__init__(bands, thresholds, sides=sides, names=names, units=units)
        self.allow_estimated, self.safe_points = allow_estimated, safe_points
        self._check_assumptions()
        if safe_points is not None:
            data = [band.data for band in self.bands.values() if band.data is not None]
            dimension = data[0].dimension if data else None
            self.safe_points = domains.checked_points("safe_points", safe_points, dimension)

    @property
    def assumptions(self) -> Assumptions:
        r"""The assumptions of safety: all bands at once, and the points given as safe."""
        claim = f"every point of the safe set satisfies the constraints ({self.in_words()})"
        joined = joined_assumptions(self.bands, claim)
        if not self.allow_estimated:
            joined = joined.within_domain
        if not ((joined.anytime and joined.all_points) or joined.violated):
            reason = "a band does not hold at all points and in all rounds at once"
            joined = joined.without_guarantee(reason)
        if self.safe_points is None:
            return joined
        count = len(self.safe_points)
        subject = "safe point satisfies" if count == 1 else f"{count} safe points satisfy"
        statement = f"the {subject} the constraints"
        return joined.with_extra(Assumption("safe points", statement, Status.GIVEN))

    def margins(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The margins of ``OutcomeConstraints``; ``safe_points`` do not count here.

        Raises:
            UncertifiedError: If a band that changes, such as a ``KernelBandit``, is now
                contradicted by its data; see ``SafeSet``.
        """
        self._check_assumptions()
        return super().margins(X)

    def margin(self, X: Tensor) -> Tensor:
        r"""``certain_margin``: at least 0 where the bands keep all limits."""
        return self.certain_margin(X)

    @property
    def is_listed(self) -> bool:
        r"""Whether only listed points, where all bands are certified, can be in the set."""
        rests = [each.band.assumptions for each in self.constraints]
        return not self.allow_estimated and any(each.is_listed for each in rests)

    @torch.no_grad()
    def clears(self, X: Tensor) -> Tensor:
        r"""Whether the bands keep all limits at ``... x d`` points of their domain."""
        inside = self.margin(X) >= 0.0
        for each in () if self.allow_estimated else self.constraints:
            inside &= each.band.assumptions.mask(X)
        return inside

    @torch.no_grad()
    def is_safe(self, X: Tensor) -> Tensor:
        r"""Whether ``... x d`` points are in the safe set, ``...`` booleans."""
        inside = self.clears(X)
        if self.safe_points is None:
            return inside
        rows = domains.rows_of(X)
        same = (rows.unsqueeze(-2) == self.safe_points.to(rows)).all(-1).any(-1)
        return inside | same.reshape(inside.shape)

    def after_safe_points(self, X: Tensor) -> Tensor:
        r"""``safe_points`` followed by ``n x d`` points."""
        return X if self.safe_points is None else torch.cat([self.safe_points.to(X), X])

    def filter(self, choices: Tensor) -> Tensor:
        r"""The safe points of ``n x d`` candidates, in their order: ``k x d``, ``k >= 1``.

        Raises:
            NoSafePointError: If no candidate is safe.
        """
        safe = choices[self.is_safe(choices)]
        if len(safe) == 0:
            raise no_safe_point(f"none of the {len(choices)} candidates")
        return safe

    @property
    def nonlinear_inequality_constraints(self) -> list[tuple[partial[Tensor], bool]]:
        r"""The constraints as BoTorch's ``optimize_acqf`` takes them, on single points.

        With fixed columns use ``optimize_acqf_safely``: BoTorch 0.18 evaluates them at
        other points then, unless the fixed columns are the last ones.

        Raises:
            UncertifiedError: If a band is certified at listed points only, between which a
                margin says nothing, and ``allow_estimated`` is not set.
        """
        if self.is_listed:
            raise UncertifiedError(
                "A band of this set is certified at listed points only, and an optimiser "
                "moves between them; use filter(candidates) of these points."
            )
        return [(partial(_margin, constraint), True) for constraint in self.constraints]

    @torch.no_grad()
    def repair(self, X: Tensor, anchors: Tensor | None = None) -> Tensor:
        r"""Step back from unsafe points towards safe ones, until they are safe.

        An optimiser satisfies constraints up to its tolerance only. Each unsafe point of
        the ``... x d`` points is moved towards the nearest safe anchor (of ``m x d``
        anchors, by default ``safe_points``) to the first safe point of a fixed sequence of
        steps, of which the last is the anchor. All points of the result are in the safe
        set, without a tolerance. Fits ``post_processing_func`` of ``optimize_acqf``.

        Raises:
            NoSafePointError: If there is an unsafe point and no anchor that is safe.
        """
        safe = self.is_safe(X)
        if bool(safe.all()):
            return X
        anchors = self.safe_points if anchors is None else anchors
        home = X.new_empty(0, X.shape[-1]) if anchors is None else anchors.to(X)
        home = home[self.is_safe(home)]
        if len(home) == 0:
            raise no_safe_point("no anchor")
        outside = X[~safe]
        nearest = home[torch.cdist(outside, home).argmin(-1)].unsqueeze(-2)
        steps = outside.new_tensor(_STEPS).unsqueeze(-1)
        # The last point of each path is the anchor, to the last bit.
        path = nearest + steps * (outside.unsqueeze(-2) - nearest)
        first = self.is_safe(path).int().argmax(-1)
        repaired = X.clone()
        repaired[~safe] = path[torch.arange(len(path)), first]
        return repaired

    def _check_assumptions(self) -> None:
        r"""Refuse bands on which safety may not rest; see the class."""
        for assumptions in (each.band.assumptions for each in self.constraints):
            if not self.allow_estimated:
                assumptions = assumptions.within_domain  # `clears` asks where
            if assumptions.violated:
                raise UncertifiedError(
                    f"A safe set cannot rest on this band ({assumptions.summary}):\n"
                    f"{assumptions}"
                )
            assumptions.check_certified("SafeSet", self.allow_estimated)
            holds = assumptions.anytime and assumptions.all_points
            if not (self.allow_estimated or holds):
                raise UncertifiedError(
                    "SafeSet needs a band that holds for all points and all rounds at "
                    f"once, and this one does not:\n{assumptions}\nUse "
                    "MartingaleMixtureUCB, or pass allow_estimated=True to act on it all "
                    "the same."
                )


def _margin(constraint: outcome_constraints.Constraint, X: Tensor) -> Tensor:
    return constraint.margin(domains.rows_of(X)).reshape(X.shape[:-1]).to(X)


class ConstraintWidth(Described, AcquisitionFunction):
    r"""Width of the widest constraint band, in prior standard deviations.

    An upper confidence bound restricted to a safe set stops enlarging the set once the
    points at its edge promise no improvement. If better points may lie beyond the edge,
    choose every other point by the width of the constraints' bands, which is mostly largest
    at the edge. The width is no bound on a function and has no guarantee of its own.

    Source: the uncertainty sampling of SafeOpt (Sui et al. 2015), over the safe set
    instead of its expanders and maximisers.

    Example:
        >>> acqf = objective if round_number % 2 == 0 else ConstraintWidth(safe_set)
        >>> x, _ = optimize_acqf_safely(acqf, safe_set, bounds)
    """

    X_pending: Tensor | None = None

    def __init__(self, safe_set: SafeSet) -> None:
        no_model: Any = None
        super().__init__(model=no_model)
        self.safe_set = safe_set

    @property
    def assumptions(self) -> Assumptions:
        r"""The assumptions of the safe set."""
        return self.safe_set.assumptions

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Refuse pending points: no constraint's band changes before an outcome."""
        if X_pending is not None:
            raise UnsupportedError(
                "ConstraintWidth does not take pending points; choose one point at a time."
            )

    def forward(self, X: Tensor) -> Tensor:
        r"""Width at ``b x 1 x d`` candidate points, a tensor of shape ``b``.

        Raises:
            BotorchTensorDimensionError: If the shape is not ``b x 1 x d``; ``q`` must be 1.
            InputDataError: If a value is not finite.
        """
        if tensor("X", X).dim() < 2 or X.shape[-2] != 1:
            raise BotorchTensorDimensionError(
                f"X must be `b x 1 x d`, got shape {tuple(X.shape)}."
            )
        shape = X.shape[:-2] if X.dim() > 2 else X.shape[:1]
        widths = [each.width(domains.rows_of(X)) for each in self.safe_set.constraints]
        return torch.stack(widths).amax(0).reshape(shape).to(X.dtype)


def optimize_acqf_safely(
    acq_function: AcquisitionFunction,
    safe_set: SafeSet,
    bounds: Tensor | None = None,
    q: int = 1,
    num_restarts: int = 8,
    raw_samples: int = 256,
    *,
    space: MixedSpace | None = None,
    fixed_features: domains.FixedFeatures | None = None,
    inequality_constraints: domains.LinearConstraints | None = None,
    options: SearchOptions | None = None,
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
    domains.check_one_domain(bounds=bounds, space=space)
    whole_number("q", q)
    domain = as_domain(bounds=bounds, space=space, fixed_features=fixed_features)
    box, combinations, inequalities = domain.combined()
    further = domains.checked_inequalities(inequality_constraints or [], box.shape[1])
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
            point, value = search.best_of(search.finalists(num_restarts))
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
    combinations: Sequence[domains.FixedFeatures]
    inequalities: domains.LinearConstraints | None
    num_restarts: int = 8
    raw_samples: int = 256
    options: SearchOptions | None = None

    def finalists(self, most_searched: int) -> Tensor:
        r"""``n x d`` candidates for the best safe point: all safe ones of a finite space.

        In other spaces 4,096 Sobol points and the known safe points rank the combinations
        by their best safe point; combinations without a safe point come last. The
        continuous inputs are searched in the first ``most_searched`` combinations.
        """
        dimension = self.bounds.shape[1]
        if len(self.combinations[0]) == dimension:
            rows = [[row[i] for i in range(dimension)] for row in self.combinations]
            points = self.feasible(self.bounds.new_tensor(rows), {})
            return points[self.safe_set.is_safe(points)]
        if not any(self.combinations):  # all columns are open: nothing to rank
            return self.at({})
        count = max(1, _COMPARED // len(self.combinations))
        seed = int(torch.randint(2**31, ()))
        drawn = draw_sobol_samples(self.bounds, n=count, q=1, seed=seed).squeeze(-2)
        drawn = self.safe_set.after_safe_points(drawn)
        moved = [self.feasible(drawn, row) for row in self.combinations]
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

    def at(self, combination: domains.FixedFeatures) -> Tensor:
        r"""``n x d`` safe candidates of one combination, searched; maybe none."""
        # Fixed columns have no room in the box. Given as fixed features, BoTorch puts their
        # values into nonlinear constraints twice, right for last columns only (its #3332).
        box = domains.with_fixed(self.bounds, combination)
        found = starts = _safe_starts(self, combination)
        if len(starts) > 0 and not self.safe_set.is_listed:
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
        # Steps back end at starting points, so the limits hold; safety is asked again.
        found = self.feasible(self.safe_set.after_safe_points(found), combination)
        return found[self.safe_set.is_safe(found)]

    @torch.no_grad()
    def best_of(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The best of ``n x d`` points that is safe, ``1 x d``, and its value."""
        values = in_parts(X.unsqueeze(-2), self.acqf) if len(X) else X.new_empty(0)
        for index in values.argsort(descending=True):
            # Alone, as it will be asked about: margins round otherwise among others.
            if bool(self.safe_set.is_safe(point := X[index].unsqueeze(0))):
                return point, values[index]
        raise self.nothing()

    def nothing(self) -> NoSafePointError:
        r"""Error where no point that was tried is safe."""
        known = self.safe_set.safe_points
        if known is None or any(
            bool((self.feasible(known, row).unsqueeze(1) == known).all(-1).any())
            for row in self.combinations
        ):
            return no_safe_point("no point that was tried")
        first = ", ".join(f"{value:.6g}" for value in known[0].tolist())
        return NoSafePointError(
            "None of the safe_points is where the search may go, within bounds, "
            f"fixed_features and linear constraints; the first is ({first}). Give safe "
            "points there, or widen the search to hold them."
        )

    def feasible(self, X: Tensor, fixed: domains.FixedFeatures) -> Tensor:
        r"""Set the fixed columns of ``n x d`` points; keep what the other limits allow."""
        points = domains.with_fixed(X, fixed)
        inside = (self.bounds[0] <= points) & (self.bounds[1] >= points)
        # Fixed columns are allowed whatever their limits.
        inside = domains.with_fixed(inside, dict.fromkeys(fixed, 1.0)).all(-1)
        linear = evaluate_feasibility(points.unsqueeze(-2), self.inequalities)
        return points[inside & linear]


def gen_safe_initial_conditions(
    acq_function: AcquisitionFunction,
    bounds: Tensor,
    q: int = 1,
    num_restarts: int = 8,
    raw_samples: int = 256,
    fixed_features: domains.FixedFeatures | None = None,
    options: SearchOptions | None = None,
    inequality_constraints: domains.LinearConstraints | None = None,
    equality_constraints: domains.LinearConstraints | None = None,
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
        NoSafePointError: If no point was found at which the margin is at least zero.
        UnsupportedError: If ``q`` is above 1 or there are equality constraints.
    """
    if q != 1:
        raise UnsupportedError("Safe starting points are for q=1; use sequential=True.")
    if equality_constraints:
        raise UnsupportedError(
            "A safe set takes no equality constraints: points around safe ones would all "
            "violate them. Use fixed_features, or remove a column."
        )
    fixed = domains.checked_fixed(fixed_features, bounds.shape[1])
    given = bounds, [fixed], inequality_constraints, num_restarts, raw_samples, options
    search = SafeSearch(acq_function, safe_set, *given)
    starts = _safe_starts(search, fixed)
    if len(starts) == 0:
        raise search.nothing()
    return starts.unsqueeze(-2)


@torch.no_grad()
def _safe_starts(search: SafeSearch, fixed: domains.FixedFeatures) -> Tensor:
    r"""Up to ``num_restarts`` safe points of one combination, perhaps ``0 x d``."""
    safe_set, given = search.safe_set, (search.options or {}).get("seed")
    seed = None if given is None else int(given)
    sobol = draw_sobol_samples(search.bounds, n=search.raw_samples, q=1, seed=seed)
    sobol = domains.with_fixed(sobol.squeeze(-2), fixed)
    anchors = safe_set.after_safe_points(sobol[safe_set.clears(sobol)])
    pool = torch.cat([sobol, anchors, _on_lines(anchors, sobol)])
    pool = search.feasible(pool, fixed)
    pool = pool[safe_set.clears(pool)]
    if len(pool) <= search.num_restarts:
        return pool
    values = in_parts(pool.unsqueeze(-2), search.acqf)
    # BoTorch's heuristic warns where all values are equal, and takes any.
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
    # Half of them along one coordinate: in a thin set most other directions leave at once.
    steps[::2] = single[::2]
    lengths = torch.rand(count, 1, 1).to(steps) * 0.5 + 0.5
    halvings = steps.new_tensor(0.5).pow(torch.arange(_LENGTHS).to(steps))
    lengths = lengths * halvings.unsqueeze(-1)
    lines = origins.unsqueeze(-2) + lengths * steps.unsqueeze(-2)
    return lines.reshape(-1, towards.shape[-1])
