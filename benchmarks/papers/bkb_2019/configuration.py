r"""What the experiments consist of, read from ``config.toml``."""

from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import ClassVar

from benchmarks import runner
from kernelucb.confidence.bkb import required_qbar


@dataclass(frozen=True)
class Setting:
    r"""Arms, rewards and how they are played.

    Attributes:
        data: Name of the data set.
        arms: Size of the random subset of its rows.
        rounds: ``T``.
        delta: Failure probability.
        noise_std: Noise scale; the regulariser is its square.
        lengthscale: Of the kernel.
        norm_bound: ``F``.
        epsilon: Accuracy that Theorem 2's radius counts on.
        seed: Of all random streams.
    """

    data: str
    arms: int
    rounds: int
    delta: float
    noise_std: float
    lengthscale: float
    norm_bound: float
    epsilon: float
    seed: int

    def oversampling(self, qbar: float | str) -> float:
        r"""The number that ``"theorem"`` and ``"all"`` stand for."""
        if qbar == "theorem":
            return required_qbar(self.rounds, self.delta, self.epsilon)
        return 1e12 if qbar == "all" else float(qbar)


@dataclass(frozen=True)
class Method:
    r"""A rule for choosing arms; see ``config.toml``."""

    name: str
    label: str
    rule: str
    radius: str
    qbar: float | str
    batch_growth: float = 1.1
    regularizer: float | None = None
    exact: str = "exact"


@dataclass(frozen=True)
class RegretTask(runner.Task):
    r"""One method on one subset of arms."""

    cosmetic: ClassVar = frozenset({"label", "exact"})

    setting: Setting
    method: Method
    trial: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each method on each data set."""
        file = f"{self.setting.rounds}-rounds-trial-{self.trial:03d}.json"
        return PurePath("regret", self.setting.data, self.method.name, file)


@dataclass(frozen=True)
class AccuracyTask(runner.Task):
    r"""One sequence along which sketched variances are compared with exact ones."""

    setting: Setting
    play: str
    qbar: float | str
    checks: tuple[int, ...]
    trial: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each oversampling."""
        file = f"trial-{self.trial:03d}.json"
        return PurePath("theorem1", self.play, f"qbar-{self.qbar}", file)


@dataclass(frozen=True)
class Protocol:
    r"""What all experiments have in common; see ``Setting``."""

    seed: int
    delta: float
    noise_std: float
    lengthscale: float
    norm_bound: float
    epsilon: float


@dataclass(frozen=True)
class Regret:
    r"""Which methods lose how much."""

    data: tuple[str, ...]
    arms: int
    rounds: int
    trials: int


@dataclass(frozen=True)
class Accuracy:
    r"""Sequences along which sketched variances are compared with exact ones."""

    data: str
    arms: int
    rounds: int
    trials: int
    norm: float
    checks: tuple[int, ...]
    qbar: tuple[float | str, ...]


@dataclass(frozen=True)
class Widths:
    r"""Data for which widths are compared; ``cases`` are kernel, dimension, length."""

    observations: int
    qbar: float
    norm_bounds: tuple[float, ...]
    cases: tuple[tuple[str, int, float], ...]


@dataclass(frozen=True)
class Time:
    r"""Rounds at which the yardstick is timed."""

    data: str
    rounds: tuple[int, ...]


@dataclass(frozen=True)
class Long:
    r"""Very many rounds; ``batches`` are pairs of ``C`` and the regulariser."""

    rounds: int
    threads: int
    batches: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    protocol: Protocol
    methods: dict[str, Method]
    regret: Regret
    theorem1: dict[str, Accuracy]
    widths: Widths
    time: Time
    long: Long

    def setting(self, of: Regret | Accuracy, data: str, **changes) -> Setting:
        r"""The setting of an experiment on a data set."""
        values = {**asdict(self.protocol), "arms": of.arms, "rounds": of.rounds}
        return Setting(data=data, **(values | changes))

    def regret_tasks(self, data: str, trials: int, methods) -> list[RegretTask]:
        r"""All methods on a subset before the next one."""
        setting = self.setting(self.regret, data)
        return [
            RegretTask(setting, method, trial)
            for trial in range(trials)
            for method in methods
        ]

    def accuracy_tasks(
        self, play: str, qbar: float | str, trials: int | None = None
    ) -> list[AccuracyTask]:
        r"""All sequences with one way of choosing arms and one oversampling."""
        section = self.theorem1[play]
        setting = self.setting(section, section.data, norm_bound=section.norm)
        return [
            AccuracyTask(setting, play, qbar, section.checks, trial)
            for trial in range(trials or section.trials)
        ]
