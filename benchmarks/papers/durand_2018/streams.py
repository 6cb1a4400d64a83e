r"""Uniform inputs come in; noise intervals and bands are computed at some rounds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from botorch.models.model import Model
from torch import Tensor

from benchmarks.papers.durand_2018.configuration import Protocol, Stream, StreamTask
from benchmarks.papers.durand_2018.problems import (
    covar_module,
    true_function,
    uniform_stream,
)
from kernelucb import (
    AbbasiYadkoriUCB,
    KernelRegression,
    MartingaleMixture,
    MartingaleMixtureUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb.acquisition.base import KernelUCB
from kernelucb.confidence.streaming import NoiseInterval, refined_interval

Interval = tuple[float, float]


class FixedRegularizer:
    r"""Theorem 3 at ``lambda = guess^2 / C^2`` throughout (Figure 4a).

    Running maximum and minimum as in ``StreamingNoiseTracker``, whose regulariser follows
    the upper bound instead.
    """

    def __init__(self, protocol: Protocol, guess: float) -> None:
        self.norm_bound, self.level = protocol.norm_bound, protocol.delta / 3.0
        self.guess = guess
        self.lower, self.upper = protocol.noise_lower, guess

    def observe(self, regression: KernelRegression) -> Interval:
        r"""Bounds on the noise scale so far."""
        lower, upper = refined_interval(
            regression, self.norm_bound, self.level, NoiseInterval(self.lower, self.guess)
        )
        self.lower, self.upper = lower, min(self.upper, upper)
        return self.lower, self.upper


@dataclass(frozen=True)
class Snapshot:
    r"""What one round of a stream shows.

    Attributes:
        regression: The data so far, whitened by noise of scale one.
        intervals: Noise intervals, by the bound and what it started from.
        bands: Acquisition functions, by the name of their band.
    """

    regression: KernelRegression
    intervals: dict[str, Interval]
    bands: dict[str, KernelUCB]


def kept_rounds(stream: Stream) -> list[int]:
    r"""Rounds on a logarithmic scale, with those of the bands' table."""
    count = round(np.log10(stream.rounds) * stream.rounds_per_decade) + 1
    spaced = np.geomspace(1, stream.rounds, max(count, 2)).round().astype(int)
    asked = {number for number in stream.band_rounds if number <= stream.rounds}
    return sorted(asked.union(spaced.tolist()))


def snapshots(task: StreamTask) -> Iterator[Snapshot]:
    r"""The kept rounds of a stream, in order."""
    protocol = task.protocol
    inputs, outcomes = (torch.from_numpy(values) for values in uniform_stream(task))
    kernel = covar_module(protocol)
    trackers = _trackers(protocol, task.stream)
    of_band = StreamingNoiseTracker(
        protocol.norm_bound,
        UnknownNoise(protocol.noise_lower, protocol.noise_upper),
        0.75 * protocol.delta,
    )
    for number in kept_rounds(task.stream):
        regression = KernelRegression(inputs[:number], outcomes[:number], kernel, 1.0)
        bands = _bands(protocol, cast(Model, regression), of_band)
        intervals = {name: each.observe(regression) for name, each in trackers.items()}
        intervals["joint"] = bands["joint"].noise_interval  # pyright: ignore
        yield Snapshot(regression, intervals, bands)


def _trackers(
    protocol: Protocol, stream: Stream
) -> dict[str, StreamingNoiseTracker | FixedRegularizer]:
    trackers: dict[str, StreamingNoiseTracker | FixedRegularizer] = {}
    norm, lower = protocol.norm_bound, protocol.noise_lower
    for guess in stream.noise_guesses:
        trackers[f"fixed {guess:g}"] = FixedRegularizer(protocol, guess)
        trackers[f"adaptive {guess:g}"] = StreamingNoiseTracker(
            norm, UnknownNoise(lower, guess), protocol.delta
        )
    trackers["adaptive none"] = StreamingNoiseTracker(
        norm, UnknownNoise(lower), protocol.delta
    )
    return trackers


def _bands(
    protocol: Protocol, model: Model, tracker: StreamingNoiseTracker
) -> dict[str, KernelUCB]:
    r"""Every band fails with probability ``delta``; the first five know the noise."""
    common: dict[str, Any] = {"norm_bound": protocol.norm_bound, "delta": protocol.delta}
    known = {**common, "noise_std": protocol.noise_std}
    upper = protocol.noise_upper
    unknown = {**common, "noise_std": UnknownNoise(protocol.noise_lower, upper)}
    return {
        "exact": MartingaleMixtureUCB(model, fit=MartingaleMixture("mixture"), **known),
        "exact_one": MartingaleMixtureUCB(model, fit="martingale", **known),
        "theorem1": AbbasiYadkoriUCB(
            model, alpha=(protocol.noise_std / protocol.norm_bound) ** 2, **known
        ),
        "theorem1_noise": AbbasiYadkoriUCB(model, alpha=protocol.noise_std**2, **known),
        "wang": WangDeFreitasUCB(model, **known),
        "joint": MartingaleMixtureUCB(model, **unknown),
        "adaptive": StreamingKernelUCB(model, tracker=tracker, **unknown),
        "fixed": AbbasiYadkoriUCB(
            model,
            noise_std=upper,
            alpha=(upper / protocol.norm_bound) ** 2,
            **common,
        ),
    }


@dataclass(frozen=True)
class StreamRun:
    r"""Result of a stream.

    Attributes:
        rounds: The kept rounds.
        intervals: Lower and upper noise bound at each of them, by the bound's name.
        widths: Mean width over the queries at each of them, by the band's name.
        misses: Whether the function left the band at a query, likewise.
    """

    rounds: list[int]
    intervals: dict[str, list[Interval]]
    widths: dict[str, list[float]]
    misses: dict[str, list[bool]]


@torch.no_grad()
def watch(task: StreamTask) -> StreamRun:
    r"""Watch one stream, in this process, single-threaded."""
    queries = query_grid(task.stream)
    truth = torch.from_numpy(true_function(task.protocol, task.repetition)(queries.numpy()))
    rounds = kept_rounds(task.stream)
    intervals: dict[str, list[Interval]] = {}
    widths: dict[str, list[float]] = {}
    misses: dict[str, list[bool]] = {}
    for snapshot in snapshots(task):
        for name, interval in snapshot.intervals.items():
            intervals.setdefault(name, []).append(interval)
        for name, band in snapshot.bands.items():
            lower, upper = band.bounds(queries)
            widths.setdefault(name, []).append(float((upper - lower).mean()))
            missed = bool(((truth < lower) | (truth > upper)).any())
            misses.setdefault(name, []).append(missed)
    return StreamRun(rounds, intervals, widths, misses)


def query_grid(stream: Stream) -> Tensor:
    r"""Points at which bands are compared with the function, ``num_queries x 1``."""
    return torch.linspace(0.0, 1.0, stream.num_queries, dtype=torch.float64).unsqueeze(-1)
