r"""Bands of budgeted kernel bandits (Calandriello et al. 2019)."""

import math
from typing import Literal, NamedTuple, Protocol, get_args

from kernelucb._numerics.checks import probability
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.bkb_width import Budget, certified_width
from kernelucb.confidence.fit.choice import sketched_fit
from kernelucb.confidence.norm.tracker import (
    NormBound,
    NormBoundLike,
    resolve_norm_bound,
)
from kernelucb.confidence.statements import Knowledge, rkhs_assumptions
from kernelucb.regression.lowrank.ridge import DTCRegression, Sketched

BKBRadius = Literal["certified", "theorem2", "practical"]
_RADII: tuple[BKBRadius, ...] = get_args(BKBRadius)

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


class SketchedModel(Protocol):
    r"""What the bound asks of a model; see ``kernelucb.models.BKBModel``."""

    qbar: float

    @property
    def state(self) -> Sketched:
        r"""Observations and their sketch, in the model's units."""
        ...

    def regression(self, noise_std: float | None) -> DTCRegression:
        r"""The posterior as a ridge regression, in outcome units."""
        ...


def accuracy_factor(epsilon: float) -> float:
    r"""``a = (1 + eps) / (1 - eps)``: how far sketched variances may be off."""
    return (1.0 + epsilon) / (1.0 - epsilon)


def required_qbar(horizon: int, delta: float, epsilon: float = 0.5) -> float:
    r"""``qbar`` that Theorem 1 (3.1 on arXiv) asks for: ``6 a ln(4 T / delta) / eps^2``.

    Args:
        horizon: Number of rounds ``T``.
        delta: Failure probability.
        epsilon: Accuracy, between 0 and 1.
    """
    log = math.log(4.0 * horizon / delta)
    return 6.0 * accuracy_factor(epsilon) * log / epsilon / epsilon  # its square may be 0


def covered_rounds(qbar: float, delta: float, epsilon: float = 0.5) -> int:
    r"""The largest ``T`` for which ``qbar`` is enough; zero where it never is."""
    log = qbar * epsilon**2 / (6.0 * accuracy_factor(epsilon)) - math.log(4.0 / delta)
    rounds = math.exp(min(log, 43.0))  # more rounds than anyone plays
    return math.floor(rounds * (1.0 + 1e-12))


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
    which it never exceeds.

    Args:
        budget: What the observations contribute.
        norm: Norm bound ``F``.
        noise_std: Noise scale ``xi``.
        delta: Failure probability; half of it is the sketch's.
        epsilon: Accuracy of the sketch.
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

    Args:
        budget: What the observations contribute.
        norm: Norm bound ``F``.
        noise_std: Noise scale ``xi``.
        delta: Failure probability.
    """
    gain = math.log(max(budget.num_observations, 1)) * budget.summed_variance
    noise = noise_std * math.sqrt(gain + math.log(1.0 / delta))
    return noise / math.sqrt(budget.alpha) + norm


class BKBRule(NamedTuple):
    r"""Which radius a band has, and what it counts on.

    Attributes:
        radius: ``"certified"`` (``certified_width``), ``"theorem2"`` or ``"practical"``.
        delta: Failure probability.
        epsilon: Accuracy of the sketch that Theorem 2's radius counts on.
        qbar: Oversampling factor of the inducing points.
    """

    radius: BKBRadius
    delta: float
    epsilon: float
    qbar: float

    def checked(self) -> "BKBRule":
        r"""This rule, if all of it is in its range.

        Raises:
            ValueError: Otherwise.
        """
        if self.radius not in _RADII:
            raise ValueError(
                'radius must be "certified", "theorem2" or "practical", got '
                f"{self.radius!r}."
            )
        probability("delta", self.delta)
        probability("epsilon", self.epsilon)
        return self

    def width(self, data: Sketched, norm: float, noise_std: float, block: int = 1) -> float:
        r"""Multiplier of the latent standard deviation, in the units of the data.

        ``block`` is how many inputs the certified one takes together; see ``Budget.of``.
        """
        budget = Budget.of(data, block if self.radius == "certified" else 1)
        if self.radius == "practical":
            return practical_width(budget, norm, noise_std, self.delta)
        if self.radius == "theorem2":
            return theorem2_width(budget, norm, noise_std, self.delta, self.epsilon)
        return certified_width(budget, norm, noise_std, self.delta)

    def norm(self, norm_bound: NormBoundLike, regression: DTCRegression) -> NormBound:
        r"""The norm bound given, or its estimate; one that the data contradict says so.

        The least consistent norm is a valid lower bound: Lemma 4.2 of Flynn & Reeb (2024),
        relaxed to what the sketch knows of the data.
        """
        state = regression.widened()
        radius = sketched_fit("filters", state, self.delta)
        return resolve_norm_bound(norm_bound, state, radius).checked(state, radius)

    def assumptions(
        self, num_observations: int, known: Knowledge, norm: Assumption
    ) -> Assumptions:
        r"""What the band rests on.

        Args:
            num_observations: Number of observations so far.
            known: What is known of prior and noise.
            norm: Where the norm bound comes from.
        """
        source = _SOURCES[self.radius]
        if self.radius == "certified":
            return rkhs_assumptions(source, known, self.delta, norm)
        rounds = covered_rounds(self.qbar, self.delta, self.epsilon)
        assumptions = rkhs_assumptions(source, known, self.delta, norm, horizon=rounds)
        if self.radius == "practical":
            return assumptions.without_guarantee(_PRACTICAL)
        drawn = f"drawn with qbar = {self.qbar:.6g}"
        enough = Assumption(
            "inducing points",
            f"{drawn}, which Theorem 1 allows up to round {rounds:.6g}",
            Status.GIVEN,
        )
        assumptions = assumptions.with_extra(enough)
        if num_observations <= rounds:
            return assumptions
        needed = required_qbar(num_observations, self.delta, self.epsilon)
        statement = (
            f"{drawn}; Theorem 1 asks for {needed:.6g} after {num_observations} "
            f"observations with epsilon = {self.epsilon:.6g}"
        )
        return assumptions.with_item(Assumption(enough.name, statement, Status.VIOLATED))
