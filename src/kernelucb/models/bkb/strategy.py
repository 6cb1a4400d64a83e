r"""GPyTorch's view of a budgeted GP: a variational strategy with a known optimum."""

# GPyTorch exports the base classes of its own strategies under private names only.
# pyright: reportPrivateUsage=false

from typing import Any

import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.models import ApproximateGP
from gpytorch.utils.memoize import cached
from gpytorch.variational import _VariationalDistribution, _VariationalStrategy
from linear_operator import to_dense, to_linear_operator
from linear_operator.operators import IdentityLinearOperator, RootLinearOperator
from torch import Tensor
from torch.linalg import solve_triangular

from kernelucb._numerics.spectral import covariance_root
from kernelucb.regression.nystrom import Basis
from kernelucb.regression.sketch import SketchedData


class OptimalVariationalDistribution(_VariationalDistribution):
    r"""``q(w) = N(V^-1 Z^T (y - m), alpha V^-1)``, the maximum of the evidence lower bound.

    Source: Titsias (2009), Eq. 10, for weights ``w`` of Nystrom features, whose prior is
    standard normal (GPyTorch's whitened inducing values).
    """

    def __init__(self, state: SketchedData) -> None:
        super().__init__(num_inducing_points=len(state.sketch.weights))
        self.state = state

    @property
    def device(self) -> torch.device:
        r"""Where the data lie."""
        return self.state.counts.device

    @property
    def dtype(self) -> torch.dtype:
        r"""Always float64."""
        return self.state.counts.dtype

    def forward(self) -> MultivariateNormal:
        r"""The distribution of the weights."""
        sketch = self.state.sketch
        eye = torch.eye(len(sketch.weights), dtype=self.dtype, device=self.device)
        # sqrt(alpha) L^-T is a root of alpha V^-1.
        half = solve_triangular(sketch.factor, eye, upper=False).mT
        root = RootLinearOperator(sketch.alpha**0.5 * half)
        return MultivariateNormal(sketch.weights, root)

    def initialize_variational_distribution(self, prior_dist: MultivariateNormal) -> None:
        r"""Nothing to initialise: the optimum is known in closed form."""


class BKBVariationalStrategy(_VariationalStrategy):
    r"""Whitened inducing values at inducing points that were drawn from the data.

    The optimal variational distribution is known in closed form, so there is nothing to
    train; its predictive is the deterministic training conditional of ``Sketch``.

    Attributes:
        state: Observations and inducing points.
    """

    model: Any
    state: SketchedData
    inducing_points: Tensor
    _memoize_cache: dict[Any, Any]

    def __init__(self, model: ApproximateGP, state: SketchedData) -> None:
        r"""Strategy of a state.

        Args:
            model: The GP that it belongs to.
            state: Observations and inducing points.
        """
        super().__init__(
            model,
            state.basis.inducing,
            OptimalVariationalDistribution(state),
            learn_inducing_locations=False,
        )
        self.state = state
        self.get_buffer("variational_params_initialized").fill_(1)

    @property
    @cached(name="prior_distribution_memo")  # pyright: ignore[reportUntypedFunctionDecorator]
    def prior_distribution(self) -> MultivariateNormal:
        r"""Standard normal weights of the features."""
        weights = torch.zeros_like(self.state.sketch.weights)
        identity = IdentityLinearOperator(
            len(weights), dtype=weights.dtype, device=weights.device
        )
        return MultivariateNormal(weights, identity)

    def forward(
        self,
        x: Tensor,
        inducing_points: Tensor,
        inducing_values: Tensor,
        variational_inducing_covar: Any = None,
        diag: bool = True,
        **kwargs: Any,
    ) -> MultivariateNormal:
        r"""``q(f(x))``, from any Gaussian over the whitened inducing values.

        With features ``z`` it has mean ``m(x) + z(x)^T w`` and covariance ``k(x, x') -
        z(x)^T z(x') + z(x)^T S z(x')``.

        Args:
            x: ``... x q x d'`` kernel inputs.
            inducing_points: ``m x d'`` kernel inputs.
            inducing_values: ``r`` means ``w`` of the weights of the features.
            variational_inducing_covar: Their covariance ``S``; None where they are known.
            diag: Ignored: there is nothing to train, so the whole covariance is returned.
            **kwargs: Ignored.
        """
        shape, prior = x.shape[:-1], self.state.prior
        flat, basis = x.reshape(-1, x.shape[-1]), self.state.basis
        if not torch.equal(inducing_points, basis.inducing):
            basis = Basis.of(prior, inducing_points)
        features, residual_variance = basis.project(flat)
        mean = (prior.mean(flat) + features @ inducing_values).reshape(shape)
        told = _factor(features, variational_inducing_covar)
        variance = (residual_variance + told.square().sum(-1)).reshape(shape)
        if shape[-1] == 1:
            return MultivariateNormal(mean, to_linear_operator(variance.unsqueeze(-1)))
        features, told = features.unflatten(0, shape), told.unflatten(0, shape)
        between = prior.covariance(x, x) - features @ features.mT + told @ told.mT
        rounding = variance - between.diagonal(dim1=-2, dim2=-1)
        covariance = between + torch.diag_embed(rounding)
        return MultivariateNormal(mean, to_linear_operator(covariance))

    def _expand_inputs(self, x: Tensor, inducing_points: Tensor) -> tuple[Tensor, Tensor]:
        return x, inducing_points


def _factor(features: Tensor, covariance: Any) -> Tensor:
    r"""``n`` rows whose inner products are ``z^T S z'`` for rows ``z`` of features."""
    if covariance is None:
        return torch.zeros_like(features)
    if isinstance(covariance, RootLinearOperator):
        return features @ to_dense(covariance.root)
    return features @ covariance_root(to_dense(covariance))


class SketchedGP(ApproximateGP):
    r"""A GP with a fixed mean and kernel on a ``BKBVariationalStrategy``.

    Args:
        state: Observations and inducing points.
    """

    variational_strategy: BKBVariationalStrategy

    def __init__(self, state: SketchedData) -> None:
        super().__init__(BKBVariationalStrategy(self, state))
        self.prior = state.prior  # moves to other devices with the model

    @property
    def covar_module(self) -> Any:
        r"""The kernel."""
        return self.prior.covar_module

    @property
    def mean_module(self) -> Any:
        r"""The prior mean."""
        return self.prior.mean_module

    def forward(self, x: Tensor) -> MultivariateNormal:
        r"""The prior."""
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))
