r"""A variational strategy whose inducing points are resampled observations."""

from typing import Any

import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.models import ApproximateGP
from gpytorch.utils.memoize import cached
from gpytorch.variational import _VariationalStrategy
from linear_operator import to_linear_operator
from linear_operator.operators import IdentityLinearOperator
from torch import Tensor

from kernelucb._numerics import kernels
from kernelucb._numerics.features import Sections
from kernelucb._numerics.nystrom import (
    Sketch,
    draw,
    first_state,
    inclusion_probabilities,
)
from kernelucb.models.bkb.distribution import OptimalVariationalDistribution
from kernelucb.models.bkb.observations import (
    Change,
    CountedObservations,
    PartOfModel,
    draft_of,
)
from kernelucb.models.bkb.span import InducingSpan

# Observations of the first step are drawn with prior variances, all at once.
_FIRST_BLOCK = 64
_COMPARED = 8  # inputs at which a saved state shows its kernel


class BKBVariationalStrategy(PartOfModel, _VariationalStrategy):
    r"""Inducing points drawn from the observations by posterior variance.

    The optimal variational distribution is known in closed form, so there is nothing to
    train; the predictive is the DTC of ``kernelucb._numerics.nystrom``. With the inducing
    points as they are, an observation costs ``O(r^3)``; drawing them again costs
    ``O(u m^2)`` for ``u`` distinct inputs. Each step makes another strategy and leaves this
    one as it is.

    Source: Calandriello et al. (2019), Algorithm 1.

    Attributes:
        observations: Distinct inputs, counts, and summed outcomes minus prior means.
        inducing_index: ``m`` positions of the inducing points among the distinct inputs.
        prior_values: Kernel matrix of the first inputs, to tell saved kernels apart.
        sketch: The observations as the features see them.
        features: ``u x r`` features of the distinct inputs.
    """

    model: Any
    inducing_points: Tensor
    inducing_index: Tensor
    generator_state: Tensor
    prior_values: Tensor
    sketch: Sketch
    features: Tensor
    _memoize_cache: dict[Any, Any]

    def __init__(
        self,
        model: ApproximateGP,
        dimension: int,
        regularizer: float,
        qbar: float,
        seed: int,
        device: torch.device,
    ) -> None:
        r"""Strategy without observations.

        Args:
            model: The GP that it belongs to; has ``mean_module`` and ``covar_module``.
            dimension: Number of columns of the kernel's inputs.
            regularizer: ``lam``, the noise variance.
            qbar: Oversampling factor.
            seed: Seed of the draws.
            device: Where the data lie.
        """
        observations = CountedObservations(dimension, device)
        sketch = Sketch.empty(0, regularizer, observations.inputs)
        super().__init__(
            model,
            observations.inputs,
            OptimalVariationalDistribution(sketch),
            learn_inducing_locations=False,
        )
        self.observations = observations
        self.regularizer, self.qbar = regularizer, qbar
        index = torch.empty(0, dtype=torch.long, device=device)
        self.register_buffer("inducing_index", index)
        self.register_buffer("generator_state", first_state(seed))
        self.register_buffer("prior_values", observations.inputs.new_empty(0, 0))
        self.get_buffer("variational_params_initialized").fill_(1)
        self._basis, none = observations.inputs.new_empty(0, 0), observations.sums
        self._sections = Sections(observations.inputs, none, none)
        self.features, self._unexplained = self._basis, none
        self._set_sketch(sketch)

    @property
    @cached(name="prior_distribution_memo")
    def prior_distribution(self) -> MultivariateNormal:
        r"""Standard normal weights of the features."""
        weights = torch.zeros_like(self.sketch.weights)
        like = {"dtype": weights.dtype, "device": weights.device}
        return MultivariateNormal(weights, IdentityLinearOperator(len(weights), **like))

    @property
    @cached(name="variances")
    def variances(self) -> Tensor:
        r"""``u`` latent variances at the distinct inputs."""
        return self.sketch.variance(self.features, self._unexplained)

    @torch.no_grad()
    def observe(self, inputs: Tensor, outcomes: Tensor) -> "BKBVariationalStrategy":
        r"""With more observations, and the inducing points drawn again.

        In blocks that at most double the number of observations: a block is drawn with the
        variances of the step before, which are larger: as accurate, and more generous.

        Args:
            inputs: ``n x d'`` kernel inputs.
            outcomes: ``n`` outcomes minus prior means.
        """
        other, start = self._draft(), 0
        while start < len(inputs):
            size = max(_FIRST_BLOCK, other.observations.num_observations)
            block = slice(start, start + size)
            other._add_resampled(inputs[block], outcomes[block])
            start += size
        return other

    def _add_resampled(self, inputs: Tensor, outcomes: Tensor) -> None:
        known = len(self.observations)
        before = self.variances
        self.observations, change = self.observations.extended(inputs, outcomes)
        added = self.observations.inputs[known:]
        features, residual_variance = self._span.project_all(added)
        variance = torch.cat([before, self.sketch.variance(features, residual_variance)])
        if not self._resample(variance):
            self._extend(features, residual_variance, change)

    @torch.no_grad()
    def conditioned(self, inputs: Tensor, outcomes: Tensor) -> "BKBVariationalStrategy":
        r"""With more observations, whose inputs become inducing points, without a draw.

        Args:
            inputs: ``n x d'`` kernel inputs.
            outcomes: ``n`` outcomes minus prior means.
        """
        other = self._draft()
        other.observations, change = self.observations.extended(inputs, outcomes)
        index = torch.cat([self.inducing_index, change.index]).unique()
        if len(index) > len(self.inducing_index):
            other.inducing_index = index
            other._refresh()
        else:
            other._extend(self.features[:0], self._unexplained[:0], change)
        return other

    @torch.no_grad()
    def resampled(self) -> "BKBVariationalStrategy":
        r"""With inducing points drawn again, by the variances of now."""
        other = self._draft()
        other._resample(self.variances)
        return other

    def refreshed(self) -> "BKBVariationalStrategy":
        r"""Computed anew from the observations and the inducing points."""
        return self.replaced(self.observations, self.inducing_index, self.generator_state)

    @torch.no_grad()
    def replaced(
        self,
        observations: CountedObservations,
        inducing_index: Tensor,
        generator_state: Tensor,
    ) -> "BKBVariationalStrategy":
        r"""With other observations and inducing points; see the attributes."""
        other = self._draft()
        other.observations, other.inducing_index = observations, inducing_index
        other.generator_state = generator_state
        other._refresh()
        return other

    @property
    def _span(self) -> InducingSpan:
        return InducingSpan(self.model.covar_module, self._basis, self._sections)

    def _draft(self) -> "BKBVariationalStrategy":
        draft = draft_of(self)
        draft._memoize_cache = dict(self._memoize_cache)
        return draft

    def _resample(self, variance: Tensor) -> bool:
        r"""Draw inducing points; whether they are others than before."""
        probabilities = inclusion_probabilities(
            variance, self.observations.counts, self.regularizer, self.qbar
        )
        index, self.generator_state = draw(probabilities, self.generator_state)
        if torch.equal(index, self.inducing_index):
            return False
        self.inducing_index = index
        self._refresh()
        return True

    def _extend(self, features: Tensor, residual_variance: Tensor, change: Change) -> None:
        r"""Update what is cached, for the same inducing points."""
        index, counts, sums = change
        self.features = torch.cat([self.features, features])
        self._unexplained = torch.cat([self._unexplained, residual_variance])
        self._set_sketch(self.sketch.observe(self.features[index], counts, sums))

    def _refresh(self) -> None:
        data = self.observations
        points = data.inputs[self.inducing_index]
        self.inducing_points = points
        kernel = self.model.covar_module
        first = data.inputs[:_COMPARED]
        self.prior_values = kernels.covariance(kernel, first, first)
        _, self._basis, self._sections = InducingSpan.of(kernel, points)
        self.features, self._unexplained = self._span.project_all(data.inputs)
        empty = Sketch.empty(self.features.shape[1], self.regularizer, data.inputs)
        self._set_sketch(empty.observe(self.features, data.counts, data.sums))

    def _set_sketch(self, sketch: Sketch) -> None:
        self.sketch = sketch
        self._variational_distribution = OptimalVariationalDistribution(sketch)
        self._clear_cache()

    def forward(
        self,
        x: Tensor,
        inducing_points: Tensor,
        inducing_values: Tensor,
        variational_inducing_covar: Any = None,
        diag: bool = True,
        **kwargs: Any,
    ) -> MultivariateNormal:
        r"""Posterior at ``... x q x d'`` kernel inputs.

        The distribution of the inducing values is the strategy's own; its factor is used
        instead of the covariance handed in, for accuracy.
        """
        shape, flat = x.shape[:-1], x.reshape(-1, x.shape[-1])
        mean = self.model.mean_module(flat)
        if shape[-1] == 1:
            deviation, variance = self._marginals(flat, inducing_values)
            covariance = variance.reshape(*shape, 1)
            mean = (mean + deviation).reshape(shape)
            return MultivariateNormal(mean, to_linear_operator(covariance))
        features, residual_variance = self._span.project(flat)
        mean = mean + features @ inducing_values
        left = self.sketch.residual_features(features)
        variance = (residual_variance + left.square().sum(-1)).reshape(shape)
        features, left = features.unflatten(0, shape), left.unflatten(0, shape)
        prior = kernels.covariance(self.model.covar_module, x, x)
        covariance = prior - features @ features.mT + left @ left.mT
        surplus = variance - covariance.diagonal(dim1=-2, dim2=-1)
        covariance = covariance + torch.diag_embed(surplus)
        return MultivariateNormal(mean.reshape(shape), to_linear_operator(covariance))

    def _marginals(self, inputs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""Deviations from the prior mean and variances at ``n x d'`` kernel inputs.

        In the eigenbasis of the observations, where both need one product. Where round-off
        explains more than there is, they are computed from features that are corrected.
        """
        basis, vectors, shrinkage = self._rotated
        covariance, prior_variance, reach = self._span.covariances(inputs)
        rotated = covariance @ basis
        squares = rotated.square()
        rest = prior_variance - squares.sum(-1)
        residual_variance = torch.minimum(rest, reach).clamp_min(0.0)
        variance = residual_variance + squares @ shrinkage
        deviation = rotated @ (vectors.mT @ weights)
        excessive = (
            rest < -8.0 * len(shrinkage) * torch.finfo(rest.dtype).eps * prior_variance
        )
        if bool(excessive.any()):
            features, residual_variance = self._span.project(inputs[excessive])
            careful = self.sketch.variance(features, residual_variance)
            variance = variance.index_put((excessive,), careful)
            deviation = deviation.index_put((excessive,), features @ weights)
        return deviation, variance

    @property
    @cached(name="rotated")
    def _rotated(self) -> tuple[Tensor, Tensor, Tensor]:
        r"""Basis of the eigenvectors of ``Z^T Z``, these, and ``lam / (lam + values)``."""
        values, vectors = torch.linalg.eigh(self.sketch.gram)
        shrinkage = self.regularizer / (self.regularizer + values.clamp_min(0.0))
        return self._basis @ vectors, vectors, shrinkage

    def _expand_inputs(self, x: Tensor, inducing_points: Tensor) -> tuple[Tensor, Tensor]:
        return x, inducing_points
