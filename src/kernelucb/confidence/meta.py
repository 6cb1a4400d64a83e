r"""Bounds under a prior estimated from earlier tasks (Wang, Kim & Kaelbling 2018)."""

import math
from typing import Any, Protocol

import torch
from torch import Tensor

from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.base import ConfidenceSet, QueryPoints, Support
from kernelucb.confidence.ridge_band import safe_sqrt
from kernelucb.regression import Projection

_SOURCE = "Wang, Kim & Kaelbling (2018), Theorems 2 and 4"


class EstimatedPrior(Protocol):
    r"""What the bounds ask of a model; see ``kernelucb.models.meta.MetaModel``."""

    dimension: int
    estimated: frozenset[str]

    @property
    def num_tasks(self) -> int:
        r"""Number of training functions."""
        ...

    @property
    def num_evaluations(self) -> int:
        r"""Number of distinct evaluations that told something."""
        ...

    @property
    def value_range(self) -> tuple[float, float]:
        r"""Smallest and largest value of training functions and evaluations."""
        ...

    def posterior(self, X: Tensor) -> Any:
        r"""Joint posterior at ``b x q x d`` points."""
        ...

    def condition_on_observations(self, X: Tensor, Y: Tensor) -> Any:
        r"""The model after more evaluations."""
        ...


def exploration_factor(num_tasks: int, round_number: int, delta: float) -> float:
    r"""``zeta_t``, the multiplier of the estimated standard deviation.

    ``(sqrt(6 (N - 3 + t + 2 sqrt(t L) + 2 L) / (delta N (N - t - 1))) +
    sqrt(2 ln(3 / delta))) / sqrt(1 - 2 sqrt(L / (N - t)))`` with ``L = ln(6 / delta)``.

    Source: Wang, Kim & Kaelbling (2018), Eq. 12.

    Args:
        num_tasks: ``N``, number of training functions.
        round_number: ``t``, the evaluation about to be made (evaluations plus one).
        delta: Failure probability.

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


class PosteriorState:
    r"""The posterior of a model with an estimated prior, as a confidence set reads it.

    A query point's prior is the model's posterior there, of which nothing is explained yet.
    """

    def __init__(self, model: EstimatedPrior) -> None:
        self.model = model
        self.dimension = model.dimension

    @property
    def num_observations(self) -> int:
        r"""Number of distinct evaluations that told something."""
        return self.model.num_evaluations

    def project(self, X: Tensor) -> Projection:
        r"""Posterior mean and variance at ``b x d`` points; differentiable in ``X``."""
        X = X.double()
        distribution = self.model.posterior(X.unsqueeze(-2)).distribution
        mean = distribution.mean.squeeze(-1)
        covariance = distribution.lazy_covariance_matrix
        variance = covariance.diagonal(dim1=-2, dim2=-1).squeeze(-1)
        return Projection(
            inputs=X,
            prior_mean=mean,
            prior_variance=variance,
            features=mean.new_zeros(len(mean), 0),
            unexplained=variance,
        )

    def with_pending(self, X_pending: Tensor) -> "PosteriorState":
        r"""The state with pending points evaluated at their posterior means."""
        means = self.project(X_pending.detach()).prior_mean.detach()
        pending = X_pending.detach().double()
        model = self.model.condition_on_observations(pending, means.unsqueeze(-1))
        return PosteriorState(model)


class MetaBand(ConfidenceSet[PosteriorState]):
    r"""Posterior mean plus or minus ``width`` estimated standard deviations.

    Attributes:
        width: Multiplier of the standard deviation, dimensionless.
    """

    def __init__(
        self,
        regression: PosteriorState,
        width: float,
        assumptions: Assumptions,
        design: PosteriorState | None = None,
    ) -> None:
        super().__init__(regression, assumptions, design)
        self.width = width

    def support(self, points: QueryPoints, sign: int) -> Support:
        r"""Width times standard deviation; see ``ConfidenceSet``."""
        value = self.width * safe_sqrt(points.spread.unexplained)
        zero = torch.zeros_like(value)
        return Support(value=value, regularizer=zero, gap=zero)

    def with_design(self, design: PosteriorState) -> "MetaBand":
        r"""The band with variances conditioned on another design."""
        return MetaBand(self.regression, self.width, self.assumptions, design)


def meta_assumptions(model: EstimatedPrior, guarantee: str) -> Assumptions:
    r"""What the regret bounds rest on.

    Args:
        model: The estimated prior.
        guarantee: What holds, in words.
    """
    items = [
        Assumption(
            "prior",
            f"f and the {model.num_tasks} training functions are independent samples of "
            "one Gaussian process, with independent Gaussian noise of one scale",
            Status.GIVEN,
        )
    ]
    if "values" in model.estimated:
        items.append(
            Assumption(
                "values", "missing training values were completed exactly", Status.ESTIMATED
            )
        )
    if "features" in model.estimated:
        items.append(
            Assumption(
                "features",
                "f lies in the span of the basis functions, which were trained on the same "
                "tasks (the theorem takes them as given)",
                Status.ESTIMATED,
            )
        )
    if model.num_evaluations:
        items.append(
            Assumption(
                "inputs",
                "the inputs evaluated so far do not depend on the training functions (the "
                "proof conditions on them, but a search that uses the prior chooses them)",
                Status.ESTIMATED,
            )
        )
    return Assumptions(_SOURCE, guarantee, anytime=False, items=tuple(items))
