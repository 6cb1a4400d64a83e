r"""Bands around the posterior of a model that is not an exact GP."""

from typing import Any, Protocol

import torch
from torch import Tensor

from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet, QueryPoints, Support
from kernelucb.regression import Projection


class PosteriorModel(Protocol):
    r"""What a band asks of a model; those in ``kernelucb.models`` have it."""

    dimension: int

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


class PosteriorState:
    r"""The posterior of a model as a confidence set reads it.

    A query point's prior is the model's posterior there, of which nothing is explained yet.
    """

    def __init__(self, model: PosteriorModel) -> None:
        self.model = model
        self.dimension = model.dimension

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome under the model, outcome units."""
        return self.model.prior_std

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
            residual_variance=variance,
        )

    def with_pending(self, X_pending: Tensor) -> "PosteriorState":
        r"""The state with pending points evaluated at their posterior means."""
        means = self.project(X_pending.detach()).prior_mean.detach()
        pending = X_pending.detach().double()
        model = self.model.condition_on_observations(pending, means.unsqueeze(-1))
        return PosteriorState(model)


class PosteriorBand(ConfidenceSet[PosteriorState]):
    r"""Posterior mean plus or minus ``width`` posterior standard deviations.

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
        value = self.width * safe_sqrt(points.design.residual_variance)
        zero = torch.zeros_like(value)
        return Support(value=value, regularizer=zero, gap=zero)

    def with_design(self, design: PosteriorState) -> "PosteriorBand":
        r"""The band with variances conditioned on another design."""
        return PosteriorBand(self.regression, self.width, self.assumptions, design)
