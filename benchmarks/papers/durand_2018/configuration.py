r"""What an experiment consists of, read from ``config.toml``."""

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import ClassVar

from benchmarks import runner


@dataclass(frozen=True)
class Protocol:
    r"""The function, the noise, and what is known about them."""

    norm: float
    lengthscale: float
    num_centres: int
    noise_std: float
    norm_bound: float
    noise_lower: float
    noise_upper: float
    delta: float
    num_arms: int
    seed: int


@dataclass(frozen=True)
class Stream:
    r"""Uniform inputs, and what is computed from them.

    Attributes:
        rounds: Number of observations.
        rounds_per_decade: At how many rounds something is computed.
        band_rounds: At these too.
        noise_guesses: Initial upper bounds on the noise scale.
        num_queries: Number of points at which bands are compared with the function.
        repetitions: Number of functions.
    """

    rounds: int
    rounds_per_decade: int
    band_rounds: tuple[int, ...]
    noise_guesses: tuple[float, ...]
    num_queries: int
    repetitions: int


@dataclass(frozen=True)
class StreamTask(runner.Task):
    r"""One stream: everything that its result depends on."""

    cosmetic: ClassVar = frozenset({"repetitions"})

    protocol: Protocol
    stream: Stream
    repetition: int

    @property
    def location(self) -> PurePath:
        r"""One folder for all streams."""
        file = f"{self.stream.rounds}-rounds-repetition-{self.repetition:03d}.json"
        return PurePath("stream", file)


@dataclass(frozen=True)
class Method:
    r"""A bandit.

    Attributes:
        name: A legal file name.
        label: For tables and pictures.
        policy: ``"ucb"`` or ``"ts"``.
        bound: ``"theorem1"``, ``"corollary1"``, ``"wang_de_freitas"`` (or
            ``"wang_de_freitas_rescaled"``), ``"exact"`` or ``"joint"``.
        noise: The noise scale, where the bound takes one: ``"true"``, or ``"guess"`` for
            the known upper bound on it.
        covariance_scale: Of the exact bound.
        share: The bound fails with probability ``delta / share``; each of the four events
            of ``"corollary1"`` does.
    """

    name: str
    label: str
    policy: str
    bound: str
    noise: str | None = None
    covariance_scale: float | str = 1.0
    share: int = 1


@dataclass(frozen=True)
class BanditTask(runner.Task):
    r"""One run of a bandit: everything that its result depends on."""

    cosmetic: ClassVar = frozenset({"label"})

    protocol: Protocol
    method: Method
    repetition: int
    rounds: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each method."""
        file = f"{self.rounds}-rounds-repetition-{self.repetition:03d}.json"
        return PurePath(self.method.name, file)


@dataclass(frozen=True)
class Experiment:
    r"""The runs of a comparison of bandits."""

    name: str
    protocol: Protocol
    methods: tuple[Method, ...]
    rounds: int
    repetitions: int

    def runs_of(self, method: Method) -> list[BanditTask]:
        r"""The repetitions of one method."""
        return [
            BanditTask(self.protocol, method, repetition, self.rounds)
            for repetition in range(self.repetitions)
        ]

    def tasks(self) -> list[BanditTask]:
        r"""All runs; every method plays a repetition before the next begins."""
        columns = [self.runs_of(method) for method in self.methods]
        return [task for row in zip(*columns, strict=True) for task in row]


@dataclass(frozen=True)
class Configuration:
    r"""The whole of ``config.toml``."""

    protocol: Protocol
    methods: dict[str, Method]
    stream: Stream
    experiments: dict[str, Experiment]

    def stream_tasks(
        self, repetitions: int | None = None, rounds: int | None = None
    ) -> list[StreamTask]:
        r"""The streams, or the first of them, or shorter ones."""
        stream = replace(
            self.stream,
            rounds=rounds or self.stream.rounds,
            repetitions=repetitions or self.stream.repetitions,
        )
        return [StreamTask(self.protocol, stream, i) for i in range(stream.repetitions)]
