r"""Streams whose intervals and bands are looked at, and a bandit on a fixed set of arms."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.runner import KnownFunction, fixed_kernel, line, outside, stream
from benchmarks.runner.study import Settings
from kernelucb import (
    AbbasiYadkoriUCB,
    Band,
    KernelRegression,
    MartingaleMixtureUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb.data.exact import Pooled
from kernelucb.data.from_model import ModelData
from kernelucb.data.prior import Prior
from kernelucb.papers.streaming import NoiseInterval, refined_interval

Interval = tuple[float, float]


def kernel_of(task: Settings) -> Kernel:
    return fixed_kernel("rbf", task["lengthscale"])


def true_function(task: Settings) -> KnownFunction:
    r"""The same for streams and all bandits; the paper's own is not published."""
    random = stream(task["seed"], "function", task["repetition"])
    return KnownFunction.draw(random, kernel_of(task), task["norm"], 1, task["centres"])


class FixedRegularizer:
    r"""Theorem 3 at ``lambda = guess^2 / C^2`` throughout (Figure 4a).

    Running maximum and minimum as in ``StreamingNoiseTracker``, whose regulariser follows
    the upper bound instead.
    """

    def __init__(self, task: Settings, guess: float) -> None:
        self.norm_bound, self.level = task["norm_bound"], task["delta"] / 3.0
        self.lower, self.guess, self.upper = task["noise_lower"], guess, guess

    def observe(self, regression: KernelRegression) -> Interval:
        r"""Bounds on the noise scale so far."""
        start = NoiseInterval(self.lower, self.guess)
        self.lower, upper = refined_interval(regression, self.norm_bound, self.level, start)
        self.upper = min(self.upper, upper)
        return self.lower, self.upper


class Snapshot(NamedTuple):
    r"""One round of a stream: data, noise intervals and bands, by their names."""

    regression: KernelRegression
    intervals: dict[str, Interval]
    bands: dict[str, Band]


def kept_rounds(task: Settings) -> list[int]:
    r"""Rounds on a logarithmic scale, with those of the tables."""
    count = round(np.log10(task["rounds"]) * task["rounds_per_decade"]) + 1
    spaced = np.geomspace(1, task["rounds"], max(count, 2)).round().astype(int)
    asked = {number for number in task["table_rounds"] if number <= task["rounds"]}
    return sorted(asked.union(spaced.tolist()))


def snapshots(task: Settings) -> Iterator[Snapshot]:
    r"""The kept rounds of a stream, in order; fewer rounds are the first of more."""
    size, names = task["rounds"], (task["seed"], task["repetition"])
    inputs = torch.from_numpy(stream(names[0], "inputs", names[1]).random((size, 1)))
    noise = stream(names[0], "noise", names[1]).standard_normal(size)
    outcomes = true_function(task)(inputs) + task["noise_std"] * torch.from_numpy(noise)
    norm, delta, lower = task["norm_bound"], task["delta"], task["noise_lower"]
    trackers: dict[str, Any] = {}
    for guess in task["noise_guesses"]:
        unknown = UnknownNoise(lower, guess)
        trackers[f"fixed {guess:g}"] = FixedRegularizer(task, guess)
        trackers[f"adaptive {guess:g}"] = StreamingNoiseTracker(norm, unknown, delta)
    trackers["adaptive none"] = StreamingNoiseTracker(norm, UnknownNoise(lower), delta)
    unknown = UnknownNoise(lower, task["noise_upper"])
    of_band = StreamingNoiseTracker(norm, unknown, 0.75 * delta)
    for number in kept_rounds(task):
        data = inputs[:number], outcomes[:number]
        regression = KernelRegression(*data, kernel_of(task), 1.0)
        bands = _bands(task, cast(Model, regression), of_band)
        found = {name: each.observe(regression) for name, each in trackers.items()}
        found["joint"] = bands["joint"].noise_interval
        intervals = {name: (float(low), float(high)) for name, (low, high) in found.items()}
        yield Snapshot(regression, intervals, bands)


def _bands(task: Settings, model: Model, tracker: StreamingNoiseTracker) -> dict[str, Band]:
    r"""Every band fails with probability ``delta``; the first five know the noise."""
    norm, noise_std, upper = task["norm_bound"], task["noise_std"], task["noise_upper"]
    common: dict[str, Any] = {"norm_bound": norm, "delta": task["delta"]}
    known = common | {"noise_std": noise_std}
    guessed = common | {"noise_std": upper, "alpha": (upper / norm) ** 2}
    unknown = common | {"noise_std": UnknownNoise(task["noise_lower"], upper)}
    bounds = {
        "exact": MartingaleMixtureUCB(
            model, fit="martingale", covariance_scale="mixture", **known
        ),
        "exact_one": MartingaleMixtureUCB(model, fit="martingale", **known),
        "theorem1": AbbasiYadkoriUCB(model, alpha=(noise_std / norm) ** 2, **known),
        "theorem1_noise": AbbasiYadkoriUCB(model, alpha=noise_std**2, **known),
        "wang": WangDeFreitasUCB(model, **known),
        "joint": MartingaleMixtureUCB(model, **unknown),
        "adaptive": StreamingKernelUCB(model, tracker=tracker, **unknown),
        "fixed": AbbasiYadkoriUCB(model, **guessed),
    }
    return {name: each.band for name, each in bounds.items()}


@torch.no_grad()
def watch(task: Settings) -> dict[str, Any]:
    r"""The kept rounds; noise intervals, mean widths of bands and misses at each."""
    grid = line(task["queries"])
    truth = true_function(task)(grid)
    intervals, widths, misses = defaultdict(list), defaultdict(list), defaultdict(list)
    for snapshot in snapshots(task):
        for name, interval in snapshot.intervals.items():
            intervals[name].append(interval)
        for name, band in snapshot.bands.items():
            lower, upper = band.bounds(grid)
            widths[name].append(float((upper - lower).mean()))
            misses[name].append(bool(outside(truth, lower, upper, 0.0).any()))
    kept = {"kept": kept_rounds(task)}
    return kept | {"intervals": intervals, "widths": widths, "misses": misses}


class History:
    r"""How often each arm was played, and the mean and scatter of what came out."""

    def __init__(self, task: Settings) -> None:
        self.prior = Prior(kernel_of(task))
        self.arms = torch.from_numpy(np.linspace(0.0, 1.0, task["arms"]))[:, None]
        self.counts = torch.zeros(len(self.arms), dtype=torch.float64)
        self.means = torch.zeros_like(self.counts)
        self.scatter = 0.0

    def observe(self, index: int, outcome: float) -> None:
        r"""Add one outcome (Welford's recursion)."""
        self.counts[index] += 1.0
        deviation = outcome - float(self.means[index])
        self.means[index] += deviation / self.counts[index]
        self.scatter += deviation * (outcome - float(self.means[index]))


class PooledRegression(KernelRegression):
    r"""The state that ``KernelRegression`` makes of all rows, from the pooled ones.

    ``KernelRegression`` pools its rows to the same effect, but has to compare all of them
    in every round first.
    """

    count = 0

    @classmethod
    def of_history(cls, history: History) -> "PooledRegression":
        r"""State of a history with at least one observation, whitened by noise of 1."""
        played = history.counts > 0
        arms, means = history.arms[played], history.means[played]
        noise, scatter = history.counts[played].rsqrt(), means.new_tensor(history.scatter)
        one = torch.ones_like(means)
        data = ModelData(history.prior, arms, means, one, 1, frozenset())
        pooled = Pooled(arms, means, noise, scatter)
        state = cls.from_data(data, pooled)
        state.count = int(history.counts.sum())
        return state

    @property
    def num_observations(self) -> int:
        r"""Number of observations, not of arms."""
        return self.count


class Learner:
    r"""One method with what the protocol lets it know; every bound has all of ``delta``."""

    def __init__(self, task: Settings) -> None:
        self.task = task
        self.unknown = UnknownNoise(task["noise_lower"], task["noise_upper"])
        # Corollary 1: four events, three of which the noise bounds rest on.
        self.tracker = StreamingNoiseTracker(
            task["norm_bound"], self.unknown, delta=0.75 * task["delta"]
        )

    def values(self, state: KernelRegression, arms: Tensor) -> Tensor:
        r"""Upper bounds at the arms; the largest is played."""
        return self._bound(cast(Model, state))(arms.unsqueeze(1))

    def _bound(self, model: Model) -> Any:
        task, norm = self.task, self.task["norm_bound"]
        given: dict[str, Any] = {"norm_bound": norm, "delta": task["delta"]}
        known = given | {"noise_std": task["noise_std"]}
        unknown = given | {"noise_std": self.unknown}
        match task["bound"]:
            case "theorem1":
                alpha = (task["noise_std"] / norm) ** 2
                return AbbasiYadkoriUCB(model, alpha=alpha, **known)
            case "corollary1":
                return StreamingKernelUCB(model, **unknown, tracker=self.tracker)
            case "joint":
                return MartingaleMixtureUCB(model, **unknown)
        known |= {"fit": "martingale", "covariance_scale": task["covariance_scale"]}
        return MartingaleMixtureUCB(model, **known)


@torch.no_grad()
def play(task: Settings) -> dict[str, Any]:
    r"""Mean reward of each arm, and arms played."""
    own = stream(task["seed"], "own", task["method"], task["repetition"])
    history, learner = History(task), Learner(task)
    means = true_function(task)(history.arms)
    own.integers(2**63)  # the seed of samplers, which no method here has
    played = [int(own.integers(len(means)))]
    for _ in range(task["rounds"]):
        outcome = means[played[-1]] + task["noise_std"] * own.standard_normal()
        history.observe(played[-1], float(outcome))
        if len(played) < task["rounds"]:
            state = PooledRegression.of_history(history)
            played.append(int(learner.values(state, history.arms).argmax()))
    return {"means": means.tolist(), "played": played}
