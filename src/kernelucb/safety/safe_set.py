r"""The points whose bands satisfy constraints observed through noise."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import tensor
from kernelucb._numerics.domains import checked_points, rows_of
from kernelucb.acquisition.outcomes import outcome_bands
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.band import BandLike, joined_assumptions
from kernelucb.confidence.norm import NormBoundLike
from kernelucb.confidence.outcome_constraints import (
    Constraint,
    OutcomeConstraints,
    Side,
)
from kernelucb.confidence.sets import Described
from kernelucb.exceptions import NoSafePointError, UncertifiedError

# Shares of the way from a safe point: nearly all of it for points that an optimiser left
# just outside, then ever smaller steps, and the safe point itself.
_STEPS = (
    *(1.0 - 0.5**k for k in range(50, 0, -1)),
    *(0.5**k for k in range(2, 21)),
    0.0,
)


def no_safe_point(subject: str) -> NoSafePointError:
    r"""The error for an empty safe set, with advice."""
    return NoSafePointError(
        f"{subject[0].upper()}{subject[1:]} is known to be safe. Give safe_points: points "
        "known to satisfy the constraints, and observe the constraints there, several "
        "times if need be, until the band around them clears the threshold. If they are "
        "given, the norm bound or the noise scale may be too loose for the threshold."
    )


class SafeSet(OutcomeConstraints):
    r"""Points at which the bands keep every constraint, and how to stay among them.

    A point is in the set if the band of every constraint lies on the right side of its
    threshold there, or if the point is one of ``safe_points``. If the bands are certified
    and the given assumptions are true, then with probability one minus the sum of the
    bands' ``delta`` no point of the set violates a constraint, in any round and however
    often the point is evaluated. The constraints are on the functions, not on noisy
    outcomes.

    Bands that are not certified, anytime and for all points at once are refused. With
    ``allow_estimated=True`` a band may rest on estimates or hold for single rounds or
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
            ``MartingaleMixtureUCB``. Their failure probabilities add up.
        thresholds: One threshold for all outcomes or one for each, outcome units.
        sides: ``">="`` or ``"<="``, one side for all outcomes or one for each.
        names: Names of the outcomes; see ``OutcomeConstraints``.
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
        sides: Side | Sequence[Side] = ">=",
        names: Sequence[str] | None = None,
        safe_points: Tensor | None = None,
        allow_estimated: bool = False,
    ) -> None:
        super().__init__(bands, thresholds, sides=sides, names=names)
        self.allow_estimated, self.safe_points = allow_estimated, safe_points
        self._check_assumptions()
        if safe_points is not None:
            data = [band.data for band in self.bands.values() if band.data is not None]
            dimension = data[0].dimension if data else None
            self.safe_points = checked_points("safe_points", safe_points, dimension)

    @classmethod
    def from_models(
        cls,
        models: Model | Sequence[Model],
        thresholds: float | Sequence[float] = 0.0,
        *,
        norm_bound: NormBoundLike | Sequence[NormBoundLike],
        noise_std: Any = None,
        delta: float = 0.05,
        num_bounds: int | None = None,
        sides: Side | Sequence[Side] = ">=",
        names: Sequence[str] | None = None,
        safe_points: Tensor | None = None,
        allow_estimated: bool = False,
        **options: Any,
    ) -> "SafeSet":
        r"""Safe set from models of the constrained outcomes.

        Builds a ``MartingaleMixtureUCB`` of failure probability ``delta / num_bounds`` for
        each outcome, so that all bands hold at once with probability ``1 - delta``; the
        arguments are those of ``outcome_bands``, and ``options`` further ones of the bands.

        ``num_bounds`` is the number of constraints by default. If the objective's band is
        to hold together with the constraints' bands, add one to ``num_bounds`` and build
        the objective's band at ``delta / num_bounds``; if the objective is a constrained
        outcome, one band serves for both. Errors as for the class and ``outcome_bands``.
        """
        given: Any = {"noise_std": noise_std, "delta": delta, "num_bounds": num_bounds}
        bands = outcome_bands(models, norm_bound=norm_bound, options=options, **given)
        limits: Any = {"sides": sides, "names": names, "safe_points": safe_points}
        return cls(bands, thresholds, **limits, allow_estimated=allow_estimated)

    @property
    def assumptions(self) -> Assumptions:
        r"""The assumptions of safety: all bands at once, and the points given as safe."""
        claim = "every point of the safe set satisfies the constraints"
        joined = joined_assumptions(self.bands, claim)
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
        r"""See ``OutcomeConstraints``; ``safe_points`` count for ``is_safe`` only.

        Raises:
            UncertifiedError: If a band that changes, such as a ``KernelBandit``, is now
                contradicted by its data; see ``SafeSet``.
        """
        self._check_assumptions()
        return super().margins(X)

    def margin(self, X: Tensor) -> Tensor:
        r"""``certain_margin``: at least 0 where the bands keep all limits."""
        return self.certain_margin(X)

    @torch.no_grad()
    def is_safe(self, X: Tensor) -> Tensor:
        r"""Whether ``... x d`` points are in the safe set, ``...`` booleans."""
        inside = self.margin(X) >= 0.0
        if self.safe_points is None:
            return inside
        rows = rows_of(X)
        same = (rows.unsqueeze(-2) == self.safe_points.to(rows)).all(-1).any(-1)
        return inside | same.reshape(inside.shape)

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
        """
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


def _margin(constraint: Constraint, X: Tensor) -> Tensor:
    return constraint.margin(rows_of(X)).reshape(X.shape[:-1]).to(X)


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
        widths = [each.width(rows_of(X)) for each in self.safe_set.constraints]
        return torch.stack(widths).amax(0).reshape(shape).to(X.dtype)
