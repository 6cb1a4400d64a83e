r"""Unknown noise: Durand, Maillard & Pineau (2018), Streaming kernel regression with
provably adaptive mean, variance, and regularization.

Running bounds on the noise scale (Theorem 3, ``refined_interval``), the band of Corollary 1
from these bounds (``streaming_band``) and its upper side. Theorem 3 rests on three
events, each of probability ``1 - level``: the squared noise is not too large, not too
small, and its self-normalised sum at ``lambda_* = sigma^2 / C^2`` is not too large. None
depends on the regulariser ``lambda`` in use. On these events the bounds hold in every round
and for *every* ``lambda >= lambda_*`` at once (the lower one for every ``lambda``), even if
it was chosen after looking at the data. The band (Theorem 2) rests on the third event.

Two departures from the printed formulas, which their proofs ask for: ``c_t`` has the
squared logarithm of Lemma 6, with ``ln(t)`` replaced by 1 where it is smaller, and the last
term of the lower bound goes without a factor below one that the proof does not support.
"""

import math
import warnings
from typing import Any, NamedTuple

from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import instance_of, positive_scalar, probability
from kernelucb._numerics.digits import at_least, at_most, between
from kernelucb._numerics.estimates import Estimate, is_estimate, plain
from kernelucb.acquisition.bounds import RegressionUCB, of_state
from kernelucb.confidence.assumptions import Assumption, Status, rkhs_assumptions
from kernelucb.confidence.band import Band, rebuildable
from kernelucb.confidence.noise import JointSet, UnknownNoise, check_one_noise_scale
from kernelucb.confidence.norm import NormBoundLike, as_ball, given_norm
from kernelucb.confidence.ridge import RidgeBand, fixed_ridge_band
from kernelucb.data import KernelRegression
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_SOURCE = (
    "Durand, Maillard & Pineau (2018), Corollary 1, the noise bounds of Theorem 3 as its "
    "proof gives them (ours)"
)


class NoiseInterval(NamedTuple):
    r"""Bounds on the noise scale, outcome units; ``upper`` may be infinite."""

    lower: float
    upper: float

    def __str__(self) -> str:
        low, high = between(*self)
        return f"a noise scale between {low} and {high}"


def refined_interval(
    regression: KernelRegression,
    norm_bound: float,
    level: float,
    interval: NoiseInterval,
) -> NoiseInterval:
    r"""One step of Corollary 1: Theorem 3 at ``lambda = upper^2 / C^2``, else Theorem 6.

    While the upper bound is infinite, the lower one is taken at ``lower^2 / C^2``. The
    constant ``C_t`` is that of Lemma 6.
    """
    t, norm = regression.num_observations, norm_bound / regression.outcome_scale
    guess = interval.upper if math.isfinite(interval.upper) else interval.lower
    # C_t of Lemma 6, with c_t = ln(pi^2 max(ln t, 1)^2 / 6).
    rounds = math.log(math.pi**2 * max(math.log(t), 1.0) ** 2 / 6.0)
    constant = math.log(math.e / level) * (1.0 + rounds / math.log(1.0 / level))
    residual_std = _residual_std(regression, norm, guess)
    # Case 2 at sqrt(lambda) = guess / C. Case 1, s - noise_upper sqrt(2 C_t / t) -
    # guess / sqrt(t), is larger only where case 2 is above noise_upper.
    lower = (residual_std - guess / math.sqrt(t)) / (1.0 + math.sqrt(2.0 * constant / t))
    lower = max(interval.lower, lower)
    log_det = float(regression.log_det(ridge_regularizer(regression, norm, lower)))
    information = 2.0 * math.log(1.0 / level) + log_det
    alpha = 1.0 - math.sqrt(constant / t) - math.sqrt((constant + 2.0 * information) / t)
    upper = math.inf  # where the data are too few
    if math.isfinite(interval.upper):
        # Case 2 solves sigma = s + sigma (1 - alpha) + 2 sqrt(b sigma). Case 1 is the right
        # side at noise_upper, which lies above the solution wherever noise_upper does.
        b = guess * math.sqrt(information) / (2.0 * t)
        if alpha > 0.0:
            upper = ((math.sqrt(residual_std * alpha + b) + math.sqrt(b)) / alpha) ** 2
    else:
        # Case 2 without a guess, from the residuals of the prior mean: Theorem 6 at
        # lambda_* itself, where C sqrt(lambda_*) = sigma, says s >= sigma (alpha -
        # sqrt(2 sqrt(D) / t)), and residuals at an infinite lambda are no smaller than s.
        alpha -= math.sqrt(2.0 * math.sqrt(information) / t)
        if alpha > 0.0:
            upper = _residual_std(regression, norm, math.inf) / alpha
    return NoiseInterval(lower, min(interval.upper, upper))


def _residual_std(regression: KernelRegression, norm: float, scale: float) -> float:
    r"""Root mean square of ``y - f_lambda`` on the data at ``lambda = scale^2 / C^2``."""
    tau = ridge_regularizer(regression, norm, scale)
    residuals = regression.targets / (1.0 + regression.eigenvalues / tau)
    mean_square = residuals.square().sum() / regression.num_observations
    return float(mean_square.sqrt() * regression.noise_scales[0])


def ridge_regularizer(regression: KernelRegression, norm: float, scale: float) -> float:
    r"""``tau`` of ``lambda = scale^2 / C^2``, Eq. (1); ``norm`` in prior units."""
    return (scale / (norm * float(regression.noise_scales[0]))) ** 2


def _check_lower_limit(noise: object) -> None:
    if not isinstance(noise, UnknownNoise):
        raise UnsupportedError(
            f"noise_std must be an UnknownNoise, got {type(noise).__name__}; with a known "
            "noise scale use a bound that takes it, such as MartingaleMixtureUCB."
        )
    if noise.lower is None:
        raise ValueError(
            "noise_std has no lower limit, which this bound rests on; give "
            "UnknownNoise(lower=...), small as it may be."
        )


class StreamingNoiseTracker:
    r"""Running bounds on an unknown noise scale, anytime.

    With probability ``1 - delta`` the noise scale lies in ``[lower, upper]`` after every
    update, however the inputs were chosen from the past.

    Source: Durand, Maillard & Pineau (2018), Theorem 3 and the sandwich of Corollary 1, at
    ``delta / 3``. Assumes a kernel and mean fixed before the data, noise that is
    conditionally sub-Gaussian and second-order sub-Gaussian of one scale (Gaussian noise
    is), and ``||f - mean||_H <= norm_bound``. Two departures from the printed formulas are
    named in ``kernelucb.papers.streaming``. Case 1 is not computed, since the best
    of both cases and the known upper limit is always case 2 or that limit.

    Example:
        >>> tracker = StreamingNoiseTracker(5.0, UnknownNoise(lower=0.01))
        >>> lower, upper = tracker.observe(model)  # after every observation

    Args:
        norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units.
        noise_std: Limits of the noise scale: a lower limit, which is required, and an upper
            limit or None.
        delta: Failure probability of all intervals together.

    Raises:
        ValueError: If a number is out of its range, or there is no lower limit.

    Attributes:
        outcomes: Scale of the outcomes, ``"untransformed"`` or ``"after Log"``; None before
            the first. Later outcomes must be on the same scale, in whatever unit.
        num_observations: Number of observations seen.
        consistent: False once the data contradict the assumptions.
        estimated: The subset of ``"kernel"``, ``"mean"`` and ``"norm"`` that was estimated
            at any update.
    """

    def __init__(
        self, norm_bound: float | Estimate, noise_std: UnknownNoise, delta: float = 0.05
    ) -> None:
        positive_scalar("norm_bound", norm_bound)
        self.norm_bound = norm_bound
        _check_lower_limit(noise_std)
        self.noise_std, self.delta = noise_std, probability("delta", delta)
        smallest, largest = (plain(each) for each in (noise_std.lower, noise_std.upper))
        self.interval = NoiseInterval(smallest, math.inf if largest is None else largest)
        self.num_observations = 0
        self.outcomes: str | None = None
        self.consistent = True
        self.estimated = {"norm"} if is_estimate(norm_bound) else set[str]()

    @property
    def lower(self) -> Estimate:
        r"""Lower bound on the noise scale, outcome units; estimated if given as one."""
        return Estimate(self.interval.lower)

    @property
    def upper(self) -> Estimate:
        r"""Upper bound on the noise scale, outcome units; infinite while data are few."""
        return Estimate(self.interval.upper)

    def observe(self, model: Model | KernelRegression) -> tuple[Estimate, Estimate]:
        r"""Update the bounds with new observations; without any, nothing changes.

        Takes one step of Corollary 1 for each new observation. If several observations are
        new, all steps use the newest data: valid, since the bounds hold for every
        regulariser at once, but looser than an update after each observation. The model
        must hold all observations so far, with one noise scale, and the same kernel and
        mean as before.

        Returns:
            Lower and upper bound on the noise scale, outcome units.

        Raises:
            ValueError: If there are fewer observations than before, or they are on another
                scale.
            UnsupportedError: If the model cannot be represented, or has several noise
                scales.
        """
        regression = KernelRegression.of(model)
        check_one_noise_scale(regression)
        outcomes = regression.outcome_map.same_as(self.outcomes)
        new = regression.num_observations - self.num_observations
        if new < 0:
            raise ValueError(
                f"The tracker has seen {self.num_observations} observations, the model has "
                f"{regression.num_observations}. Observations cannot be taken back; start "
                "a new tracker."
            )
        interval, norm_bound = self.interval, float(self.norm_bound)
        contradicted: NoiseInterval | None = None
        for _ in range(new):
            found = refined_interval(regression, norm_bound, self.delta / 3.0, interval)
            if found.lower > found.upper:
                contradicted = contradicted or found
            before, interval = interval, NoiseInterval(found.lower, max(found))
            if before == interval:  # and so after all further steps
                break
        first = self.consistent  # contradiction: one warning for each tracker
        # All at once, after all that may raise: an interrupted update leaves no half of it.
        vars(self).update(
            interval=interval,
            num_observations=regression.num_observations,
            outcomes=outcomes,
            consistent=self.consistent and contradicted is None,
            estimated=self.estimated | (regression.estimated & {"kernel", "mean"}),
        )
        if contradicted is not None and first:
            message = (
                f"The data say that the noise scale is at least "
                f"{at_least(contradicted.lower)} and at most "
                f"{at_most(contradicted.upper)}. An assumption does not hold: the "
                "noise's lower limit is too large, its upper limit or norm_bound too "
                "small, or the kernel is wrong. The upper bound is moved up to the lower "
                "one, without any guarantee."
            )
            warnings.warn(message, InconsistentConfidenceSetWarning, stacklevel=2)
        return self.lower, self.upper


def streaming_band(
    regression: KernelRegression,
    tracker: StreamingNoiseTracker | None,
    norm_bound: NormBoundLike,
    noise: UnknownNoise,
    delta: float,
) -> tuple[RidgeBand[KernelRegression], StreamingNoiseTracker]:
    r"""Band of Corollary 1 at ``delta / 4``, and the tracker of the noise that it rests on.

    ``f_lambda +- sqrt(k_lambda / lambda) (sqrt(lambda) C + sigma_plus sqrt(D))`` with
    ``D = 2 ln(4/delta) + log_det(lambda_minus)``. As ``sqrt(lambda) = sigma_plus / C``, the
    width is ``C (1 + sqrt(D))`` standard deviations, for an infinite ``sigma_plus`` too,
    where the estimate is the prior mean. ``delta`` is the failure probability of band and
    interval together.

    A new tracker takes three quarters of ``delta``, as in Corollary 1. A tracker that takes
    all of ``delta`` is valid as well: the band rests on one of the tracker's own events.
    Without ``norm_bound`` the tracker's norm bound is used, or without a tracker an
    estimate for an unknown noise scale.

    Raises:
        ValueError: If the tracker was built with other bounds or a larger ``delta``.
    """
    share = 0.75 * probability("delta", delta)
    _check_lower_limit(noise)
    if tracker is not None:
        instance_of("tracker", tracker, StreamingNoiseTracker)
        norm_bound = tracker.norm_bound if norm_bound is None else norm_bound
    ball = as_ball(norm_bound)
    if ball.number is None:
        limits = UnknownNoise() if noise.upper is None else noise
        joint = JointSet.of(regression, delta, "mixture", limits)
        estimate = ball.resolve(joint.regression, joint.radius(math.inf))
        value, origin = estimate.value * regression.outcome_scale, estimate.assumption
    else:
        value, origin = float(ball.number), given_norm(ball.number)
    if tracker is None:
        tracker = StreamingNoiseTracker(value, noise, share)
    before, given = (tracker.norm_bound, tracker.noise_std), (value, noise)
    if before != given or tracker.delta > delta:
        raise ValueError(
            f"The tracker has (norm_bound, noise_std) = {before} and delta = "
            f"{tracker.delta}; the arguments are {given} and {delta}. The bounds must be "
            "the same, and the tracker's delta at most this one."
        )
    tracker.observe(regression)
    norm = float(tracker.norm_bound) / regression.outcome_scale
    lower, upper = (
        ridge_regularizer(regression, norm, scale) for scale in tracker.interval
    )
    log_det = float(regression.log_det(lower))
    width = norm * (1.0 + math.sqrt(2.0 * math.log(4.0 / delta) + log_det))
    assumptions = rkhs_assumptions(_SOURCE, regression, delta, origin)
    for name in sorted(tracker.estimated):
        statement = f"{assumptions[name].statement}; the noise tracker rests on an estimate"
        assumptions = assumptions.with_item(Assumption(name, statement, Status.ESTIMATED))
    item = tracker.noise_std.assumption(
        "the noise is conditionally sub-Gaussian and second-order sub-Gaussian (Gaussian "
        "noise is), scale unknown"
    )
    if not tracker.consistent:
        statement = f"{item.statement}; the data contradict this, the norm or the kernel"
        item = Assumption("noise", statement, Status.VIOLATED)
    assumptions = assumptions.with_item(item)
    return fixed_ridge_band(regression, upper, width, assumptions), tracker


@rebuildable()
def streaming(
    model: Any,
    norm_bound: NormBoundLike,
    noise_std: UnknownNoise,
    delta: float,
    tracker: StreamingNoiseTracker | None = None,
) -> Band:
    r"""The band of ``StreamingKernelUCB``."""
    state = KernelRegression.of(model)
    whole, tracker = streaming_band(state, tracker, norm_bound, noise_std, delta)
    interval = tracker.lower, tracker.upper
    norm = whole.assumptions["norm"].number(tracker.norm_bound)
    prior_norm = float(tracker.norm_bound) / state.outcome_scale
    return of_state(
        whole,
        state,
        noise=None,
        norm_bounds=(norm,),
        noise_interval=interval,
        constants={"alpha": Estimate((float(interval[1]) / prior_norm) ** 2)},
    )


class StreamingKernelUCB(RegressionUCB):
    r"""Kernel UCB with unknown noise and adaptive regularisation, anytime.

    ``f_alpha +- sqrt(k_alpha / alpha) (sqrt(alpha) B + noise_upper sqrt(D))`` with
    ``alpha = noise_upper^2 / B^2``, where ``noise_upper``, an upper bound on the noise
    scale, comes from the data.

    With a ``tracker`` the noise interval is the interval of Corollary 1, a running maximum
    and minimum over all rounds so far. Without a tracker the corollary takes one step for
    each observation, every step on all data: valid, since the noise bounds hold for every
    regulariser on the same event, but the interval may widen again in the next round.
    ``band.noise_interval`` holds the bounds on the noise scale, outcome units (the upper
    one is infinite while no limit is given and data are few), and
    ``band.constants["alpha"]`` the ridge parameter, outcome units squared.

    Source: Durand, Maillard & Pineau (2018), Corollary 1 at ``delta / 4`` (their Kernel
    UCB, Theorem 4). Assumes a kernel and mean fixed before the data, noise that is
    conditionally sub-Gaussian and second-order sub-Gaussian of one scale (Gaussian noise
    is), ``||f - mean||_H <= norm_bound``, and outcomes that are reported whatever their
    noise. The noise of the model's likelihood is not used.

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Example:
        >>> acqf = StreamingKernelUCB(
        ...     model, norm_bound=5.0, noise_std=UnknownNoise(0.01, 1.0)
        ... )

    Args:
        norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units. By default the
            norm bound of the ``tracker``; estimated without a ``tracker``, or with a
            ``NormTracker``.
        noise_std: Limits of the noise scale: a lower limit, which is required, and an upper
            limit or None.
        delta: Failure probability of the band and the noise interval together.
        tracker: Bounds on the noise so far, built with the same limits and norm bound and
            at most this ``delta``. It is updated with the model's data.

    Raises:
        ValueError: If the tracker has other limits, a larger ``delta`` or more observations
            than the model.
        UnsupportedError: If the model has one noise scale for each observation.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: UnknownNoise,
        delta: float = 0.05,
        tracker: StreamingNoiseTracker | None = None,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = streaming(model, norm_bound, noise_std, delta, tracker)
        super().__init__(band, maximize, posterior_transform, X_pending, model)
