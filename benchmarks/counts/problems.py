r"""Functions of known norm, and successes and counts that are drawn from them."""

from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from benchmarks.runner import KnownFunction, fixed_kernel, stream
from kernelucb import LikelihoodRegression, LikelihoodUCB
from kernelucb.confidence.likelihood.tangents import LikelihoodForm

Interval = tuple[Tensor, Tensor]


class Problem:
    r"""The function of a number, and what is drawn from it.

    Every second function is one section only: it uses up the norm at a single point.

    Args:
        task: Settings of the run.
        number: Of the function.
        names: Of the stream of outcomes and choices, besides.
    """

    def __init__(self, task: SimpleNamespace, number: int, *names: str) -> None:
        self.task, self.kernel = task, fixed_kernel(task.kernel, task.lengthscale)
        random = stream(task.stream, "function", task.setting, number)
        centres = 1 if number % 2 else task.centres
        size = task.norm, task.dimension, centres, task.sign
        self.function = KnownFunction.draw(random, self.kernel, *size)
        self.random = stream(task.stream, "data", task.setting, number, *names)

    def latent(self, X: Tensor) -> Tensor:
        r"""Log odds or log rates at ``n x d`` points."""
        return self.task.mean + self.function(X)

    def link(self, latent: Tensor) -> Tensor:
        r"""Probabilities of log odds, or rates of their logs."""
        return latent.exp() if self.task.likelihood == "poisson" else latent.sigmoid()

    def outcomes(self, X: Tensor) -> Tensor:
        r"""One outcome at each point."""
        latent = self.latent(X).numpy()
        if self.task.likelihood == "poisson":
            drawn = self.random.poisson(np.exp(latent))
        else:
            probability = 1.0 / (1.0 + np.exp(-latent))
            drawn = self.random.binomial(self.task.num_trials, probability)
        return torch.from_numpy(drawn.astype(float))

    def points(self, count: int) -> Tensor:
        return torch.from_numpy(self.random.random((count, self.task.dimension)))

    def grid(self, count: int) -> Tensor:
        r"""About so many points of a regular grid on the unit cube."""
        d = self.task.dimension
        line = torch.linspace(0.0, 1.0, round(count ** (1.0 / d)), dtype=torch.float64)
        return torch.cartesian_prod(*[line] * d).reshape(-1, d)

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
        task, options = self.task, {}
        likelihood = task.likelihood
        if likelihood == "poisson":
            options["exposure"] = float(copies)
        elif likelihood == "binomial" or copies > 1:
            likelihood = "binomial"
            options["num_trials"] = float(copies * task.num_trials)
        options |= {"likelihood": likelihood, "mean_module": task.mean}
        data = LikelihoodRegression(X, copies * Y, self.kernel, **options)
        norm_bound = factor * task.norm_bound
        return LikelihoodUCB(data, norm_bound=norm_bound, delta=task.delta, form=form)
