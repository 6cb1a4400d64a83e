"""Seconds a round of the exact kernel bandit as the observations add up.

A round scores 100 fresh arms and takes one outcome. Rounds are counted from one
eigenbasis to the next, so that its share is in the mean; processor seconds, one thread.

    python -m benchmarks.speed.bandit [--sizes 250 500 1000 1500 2000] [--output bandit.csv]
    python -m benchmarks.speed.bandit --whole [--sizes 1000]

``--whole`` plays whole runs instead, both fits in turn round by round, and prints the ratio
of their times.

Settings: ``ordinary`` has the function's own norm as bound; ``next to least`` a norm bound
two per cent above the least consistent norm; ``contradicted`` one that the data contradict,
so that the set is relaxed in each round; ``estimated`` none.
"""

import time
import warnings
from itertools import product
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

FITS = ("martingale", "filters")
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


def norm_bound(setting: str, bandit: KernelBandit, fit: Any) -> float | None:
    if setting == "next to least":
        data: Any = bandit.observations.regression()
        return 1.02 * least_consistent_norm(data, delta=_DELTA, fit=fit)
    return {"ordinary": _NORM, "contradicted": 0.2 * _NORM}.get(setting)


@torch.no_grad()
def seconds_a_round(setting: str, n: int, rounds: int, fit: Any) -> float:
    kernel = fixed_kernel("matern52", 0.3)
    function = Function(kernel)
    X = function.points(n)
    Y = function.outcomes(X)

    def filled(bound: float | None) -> KernelBandit:
        bandit = KernelBandit(
            kernel, norm_bound=bound, noise_std=_NOISE_STD, delta=_DELTA, fit=fit
        )
        for x, y in zip(X, Y, strict=True):
            bandit.observe(x, y)
        return bandit

    bandit = filled(_NORM)
    if setting != "ordinary":
        bandit = filled(norm_bound(setting, bandit, fit))
    bandit.select(function.points(_ARMS))
    start = time.process_time()
    for _ in range(rounds):
        arms = function.points(_ARMS)
        x = arms[bandit.select(arms)].unsqueeze(0)
        bandit.observe(x, float(function.outcomes(x)))
    return (time.process_time() - start) / rounds


@torch.no_grad()
def seconds_a_run(name: str, rounds: int) -> dict[str, float]:
    """Processor seconds of ``rounds`` rounds from the first on, for each fit."""
    kernel = fixed_kernel(name, 0.5)
    seconds = dict.fromkeys(FITS, 0.0)
    games: dict[Any, tuple[KernelBandit, Function]] = {}
    for fit in FITS:
        options: Any = {"norm_bound": _NORM, "noise_std": _NOISE_STD, "fit": fit}
        games[fit] = KernelBandit(kernel, delta=_DELTA, **options), Function(kernel)
    for _ in range(rounds):
        for fit, (bandit, function) in games.items():
            arms = function.points(_ARMS)
            outcomes = function.outcomes(arms)
            start = time.process_time()
            index = bandit.select(arms)
            bandit.observe(arms[index], outcomes[index])
            seconds[fit] += time.process_time() - start
    return seconds


BENCHMARK = Benchmark("benchmarks.speed.bandit", __doc__.splitlines()[0])


@BENCHMARK.command(
    "",
    options=[
        names("--settings", "which", default=SETTINGS, choices=SETTINGS),
        names("--sizes", "which", type=int, default=[250, 500, 1000, 1500, 2000]),
        names("--fits", "which", default=FITS, choices=FITS),
        number("--rounds", "instead of a sixteenth of the size"),
        option("--whole", action="store_true", help="whole runs, both fits in turn"),
        option("--output", type=Path, help="a CSV file"),
    ],
)
def run(call: Call) -> None:
    options, rows = call.options, []
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
    if options.whole:
        for name, n in product(("rbf", "matern52"), options.sizes):
            spent = seconds_a_run(name, n)
            ratio = spent["filters"] / spent["martingale"]
            rows.append({"kernel": name, "rounds": n, **spent, "ratio": f"{ratio:.3f}"})
            print(
                name, n, "rounds", *(f"{spent[fit]:.2f} s" for fit in FITS), f"{ratio:.3f}"
            )
    else:
        for case in product(options.settings, options.fits, options.sizes):
            rows.append(_row(*case, options.rounds))
    if options.output is not None:
        write_table(options.output, rows)


def _row(setting: str, fit: str, n: int, rounds: int | None) -> dict[str, Any]:
    rounds = rounds or n // 16
    seconds = f"{seconds_a_round(setting, n, rounds, fit):.4f}"
    print(f"{setting:14s} {fit:10s} n={n:<5d} {rounds:>4d} rounds {seconds:>8s} s a round")
    return {"setting": setting, "fit": fit, "n": n, "rounds": rounds, "seconds": seconds}


if __name__ == "__main__":
    BENCHMARK.main()
