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

from kernelucb._numerics.features import Sections, split_variance
from kernelucb._numerics.nystrom import (
    Sketch,
    draw,
    feature_basis,
    first_state,
    inclusion_probabilities,
)
from kernelucb.models.bkb.distribution import OptimalVariationalDistribution
from kernelucb.models.bkb.observations import CountedObservations, ResizableModule

# Observations of the first step are drawn with prior variances, all at once.
_FIRST_BLOCK = 64
# Rows of the observations that are worked on together, so that what is kept is most of
# what is needed.
_ROWS = 4096


class BKBVariationalStrategy(ResizableModule, _VariationalStrategy):
    r"""Inducing points drawn from the observations by posterior variance.

    The optimal variational distribution is known in closed form, so there is nothing to
    train; the predictive is the DTC of ``kernelucb._numerics.nystrom``. With the inducing
    points as they are, an observation costs ``O(r^3)``; drawing them again costs
    ``O(u m^2)`` for ``u`` distinct inputs.

    Source: Calandriello et al. (2019), Algorithm 1.

    Attributes:
        observations: Distinct inputs, counts, and summed outcomes minus prior means.
        inducing_index: ``m`` positions of the inducing points among the distinct inputs.
        sketch: The observations as the features see them.
        features: ``u x r`` features of the distinct inputs.
    """

    model: Any
    inducing_points: Tensor
    inducing_index: Tensor
    generator_state: Tensor
    sketch: Sketch
    features: Tensor

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
        self.get_buffer("variational_params_initialized").fill_(1)
        self._basis = observations.inputs.new_empty(0, 0)
        none = observations.sums
        self._sections = Sections(self._basis, none, none)
        self.features, self._unexplained = self._basis, observations.sums
        self._set_sketch(sketch)

    @property
    @cached(name="prior_distribution_memo")
    def prior_distribution(self) -> MultivariateNormal:
        r"""Standard normal weights of the features."""
        weights = torch.zeros_like(self.sketch.weights)
        eye = IdentityLinearOperator(
            len(weights), dtype=weights.dtype, device=weights.device
        )
        return MultivariateNormal(weights, eye)

    @property
    @cached(name="variances")
    def variances(self) -> Tensor:
        r"""``u`` latent variances at the distinct inputs."""
        return self.sketch.variance(self.features, self._unexplained)

    @torch.no_grad()
    def observe(self, inputs: Tensor, outcomes: Tensor) -> None:
        r"""Add observations and draw the inducing points again.

        In blocks that at most double the number of observations: the variances that a block
        is drawn with are those of the step before, and the variances after half of the data
        are larger than needed, so the draw is as accurate and somewhat more generous.

        Args:
            inputs: ``n x d'`` kernel inputs.
            outcomes: ``n`` outcomes minus prior means.
        """
        start = 0
        while start < len(inputs):
            size = max(_FIRST_BLOCK, self.observations.num_observations)
            block = slice(start, start + size)
            self._add_resampled(inputs[block], outcomes[block])
            start += size

    def _add_resampled(self, inputs: Tensor, outcomes: Tensor) -> None:
        known = len(self.observations)
        before = self.variances
        changed = self.observations.add(inputs, outcomes)
        added = self.observations.inputs[known:]
        features, unexplained = self._project_all(added)
        variance = torch.cat([before, self.sketch.variance(features, unexplained)])
        if not self._resample(variance):
            self._extend(features, unexplained, changed)

    @torch.no_grad()
    def condition(self, inputs: Tensor, outcomes: Tensor) -> None:
        r"""Add observations and make their inputs inducing points, without a draw.

        Args:
            inputs: ``n x d'`` kernel inputs.
            outcomes: ``n`` outcomes minus prior means.
        """
        changed = self.observations.add(inputs, outcomes)
        index = torch.cat([self.inducing_index, changed[0]]).unique()
        if len(index) > len(self.inducing_index):
            self.inducing_index = index
            self.refresh()
        else:
            empty = self.features[:0], self._unexplained[:0]
            self._extend(*empty, changed)

    @torch.no_grad()
    def resample(self) -> None:
        r"""Draw the inducing points again, with the variances of now."""
        self._resample(self.variances)

    def _resample(self, variance: Tensor) -> bool:
        r"""Draw inducing points; whether they are others than before."""
        probabilities = inclusion_probabilities(
            variance, self.observations.counts, self.regularizer, self.qbar
        )
        index, self.generator_state = draw(probabilities, self.generator_state)
        if torch.equal(index, self.inducing_index):
            return False
        self.inducing_index = index
        self.refresh()
        return True

    def _extend(
        self,
        features: Tensor,
        unexplained: Tensor,
        changed: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        r"""Update what is cached, for the same inducing points."""
        index, counts, sums = changed
        self.features = torch.cat([self.features, features])
        self._unexplained = torch.cat([self._unexplained, unexplained])
        self._set_sketch(self.sketch.observe(self.features[index], counts, sums))

    @torch.no_grad()
    def refresh(self) -> None:
        r"""Compute everything from the observations and the inducing points."""
        data = self.observations
        points = data.inputs[self.inducing_index]
        self.inducing_points = points
        kernel = self.model.covar_module
        self._basis, lost = feature_basis(kernel(points).to_dense())
        self._sections = Sections(points, kernel(points, diag=True), lost)
        self.features, self._unexplained = self._project_all(data.inputs)
        empty = Sketch.empty(self._basis.shape[1], self.regularizer, data.inputs)
        self._set_sketch(empty.observe(self.features, data.counts, data.sums))

    def _set_sketch(self, sketch: Sketch) -> None:
        self.sketch = sketch
        self._variational_distribution = OptimalVariationalDistribution(sketch)
        self._clear_cache()

    def _project_all(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        r"""``_project`` of very many inputs, in memory for hardly more than the result."""
        features = inputs.new_empty(len(inputs), self._basis.shape[1])
        unexplained = inputs.new_empty(len(inputs))
        for start in range(0, len(inputs), _ROWS):
            rows = slice(start, start + _ROWS)
            features[rows], unexplained[rows] = self._project(inputs[rows])
        return features, unexplained

    def _project(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        r"""Features of ``n x d'`` kernel inputs, and the variance that they leave.

        Differentiable.
        """
        if len(inputs) == 0 or len(self.inducing_index) == 0:
            features = inputs.new_zeros(len(inputs), self._basis.shape[1])
            return features, self.model.covar_module(inputs, diag=True)
        covariance, whole, reach = self._covariances(inputs)
        return split_variance(covariance @ self._basis, whole, reach)

    def _covariances(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Covariances with the inducing points, ``k(x, x)``, bounds on what they leave."""
        kernel = self.model.covar_module
        whole = kernel(inputs, diag=True)
        covariance = kernel(inputs, self.inducing_points).to_dense()
        return covariance, whole, self._sections.reach(inputs, whole, covariance)

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
        features, unexplained = self._project(flat)
        mean = mean + features @ inducing_values
        left = self.sketch.residual_features(features)
        variance = (unexplained + left.square().sum(-1)).reshape(shape)
        features, left = features.reshape(*shape, -1), left.reshape(*shape, -1)
        covariance = self.model.covar_module(x).to_dense()
        covariance = covariance - features @ features.mT + left @ left.mT
        surplus = variance - covariance.diagonal(dim1=-2, dim2=-1)
        covariance = covariance + torch.diag_embed(surplus)
        return MultivariateNormal(mean.reshape(shape), to_linear_operator(covariance))

    def _marginals(self, inputs: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        r"""Deviations from the prior mean and variances at ``n x d'`` kernel inputs.

        In the eigenbasis of the observations, where both need one product. Where round-off
        explains more than there is, they are computed from features that are corrected.
        """
        basis, vectors, shrinkage = self._rotated
        covariance, whole, reach = self._covariances(inputs)
        rotated = covariance @ basis
        squares = rotated.square()
        rest = whole - squares.sum(-1)
        unexplained = torch.minimum(rest, reach).clamp_min(0.0)
        variance = unexplained + squares @ shrinkage
        deviation = rotated @ (vectors.mT @ weights)
        excessive = rest < -8.0 * len(shrinkage) * torch.finfo(rest.dtype).eps * whole
        if bool(excessive.any()):
            features, unexplained = self._project(inputs[excessive])
            careful = self.sketch.variance(features, unexplained)
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
