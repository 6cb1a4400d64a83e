r"""What an experiment consists of, read from ``config.toml``."""

from dataclasses import dataclass
from itertools import product
from pathlib import PurePath
from typing import ClassVar

from benchmarks import runner


@dataclass(frozen=True)
class Domain:
    r"""Where the tasks come from; the numbers after ``evaluations`` are for synthetic ones.

    Attributes:
        name: ``"grasp"`` or ``"synthetic"``.
        delta: Failure probability of the bounds.
        problems: Number of problems to solve.
        evaluations: Of each problem.
    """

    name: str
    delta: float
    problems: int
    evaluations: int
    lengthscale: float = 0.0
    noise_std: float = 0.0
    tasks: int = 0
    points: int = 0
    num_features: int = 0
    norm_probability: float = 0.0


@dataclass(frozen=True)
class Setting:
    r"""How much of the training data there is.

    Attributes:
        share: Share of the training problems (grasp) or of the points of each (synthetic).
        missing: Share of the training values that is missing.
        held_out: Problems that are left out together.
    """

    share: float = 1.0
    missing: float = 0.0
    held_out: int = 1

    @property
    def name(self) -> str:
        r"""A legal file name."""
        together = "" if self.held_out == 1 else f"_held_out_{self.held_out}"
        return f"share_{self.share:g}_missing_{self.missing:g}{together}"


@dataclass(frozen=True)
class Method:
    r"""A learner."""

    name: str
    label: str


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run: everything that its result depends on."""

    cosmetic: ClassVar = frozenset({"label", "problems"})

    seed: int
    pooled_points: int
    domain: Domain
    setting: Setting
    method: Method
    problem: int
    evaluations: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each method in each setting."""
        file = f"{self.evaluations}-evaluations-problem-{self.problem:03d}.json"
        return PurePath(self.domain.name, self.setting.name, self.method.name, file)


@dataclass(frozen=True)
class Experiment:
    r"""Every method in every setting on every problem.

    Attributes:
        shares: Of the training data, one setting each.
        missing: Shares of the training values that are missing, one setting each.
    """

    name: str
    seed: int
    pooled_points: int
    domain: Domain
    methods: tuple[Method, ...]
    problems: int
    evaluations: int
    shares: tuple[float, ...] = (1.0,)
    missing: tuple[float, ...] = ()

    @property
    def settings(self) -> tuple[Setting, ...]:
        r"""In the order of the table."""
        if self.missing:
            return tuple(Setting(missing=share, held_out=10) for share in self.missing)
        return tuple(Setting(share=share) for share in self.shares)

    def runs_of(self, setting: Setting, method: Method) -> list[Task]:
        r"""One method in one setting, all problems."""
        numbers = self.seed, self.pooled_points
        return [
            Task(*numbers, self.domain, setting, method, problem, self.evaluations)
            for problem in range(self.problems)
        ]

    def tasks(self) -> list[Task]:
        r"""All runs; those that share a prior follow each other."""
        triples = product(self.settings, range(self.problems), self.methods)
        return [
            self.runs_of(setting, method)[problem] for setting, problem, method in triples
        ]


@dataclass(frozen=True)
class Protocol:
    r"""What all experiments have in common."""

    seed: int
    pooled_points: int


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    protocol: Protocol
    domains: dict[str, Domain]
    methods: dict[str, Method]
    experiments: dict[str, Experiment]
