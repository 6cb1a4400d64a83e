r"""The methods of the comparison behind one interface."""

from typing import Any
from typing import Protocol as Interface

import numpy as np
import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel

from benchmarks.papers.flynn_reeb_2024.configuration import Setting, Task
from kernelucb import Analytic, Filters, Grid, KernelBandit, MartingaleMixture


class Learner(Interface):
    r"""Chooses one arm of ``n x d``, then sees its outcome."""

    def select(self, arms: np.ndarray) -> int: ...

    def observe(self, arm: np.ndarray, outcome: float) -> None: ...


class BanditLearner:
    r"""A ``KernelBandit`` that takes NumPy arrays."""

    def __init__(self, bandit: KernelBandit) -> None:
        self.bandit = bandit

    def select(self, arms: np.ndarray) -> int:
        return int(self.bandit.select(torch.from_numpy(arms)))

    def observe(self, arm: np.ndarray, outcome: float) -> None:
        self.bandit.observe(torch.from_numpy(arm), float(outcome))


class RandomLearner:
    r"""Plays every arm with the same probability."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def select(self, arms: np.ndarray) -> int:
        return int(self.generator.integers(len(arms)))

    def observe(self, arm: np.ndarray, outcome: float) -> None:
        pass


def covar_module(setting: Setting) -> Kernel:
    r"""The setting's kernel in GPyTorch, double precision, fixed."""
    nu = setting.smoothness
    kernel = RBFKernel() if nu is None else MaternKernel(nu=nu)
    kernel = kernel.double().requires_grad_(False)
    kernel.lengthscale = setting.lengthscale
    return kernel


def make_learner(task: Task, generator: np.random.Generator) -> Learner:
    r"""The learner of a task, with what the setting lets it believe."""
    protocol, setting, method = task.protocol, task.setting, task.method
    if method.bound is None:
        return RandomLearner(generator)
    noise_std = setting.noise_factor * protocol.noise_std
    scale = setting.covariance_scale(protocol.rounds)
    given: Any = method.covariance_scale or (None if method.fit == "filters" else scale)
    fit = Filters if method.fit in (None, "filters") else MartingaleMixture
    options: dict[str, Any] = {
        "martingale_mixture": {
            "fit": fit(given),
            "form": Grid() if method.alphas == "paper" else method.form,
        },
        "abbasi_yadkori": {"form": Analytic(noise_std**2 / scale)},
        "igp_ucb": {"horizon": protocol.rounds},
    }[method.bound]
    bandit = KernelBandit(
        covar_module(setting),
        norm_bound=setting.norm_factor * protocol.norm,
        noise_std=noise_std,
        delta=protocol.delta,
        bound=method.bound,  # pyright: ignore[reportArgumentType]
        **options,
    )
    return BanditLearner(bandit)
