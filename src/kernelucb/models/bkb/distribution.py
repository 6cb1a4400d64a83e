r"""The optimal variational distribution in closed form."""

import torch
from gpytorch.distributions import MultivariateNormal
from gpytorch.variational import _VariationalDistribution
from linear_operator.operators import RootLinearOperator

from kernelucb._numerics.nystrom import Sketch


class OptimalVariationalDistribution(_VariationalDistribution):
    r"""``q(w) = N(V^-1 Z^T (y - m), lam V^-1)``, the maximum of the evidence lower bound.

    Source: Titsias (2009), Eq. 10, for weights ``w`` of Nystrom features, whose prior is
    standard normal (GPyTorch's whitened inducing values).
    """

    def __init__(self, sketch: Sketch) -> None:
        super().__init__(num_inducing_points=len(sketch.weights))
        self.sketch = sketch

    @property
    def device(self) -> torch.device:
        r"""Where the sketch lies."""
        return self.sketch.weights.device

    @property
    def dtype(self) -> torch.dtype:
        r"""Always float64."""
        return self.sketch.weights.dtype

    def forward(self) -> MultivariateNormal:
        r"""The distribution of the weights."""
        eye = torch.eye(self.num_inducing_points, dtype=self.dtype, device=self.device)
        root = self.sketch.residual_features(eye)
        # residual_features(I) = sqrt(lam) L^-T, a root of lam V^-1.
        return MultivariateNormal(self.sketch.weights, RootLinearOperator(root))

    def initialize_variational_distribution(self, prior_dist: MultivariateNormal) -> None:
        r"""Nothing to initialise: the optimum is known in closed form."""
