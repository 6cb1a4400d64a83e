r"""What bandits and the choice of points refuse, with the words that say what to change."""

import math
from functools import partial

import torch
from botorch.acquisition.analytic import PosteriorMean
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from gpytorch.kernels import RBFKernel

from kernelucb import BKBBandit, FamilyBandit, KernelBandit, KernelThompsonSampling
from kernelucb.optim.chunked import argmax
from problems import frozen_kernel, make_problem, uniform

SHAPES = BotorchTensorDimensionError
KERNEL, ARMS = frozen_kernel("rbf"), uniform(80, 2, 0)
MODEL = make_problem(n=10, d=2, noise_std=0.2).model
GIVEN = {"norm_bound": 1.0, "noise_std": 0.1}
kernel_bandit = partial(KernelBandit, KERNEL, **GIVEN)
budgeted = partial(BKBBandit, covar_module=KERNEL, **GIVEN)
sampler = partial(KernelThompsonSampling, MODEL, norm_bound=3.0)
THREE_COLUMNS = [KERNEL, RBFKernel(ard_num_dims=3)]


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
    (
        "horizon",
        partial(kernel_bandit, bound="igp_ucb", horizon=0),
        ValueError,
        "horizon must be",
    ),
    ("end", partial(played, 3), ValueError, "horizon is 2"),
    (
        "several",
        partial(kernel_bandit, bound="abbasi_yadkori", form=[0.1, 1.0]),
        ValueError,
        "one ridge parameter",
    ),
    ("form", partial(kernel_bandit, form="best"), ValueError, "form must be"),
    ("ridge", partial(kernel_bandit, form=[1.0, 0.0]), ValueError, "form must be"),
    ("fit", partial(kernel_bandit, fit="best"), ValueError, "fit must be"),
    (
        "columns",
        lambda: FamilyBandit(THREE_COLUMNS, **GIVEN).bounds(ARMS),
        UnsupportedError,
        "does not take inputs of 2",
    ),
    ("vector", lambda: budgeted(ARMS[0]), SHAPES, "candidates must be"),
    ("no arms", lambda: budgeted(ARMS[:0]), InputDataError, "no candid"),
    ("infinite", lambda: budgeted(ARMS / 0.0), InputDataError, "candidates"),
    ("more arms", observing([1, 2], [1.0]), SHAPES, "as many"),
    ("no play", observing([], []), SHAPES, "as many"),
    ("NaN", observing(1, math.nan), InputDataError, "NaN"),
    ("huge", observing(1, 1e200), InputDataError, "outcomes"),
    ("below", observing(-1, 1.0), InputDataError, "0 to 79"),
    ("above", observing(80, 1.0), InputDataError, "0 to 79"),
    ("between", observing(0.5, 1.0), InputDataError, "0 to 79"),
    ("no batch", lambda: budgeted(ARMS).batch_select(0), ValueError, "max_size"),
    ("growth", lambda: budgeted(ARMS, batch_growth=1.0), ValueError, "batch_growth"),
    ("point", lambda: sampler()(ARMS[0]), SHAPES, "X must be `n x 2`"),
    ("points", lambda: sampler()(ARMS * math.nan), InputDataError, "X contains NaN"),
    ("samples", lambda: sampler()(ARMS, 0), ValueError, "num_samples must be a whole"),
    (
        "features",
        lambda: sampler().paths(num_features=3),
        UnsupportedError,
        "even number",
    ),
    ("noise", partial(sampler, noise_std=0.0), ValueError, "noise_std must be a finite"),
    ("undefined", undefined(ARMS), InputDataError, "NaN"),
    ("no candidates", undefined(ARMS[:0]), InputDataError, "no candidates"),
    ("chunk", undefined(ARMS, 0), ValueError, "chunk_size"),
]
