r"""The loss of outcomes with Gaussian noise, which takes counts' way through the code."""

import math

from torch import Tensor

from kernelucb.data.counts import Loss


class GaussianLoss(Loss):
    r"""``w (f - y)^2 / 2``, under which the set is Flynn & Reeb's.

    Args:
        outcomes: ``u`` means of outcomes.
        precision: ``u`` values ``w`` above zero, one over their variances.
    """

    def __init__(self, outcomes: Tensor, precision: Tensor) -> None:
        super().__init__(precision * outcomes, precision, "poisson")

    @property
    def outcomes(self) -> Tensor:
        return self.counts / self.amounts

    def pooled(self, index: Tensor, count: int) -> "GaussianLoss":
        return self

    def value(self, latent: Tensor) -> Tensor:
        return 0.5 * self.amounts * (latent - self.outcomes).square()

    def slope(self, latent: Tensor) -> Tensor:
        return self.amounts * (latent - self.outcomes)

    def curvature(self, latent: Tensor) -> Tensor:
        return self.amounts.expand_as(latent)

    def expected(self, mean: Tensor, variance: Tensor) -> Tensor:
        return self.value(mean) + 0.5 * self.amounts * variance

    def log_independent(self, mean: Tensor) -> float:
        return -math.inf  # the mixture has no such part
