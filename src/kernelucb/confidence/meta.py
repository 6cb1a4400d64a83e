r"""Bounds under a prior estimated from earlier tasks (Wang, Kim & Kaelbling 2018)."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb.confidence.assumptions import REPORTED, Assumption, Assumptions, Status
from kernelucb.confidence.sets import ConfidenceSet, QueryPoints, Support
from kernelucb.regression.outcome_map import IDENTITY

_ESTIMATES = {
    "values": "missing training values were completed exactly",
    "features": "f lies in the span of the basis functions, which were trained on the same "
    "tasks (the theorem takes them as given)",
    "inputs": "the inputs evaluated so far do not depend on the training functions (the "
    "proof conditions on them, but a search that uses the prior chooses them)",
}


class PosteriorPoints(NamedTuple):
    r"""``b`` posterior means and variances of query points, outcome units."""

    baseline: Tensor  # the posterior mean
    variance: Tensor


class PosteriorState:
    r"""The posterior of a ``kernelucb.models.meta.MetaModel`` as a set reads it."""

    outcome_map = IDENTITY

    def __init__(self, model: Any) -> None:
        self.model, self.dimension = model, model.dimension
        self.num_observations, self.prior_std = model.num_evaluations, model.prior_std

    def mean(self, X: Tensor) -> Tensor:
        r"""Posterior mean at ``b x d`` points, ``b`` values, outcome units."""
        return self.project(X).baseline

    def project(self, X: Tensor) -> PosteriorPoints:
        r"""Posterior mean and variance at ``b x d`` points; differentiable in ``X``."""
        posterior = self.model.posterior(X.double().unsqueeze(-2))
        return PosteriorPoints(
            *(m.reshape(-1) for m in (posterior.mean, posterior.variance))
        )

    def with_pending(self, X_pending: Tensor) -> "PosteriorState":
        r"""The state with pending points evaluated at their posterior means."""
        pending = X_pending.detach().double()
        means = self.mean(pending).detach().unsqueeze(-1)
        return PosteriorState(self.model.condition_on_observations(pending, means))


class PosteriorBand(ConfidenceSet):
    r"""Posterior mean plus or minus ``width`` posterior standard deviations.

    Variances come from ``design``: the same posterior, or that with pending points.
    """

    def __init__(
        self, regression: PosteriorState, width: float, assumptions: Assumptions
    ) -> None:
        super().__init__(regression, assumptions)
        self.width = width

    def support(self, points: QueryPoints, sign: int) -> Support:
        r"""Width times standard deviation; see ``ConfidenceSet``."""
        value = self.width * safe_sqrt(points.design.variance)
        zero = torch.zeros_like(value)
        return Support(value=value, regularizer=zero, gap=zero)


def exploration_factor(num_tasks: int, round_number: int, delta: float) -> float:
    r"""``zeta_t``, the multiplier of the estimated standard deviation.

    ``(sqrt(6 (N - 3 + t + 2 sqrt(t L) + 2 L) / (delta N (N - t - 1))) +
    sqrt(2 ln(3 / delta))) / sqrt(1 - 2 sqrt(L / (N - t)))`` with ``L = ln(6 / delta)``.

    Source: Wang, Kim & Kaelbling (2018), Eq. 12, for ``N`` training functions and the
    evaluation ``t`` about to be made.

    Raises:
        ValueError: If ``N`` is not above ``t + 4 L``.
    """
    n, t, log = num_tasks, round_number, math.log(6.0 / delta)
    if n <= t + 4.0 * log:
        needed = math.floor(t + 4.0 * log) + 1
        raise ValueError(
            f"Evaluation {t} with delta = {delta:g} needs at least {needed} training "
            f"functions (more than t + 4 ln(6/delta)), and there are {n}. Use more, a "
            "larger delta, or MetaPI."
        )
    mean_error = 6.0 * (n - 3 + t + 2.0 * math.sqrt(t * log) + 2.0 * log)
    mean_error = math.sqrt(mean_error / (delta * n * (n - t - 1)))
    sample = math.sqrt(2.0 * math.log(3.0 / delta))
    return (mean_error + sample) / math.sqrt(1.0 - 2.0 * math.sqrt(log / (n - t)))


def meta_assumptions(model: Any, guarantee: str, band: bool = True) -> Assumptions:
    r"""What the regret bounds rest on, and the band where the paper covers it.

    Source: Wang, Kim & Kaelbling (2018), Theorem 2 (a finite domain) or Theorem 4 (given
    basis functions).
    """
    prior = Assumption(
        "prior",
        f"f and the {model.num_tasks} training functions are independent samples of one "
        "Gaussian process, with independent Gaussian noise of one scale",
        Status.GIVEN,
    )
    names = [*model.estimated, *["inputs"] * bool(model.num_evaluations)]
    estimates = [Assumption(each, _ESTIMATES[each], Status.ESTIMATED) for each in names]
    source = f"Wang, Kim & Kaelbling (2018), Theorem {2 if model.finite_domain else 4}"
    source += "; band: Lemma 11 and Corollary 6" if band else ""
    items = (prior, *estimates, REPORTED)
    return Assumptions(source, guarantee, anytime=False, items=items, all_points=False)
