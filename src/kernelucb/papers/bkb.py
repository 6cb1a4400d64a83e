r"""BKB: Calandriello, Carratino, Lazaric, Valko & Rosasco (2019), Gaussian process
optimization with adaptive sketching: scalable and no regret.

Theorem 1 (``required_qbar``), the radius of Theorem 2 (``theorem2_width``), the band and
its upper side. The model is in ``bkb_model.py`` and ``bkb_variational.py``, Algorithm 1 for
a finite set of arms in ``bkb_bandit.py``.

What differs from the paper: the logarithm of Theorem 2 is as the proof gives it; and the
default is a radius of ours, ``certified_width``, by Abbasi-Yadkori (2012), Theorem 3.11,
for any inducing points.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from gpytorch.models import ApproximateGP
from torch import Tensor

from kernelucb._numerics.checks import one_of, positive_scalar, probability
from kernelucb._numerics.estimates import Estimate, Number
from kernelucb.acquisition.ucb import BandUCB
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Status,
    rkhs_assumptions,
)
from kernelucb.confidence.band import Band, rebuildable
from kernelucb.confidence.fit import fit_of
from kernelucb.confidence.norm import NormBound, NormBoundLike, as_ball
from kernelucb.confidence.ridge import RidgeBand
from kernelucb.data.nystrom import DTCRegression, SketchedData, sketched_state

BKBRadius = Literal["certified", "theorem2", "practical"]

_SOURCES: dict[BKBRadius, str] = {
    "certified": "Abbasi-Yadkori (2012), Theorem 3.11, for any inducing points (ours)",
    "theorem2": (
        "Calandriello et al. (2019), Theorem 2, its logarithm as the proof gives it (ours)"
    ),
    "practical": "the code that Calandriello et al. (2019) released",
}
_PRACTICAL = (
    'radius="practical" is the lighter one of the authors\' code; no theorem covers it'
)

# Residual over ridge parameter below which eigenvalues of blocks are not worth their time:
# the certified width grows by at most half of it, relative to the norm bound.
_NEGLIGIBLE = 0.01
_FITTED_RIDGE = Assumption(
    "ridge parameter",
    "the ridge parameter was fixed before the data; it may have been fitted to them",
    Status.ESTIMATED,
)
_BLOCK = 256  # observed inputs in one part of BKB's certified width, about as a draw costs


def accuracy_factor(epsilon: float) -> float:
    r"""``a = (1 + eps) / (1 - eps)``: how far sketched variances may be off."""
    return (1.0 + epsilon) / (1.0 - epsilon)


def required_qbar(horizon: int, delta: float, epsilon: float = 0.5) -> float:
    r"""``qbar`` that Theorem 1 (3.1 on arXiv) asks for: ``6 a ln(4 T / delta) / eps^2``."""
    log = math.log(4.0 * horizon / delta)
    # Divided twice: the square of a tiny epsilon is zero.
    return 6.0 * accuracy_factor(epsilon) * log / epsilon / epsilon


def covered_rounds(qbar: float, delta: float, epsilon: float = 0.5) -> int:
    r"""The largest ``T`` for which ``qbar`` is enough; zero where it never is."""
    log = qbar * epsilon**2 / (6.0 * accuracy_factor(epsilon)) - math.log(4.0 / delta)
    # Up to e^43 = 5e18 rounds, more than anyone plays; a large qbar would overflow.
    rounds = math.exp(min(log, 43.0))
    # The horizon of `required_qbar` itself must not be lost to rounding.
    return math.floor(rounds * (1.0 + 1e-12))


class Budget(NamedTuple):
    r"""Sums from which the widths are computed, in units that kernel and outcomes share.

    ``R R^T`` is the residual of the kernel matrix ``K``: ``K`` minus its projection on the
    inducing points.
    """

    num_observations: int
    summed_variance: float  # sum_s var(x_s) / alpha over the observations
    summed_prior_variance: float  # sum_s k(x_s, x_s), at most kappa^2 t
    alpha: float  # ridge parameter
    log_det: float  # upper bound on ln det(I + K / alpha)
    residual: float  # upper bound on the largest eigenvalue of R R^T / alpha

    @classmethod
    def of(cls, data: SketchedData, block: int = 1) -> "Budget":
        r"""The sums over the observations, in the units of the data.

        The bound on the residual takes ``block`` of the ``u`` observed inputs together
        (with 1 it is the trace of ``R R^T``), in ``O(u block (r + block))`` for ``r``
        features.
        """
        alpha, counts = data.alpha, data.counts
        singly = counts * data.residual_variance / alpha
        residual = float(singly.sum())
        if block > 1 and residual > _NEGLIGIBLE:
            # At most the sum of the largest eigenvalues of the diagonal blocks.
            blocks = data.observed.split(block)
            residual = sum(_largest_eigenvalue(data, rows) for rows in blocks)
        return cls(
            data.num_observations,
            float(counts @ data.variance) / alpha,
            float(counts @ data.prior_variance),
            alpha,
            data.sketch.log_det + float(singly.log1p().sum()),
            residual,
        )


def _largest_eigenvalue(data: SketchedData, rows: Tensor) -> float:
    r"""Largest eigenvalue of these rows of ``R R^T / alpha``; at most their trace."""
    inputs, counts, features = data.inputs[rows], data.counts[rows], data.features[rows]
    variance = data.residual_variance[rows]  # the diagonal, rounded up
    matrix = data.prior.covariance(inputs, inputs) - features @ features.mT
    roots = counts.sqrt()
    values = torch.linalg.eigvalsh(roots.outer(roots) * matrix.diagonal_scatter(variance))
    rounding = data.basis.round_off * (counts @ data.prior_variance[rows])
    largest = float(values[-1].clamp_min(0.0) + rounding)
    return min(largest, float(counts @ variance)) / data.alpha


def certified_width(budget: Budget, norm: float, noise_std: float, delta: float) -> float:
    r"""Multiplier of the latent standard deviation, for all rounds at once.

    With ``g`` at least the largest eigenvalue of ``R R^T / lam`` and ``N = xi / sqrt(lam)
    sqrt(ln det(I + Z^T Z / lam) + sum_s ln(1 + e_s / lam) + 2 ln(1/delta))`` it is, in
    closed form, ``max over 0 <= q <= 1 of sqrt((N + F sqrt(1 + (g - 1) q))^2 + F^2 q)``: at
    most ``N + F sqrt(1 + g)``. The sum over diagonal blocks of ``R R^T`` of their largest
    eigenvalues is such a ``g``; blocks of one give the trace, ``sum_s e_s / lam``. Where
    every observed point is inducing, ``g = 0``, and the width is that of Abbasi-Yadkori
    (2012), Theorem 3.11.

    Source: ours; ``docs/mathematics.md``, "Few inducing points". Nothing is assumed about
    the inducing points: they may be any, and depend on all data, because the noise enters
    through the kernel itself. Inputs observed ``c`` times count as one with ``c e_s``.
    ``F`` is the norm bound, ``xi`` the noise scale.
    """
    gain = budget.log_det + 2.0 * math.log(1.0 / delta)
    noise, residual = noise_std * math.sqrt(gain / budget.alpha), budget.residual
    # The square is concave in s = sqrt(1 + (g - 1) q); for g < 1 its derivative is zero at
    # s = N (1 - g) / (F g).
    rise, fall = noise * (1.0 - residual), norm * residual
    if rise >= fall:
        share = 0.0
    elif residual >= 1.0 or rise <= fall * math.sqrt(residual):
        share = 1.0
    else:
        share = min((1.0 - (rise / fall) ** 2) / (1.0 - residual), 1.0)
    inside = math.sqrt(1.0 + (residual - 1.0) * share)
    return math.hypot(noise + norm * inside, norm * math.sqrt(share))


def theorem2_width(
    budget: Budget, norm: float, noise_std: float, delta: float, epsilon: float
) -> float:
    r"""Multiplier of the latent standard deviation, ``beta / sqrt(lam)``.

    ``beta = 2 xi sqrt(a L sum_s var(x_s) / lam + ln(1/delta)) + (1 + 1/sqrt(1 - eps))
    sqrt(lam) F`` with ``L = ln(kappa^2 t)``.

    Source: Calandriello et al. (2019), Theorem 2 (4.1 on arXiv). Its logarithm
    stands for ``ln det(I + K/lam) <= a (1 + ln(1 + tr(K)/lam)) sum_s var(x_s) / lam``, a
    quarter of which it covers only where ``kappa^2 t`` is large enough; where it is not
    (few rounds, small ``lam``) that quarter is used. ``tr(K)`` replaces ``kappa^2 t``,
    which it never exceeds. Half of ``delta`` is the sketch's, ``eps`` its accuracy.
    """
    trace, lam = budget.summed_prior_variance, budget.alpha
    printed = math.log(trace) if trace > 0.0 else -math.inf
    log = max(printed, (1.0 + math.log1p(trace / lam)) / 4.0)
    gain = accuracy_factor(epsilon) * log * budget.summed_variance
    # ln(1/delta) covers half of ln(2/delta), as it must, for delta up to 1/2 only.
    tail = max(math.log(1.0 / delta), 0.5 * math.log(2.0 / delta))
    noise = 2.0 * noise_std * math.sqrt(gain + tail)
    bias = 1.0 + 1.0 / math.sqrt(1.0 - epsilon)
    return noise / math.sqrt(lam) + bias * norm


def practical_width(budget: Budget, norm: float, noise_std: float, delta: float) -> float:
    r"""``(sqrt(lam) F + xi sqrt(ln(t) sum_s var(x_s) / lam + ln(1/delta))) / sqrt(lam)``.

    Source: the code that Calandriello et al. (2019) released. No theorem covers it.
    """
    gain = math.log(max(budget.num_observations, 1)) * budget.summed_variance
    noise = noise_std * math.sqrt(gain + math.log(1.0 / delta))
    return noise / math.sqrt(budget.alpha) + norm


@dataclass(frozen=True)
class BKBRule:
    r"""Radius of a BKB band: its theorem, failure probability and accuracy.

    Raises:
        ValueError: If a number is out of its range.
    """

    radius: BKBRadius
    delta: float
    epsilon: float  # accuracy of the sketch that Theorem 2 assumes

    def __post_init__(self) -> None:
        one_of("radius", self.radius, *get_args(BKBRadius))
        probability("delta", self.delta)
        probability("epsilon", self.epsilon)

    def width(
        self, data: SketchedData, norm: float, noise_std: float, block: int = 1
    ) -> float:
        r"""Multiplier of the latent standard deviation, in the units of the data.

        ``block`` is the number of inputs that the certified width takes together; see
        ``Budget.of``.
        """
        budget = Budget.of(data, block if self.radius == "certified" else 1)
        if self.radius == "practical":
            return practical_width(budget, norm, noise_std, self.delta)
        if self.radius == "theorem2":
            return theorem2_width(budget, norm, noise_std, self.delta, self.epsilon)
        return certified_width(budget, norm, noise_std, self.delta)

    def norm(self, norm_bound: NormBoundLike, regression: DTCRegression) -> NormBound:
        r"""The given norm bound or its estimate; marked if the data contradict it.

        The least consistent norm is a valid lower bound: Lemma 4.2 of Flynn & Reeb (2024),
        relaxed to what the sketch knows of the data.
        """
        state = regression.widened()
        radius, _ = fit_of("filters").sketched(state, self.delta)
        return as_ball(norm_bound).resolve(state, radius).checked(state, radius)

    def assumptions(self, state: DTCRegression, norm: Assumption) -> Assumptions:
        r"""Assumptions of the band."""
        source, rounds, data = _SOURCES[self.radius], None, state.data
        if self.radius != "certified":
            rounds = covered_rounds(data.qbar, self.delta, self.epsilon)
        assumptions = rkhs_assumptions(source, state, self.delta, norm, horizon=rounds)
        if self.radius == "practical":
            return assumptions.without_guarantee(_PRACTICAL)
        if rounds is None:
            return assumptions
        count, status = data.num_observations, Status.GIVEN
        drawn = f"drawn with qbar = {data.qbar:.6g}"
        statement = f"{drawn}, which Theorem 1 allows up to round {rounds:.6g}"
        if count > rounds:
            needed, status = required_qbar(count, self.delta, self.epsilon), Status.VIOLATED
            statement = (
                f"{drawn}; Theorem 1 asks for {needed:.6g} after {count} "
                f"observations with epsilon = {self.epsilon:.6g}"
            )
        enough = Assumption("inducing points", statement, status)
        return assumptions.with_extra(enough).with_item(enough)


@rebuildable(sketched_state)
def bkb(
    model: Model | ApproximateGP | DTCRegression,
    norm_bound: NormBoundLike,
    noise_std: Number | None,
    delta: float,
    radius: BKBRadius,
    epsilon: float,
) -> Band:
    r"""The band of ``BKBUCB``, from the state of its model."""
    rule = BKBRule(radius, delta, epsilon)
    known = state = sketched_state(model)
    if noise_std is not None:
        positive_scalar("noise_std", noise_std)
        state = known.with_noise_std(noise_std)
    norm = rule.norm(norm_bound, state)
    # The width is in units of the model, which may standardise; the band in outcome units.
    noise = float(state.noise_scales) / state.outcome_scale
    width = rule.width(state.data, norm.value, noise, _BLOCK)
    assumptions = rule.assumptions(state, norm.assumption)
    if "noise" in known.estimated - state.estimated:
        assumptions = assumptions.with_extra(_FITTED_RIDGE)
    return Band(
        RidgeBand(state, state.regularizer, width, assumptions),
        data=state,
        norm_bounds=(norm.in_outcome_units(state),),
        constants={"width": Estimate(width)},  # from the posterior
    )


class BKBUCB(BandUCB):
    r"""Upper confidence bound of budgeted kernel bandits.

    ``mean(x) +- beta / sqrt(alpha) sd(x)`` with the posterior of BKB's model; a
    prediction costs ``O(m^2)`` for ``m`` inducing points, whatever the number of
    observations.

    Source: the certified radius is ours, by Abbasi-Yadkori (2012), Theorem 3.11, and what
    the inducing points leave of each observed input (``certified_width`` of
    ``kernelucb.papers.bkb``). It holds for all rounds at once, whatever the
    inducing points and ``qbar``. The posterior, and the other two radii, are those of
    Calandriello et al. (2019): ``radius="theorem2"`` holds for all rounds up to the ``T``
    for which the model's ``qbar`` is large enough (Theorem 1); ``assumptions`` names ``T``,
    and marks the guarantee as violated beyond. ``"practical"`` is the radius of the
    authors' code, which no theorem covers. Assumes a kernel and mean fixed before the data,
    conditionally sub-Gaussian noise of scale ``noise_std``, ``||f - mean||_H <=
    norm_bound``, and outcomes that are reported whatever their noise.

    Example:
        >>> model = BKBModel(train_X, train_Y, kernel, alpha=0.01)
        >>> acqf = BKBUCB(model, norm_bound=1.0, noise_std=0.1, delta=0.05)
        >>> point, value, index = argmax(acqf, candidates)
        >>> model.observe(point, play(point))

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Args:
        model: A ``BKBModel``, or a GP with a ``BKBVariationalStrategy``, bare or in
            BoTorch's ``ApproximateGPyTorchModel``; as it is now, whatever it learns later.
        noise_std: Sub-Gaussian noise scale, outcome units; the root of the model's
            ``alpha`` when absent.
        radius: ``"certified"``, valid at any ``qbar``; ``"theorem2"``, which needs a large
            ``qbar``; or ``"practical"``, without a guarantee.
        epsilon: Accuracy of the sketch that ``"theorem2"`` assumes; without effect for the
            other radii.
    """

    def __init__(
        self,
        model: Model | ApproximateGP | DTCRegression,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: Number | None = None,
        delta: float = 0.05,
        radius: BKBRadius = "certified",
        epsilon: float = 0.5,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = bkb(model, norm_bound, noise_std, delta, radius, epsilon)
        super().__init__(band, maximize, posterior_transform, X_pending, model)
