r"""The whole of ``config.toml``, and its parts besides regret on finitely many arms."""

import math
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import ClassVar

from benchmarks import runner
from benchmarks.unknown_kernel.conjunction import Conjunction
from benchmarks.unknown_kernel.settings import (
    Experiment,
    Family,
    Method,
    Protocol,
    Setting,
)


@dataclass(frozen=True)
class CoverageTask(runner.Task):
    r"""A block of sequences under one rule.

    Attributes:
        protocol: Few arms and rounds; its ``seed`` and ``block`` name the sequences.
        kernel: Of functions and families.
        dimension: Number of inputs.
        lengthscales: Of the functions, in turn.
        family: What the learner believes.
        select: Its rule.
        block: Number of the block.
        size: Sequences in a block.
    """

    protocol: Protocol
    kernel: str
    dimension: int
    lengthscales: tuple[float, ...]
    family: Family
    select: str
    block: int
    size: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each family and rule."""
        family = f"{self.family.shortest:g}-{self.family.longest:g}"
        return PurePath(family, self.select, f"block-{self.block:03d}.json")

    def setting(self, sequence: int) -> Setting:
        r"""Of one sequence of the block; blocks do not share functions."""
        lengthscale = self.lengthscales[sequence % len(self.lengthscales)]
        return Setting(self.kernel, self.dimension, lengthscale, "", self.family)


@dataclass(frozen=True)
class Coverage:
    r"""How often the union's band misses, for each rule, and for a family that is wrong.

    Attributes:
        selects: Rules.
        sequences: For each rule.
        wrong_family: Has only members that are too long for ``wrong_lengthscale``.
        wrong_sequences: Of the shortest rule, under the wrong family.
        false_alarm: Probability that the limit on violations is passed at rate delta.
    """

    protocol: Protocol
    kernel: str
    dimension: int
    lengthscales: tuple[float, ...]
    family: Family
    selects: tuple[str, ...]
    sequences: int
    wrong_family: Family
    wrong_lengthscale: float
    wrong_sequences: int
    size: int
    false_alarm: float

    def tasks(self, select: str, sequences: int) -> list[CoverageTask]:
        r"""The blocks of a rule."""
        return [
            CoverageTask(
                self.protocol,
                self.kernel,
                self.dimension,
                self.lengthscales,
                self.family,
                select,
                block,
                self.size,
            )
            for block in range(math.ceil(sequences / self.size))
        ]

    def wrong_tasks(self, sequences: int) -> list[CoverageTask]:
        r"""The blocks of the wrong family, under the first rule."""
        lengthscales = (self.wrong_lengthscale,)
        return [
            replace(task, family=self.wrong_family, lengthscales=lengthscales)
            for task in self.tasks(self.selects[0], sequences)
        ]


@dataclass(frozen=True)
class Published:
    r"""The one-dimensional function of Berkenkamp et al., as Ziomek et al. play it.

    Attributes:
        points: Of a grid on the unit interval.
        starts: Random points.
        rounds: Points that a learner chooses.
        seeds: How many.
        noise_std: That the models count with; outcomes have none.
        norm_bound: That the rivals believe, of standardised outcomes.
        candidates: Of LB-GP-UCB in the first round.
        exponent: Of the growth function of both.
        failure: Probability of failure that the rivals believe.
        seed: Of the random starts.
    """

    points: int
    starts: int
    rounds: int
    seeds: int
    noise_std: float
    norm_bound: float
    candidates: int
    exponent: float
    failure: float
    seed: int


@dataclass(frozen=True)
class Boxes:
    r"""The same functions on the whole unit cube.

    Attributes:
        protocol: ``rounds`` is that of ``boxes``.
        settings: Names of settings.
        methods: Learners of ``boxes.py``.
        seeds: How many.
        rounds: Points that a learner chooses.
        restarts: Of ``optimize_acqf``.
        raw_samples: Quasi-random points that the restarts are chosen from.
        iterations: Most steps of each restart.
    """

    protocol: Protocol
    settings: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: int
    rounds: int
    restarts: int
    raw_samples: int
    iterations: int

    def tasks(self, settings: dict[str, Setting], seeds: int | None) -> list["BoxTask"]:
        r"""All runs; a seed is finished before the next begins."""
        return [
            BoxTask(self, settings[name], method, seed)
            for seed in range(seeds or self.seeds)
            for name in self.settings
            for method in self.methods
        ]


@dataclass(frozen=True)
class BoxTask(runner.Task):
    r"""One run in a box."""

    cosmetic: ClassVar = frozenset({"seeds", "settings", "methods", "place", "tolerance"})

    part: Boxes
    setting: Setting
    method: str
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each method in each setting."""
        file = f"{self.part.rounds}-rounds-seed-{self.seed:03d}.json"
        return PurePath(self.setting.name, self.method, file)


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    protocol: Protocol
    methods: dict[str, Method]
    families: dict[str, Family]
    settings: dict[str, Setting]
    experiments: dict[str, Experiment]
    coverage: Coverage
    published: Published
    boxes: Boxes
    conjunction: Conjunction
