r"""A bandit's history on a fixed set of arms, at a cost that does not grow with it."""

import torch
from gpytorch.kernels import Kernel
from torch import Tensor
from torch.nn import Module
from torch.nn.functional import pad

from kernelucb import KernelRegression
from kernelucb.regression.from_model import ModelData
from kernelucb.regression.prior import Prior


class ArmPrior(Prior):
    r"""Prior on a finite set of arms, whose inputs are the arms' indices.

    All covariances are computed once; GPyTorch would take a third of a round's time.
    """

    table: Tensor

    def __init__(self, covar_module: Kernel, arms: Tensor) -> None:
        r"""Zero-mean prior on ``a x d`` arms."""
        super().__init__(covar_module)
        self.register_buffer("table", super().covariance(arms, arms))

    def covariance(self, left: Tensor, right: Tensor) -> Tensor:
        r"""Prior covariance of ``n x 1`` and ``m x 1`` indices, ``n x m``."""
        return self.table[left[:, 0].long()][:, right[:, 0].long()]

    def variance(self, inputs: Tensor) -> Tensor:
        r"""Prior variance at ``n x 1`` indices, ``n`` values."""
        return self.table.diagonal()[inputs[:, 0].long()]


class History:
    r"""How often each arm was played, and the mean and scatter of what came out.

    Args:
        prior: Prior of the outcomes.

    Attributes:
        arms: ``a x 1`` indices of the arms, the inputs of the prior.
    """

    def __init__(self, prior: ArmPrior) -> None:
        self.prior = prior
        self.arms = torch.arange(len(prior.table), dtype=torch.float64).unsqueeze(-1)
        self.counts = torch.zeros(len(self.arms), dtype=torch.float64)
        self.means = torch.zeros_like(self.counts)
        self.scatter = 0.0

    def observe(self, index: int, outcome: float) -> None:
        r"""Add one outcome (Welford's recursion)."""
        self.counts[index] += 1.0
        deviation = outcome - float(self.means[index])
        self.means[index] += deviation / self.counts[index]
        self.scatter += deviation * (outcome - float(self.means[index]))

    def regression(self) -> KernelRegression:
        r"""The state of all observations, whitened by noise of scale one."""
        return PooledRegression(self)


class PooledRegression(KernelRegression):
    r"""The state that ``KernelRegression`` makes of all rows, from the pooled ones.

    Given the function's value at an arm, the outcomes there count through their mean and
    through how far they scatter around it; ``KernelRegression`` pools its rows to the same
    effect, but has to compare all of them in every round first.
    """

    def __init__(self, history: History) -> None:
        r"""State of a history with at least one observation."""
        Module.__init__(self)
        played = history.counts > 0
        self._count = int(history.counts.sum())
        arms, means = history.arms[played], history.means[played]
        noise = history.counts[played].rsqrt()
        self._decompose(ModelData(history.prior, arms, means, noise, 1, frozenset()))
        # No section reaches the direction that stands for the scatter.
        scatter = self.targets.new_tensor([history.scatter]).sqrt()
        self.targets = torch.cat([scatter, self.targets])
        for name in ("eigenvalues", "feature_basis"):
            setattr(self, name, pad(getattr(self, name), (1, 0)))
        self.noise_scales = self.noise_scales.new_ones(1)

    @property
    def num_observations(self) -> int:
        r"""Number of observations, not of arms."""
        return self._count
