r"""What the experiments consist of, read from ``config.toml``."""

import tomllib
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import ClassVar

from benchmarks import runner
from kernelucb.confidence.bkb import required_qbar

HERE = Path(__file__).parent


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
        epsilon: Accuracy that the certified radius counts on.
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

    def agrees_with(self, settings) -> bool:
        r"""JSON makes a list of the checks."""
        return super().agrees_with({**settings, "checks": tuple(settings["checks"])})


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    raw: dict
    methods: tuple[Method, ...]

    def setting(self, section: dict, data: str, **changes) -> Setting:
        r"""The setting of an experiment on a data set."""
        values = {key: section[key] for key in ("arms", "rounds")}
        return Setting(data=data, **{**self.raw["protocol"], **values, **changes})

    def regret_tasks(self, data: str, trials: int, methods) -> list[RegretTask]:
        r"""All methods on a subset before the next one."""
        setting = self.setting(self.raw["regret"], data)
        return [
            RegretTask(setting, method, trial)
            for trial in range(trials)
            for method in methods
        ]

    def accuracy_tasks(
        self, play: str, qbar: float | str, trials: int | None = None
    ) -> list[AccuracyTask]:
        r"""All sequences with one way of choosing arms and one oversampling."""
        section = self.raw["theorem1"][play]
        setting = self.setting(section, section["data"], norm_bound=section["norm"])
        checks = tuple(section["checks"])
        return [
            AccuracyTask(setting, play, qbar, checks, trial)
            for trial in range(trials or section["trials"])
        ]


def load_configuration(path: Path = HERE / "config.toml") -> Configuration:
    r"""Read the experiments and their methods."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    methods = [Method(name, **values) for name, values in raw["methods"].items()]
    return Configuration(raw, tuple(methods))
