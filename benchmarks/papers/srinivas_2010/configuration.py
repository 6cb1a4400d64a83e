r"""What an experiment consists of, read from ``config.toml``."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import ClassVar

from benchmarks import runner


@dataclass(frozen=True)
class Setting:
    r"""A family of functions on a finite domain, and how they are played.

    Attributes:
        name: Of the experiment; a legal file name.
        title: For pictures and tables.
        source: Of the prior: ``"squared_exponential"``, or a data set of sensors.
        functions: ``"samples"`` of the prior, or ``"rows"`` of readings.
        noise_share: Noise variance as a share of the mean prior variance.
        rounds: ``T``.
        trials: Number of functions, with repeats where a data set has fewer.
        block: Consecutive functions that count as one in standard errors.
        delta: Failure probability of the confidence bounds.
        seed: Of all random streams.
        points: Size of a synthetic domain.
        lengthscale: Of a synthetic prior.
    """

    name: str
    title: str
    source: str
    functions: str
    noise_share: float
    rounds: int
    trials: int
    block: int
    delta: float
    seed: int
    points: int | None = None
    lengthscale: float | None = None


@dataclass(frozen=True)
class Method:
    r"""A rule for choosing points; the other fields are the rule's own options."""

    name: str
    label: str
    rule: str
    scale: float = 1.0
    incumbent: str = ""
    margin: float = 0.0


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run: one method on one function."""

    cosmetic: ClassVar = frozenset({"title", "label", "trials", "block"})

    setting: Setting
    method: Method
    trial: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each method in each experiment."""
        file = f"{self.setting.rounds}-rounds-trial-{self.trial:03d}.json"
        return PurePath(self.setting.name, self.method.name, file)


@dataclass(frozen=True)
class Experiment:
    r"""The runs of a table: every method on every function."""

    setting: Setting
    methods: tuple[Method, ...]

    def tasks_of(self, method: Method) -> list[Task]:
        r"""All trials of a method."""
        trials = range(self.setting.trials)
        return [Task(self.setting, method, trial) for trial in trials]

    def tasks(self) -> list[Task]:
        r"""All runs; a function is played by every method before the next begins."""
        rounds = zip(*(self.tasks_of(method) for method in self.methods), strict=True)
        return [task for tasks in rounds for task in tasks]


@dataclass(frozen=True)
class GainSettings:
    r"""The domain and kernels of the information gain bounds.

    Attributes:
        points: Size of the domain.
        dimension: Of its points.
        lengthscale: Of the squared-exponential and Matern kernels.
        noise_share: Noise variance as a share of the mean prior variance.
        samples: Numbers of samples ``T``.
        seed: Of the domain.
    """

    points: int
    dimension: int
    lengthscale: float
    noise_share: float
    samples: tuple[int, ...]
    seed: int


@dataclass(frozen=True)
class Protocol:
    r"""What all experiments have in common."""

    delta: float
    seed: int


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    protocol: Protocol
    methods: dict[str, Method]
    experiments: dict[str, Experiment]
    information_gain: GainSettings
