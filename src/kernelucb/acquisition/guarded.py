r"""Any acquisition function, within the possible maximisers of a band."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from botorch.acquisition import (
    AcquisitionFunction,
    AnalyticAcquisitionFunction,
    OneShotAcquisitionFunction,
    PosteriorStandardDeviation,
    qPosteriorStandardDeviation,
)
from botorch.acquisition.analytic import LogProbabilityOfFeasibility
from botorch.acquisition.logei import qLogProbabilityOfFeasibility
from botorch.acquisition.multi_objective.base import (
    MultiObjectiveAnalyticAcquisitionFunction,
    MultiObjectiveMCAcquisitionFunction,
)
from botorch.acquisition.objective import (
    GenericMCObjective,
    IdentityMCObjective,
    MCAcquisitionObjective,
    PosteriorTransform,
)
from botorch.acquisition.risk_measures import RiskMeasureMCObjective
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from botorch.optim.parameter_constraints import evaluate_feasibility
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import nonnegative_scalar, whole_number
from kernelucb._numerics.domains import (
    FixedFeatures,
    LinearConstraints,
    checked_box,
    checked_inequalities,
    fixed_candidates,
)
from kernelucb.acquisition.constrained import (
    AroundBand,
    ConstrainedUCB,
    edge_penalty,
    observed_points,
    unit_of,
)
from kernelucb.acquisition.turns import is_upper_turn
from kernelucb.acquisition.ucb import BandUCB, upper_bound_of
from kernelucb.confidence.band import Band, inputs_of
from kernelucb.data.from_model import input_transform_of

_FOR_SEVERAL = (
    MultiObjectiveAnalyticAcquisitionFunction,
    MultiObjectiveMCAcquisitionFunction,
)
# These seek neither large outcomes nor small ones, whatever their ``maximize``.
_EXPLORING = (
    PosteriorStandardDeviation,
    qPosteriorStandardDeviation,
    LogProbabilityOfFeasibility,
    qLogProbabilityOfFeasibility,
)
_LEVELS = 33  # outcomes at which an objective is asked
_POINTS = 64  # observed inputs at which it is asked, at most


class GuardedAcquisition(AroundBand):
    r"""An acquisition function within the possible maximisers of a band.

    The guard keeps any acquisition function of BoTorch, analytic or Monte Carlo, to
    the possible maximisers: the points ``x`` where some function of the band's confidence
    set is at least as large as at the ``reference``, the observed point with the largest
    lower bound. If the true function is in the set (see ``band.assumptions``) and the
    reference is in the searched domain, every maximiser over the domain is a possible
    maximiser: the guard excludes no optimum. With ``maximize=False`` all of this is about
    minimisers.

    **The domain.** If ``bounds``, ``fixed_features`` or ``inequality_constraints`` of
    ``optimize_acqf`` leave out observed points, give them to the guard too: the guard does
    not see the arguments of ``optimize_acqf``. Without the context (``fixed_features``)
    the reference may come from another context, and all points of this context may be
    excluded.

    **Constraints.** With a ``ConstrainedUCB`` the guard also keeps to the possibly feasible
    points, and the reference is the best observed point that is certainly feasible; without
    such a point the guard puts no limit on the objective. Then every maximiser among the
    feasible candidates is kept.

    **Values.** Inside that set the values are ``acqf``'s, up to 0.02 units at its edge.
    Outside they fall steeply and smoothly, with a gradient that leads back: by 0.7 units
    at a distance of four ``temperature``, and by one unit for every further
    ``temperature``. The unit is 1 for the logarithm of an acquisition function, otherwise
    the spread of the values of ``acqf`` around the observed points. So
    ``optimize_acqf`` works as with ``acqf``, with ``q > 1`` (jointly for Monte Carlo
    functions, ``sequential=True`` where ``acqf`` takes pending points, and always with
    ``ucb_every``). A candidate may lie outside by a few ``temperature``. With
    ``temperature=0`` the restriction has no edge; use that with ``optimize_acqf_discrete``.
    If no candidate is in the set, the candidate with the largest possible gain is chosen.

    **What holds.** The guarantee in ``band.assumptions``; most bounds allow inputs that any
    rule chooses from the past (``WangDeFreitasUCB`` does not). No bound on the regret of
    ``acqf`` itself follows. With ``ucb_every=k`` one point in each block of ``k``, so at
    least ``T // k - 1`` of any ``T`` chosen one after the other, is chosen by the band's
    own upper bound: where the band holds the function, the best of these points has a
    regret of at most the mean width of the band at them when they were chosen, as for the
    pure rule (if the largest upper bound was found, with no points pending). These turns
    search the whole of a family of kernels, whatever its ``widest_every``.

    Source: ours, from the band's own theorem (``docs/mathematics.md``, "Guarded search").

    Example:
        >>> band = MartingaleMixtureUCB(model, norm_bound=10.0, noise_std=0.1)
        >>> acqf = GuardedAcquisition(qLogNoisyExpectedImprovement(model, X), band)
        >>> candidate, _ = optimize_acqf(acqf, bounds, q=1, num_restarts=8,
        ...                              raw_samples=256)
        >>> lower, upper = band.bounds(candidate)

    Attributes:
        acqf: The acquisition function, as given.
        reference: ``1 x d``, the observed point, moved into the domain, whose lower bound
            is largest (whose upper bound is smallest, where small outcomes are sought);
            ``0 x d``, which excludes nothing, if no point is certainly feasible.
    """

    reference: Tensor
    _claim = "every best feasible point is within the guard, with temperature=0,"

    def __init__(
        self,
        acqf: AcquisitionFunction,
        band: BandUCB | ConstrainedUCB,
        *,
        observed: Tensor | None = None,
        bounds: Tensor | None = None,
        fixed_features: FixedFeatures | None = None,
        inequality_constraints: LinearConstraints | None = None,
        temperature: float = 0.02,
        ucb_every: int | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Guard an acquisition function.

        Args:
            acqf: The acquisition function to guard: one of BoTorch's that takes
                ``b x q x d`` points. Its model may differ from the band's model, for
                instance be refitted in every round.
            band: A bound of this package, for the same objective and direction; a
                ``ConstrainedUCB`` where other outcomes must keep to thresholds; or a band.
            observed: ``n x d`` points among which the reference is chosen; by default the
                observed inputs of the band's model. Any points of the domain are valid, and
                the next three arguments move points there; for ``optimize_acqf_discrete``
                give its ``choices``.
            bounds: ``2 x d`` limits of the domain, as ``optimize_acqf`` has them. Points
                outside are moved to the nearest point inside.
            fixed_features: Columns that are given, such as a context, and their values, as
                ``optimize_acqf`` has them, whatever their bounds. All points are moved
                there.
            inequality_constraints: Linear constraints on single points, as
                ``optimize_acqf`` has them; an equality is two. After those moves, points
                that violate one by more than BoTorch's tolerance of 1e-8 are left out.
            temperature: Width of the edge, in prior standard deviations of the band and of
                each constrained outcome. With zero there is no edge, and no gradient
                outside.
            ucb_every: Length of a block of points, in which one point maximises the band's
                upper bound; its place in the block follows from the number of observations
                and pending points. By default no point does.
            X_pending: ``p x d`` points under evaluation, for ``acqf`` and ``band``; those
                of ``acqf`` when absent.

        Raises:
            UnsupportedError: If ``acqf`` is a one-shot function, one with an output for
                each point of the batch or one for several objectives, if it seeks the other
                direction than ``band`` (its objective and posterior transform are asked at
                outcomes between the least and largest mean of its model at its data) or its
                objective both rises and falls there, or if the inputs that were observed
                are not known. Functions that explore, such as
                ``PosteriorStandardDeviation``, have no direction.
            ValueError: If a scalar is out of its range, a column does not exist, or lower
                limits are not below upper ones.
            BotorchTensorDimensionError: If ``observed`` is not ``n x d``, or ``bounds`` are
                not ``2 x d``.
        """
        # Turns of the upper bound search a whole family, on which their regret rests.
        whole = ucb_every is not None
        constrained = isinstance(band, ConstrainedUCB)
        bound = band.playing_upper(whole) if constrained else upper_bound_of(band, whole)
        _check_guard(acqf, bound, observed is not None)
        model, inherited = _read(acqf, "model", "X_pending")
        super().__init__(model=bound.model if model is None else model)
        self.acqf, self.upper_bound = acqf, bound
        self.outcome_constraints = bound.outcome_constraints
        self._log = acqf._log  # pyright: ignore[reportPrivateUsage]
        self.temperature = nonnegative_scalar("temperature", temperature)
        self.ucb_every = None if ucb_every is None else whole_number("ucb_every", ucb_every)
        points = observed_points(self.band, observed)
        dimension = points.shape[1]
        if bounds is not None:
            points = points.clamp(*checked_box(bounds, dimension).to(points))
        points = fixed_candidates(points, fixed_features)
        inequalities = checked_inequalities(inequality_constraints or [], dimension)
        allowed = evaluate_feasibility(points.unsqueeze(-2), inequalities)
        self.register_buffer("reference", _best_known(bound, points[allowed]))
        self._unit = unit_of(acqf, points, self.temperature)
        self._acqf_has_pending = inherited is not None
        self.set_X_pending(inherited if X_pending is None else X_pending)

    @property
    def X_pending(self) -> Tensor | None:
        r"""``p x d`` points under evaluation. Assigning them is ``set_X_pending``."""
        # A band says it where points are chosen one by one, and a joint value is to come.
        one_by_one = self.ucb_every is not None or isinstance(self.acqf, BandUCB)
        return self.upper_bound.X_pending if one_by_one else self._X_pending

    @X_pending.setter
    def X_pending(self, X_pending: Tensor | None) -> None:
        # A property, since BoTorch's FixedFeatureAcquisitionFunction assigns it.
        count = 0 if X_pending is None else len(X_pending)
        points = X_pending if count > 0 else None
        num_points = self.band.data.num_observations + count
        is_ucb_turn = is_upper_turn(self.ucb_every, num_points)
        # Not called without need: with None some functions drop pending points that they
        # were built with, and analytic ones raise whatever is given.
        is_asked = not is_ucb_turn and (count > 0 or self._acqf_has_pending)
        if is_asked and isinstance(self.acqf, AnalyticAcquisitionFunction):
            raise UnsupportedError(
                f"{type(self.acqf).__name__} is analytic and cannot account for "
                f"pending points, and there are {count} (X_pending; in Ax, trials that "
                "are running or abandoned). Guard a Monte Carlo function, such as "
                "qLogNoisyExpectedImprovement."
            )
        self.upper_bound.set_X_pending(points)
        if is_asked:
            self.acqf.set_X_pending(points)
            self._acqf_has_pending = count > 0
        self._is_ucb_turn = is_ucb_turn
        self._X_pending = points

    def forward(self, X: Tensor) -> Tensor:
        r"""Value to maximise at ``b x q x d`` candidates, where ``b`` may be several.

        Raises:
            BotorchTensorDimensionError: If ``X`` does not fit the band or ``acqf``, or has
                ``q > 1`` with ``ucb_every``.
        """
        if self.ucb_every is not None and X.shape[-2] != 1:
            raise BotorchTensorDimensionError(
                f"X has q = {X.shape[-2]}. With ucb_every points are chosen one after the "
                "other: use optimize_acqf with sequential=True, or return_acq_values=False "
                "where an optimiser asks for a joint value at the end."
            )
        return self.upper_bound(X) if self._is_ucb_turn else self._within(self.acqf(X), X)

    def _penalty(self, X: Tensor) -> Tensor:
        excess = self.excess(X) / self.band.prior_std
        return edge_penalty(excess, self.temperature) + super()._penalty(X)

    def excess(self, X: Tensor) -> Tensor:
        r"""Upper bound on the gain over the ``reference``, units of the band's set.

        Maps ``n x d`` points to ``n`` values: ``max_gain_over`` of the band, ``cheap``, so
        a little above the largest ``f(x) - f(reference)`` over the confidence set (of
        ``f(reference) - f(x)``, where small outcomes are sought). A point of negative
        excess is no possible maximiser. Pending points do not change the excess. Infinite
        without a reference.
        """
        if len(self.reference) == 0:
            return torch.full_like(X[:, 0], torch.inf)
        gain = self.band.max_gain_over
        given = {"reference": self.reference, "sign": self.band.direction, "cheap": True}
        return in_parts(X, partial(gain, **given))

    def _described(self) -> dict[str, Any]:
        names = {
            "acqf": type(self.acqf).__name__,
            "band": type(self.upper_bound).__name__,
        }
        return {**names, **super()._described()}


@torch.no_grad()
def _best_known(band: BandUCB | ConstrainedUCB, X: Tensor) -> Tensor:
    r"""Point of the largest lower bound among ``n x d`` points, ``1 x d``.

    With constraints the best certainly feasible point; ``0 x d`` if there is none.
    """
    if band.outcome_constraints is not None:
        X = X[band.outcome_constraints.is_feasible(X)]
    if len(X) == 0:
        return X
    best = in_parts(X, band.band.latent_at_worst).argmax()
    return X[best].unsqueeze(0)


def _read(owner: object, *names: str) -> list[Any]:
    r"""Attributes of BoTorch's objects, of which not all have all; None where it is not."""
    return [getattr(owner, name, None) for name in names]


def _check_guard(
    acqf: AcquisitionFunction, bound: BandUCB | ConstrainedUCB, feasible: bool
) -> None:
    r"""Refuse a function whose optimum may be another than that of the bound's outcome.

    The best feasible point is not excluded where the reference is ``feasible``.
    """
    # The functions that BoTorch's wrappers change: fixed columns, penalties, proximity.
    while inner := [x for x in _read(acqf, "acq_func", "raw_acqf") if x is not None]:
        acqf = inner[0]
    if isinstance(acqf, _EXPLORING):
        return
    if reason := Asked.of(acqf).conflict(bound, feasible):
        raise UnsupportedError(
            f"{type(acqf).__name__} {reason}, so a point that cannot be the band's optimum "
            "may be its best. Give both the same objective, maximize and "
            "posterior_transform (a band of small outcomes to a negative weight, a band of "
            "values of the objective to any other); with constraints guard it with their "
            "ConstrainedUCB, or give feasible points as observed; or use no guard."
        )


@dataclass(frozen=True)
class Asked:
    r"""What an acquisition function says of the outcome that it seeks.

    Attributes:
        acqf: The function, without BoTorch's wrappers.
        band: The band of a bound of this package, whose outcome is its own.
        model: The model, if any, of which the next four are functions.
        objective: Of samples of the outcomes, without the limits that it may have.
        transform: Of their posterior.
        limits: Limits on other outcomes, by all the names under which they are kept.
        maximize: Whether large values are sought; None where the function does not say.
        is_single: Whether an outcome is named, or all are weighed by the transform.
    """

    acqf: AcquisitionFunction
    band: Band | None
    model: Model | None
    objective: MCAcquisitionObjective | None
    transform: PosteriorTransform | None
    limits: list[object]
    maximize: bool | None
    is_single: bool

    @classmethod
    def of(cls, acqf: AcquisitionFunction) -> Self:
        r"""Read an acquisition function."""
        band, model, objective = _read(acqf, "band", "model", "objective")
        transform, maximize = _read(acqf, "posterior_transform", "maximize")
        limits = _read(acqf, "_constraints", "constraints", "outcome_constraints")
        (softened,) = _read(objective, "constraints")
        if softened:
            objective = GenericMCObjective(objective.objective)
        index, scalarized = _read(acqf, "objective_index")[0], _read(transform, "scalarize")
        said = [*limits, softened], maximize, index is not None or scalarized == [True]
        return cls(acqf, band, model, objective, transform, *said)

    @property
    def is_plain(self) -> bool:
        r"""Whether the objective is the outcome itself."""
        return self.objective is None or isinstance(self.objective, IdentityMCObjective)

    @property
    def is_for_several(self) -> bool:
        r"""Whether several outcomes are objectives."""
        if isinstance(self.acqf, _FOR_SEVERAL):
            return True
        if self.is_single or not self.is_plain or self.model is None:
            return False
        return self.model.num_outputs > 1

    @property
    def is_of_risk(self) -> bool:
        r"""Whether a value is of the outcomes at several points."""
        transform = input_transform_of(self.model)
        spread = transform is not None and transform.is_one_to_many
        return spread or isinstance(self.objective, RiskMeasureMCObjective)

    def conflict(self, bound: BandUCB | ConstrainedUCB, feasible: bool) -> str:
        r"""Reason why the optimum may be another than a bound's; empty if none."""
        if isinstance(self.acqf, OneShotAcquisitionFunction):
            return "is a one-shot function of candidates and fantasies together"
        # The outcome of a bound of this package is one, of single points.
        if self.band is None and self.is_for_several:
            return "is for several outcomes, and the band is for one objective"
        if any(self.limits) and bound.outcome_constraints is None and not feasible:
            return "has outcome constraints, and the band has none"
        if self.band is None and self.is_of_risk:
            return "seeks a risk measure of outcomes at several points"
        directions, sought = self.directions(bound.band), bound.band.direction
        if len(directions) > 1:
            return "both rises and falls with the outcome, or depends on the inputs as well"
        words = {1: "large", -1: "small"}
        if -sought in directions:
            return f"seeks {words[-sought]} outcomes and the band {words[sought]} ones"
        return ""

    @torch.no_grad()
    def directions(self, band: Band) -> set[int]:
        r"""Signs of the outcomes sought: 1 large, -1 small; both, or none where not known.

        The objective is asked while outcomes rise from the least to the largest mean of the
        model at its data: along the band's weights, or else each outcome by itself, where a
        sign counts if all outcomes share it.
        """
        if self.band is not None:
            return {self.band.direction}
        if self.maximize is None and self.objective is None:
            return set()
        sign = -1 if self.maximize is False else 1
        if self.transform is None and self.is_plain:
            return {sign}
        # Those of the band first: inputs of a model may have a column of tasks.
        X = inputs_of(self.model) if band.observed is None else band.observed
        if X is None or self.model is None:
            return set()
        X = X[:_POINTS].unsqueeze(-2)
        posterior: Any = self.model.posterior(X.squeeze(-2))  # BoTorch declares no mean
        means = posterior.mean
        means = means.reshape(-1, *means.shape[-2:])[0].unsqueeze(
            -2
        )  # first of an ensemble
        Y, num_paths = _rising(means, band.output_weights)
        if self.transform is not None:
            Y = self.transform.evaluate(Y).reshape(*Y.shape[:-1], -1)
        values, elsewhere = self._values(Y, X), self._values(Y, X.roll(1, 0))
        if not torch.allclose(elsewhere, values):
            return {1, -1}  # it rises and falls by the inputs alone
        # An objective that draws samples has all paths of the first sample first.
        steps = sign * values.unflatten(0, (-1, num_paths)).mean(0).diff(dim=1)
        least = 1e-9 * steps.abs().amax()  # round-off where weights cancel
        found = {s for s in (1, -1) if bool((s * steps > least).any())}
        return found if num_paths == 1 or len(found) == 1 else set()

    def _values(self, Y: Tensor, X: Tensor) -> Tensor:
        r"""The objective of ``... x 1 x m`` outcomes."""
        return Y if self.objective is None else self.objective(Y, X=X)


def _rising(means: Tensor, weights: Sequence[float]) -> tuple[Tensor, int]:
    r"""Outcomes that rise from their least to their largest mean, and the number of paths.

    Along the weights of a sum of all ``m`` outcomes, else each outcome by itself, in order.
    ``means`` are ``n x 1 x m``, and the result is ``paths x levels x n x 1 x m``.
    """
    low, high = means.amin(0), means.amax(0)
    room = torch.where(low == high, 0.1 * low.abs() + (low == 0.0), 0.0)
    levels = torch.linspace(0.0, 1.0, _LEVELS).to(means).reshape(-1, 1, 1, 1)
    up, count = torch.lerp(low - room, high + room, levels), means.shape[-1]
    given = means.new_tensor(weights)
    paths = given if len(given) == count else torch.eye(count).to(means)
    paths = paths.reshape(-1, 1, 1, 1, count)
    Y = torch.where(paths > 0.0, up, torch.where(paths < 0.0, up.flip(0), means))
    return Y, len(paths)
