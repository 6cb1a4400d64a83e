"""Seconds a round of the exact kernel bandit as the observations add up.

A round scores 100 fresh arms and takes one outcome. Rounds are counted from one
eigenbasis to the next, so that its share is in the mean; processor seconds, one thread.

    python -m benchmarks.speed.bandit [--sizes 250 500 1000 1500 2000] [--output bandit.csv]

Settings: ``ordinary`` has the function's own norm as bound; ``next to least`` a norm bound
two per cent above the least consistent norm; ``contradicted`` one that the data contradict,
so that the set is relaxed in each round; ``estimated`` none.
"""

import time
import warnings
from pathlib import Path
from typing import Any

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.runner import (
    Benchmark,
    Call,
    fixed_kernel,
    names,
    number,
    option,
    rkhs_norm,
    write_table,
)
from kernelucb import KernelBandit, least_consistent_norm
from kernelucb.exceptions import InconsistentConfidenceSetWarning

SETTINGS = ("ordinary", "next to least", "contradicted", "estimated")
_ARMS, _DIMENSION, _NORM, _NOISE_STD, _DELTA = 100, 3, 5.0, 0.1, 0.05


class Function:
    """A kernel expansion of known norm, and noisy outcomes of it."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.generator = kernel, torch.Generator().manual_seed(0)
        self.centres, weights = self.points(12), self.normal(12)
        self.weights = weights * _NORM / rkhs_norm(kernel, self.centres, weights)

    def points(self, count: int) -> Tensor:
        return torch.rand(count, _DIMENSION, dtype=torch.float64, generator=self.generator)

    def normal(self, count: int) -> Tensor:
        return torch.randn(count, dtype=torch.float64, generator=self.generator)

    def outcomes(self, X: Tensor) -> Tensor:
        noise = _NOISE_STD * self.normal(len(X))
        return self.kernel(X, self.centres).to_dense() @ self.weights + noise


def norm_bound(setting: str, bandit: KernelBandit) -> float | None:
    if setting == "next to least":
        data: Any = bandit.observations.regression()
        return 1.02 * least_consistent_norm(data, delta=_DELTA)
    return {"ordinary": _NORM, "contradicted": 0.2 * _NORM}.get(setting)


@torch.no_grad()
def seconds_a_round(setting: str, n: int, rounds: int) -> float:
    kernel = fixed_kernel("matern52", 0.3)
    function = Function(kernel)
    X = function.points(n)
    Y = function.outcomes(X)

    def filled(bound: float | None) -> KernelBandit:
        bandit = KernelBandit(kernel, norm_bound=bound, noise_std=_NOISE_STD, delta=_DELTA)
        for x, y in zip(X, Y, strict=True):
            bandit.observe(x, y)
        return bandit

    bandit = filled(_NORM)
    if setting != "ordinary":
        bandit = filled(norm_bound(setting, bandit))
    bandit.select(function.points(_ARMS))
    start = time.process_time()
    for _ in range(rounds):
        arms = function.points(_ARMS)
        x = arms[bandit.select(arms)].unsqueeze(0)
        bandit.observe(x, float(function.outcomes(x)))
    return (time.process_time() - start) / rounds


BENCHMARK = Benchmark("benchmarks.speed.bandit", __doc__.splitlines()[0])


@BENCHMARK.command(
    "",
    options=[
        names("--settings", "which", default=SETTINGS, choices=SETTINGS),
        names("--sizes", "which", type=int, default=[250, 500, 1000, 1500, 2000]),
        number("--rounds", "instead of a sixteenth of the size"),
        option("--output", type=Path, help="a CSV file"),
    ],
)
def run(call: Call) -> None:
    options, rows = call.options, []
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
    for setting in options.settings:
        for n in options.sizes:
            rounds = options.rounds or n // 16
            seconds = f"{seconds_a_round(setting, n, rounds):.4f}"
            rows.append({"setting": setting, "n": n, "rounds": rounds, "seconds": seconds})
            print(f"{setting:14s} n={n:<5d} {rounds:>4d} rounds {seconds:>8s} s a round")
    if options.output is not None:
        write_table(options.output, rows)


if __name__ == "__main__":
    BENCHMARK.main()
