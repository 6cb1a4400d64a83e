r"""Functions, families, learners, and the runs of a table on finitely many arms."""

import math
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, ClassVar

from benchmarks import runner


@dataclass(frozen=True)
class Protocol:
    r"""What all finite-arm runs have in common.

    Attributes:
        norm_factor: Norm bound over the norm of the function, both under its own kernel.
        noise_std: Of the Gaussian noise; all learners are told.
        delta: Failure probability of every band.
        centres: Number of kernel sections in a random function.
        arms: Number of arms, uniform in the unit cube.
        starts: Random arms that every learner plays first.
        rounds: Arms that a learner chooses after them.
        check_every: Rounds between two looks at the whole band of a family.
        tolerance: Simple regret above which a run did not converge.
        seed: Of all random streams.
    """

    norm_factor: float
    noise_std: float
    delta: float
    centres: int
    arms: int
    starts: int
    rounds: int
    check_every: int
    tolerance: float
    seed: int


@dataclass(frozen=True)
class Family:
    r"""The length scales that a learner believes possible.

    Attributes:
        shortest: Shortest length scale.
        longest: Longest length scale.
        ratio: Largest ratio of neighbouring members.
    """

    shortest: float
    longest: float
    ratio: float

    @property
    def lengthscales(self) -> list[float]:
        r"""Of the members, the longest first."""
        whole = self.longest / self.shortest
        steps = math.ceil(math.log(whole) / math.log(self.ratio) - 1e-9)
        return [self.longest * whole ** (-i / max(steps, 1)) for i in range(steps + 1)]

    def covering(self, lengthscale: float) -> int:
        r"""Index of the longest member that must hold functions of this length scale."""
        lengths = self.lengthscales
        return next(i for i, own in enumerate(lengths) if own <= lengthscale * (1 + 1e-9))


@dataclass(frozen=True)
class Setting:
    r"""A kind of function, and the family that learners believe it is in.

    Attributes:
        kernel: ``"rbf"`` or ``"matern52"``.
        dimension: Number of inputs.
        lengthscale: Of the kernel that the function's norm is known under.
        place: Where that lies in the family, for the tables.
        family: What learners are told instead.
        norm: Of the function under its own kernel.
        function: ``"random"``, or ``"spike"``: a narrow hill of this length scale beside a
            wide one, half as high, of the family's longest.
    """

    kernel: str
    dimension: int
    lengthscale: float
    place: str
    family: Family
    norm: float = 4.0
    function: str = "random"

    @property
    def name(self) -> str:
        r"""A legal file name."""
        return f"{self.function}_{self.kernel}_d{self.dimension}_l{self.lengthscale:g}"


@dataclass(frozen=True)
class Method:
    r"""A learner: a class in ``learners``, ``balancing`` or ``practice``; its arguments."""

    name: str
    label: str
    rule: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run: one method in one setting with one seed."""

    cosmetic: ClassVar = frozenset({"label", "place", "tolerance"})

    protocol: Protocol
    setting: Setting
    method: Method
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each method in each setting."""
        file = f"{self.protocol.rounds}-rounds-seed-{self.seed:03d}.json"
        return PurePath(self.setting.name, self.method.name, file)


@dataclass(frozen=True)
class Experiment:
    r"""The runs of a table: methods in settings with seeds.

    Attributes:
        methods: In every setting.
        settings: All settings of the file, by name.
        further_methods: In ``further_settings`` only; they cost more.
        further_settings: Some of the settings.
        seeds: The same for all.
    """

    name: str
    protocol: Protocol
    methods: tuple[Method, ...]
    settings: dict[str, Setting]
    seeds: tuple[int, ...]
    further_methods: tuple[Method, ...] = ()
    further_settings: tuple[str, ...] = ()

    def methods_of(self, setting: str) -> tuple[Method, ...]:
        r"""The methods that play a setting, by its name."""
        further = setting in self.further_settings
        return self.methods + (self.further_methods if further else ())

    def task(self, setting: str, method: Method, seed: int) -> Task:
        r"""One of its runs."""
        return Task(self.protocol, self.settings[setting], method, seed)

    def tasks(self) -> list[Task]:
        r"""All runs; a seed is finished in every setting before the next begins."""
        return [
            self.task(setting, method, seed)
            for seed in self.seeds
            for setting in self.settings
            for method in self.methods_of(setting)
        ]

    def with_seeds(self, count: int | None) -> "Experiment":
        r"""The same with the first seeds only."""
        return replace(self, seeds=self.seeds[:count])
