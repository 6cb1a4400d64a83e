r"""Certified gaps on Branin under kernels of very different norms.

Branin on the unit cube with mean 0 and standard deviation 1 over the candidates. Under a
smooth kernel its norm is so large that round-off hides part of what a function of that norm
says of the outcomes (``docs/mathematics.md``, "Round-off").
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

import torch
from botorch import test_functions
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from benchmarks import runner
from benchmarks.runner import RunStore, fixed_kernel, markdown_table, stream
from kernelucb import (
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    regret_certificate,
)


@dataclass(frozen=True)
class Ball:
    r"""A kernel, its length scale, and a norm bound in standard deviations of Branin."""

    kernel: str
    lengthscale: float
    norm_bound: float

    @property
    def name(self) -> str:
        r"""In words."""
        return f"{self.kernel} {self.lengthscale:g}"


@dataclass(frozen=True)
class Branin:
    r"""What is played; all balls are tried alone, and then all at once."""

    balls: tuple[Ball, ...]
    candidates: int
    noise_std: float  # units of Branin
    delta: float
    observations: tuple[int, ...]
    seeds: int
    seed: int

    def tasks(self, seeds: int | None) -> list["Task"]:
        r"""Every set of balls and every seed."""
        sets = [(ball,) for ball in self.balls] + [self.balls]
        return [
            Task(self, balls, number)
            for balls in sets
            for number in range(seeds or self.seeds)
        ]


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One search by the upper bound of a band."""

    part: Branin
    balls: tuple[Ball, ...]
    number: int

    @property
    def name(self) -> str:
        r"""In words."""
        return " and ".join(ball.name for ball in self.balls)

    @property
    def location(self) -> PurePath:
        r"""One folder for each set of balls."""
        return PurePath(self.name.replace(" ", "-"), f"seed-{self.number:02d}.json")


@dataclass(frozen=True)
class Run:
    r"""At each number of observations, in units of Branin; whether the band missed it."""

    gaps: list[float]
    widths: list[float]
    regrets: list[float]
    missed: bool


def play(task: Task) -> Run:
    r"""Play the largest upper bound, and certify the recommended point now and then."""
    part = task.part
    X, values, unit = _branin(part.candidates)
    drawn = stream(part.seed, "branin", task.number)
    noise = (
        part.noise_std
        / unit
        * torch.from_numpy(drawn.standard_normal(max(part.observations)))
    )
    indices = [int(drawn.integers(part.candidates))]
    kernels = [fixed_kernel(ball.kernel, ball.lengthscale) for ball in task.balls]
    norms = [ball.norm_bound for ball in task.balls]
    gaps, widths, regrets, missed = [], [], [], False
    while True:
        outcomes = values[indices] + noise[: len(indices)]
        state = KernelRegression(X[indices], outcomes, kernels[0], part.noise_std / unit)
        band = (
            MartingaleMixtureUCB(state, norm_bound=norms[0], delta=part.delta)
            if len(kernels) == 1
            else KernelFamilyUCB(
                state,
                KernelFamily(kernels, combine="all"),
                norm_bound=norms,
                delta=part.delta,
            )
        )
        lower, upper = band.bounds(X)
        missed = missed or bool(((values < lower - 1e-9) | (values > upper + 1e-9)).any())
        if len(indices) in part.observations:
            certificate = regret_certificate(band, X)
            at = (certificate.recommended == X).all(-1)
            gaps.append(unit * certificate.gap)
            widths.append(unit * float((upper - lower).mean()))
            regrets.append(unit * float(values.max() - values[at].max()))
        if len(indices) == max(part.observations):
            return Run(gaps, widths, regrets, missed)
        indices.append(int(upper.argmax()))


def _branin(count: int) -> tuple[Tensor, Tensor, float]:
    r"""Candidates, negative standardised values there, and one standard deviation."""
    box = torch.stack([torch.zeros(2), torch.ones(2)]).double()
    X = draw_sobol_samples(box, n=count, q=1, seed=1).squeeze(1)
    function = test_functions.Branin(negate=True)
    lower, upper = function.bounds.double()
    values = function(lower + (upper - lower) * X)
    unit = float(values.std())
    return X, (values - values.mean()) / unit, unit


def rows(store: RunStore[Run], tasks: list[Task]) -> Iterator[dict]:
    r"""One row for each search and number of observations."""
    for task in tasks:
        run = store.load(task)
        found = zip(task.part.observations, run.gaps, run.widths, run.regrets, strict=True)
        for count, gap, width, regret in found:
            yield {
                "balls": task.name,
                "seed": task.number,
                "n": count,
                "gap": f"{gap:.6g}",
                "width": f"{width:.6g}",
                "regret": f"{regret:.6g}",
                "missed": run.missed,
            }


def table(part: Branin, found: list[dict]) -> list[str]:
    r"""Mean gap, in brackets the largest true regret, by kernel."""
    header = ["kernel, length scale", *(f"n = {n}" for n in part.observations), "missed"]
    lines = []
    for name in dict.fromkeys(row["balls"] for row in found):
        own = [row for row in found if row["balls"] == name]
        cells = []
        for count in part.observations:
            at = [row for row in own if row["n"] == count]
            gap = sum(float(row["gap"]) for row in at) / len(at)
            regret = max(float(row["regret"]) for row in at)
            cells.append(f"{gap:.3g} ({regret:.2g})")
        missed = sum(row["missed"] for row in own) // len(part.observations)
        lines.append([name, *cells, f"{missed} of {len(own) // len(part.observations)}"])
    return markdown_table(header, lines)
