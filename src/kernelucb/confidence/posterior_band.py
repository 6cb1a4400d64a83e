r"""Bands around the posterior of a model that is not an exact GP."""

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet, QueryPoints, Support
from kernelucb.regression.outcome_map import IDENTITY


class PosteriorModel(Protocol):
    r"""What a band asks of a model; those in ``kernelucb.models`` have it."""

    dimension: int

    @property
    def num_evaluations(self) -> int:
        r"""Number of evaluations that count: those not determined by earlier ones."""
        ...

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome, outcome units."""
        ...

    def posterior(self, X: Tensor) -> Any:
        r"""Joint posterior at ``b x q x d`` points."""
        ...

    def condition_on_observations(self, X: Tensor, Y: Tensor) -> Any:
        r"""The model after more observations."""
        ...


class PosteriorPoints(NamedTuple):
    r"""Query points as the posterior of a model sees them.

    Attributes:
        mean: ``b`` posterior means, outcome units.
        variance: ``b`` posterior variances, outcome units squared.
    """

    mean: Tensor
    variance: Tensor

    @property
    def baseline(self) -> Tensor:
        r"""What the support function is measured from: the posterior mean."""
        return self.mean

    def detach(self) -> "PosteriorPoints":
        r"""The same points without gradients."""
        return PosteriorPoints(self.mean.detach(), self.variance.detach())


class PosteriorState:
    r"""The posterior of a model as a confidence set reads it."""

    outcome_map = IDENTITY

    def __init__(self, model: PosteriorModel) -> None:
        self.model = model
        self.dimension = model.dimension

    @property
    def num_observations(self) -> int:
        r"""Number of evaluations that count."""
        return self.model.num_evaluations

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome under the model, outcome units."""
        return self.model.prior_std

    def mean(self, X: Tensor) -> Tensor:
        r"""Posterior mean at ``b x d`` points, ``b`` values, outcome units."""
        return self.project(X).mean

    def project(self, X: Tensor) -> PosteriorPoints:
        r"""Posterior mean and variance at ``b x d`` points; differentiable in ``X``."""
        distribution = self.model.posterior(X.double().unsqueeze(-2)).distribution
        covariance = distribution.lazy_covariance_matrix
        variance = covariance.diagonal(dim1=-2, dim2=-1).squeeze(-1)
        return PosteriorPoints(distribution.mean.squeeze(-1), variance)

    def with_pending(self, X_pending: Tensor) -> "PosteriorState":
        r"""The state with pending points evaluated at their posterior means."""
        pending = X_pending.detach().double()
        means = self.project(pending).mean.detach().unsqueeze(-1)
        return PosteriorState(self.model.condition_on_observations(pending, means))


class PosteriorBand(ConfidenceSet[PosteriorState, QueryPoints[PosteriorPoints]]):
    r"""Posterior mean plus or minus ``width`` posterior standard deviations.

    Args:
        regression: The posterior.
        width: Multiplier of the standard deviation, dimensionless.
        assumptions: What the band rests on.
        design: The posterior that gives variances: ``regression``, or the same with
            pending points.
    """

    def __init__(
        self,
        regression: PosteriorState,
        width: float,
        assumptions: Assumptions,
        design: PosteriorState | None = None,
    ) -> None:
        super().__init__(regression, assumptions)
        self.design = regression if design is None else design
        self.width = width

    def project(self, X: Tensor) -> QueryPoints[PosteriorPoints]:
        r"""Posterior mean and variance at ``b x d`` points."""
        centre = self.regression.project(X)
        if self.design is self.regression:
            return QueryPoints(centre, centre)
        return QueryPoints(centre, self.design.project(X))

    def support(self, points: QueryPoints[PosteriorPoints], sign: int) -> Support:
        r"""Width times standard deviation; see ``ConfidenceSet``."""
        value = self.width * safe_sqrt(points.design.variance)
        zero = torch.zeros_like(value)
        return Support(value=value, regularizer=zero, gap=zero)

    def with_pending(self, X_pending: Tensor) -> "PosteriorBand":
        r"""The band with variances conditioned on ``p x d`` pending points as well."""
        design = self.regression.with_pending(X_pending)
        return PosteriorBand(self.regression, self.width, self.assumptions, design)
