r"""One run: a method plays one repetition of a problem."""

from typing import Any

import numpy as np
import torch

from benchmarks.runner import KnownFunction, fixed_kernel, stream
from kernelucb import KernelBandit

Settings = dict[str, Any]

_GRID = 0.1, 0.3, 1.0, 3.0, 10.0  # of the paper, over noise_std^2 / c
_SMOOTHNESS = {"matern32": 1.5, "matern52": 2.5}


def covariance_scale(task: Settings, horizon: int) -> float:
    r"""The paper's ``c``: 1 (RBF) or ``horizon^(-d / (2 d + 2 nu))`` (Matern)."""
    if task["kernel"] == "rbf":
        return 1.0
    d, nu = task["dimension"], _SMOOTHNESS[task["kernel"]]
    return horizon ** -(d / (2 * d + 2 * nu))


def make_bandit(task: Settings) -> KernelBandit:
    r"""The learner of a task, with what the setting lets it believe."""
    noise_std = task["noise_factor"] * task["noise_std"]
    scale = covariance_scale(task, task["horizon"])
    given = {"default": 1.0, "paper": scale}.get(task["scale"], task["scale"])
    alpha = noise_std**2 / scale
    grid = [share * alpha for share in _GRID]
    options: dict[str, Any] = {
        "martingale_mixture": {
            "fit": task["fit"],
            "form": grid if task["form"] == "grid" else task["form"] or "dual",
            "covariance_scale": given,
        },
        "abbasi_yadkori": {"form": alpha},
        "igp_ucb": {"horizon": task["horizon"]},
    }[task["bound"]]
    return KernelBandit(
        fixed_kernel(task["kernel"], task["lengthscale"]),
        norm_bound=task["norm_factor"] * task["norm"],
        noise_std=noise_std,
        delta=task["delta"],
        bound=task["bound"],
        **options,
    )


def play(task: Settings) -> dict[str, Any]:
    r"""Arm of each round, and the best mean reward minus the arm's.

    All methods of a repetition meet the same function and arms; the first arm is random
    and the noise fresh for each.
    """
    seed, names = task["seed"], (task["problem"], task["repetition"])
    kernel = fixed_kernel(task["kernel"], task["lengthscale"])
    shape = task["dimension"], task["centres"]
    reward = KnownFunction.draw(
        stream(seed, "reward", *names), kernel, task["norm"], *shape
    )
    own = stream(seed, "own", task["problem"], task["method"], task["repetition"])
    offered = stream(seed, "arms", *names)
    bandit = None if task["bound"] == "none" else make_bandit(task)
    played, regret = [], []
    for number in range(task["rounds"]):
        arms = torch.from_numpy(offered.random((task["arms"], task["dimension"])))
        means = reward(arms).numpy()
        if number == 0 or bandit is None:
            index = int(own.integers(len(arms)))
        else:
            index = int(bandit.select(arms))
        outcome = float(means[index] + task["noise_std"] * own.standard_normal())
        if bandit is not None:
            bandit.observe(arms[index], outcome)
        played.append(index)
        regret.append(float(means.max() - means[index]))
    if not np.all(np.isfinite(regret)):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    return {"played": played, "regret": regret}
