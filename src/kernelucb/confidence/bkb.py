r"""Bands of budgeted kernel bandits (Calandriello et al. 2019)."""

import math
from typing import NamedTuple, Protocol

import torch

from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.norm.tracker import given_norm
from kernelucb.confidence.posterior_band import PosteriorModel
from kernelucb.confidence.statements import Knowledge, rkhs_assumptions

_SOURCE = (
    "Calandriello et al. (2019), Theorem 2, its logarithm as the proof gives it (ours)"
)
_PRACTICAL_SOURCE = "the code that Calandriello et al. (2019) released"
_PRACTICAL = (
    'radius="practical" is the lighter one of the authors\' code; no theorem covers it'
)


class SketchedModel(PosteriorModel, Protocol):
    r"""What the bounds ask of a model; see ``kernelucb.models.BKBModel``."""

    noise_variance: float
    qbar: float
    estimated: frozenset[str]

    @property
    def num_observations(self) -> int:
        r"""Number of observations."""
        ...

    @property
    def outcome_scale(self) -> float:
        r"""Outcome units per unit of the model."""
        ...

    @property
    def summed_variance(self) -> float:
        r"""Sum of ``var(x_s) / lam`` over the observations."""
        ...

    @property
    def summed_prior_variance(self) -> float:
        r"""Sum of ``k(x_s, x_s)`` over the observations."""
        ...


class Budget(NamedTuple):
    r"""What the radius is computed from, in any units that kernel and outcomes share.

    Attributes:
        num_observations: ``t``.
        summed_variance: ``sum_s var(x_s) / lam`` over the observations.
        summed_prior_variance: ``sum_s k(x_s, x_s)``, at most ``kappa^2 t``.
        regularizer: ``lam``.
    """

    num_observations: int
    summed_variance: float
    summed_prior_variance: float
    regularizer: float


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


def certified_width(
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
    trace, lam = budget.summed_prior_variance, budget.regularizer
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
    return noise / math.sqrt(budget.regularizer) + norm


def budget_of(model: SketchedModel) -> Budget:
    r"""What the observations of a model contribute, in its own units."""
    return Budget(
        model.num_observations,
        model.summed_variance,
        model.summed_prior_variance,
        model.noise_variance,
    )


def bkb_assumptions(
    radius: str,
    num_observations: int,
    qbar: float,
    delta: float,
    epsilon: float,
    norm_bound: float,
    noise_std: float,
    estimated: frozenset[str] = frozenset(),
) -> Assumptions:
    r"""What the band rests on.

    Args:
        radius: ``"certified"`` or ``"practical"``.
        num_observations: Number of observations so far.
        qbar: Oversampling factor of the inducing points.
        delta: Failure probability.
        epsilon: Accuracy of the sketch.
        norm_bound: Norm bound, outcome units.
        noise_std: Noise scale, outcome units.
        estimated: Parts of the prior that were fitted to the data.
    """
    rounds = covered_rounds(qbar, delta, epsilon)
    known = Knowledge(estimated, torch.tensor([noise_std], dtype=torch.float64))
    assumptions = rkhs_assumptions(
        _PRACTICAL_SOURCE if radius == "practical" else _SOURCE,
        known,
        delta,
        given_norm(norm_bound),
        horizon=rounds,
    )
    if radius == "practical":
        return assumptions.without_guarantee(_PRACTICAL)
    enough = Assumption(
        "inducing points",
        f"drawn with qbar = {qbar:.6g}, which Theorem 1 allows up to round {rounds:.6g}",
        Status.GIVEN,
    )
    assumptions = assumptions.with_extra(enough)
    if num_observations <= rounds:
        return assumptions
    needed = required_qbar(num_observations, delta, epsilon)
    statement = (
        f"drawn with qbar = {qbar:.6g}; Theorem 1 asks for {needed:.6g} after "
        f"{num_observations} observations with epsilon = {epsilon:.6g}"
    )
    violated = Assumption(enough.name, statement, Status.VIOLATED)
    return assumptions.with_item(violated)
