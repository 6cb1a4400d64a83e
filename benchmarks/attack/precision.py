r"""Against 50 digits: never narrower, and equal where nothing is ill-conditioned."""

import math
from typing import Any

import numpy as np
import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel

from benchmarks.attack.digits import KERNELS, Question, exact_bands
from benchmarks.attack.numerics import GRID_SHARE
from benchmarks.attack.verdicts import Verdict, WrongError, judge
from benchmarks.runner import stream
from kernelucb import (
    KernelBandit,
    KernelRegression,
    MartingaleMixture,
    MartingaleMixtureUCB,
)

_POINTS, _DELTA = 3, 0.05
_EPS = float(np.finfo(float).eps)
_SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


def play(seed: int) -> Verdict:
    r"""One small problem, with the stateless class or the bandit."""
    return judge(lambda: _attempt(seed), "bandit exact" if seed % 3 == 0 else "dual")


def _attempt(seed: int) -> None:
    random = stream(seed, "attack", "precision")
    question, regular = _question(random)
    X, Y = (torch.tensor(part, dtype=torch.float64) for part in (question.X, question.Y))
    fresh = torch.from_numpy(random.random((_POINTS - 2, X.shape[1])))
    points = torch.cat([X[:1], X[:1] * (1.0 + 1e-9), fresh])
    kernel = _kernel(question)
    if seed % 3 == 0:
        band = KernelBandit(
            kernel, norm_bound=question.norm_bound, noise_std=question.noise_std,
            delta=_DELTA, fit=MartingaleMixture(question.scale),
        )  # fmt: skip
        for x, y in zip(X, Y, strict=True):
            band.observe(x, float(y))
    else:
        state: Any = KernelRegression(X, Y, kernel, question.noise_std)
        band = MartingaleMixtureUCB(
            state, norm_bound=question.norm_bound, delta=_DELTA,
            fit=MartingaleMixture(question.scale),
        )  # fmt: skip
    lower, upper = band.bounds(points)
    exact = torch.tensor(exact_bands(question, points.tolist()), dtype=torch.float64)
    # Kernel values are rounded, so a variance is known to eps and its root to half of the
    # digits; the search stops where its value is flat to as many.
    room = math.sqrt(16.0 * len(Y) * _EPS) * question.norm_bound
    room += 64.0 * _EPS * float(Y.abs().max())
    inside = torch.maximum(lower - exact[:, 0], exact[:, 1] - upper)
    _bounded(inside, room, "narrower than the exact band")
    if regular:
        grid = GRID_SHARE * (exact[:, 1] - exact[:, 0]) if seed % 3 == 0 else 0.0
        _bounded(-inside - grid, room, "wider than the exact band")


def _bounded(values: torch.Tensor, room: float, text: str) -> None:
    excess = values - room
    worst = int(excess.argmax())
    if not bool((excess <= 0.0).all()):
        raise WrongError(f"{text} by {float(values[worst]):.3g} at point {worst}")


def _question(random: np.random.Generator) -> tuple[Question, bool]:
    r"""A problem with outcomes of a function in the ball, and whether it is benign."""
    n, dimension = int(random.integers(1, 6)), int(random.integers(1, 4))
    X = random.random((n, dimension))
    if random.random() < 0.3:
        X = X[random.integers(0, max(1, n // 2), n)]
    elif random.random() < 0.3:
        X *= 1.0 + 10.0 ** random.uniform(-13, -4) * random.standard_normal((n, dimension))
    name = str(random.choice(list(KERNELS)))
    length = float(10.0 ** random.uniform(-1, 0.5))
    noise = float(10.0 ** random.uniform(-9, 1))
    weights = random.standard_normal(n)
    gaps = np.sqrt(((X[:, None] - X[None]) ** 2).sum(-1)) / length
    gram = np.array([[float(KERNELS[name](gap)) for gap in row] for row in gaps])
    norm = math.sqrt(max(weights @ gram @ weights, 1e-12))
    # The outcomes are rounded; noise within the stated scale covers that.
    noise = max(noise, 64.0 * _EPS * float(np.abs(gram @ weights).max() + norm))
    question = Question(
        name, length, X.tolist(), (gram @ weights).tolist(), noise, 1.001 * norm, _DELTA,
        float(random.choice([0.1, 1.0, 10.0])),
    )  # fmt: skip
    return question, noise > 1e-2


def _kernel(question: Question) -> Kernel:
    if question.kernel == "rbf":
        kernel = RBFKernel().double()
    else:
        kernel = MaternKernel(nu=_SMOOTHNESS[question.kernel]).double()
    kernel.lengthscale = torch.tensor(question.length, dtype=torch.float64)
    return kernel.requires_grad_(False)
