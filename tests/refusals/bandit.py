r"""What bandits and the choice of points refuse, with the words that say what to change."""

import math
from functools import partial

import torch
from botorch.acquisition.analytic import PosteriorMean
from botorch.exceptions import BotorchTensorDimensionError as Shapes
from botorch.exceptions import InputDataError as Data
from botorch.exceptions import UnsupportedError as Unsupported
from gpytorch.kernels import RBFKernel

from kernelucb import BKBBandit, FamilyBandit, KernelBandit, KernelThompsonSampling
from kernelucb.optim.chunked import argmax
from problems import frozen_kernel, make_problem, uniform

KERNEL, ARMS = frozen_kernel("rbf"), uniform(80, 2, 0)
MODEL = make_problem(n=10, d=2, noise_std=0.2).model
GIVEN = {"norm_bound": 1.0, "noise_std": 0.1}
kernel_bandit = partial(KernelBandit, KERNEL, **GIVEN)
ridge = partial(kernel_bandit, bound="abbasi_yadkori", form=[0.1, 1.0])
budgeted = partial(BKBBandit, covar_module=KERNEL, **GIVEN)
family = FamilyBandit([KERNEL, RBFKernel(ard_num_dims=3)], **GIVEN)
sampler = KernelThompsonSampling(MODEL, norm_bound=3.0)


def played(rounds):
    bandit = kernel_bandit(bound="igp_ucb", horizon=2)
    for _ in range(rounds):
        bandit.observe(ARMS[0], 0.0)


class Undefined(PosteriorMean):
    def forward(self, X):
        return torch.where(X[:, 0, 0] > 0.5, torch.nan, -torch.inf)


def observing(*play):
    return lambda: budgeted(ARMS).observe(*play)


def undefined(candidates, size=2):
    return lambda: argmax(Undefined(MODEL), candidates, size)


ROWS = [
    ("bound", partial(kernel_bandit, bound="best"), ValueError, 'bound must be "mart'),
    ("end", partial(played, 3), ValueError, "horizon is 2"),
    ("several", ridge, ValueError, "one ridge parameter"),
    ("form", partial(kernel_bandit, form="best"), ValueError, "form must be"),
    ("columns", partial(family.bounds, ARMS), Unsupported, "does not take inputs of 2"),
    ("no kernels", partial(FamilyBandit, [], **GIVEN), ValueError, "kernels is empty"),
    ("vector", lambda: budgeted(ARMS[0]), Shapes, "candidates must be"),
    ("more arms", observing([1, 2], [1.0]), Shapes, "as many"),
    ("NaN", observing(1, math.nan), Data, "NaN"),
    ("above", observing(80, 1.0), Data, "0 to 79"),
    ("growth", lambda: budgeted(ARMS, batch_growth=1.0), ValueError, "batch_growth"),
    ("point", partial(sampler, ARMS[0]), Shapes, "X must be `n x 2`"),
    ("features", partial(sampler.paths, num_features=3), Unsupported, "even number"),
    ("undefined", undefined(ARMS), Data, "NaN"),
    ("no candidates", undefined(ARMS[:0]), Data, "no candidates"),
]
