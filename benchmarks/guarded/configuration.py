r"""What ``config.toml`` says: functions, rules, and the runs of a table."""

import math
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import ClassVar

from benchmarks import runner


@dataclass(frozen=True)
class Protocol:
    r"""What all runs of a table have in common.

    Attributes:
        norm: Of the functions; all rules are told.
        noise_std: Of the Gaussian noise; all rules are told.
        delta: Failure probability of every band.
        centres: Number of kernel sections in a random function.
        starts: Random points that every rule plays first.
        rounds: Points that a rule chooses after them.
        samples: Quasi-random samples of Monte Carlo acquisition functions.
        restarts: Of ``optimize_acqf``.
        raw_samples: Quasi-random points that the restarts are chosen from.
        iterations: Most steps of each restart.
        seed: Of all random streams.
    """

    norm: float
    noise_std: float
    delta: float
    centres: int
    starts: int
    rounds: int
    samples: int
    restarts: int
    raw_samples: int
    iterations: int
    seed: int


@dataclass(frozen=True)
class Setting:
    r"""A kind of function, and where it is played.

    Attributes:
        kernel: ``"rbf"``, ``"matern52"`` or ``"matern32"``.
        lengthscale: Of the kernel.
        dimension: Number of inputs.
        arms: Number of uniform points in the unit cube; the whole cube where it is 0.
    """

    name: str
    kernel: str
    lengthscale: float
    dimension: int
    arms: int

    @property
    def title(self) -> str:
        r"""In a table."""
        names = {"rbf": "RBF", "matern52": "Matérn 5/2", "matern32": "Matérn 3/2"}
        return f"{names[self.kernel]}, length {self.lengthscale:g}, d = {self.dimension}"


@dataclass(frozen=True)
class Rule:
    r"""How points are chosen.

    Attributes:
        label: In the tables.
        search: What the guard keeps: ``"qLogNEI"``, ``"LogEI"`` or ``"random UCB"``; where
            it is empty, the upper bound is played in every round.
        ucb_every: As ``GuardedAcquisition`` takes it; 0 for none.
        turns: What is played where it is the band's turn: ``"upper"``, its upper bound, or
            ``"challenger"``, that of the regret certificate.
        is_guarded: Whether there is a guard.
    """

    name: str
    label: str
    search: str = ""
    ucb_every: int = 0
    turns: str = "upper"
    is_guarded: bool = True


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run: one rule in one setting with one seed."""

    cosmetic: ClassVar = frozenset({"label"})

    protocol: Protocol
    setting: Setting
    rule: Rule
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each rule in each setting."""
        file = f"{self.protocol.rounds}-rounds-seed-{self.seed:03d}.json"
        return PurePath(self.setting.name, self.rule.name, file)


@dataclass(frozen=True)
class Experiment:
    r"""The runs of a table: every rule in every setting, with the same seeds.

    Attributes:
        rules: The first is the one that the others are compared with.
    """

    name: str
    protocol: Protocol
    settings: tuple[Setting, ...]
    rules: tuple[Rule, ...]
    seeds: tuple[int, ...]

    def tasks(self) -> list[Task]:
        r"""All runs; a seed is finished in every setting before the next begins."""
        return [
            Task(self.protocol, setting, rule, seed)
            for seed in self.seeds
            for setting in self.settings
            for rule in self.rules
        ]

    def with_seeds(self, count: int | None) -> "Experiment":
        r"""The same with the first seeds only."""
        return replace(self, seeds=self.seeds[:count])


@dataclass(frozen=True)
class CoverageTask(runner.Task):
    r"""A block of sequences under one rule.

    Attributes:
        norm_factor: Norm bound of the band over the norm.
        noise_factor: Noise scale of the band over that of the noise.
        block: Number of the block.
        size: Sequences in a block.
    """

    cosmetic: ClassVar = frozenset({"label"})

    protocol: Protocol
    setting: Setting
    rule: Rule
    norm_factor: float
    noise_factor: float
    block: int
    size: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each rule and belief."""
        belief = f"norm-{self.norm_factor:g}-noise-{self.noise_factor:g}"
        return PurePath(belief, self.rule.name, f"block-{self.block:03d}.json")


@dataclass(frozen=True)
class Coverage:
    r"""How often a band misses whose points were chosen by each rule.

    Attributes:
        settings: Of the functions, in turn.
        sequences: For each rule, with a band that believes the truth.
        wrong: Factors of the norm and of the noise that wrong bands believe.
        wrong_sequences: For each of these, under each rule.
        size: Sequences in a file.
        false_alarm: Probability that the limit on misses is passed at rate delta.
    """

    protocol: Protocol
    setting: Setting
    rules: tuple[Rule, ...]
    sequences: int
    wrong: tuple[tuple[float, float], ...]
    wrong_sequences: int
    size: int
    false_alarm: float

    def tasks(self, sequences: int | None = None) -> list[CoverageTask]:
        r"""All blocks, or those of at most so many sequences for each rule and belief."""
        counts = {(1.0, 1.0): self.sequences}
        counts |= dict.fromkeys(self.wrong, self.wrong_sequences)
        return [
            CoverageTask(self.protocol, self.setting, rule, *belief, block, self.size)
            for belief, count in counts.items()
            for rule in self.rules
            for block in range(math.ceil(min(sequences or count, count) / self.size))
        ]


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    protocol: Protocol
    rules: dict[str, Rule]
    settings: dict[str, Setting]
    experiments: dict[str, Experiment]
    coverage: Coverage
