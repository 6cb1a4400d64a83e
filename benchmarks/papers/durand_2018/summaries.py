r"""From finished runs to numbers: curves, slopes, intervals, widths, ratios."""

import math
from collections.abc import Sequence

import numpy as np

from benchmarks.papers.durand_2018.configuration import Experiment, Stream, StreamTask
from benchmarks.papers.durand_2018.play import Run
from benchmarks.papers.durand_2018.streams import StreamRun
from benchmarks.runner import Moments, RunStore


class Streams:
    r"""The noise intervals and bands of all streams.

    Attributes:
        tasks: One for each repetition.
        runs: Their results.
        rounds: The kept rounds.
        table_rounds: Those of the tables.
    """

    def __init__(
        self, store: RunStore[StreamRun], tasks: Sequence[StreamTask], planned: Stream
    ) -> None:
        self.tasks = tasks
        self.runs = [store.load(task) for task in tasks]
        self.rounds = self.runs[0].rounds
        self.stream, self.protocol = tasks[0].stream, tasks[0].protocol
        self.table_rounds = [t for t in self.stream.band_rounds if t in self.rounds]
        self._planned = planned

    def stem(self, name: str) -> str:
        r"""Name of the files of a summary."""
        return result_stem(name, self.stream, self._planned)

    def bounds(self, name: str) -> np.ndarray:
        r"""Lower and upper noise bounds, ``repetitions x rounds x 2``."""
        return np.array([run.intervals[name] for run in self.runs])

    def bounds_at(self, name: str, number: int) -> np.ndarray:
        r"""Lower and upper noise bounds in one round, ``repetitions x 2``."""
        return self.bounds(name)[:, self.rounds.index(number)]

    def widths(self, name: str, number: int) -> np.ndarray:
        r"""Mean width of a band in one round, one for each repetition."""
        index = self.rounds.index(number)
        return np.array([run.widths[name][index] for run in self.runs])

    def missed(self, name: str) -> int:
        r"""Number of functions that left the band in some kept round."""
        return sum(any(run.misses[name]) for run in self.runs)

    def noise_missed(self, name: str) -> int:
        r"""Number of streams whose interval missed the noise scale in some kept round."""
        bounds, noise_std = self.bounds(name), self.protocol.noise_std
        outside = (bounds[..., 0] > noise_std) | (bounds[..., 1] < noise_std)
        return int(outside.any(axis=1).sum())


class Bandits:
    r"""The regret curves of one comparison.

    Attributes:
        experiment: Which runs.
        runs: Their results by the method's name, one for each repetition.
        curves: Cumulative regret by the method's name, ``repetitions x rounds``.
    """

    def __init__(
        self, store: RunStore[Run], experiment: Experiment, planned: Experiment
    ) -> None:
        self.experiment, self._planned = experiment, planned
        self.runs = {
            method.name: [store.load(task) for task in experiment.runs_of(method)]
            for method in experiment.methods
        }
        self.curves = {
            name: np.stack([run.cumulative_regret() for run in runs])
            for name, runs in self.runs.items()
        }

    @property
    def stem(self) -> str:
        r"""Name of the files of the summary."""
        return result_stem(self.experiment.name, self.experiment, self._planned)

    def totals(self, method: str) -> np.ndarray:
        r"""Regret after the last round, one for each repetition."""
        return self.curves[method][:, -1]

    def slopes(self, method: str, start: int, end: int) -> np.ndarray:
        r"""Regret per round after round ``start`` and up to ``end``, by repetition."""
        curves = self.curves[method]
        return (curves[:, end - 1] - curves[:, start - 1]) / (end - start)

    def noise_uppers(self, method: str, number: int) -> np.ndarray:
        r"""Upper noise bound at the last kept round up to ``number``, by repetition."""
        return np.array(
            [
                [upper for kept, _, upper in run.noise if kept <= number][-1]
                for run in self.runs[method]
            ]
        )


def result_stem(
    name: str, played: Experiment | Stream, planned: Experiment | Stream
) -> str:
    r"""Name of a summary; one of other rounds or repetitions than planned says so."""
    for label in ("rounds", "repetitions"):
        value = getattr(played, label)
        if value != getattr(planned, label):
            name += f"_{value}_{label}"
    return name


def ratio_of_means(numerator: np.ndarray, denominator: np.ndarray) -> Moments:
    r"""Ratio of two means over the same repetitions, with its spread.

    The standard error is that of the mean of ``a - r b``, over the mean of ``b`` (delta
    method). Infinite where nothing was lost at all, as in a few rounds of a good learner.
    """
    scale = float(denominator.mean())
    if scale == 0.0:
        return Moments(math.inf, 0.0, len(denominator))
    ratio = float(numerator.mean()) / scale
    residuals = Moments.of((numerator - ratio * denominator) / scale)
    return Moments(ratio, residuals.std, residuals.n)


def digits(value: float, count: int = 3) -> str:
    r"""A number with some significant digits, never in powers of ten."""
    if not math.isfinite(value):
        return "∞"
    after = count - 1 - math.floor(math.log10(abs(value))) if value else count - 1
    return f"{value:.{max(after, 0)}f}"


def estimate(moments: Moments, count: int = 3) -> str:
    r"""A mean with its standard error."""
    return f"{digits(moments.mean, count)} ± {digits(moments.standard_error, 2)}"


def verdict(met: bool) -> str:
    r"""How a table says whether a target was met."""
    return "yes" if met else "**no**"
