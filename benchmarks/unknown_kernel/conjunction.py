r"""Functions of known norm under two kernels: the band of both against that of each."""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import torch
from botorch.utils.sampling import draw_sobol_samples
from scipy.stats import binom
from torch import Tensor

from benchmarks import runner
from benchmarks.runner import RunStore, fixed_kernel, markdown_table, rkhs_norm, stream
from kernelucb import (
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    regret_certificate,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_JITTER = 1e-10


@dataclass(frozen=True)
class Pair:
    r"""Two kernels; functions are expansions in the first.

    Attributes:
        dimension: Number of inputs.
        smooth: Length scale of the RBF kernel over ``sqrt(dimension / 2)``.
        rough: Length scale of the Matern 5/2 kernel over the same.
    """

    dimension: int
    smooth: float
    rough: float


@dataclass(frozen=True)
class Conjunction:
    r"""What is played.

    Attributes:
        pairs: Kernels.
        candidates: Sobol points, which are the domain.
        norm: Of the functions under the smooth kernel.
        norm_factor: Norm bound over norm, for both kernels.
        noise_std: Noise scale.
        delta: Failure probability.
        observations: At which certificates are compared.
        seeds: Functions of each pair.
        sequences: For the coverage, with the first pair.
        arms: Of a sequence.
        rounds: Of a sequence.
        size: Sequences in a block.
        false_alarm: Of the limit on violations, at rate delta.
        seed: Of all random streams.
    """

    pairs: tuple[Pair, ...]
    candidates: int
    norm: float
    norm_factor: float
    noise_std: float
    delta: float
    observations: tuple[int, ...]
    seeds: int
    sequences: int
    arms: int
    rounds: int
    size: int
    false_alarm: float
    seed: int

    def tasks(self, seeds: int | None) -> list["Task"]:
        r"""All certificates."""
        few = range(seeds or self.seeds)
        return [Task(self, pair, seed) for seed in few for pair in self.pairs]

    def blocks(self, sequences: int | None) -> list["Block"]:
        r"""All sequences, in blocks."""
        count = math.ceil((sequences or self.sequences) / self.size)
        return [Block(self, number) for number in range(count)]


@dataclass(frozen=True)
class Task(runner.Task):
    r"""The certificates of one function."""

    part: Conjunction
    pair: Pair
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each pair."""
        name = f"d{self.pair.dimension}-{self.pair.smooth:g}-{self.pair.rough:g}"
        return PurePath(name, f"seed-{self.seed:03d}.json")


@dataclass(frozen=True)
class Block(runner.Task):
    r"""A block of sequences."""

    part: Conjunction
    number: int

    @property
    def location(self) -> PurePath:
        r"""One folder for all."""
        return PurePath("coverage", f"block-{self.number:03d}.json")


@dataclass(frozen=True)
class Run:
    r"""Certified gaps at each number of observations, or of sequences those that failed.

    Attributes:
        smooth: Under the smooth kernel alone.
        rough: Under the rough one alone.
        both: Of the intersection.
        missed: For each sequence, whether the intersection's band missed in any round.
    """

    smooth: list[float]
    rough: list[float]
    both: list[float]
    missed: list[bool]


@dataclass(frozen=True)
class _Problem:
    r"""A function on its domain, and its norm bound under each kernel."""

    part: Conjunction
    X: Tensor
    values: Tensor
    kernels: list
    norm_bounds: list[float]

    @classmethod
    def draw(cls, part: Conjunction, pair: Pair, points: int, seed: int) -> "_Problem":
        unit = math.sqrt(0.5 * pair.dimension)
        kernels = [
            fixed_kernel("rbf", pair.smooth * unit),
            fixed_kernel("matern52", pair.rough * unit),
        ]
        box = torch.stack([torch.zeros(pair.dimension), torch.ones(pair.dimension)])
        X = draw_sobol_samples(box.double(), n=points, q=1, seed=seed).squeeze(-2)
        drawn = stream(part.seed, "function", pair.dimension, seed)
        centres = torch.from_numpy(drawn.random((20, pair.dimension)))
        weights = torch.from_numpy(drawn.standard_normal(20))
        weights = weights * part.norm / rkhs_norm(kernels[0], centres, weights)
        values = kernels[0](X, centres).to_dense() @ weights
        # The norm of the smoothest function with these values on the domain.
        gram = kernels[1](X).to_dense() + _JITTER * torch.eye(points)
        rough = float((values @ torch.linalg.solve(gram, values)).sqrt())
        bounds = [part.norm_factor * norm for norm in (part.norm, rough)]
        return cls(part, X, values, kernels, bounds)

    def band(self, indices: list[int], noise: np.ndarray, which: slice) -> KernelFamilyUCB:
        r"""The band of some of the kernels from outcomes at some points."""
        outcomes = self.values[indices] + torch.from_numpy(noise[: len(indices)])
        state = KernelRegression(
            self.X[indices], outcomes, self.kernels[0], self.part.noise_std
        )
        return KernelFamilyUCB(
            state,
            KernelFamily(self.kernels[which], combine="all"),
            norm_bound=self.norm_bounds[which],
            delta=self.part.delta,
        )


def play(task: Task | Block) -> Run:
    r"""The certificates of a function, or a block of sequences."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        if isinstance(task, Block):
            first = task.number * task.part.size
            sequences = range(first, first + task.part.size)
            return Run([], [], [], [_misses(task.part, number) for number in sequences])
        return _certificates(task)


def _certificates(task: Task) -> Run:
    part, most = task.part, max(task.part.observations)
    problem = _Problem.draw(part, task.pair, part.candidates, task.seed)
    drawn = stream(part.seed, "outcomes", task.pair.dimension, task.seed)
    indices = drawn.integers(part.candidates, size=most).tolist()
    noise = part.noise_std * drawn.standard_normal(most)
    gaps = [
        [
            regret_certificate(problem.band(indices[:count], noise, which), problem.X).gap
            for count in part.observations
        ]
        for which in (slice(0, 1), slice(1, 2), slice(0, 2))
    ]
    return Run(*gaps, missed=[])


def _misses(part: Conjunction, number: int) -> bool:
    r"""Whether the band of both misses the function in any round of a sequence."""
    problem = _Problem.draw(part, part.pairs[0], part.arms, number)
    drawn = stream(part.seed, "sequence", number)
    noise = part.noise_std * drawn.standard_normal(part.rounds)
    indices = [int(drawn.integers(part.arms))]
    for _ in range(part.rounds):
        band = problem.band(indices, noise, slice(0, 2))
        lower, upper = band.bounds(problem.X)
        outside = (problem.values < lower - 1e-9) | (problem.values > upper + 1e-9)
        if bool(outside.any()) or band.assumptions.violated:
            return True
        indices.append(int(upper.argmax()))
    return False


def rows(store: RunStore[Run], tasks: list[Task]) -> Iterator[dict]:
    r"""One row for each function and number of observations."""
    for task in tasks:
        run = store.load(task)
        gaps = zip(task.part.observations, run.smooth, run.rough, run.both, strict=True)
        for count, smooth, rough, both in gaps:
            yield {
                "dimension": task.pair.dimension,
                "smooth": task.pair.smooth,
                "rough": task.pair.rough,
                "seed": task.seed,
                "n": count,
                "gap_smooth": f"{smooth:.6g}",
                "gap_rough": f"{rough:.6g}",
                "gap_both": f"{both:.6g}",
            }


def table(part: Conjunction, found: list[dict], missed: list[bool]) -> list[str]:
    r"""Mean gaps, and the intersection's over the least of the two, by pair."""
    header = ["d", "RBF, length", "Matérn 5/2, length", "n", "RBF alone", "Matérn alone"]
    header += ["both", "largest ratio to the least"]
    lines = []
    for pair in part.pairs:
        for count in part.observations:
            names = (pair.dimension, pair.smooth, pair.rough, count)
            own = [
                [float(row[f"gap_{name}"]) for name in ("smooth", "rough", "both")]
                for row in found
                if (row["dimension"], row["smooth"], row["rough"], row["n"]) == names
            ]
            means = [f"{value:.3g}" for value in np.mean(own, axis=0)]
            ratios = [_ratio(both, min(others)) for *others, both in own]
            lengths = [f"{s * math.sqrt(pair.dimension / 2):.3g}" for s in names[1:3]]
            lines.append(
                [str(names[0]), *lengths, str(count), *means, f"{max(ratios):.3f}"]
            )
    allowed = int(binom.ppf(1.0 - part.false_alarm, len(missed), part.delta))
    return [
        *markdown_table(header, lines),
        "",
        f"Certified gaps, means of {len(found) // len(lines)} functions. In {len(missed)} "
        f"sequences of {part.rounds} rounds on {part.arms} points (first pair) the band of "
        f"both missed the function in any round in {sum(missed)}; at rate delta = "
        f"{part.delta:g} more than {allowed} come with probability {part.false_alarm:g} at "
        "most.",
    ]


def _ratio(value: float, least: float) -> float:
    r"""One where both are nothing."""
    return value / least if least > 0.0 else 1.0 if value == least else math.inf
