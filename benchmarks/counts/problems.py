r"""Functions of known norm, and successes and counts that are drawn from them."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.counts.settings import Protocol, Setting
from benchmarks.runner import fixed_kernel, rkhs_norm, stream
from kernelucb import LikelihoodRegression, LikelihoodUCB
from kernelucb.confidence.likelihood.evidence import Ratio
from kernelucb.confidence.likelihood.tangents import LikelihoodForm


@dataclass(frozen=True)
class Problem:
    r"""A function, and what is drawn from it.

    Attributes:
        weights: Of the kernel sections at ``centres``.
        random: Of outcomes and choices.
    """

    setting: Setting
    delta: float
    kernel: Kernel
    centres: Tensor
    weights: Tensor
    random: np.random.Generator

    @classmethod
    def draw(cls, protocol: Protocol, setting: Setting, number: int, *names: str):
        r"""The function of this number; outcomes and choices have the names besides.

        Every second function is one section only: it uses up the norm at a single point.
        """
        random = stream(protocol.seed, "function", setting.name, number)
        kernel = fixed_kernel(setting.kernel, setting.lengthscale)
        count = 1 if number % 2 else protocol.centres
        centres = torch.from_numpy(random.random((count, setting.dimension)))
        weights = torch.from_numpy(random.standard_normal(count))
        if setting.sign:
            weights = setting.sign * weights.abs()
        weights = weights * (setting.norm / rkhs_norm(kernel, centres, weights))
        own = stream(protocol.seed, "data", setting.name, number, *names)
        return cls(setting, protocol.delta, kernel, centres, weights, own)

    def latent(self, X: Tensor) -> Tensor:
        r"""Log odds or log rates at ``n x d`` points."""
        return self.setting.mean + self.kernel(X, self.centres).to_dense() @ self.weights

    def outcomes(self, X: Tensor) -> Tensor:
        r"""One outcome at each point."""
        latent = self.latent(X).numpy()
        if self.setting.likelihood == "poisson":
            drawn = self.random.poisson(np.exp(latent))
        else:
            probability = 1.0 / (1.0 + np.exp(-latent))
            drawn = self.random.binomial(self.setting.num_trials, probability)
        return torch.from_numpy(drawn.astype(float))

    def points(self, count: int) -> Tensor:
        r"""Uniform points."""
        return torch.from_numpy(self.random.random((count, self.setting.dimension)))

    def band(
        self,
        X: Tensor,
        Y: Tensor,
        factor: float = 1.0,
        copies: int = 1,
        form: LikelihoodForm = "ellipsoid",
    ) -> LikelihoodUCB:
        r"""The band of data that believes a multiple of the norm bound.

        With ``copies`` it believes that every outcome came so many times.
        """
        setting, options = self.setting, {}
        likelihood = setting.likelihood
        if likelihood == "poisson":
            options["exposure"] = float(copies)
        elif likelihood == "binomial" or copies > 1:
            likelihood = "binomial"
            options["num_trials"] = float(copies * setting.num_trials)
        data = LikelihoodRegression(
            X,
            copies * Y,
            self.kernel,
            likelihood=likelihood,
            mean_module=setting.mean,
            **options,
        )
        norm_bound = factor * setting.norm_bound
        return LikelihoodUCB(data, norm_bound=norm_bound, delta=self.delta, form=form)


def grid(count: int, dimension: int) -> Tensor:
    r"""About so many points of a regular grid on the unit cube."""
    line = torch.linspace(0.0, 1.0, round(count ** (1.0 / dimension)), dtype=torch.float64)
    return torch.cartesian_prod(*[line] * dimension).reshape(-1, dimension)


def link(latent: Tensor, setting: Setting) -> Tensor:
    r"""Probabilities of log odds, or rates of their logs."""
    return latent.exp() if setting.likelihood == "poisson" else latent.sigmoid()


def logit(probability: float) -> float:
    r"""Log odds."""
    return math.log(probability) - math.log1p(-probability)


def loss_limit(band: LikelihoodUCB) -> float:
    r"""Largest sum of losses, without terms of the outcomes alone, in a band's set."""
    return Ratio(band.delta).level(band.data)
