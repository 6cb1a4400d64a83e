r"""From finished runs to numbers: regret, ranks of the methods, and their uncertainty."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from benchmarks.practical.configuration import Experiment, Method, Problem
from benchmarks.practical.play import Run
from benchmarks.runner import Moments, RunStore, stream

MEASURES = ("simple", "recommended")
RESOLUTION = 1e-4  # of the regret of the starts; smaller means count as this
_RESAMPLES = 1000


@dataclass(frozen=True)
class Results:
    r"""The runs of an experiment as arrays."""

    experiment: Experiment
    runs: dict[tuple[str, str], list[Run]]

    @classmethod
    def of(cls, store: RunStore[Run], experiment: Experiment) -> "Results":
        r"""Read the runs, which are all finished."""
        runs = {
            (problem.name, method.name): [
                store.load(experiment.task(problem, method, seed))
                for seed in experiment.seeds
            ]
            for problem in experiment.problems
            for method in experiment.methods
        }
        return cls(experiment, runs)

    def runs_of(self, problem: Problem, method: Method) -> list[Run]:
        r"""One run for each seed."""
        return self.runs[problem.name, method.name]

    def curves(self, measure: str, problem: Problem, method: Method) -> np.ndarray:
        r"""Regret after the starts and after every point chosen, ``seeds x rounds + 1``."""
        runs = self.runs_of(problem, method)
        if measure == "recommended":
            return np.array([run.recommended for run in runs])
        best = np.minimum.accumulate([run.regret for run in runs], axis=1)
        return best[:, -problem.rounds - 1 :]

    def values(self, measure: str, share: float = 1.0) -> np.ndarray:
        r"""Regret after a share of the rounds, ``problems x methods x seeds``."""
        return np.array(
            [
                [
                    self.curves(measure, problem, method)[:, round(share * problem.rounds)]
                    for method in self.experiment.methods
                ]
                for problem in self.experiment.problems
            ]
        )

    def normalised(self, measure: str) -> np.ndarray:
        r"""Final regret over the mean simple regret of the random starts."""
        starts = self.values("simple", share=0.0).mean(axis=(1, 2), keepdims=True)
        return self.values(measure) / starts


def mean_ranks(values: np.ndarray) -> list[Moments]:
    r"""Rank among the methods, mean over problems; moments over seeds, of each method.

    Args:
        values: ``problems x methods x seeds``, small ones are better; equal ones share
            the mean of their ranks.
    """
    ranks = rankdata(values, axis=1).mean(axis=0)
    return [Moments.of(row) for row in ranks]


def ranks_of_means(values: np.ndarray) -> np.ndarray:
    r"""Rank of the mean over seeds, mean over problems, of each method."""
    return rankdata(values.mean(axis=-1), axis=1).mean(axis=0)


def geometric_means(normalised: np.ndarray) -> np.ndarray:
    r"""Mean over seeds, geometric mean over problems, of each method."""
    means = np.maximum(normalised.mean(axis=-1), RESOLUTION)
    return np.exp(np.log(means).mean(axis=0))


def worst_deciles(normalised: np.ndarray) -> np.ndarray:
    r"""90 % quantile over seeds, geometric mean over problems, of each method."""
    deciles = np.maximum(np.quantile(normalised, 0.9, axis=-1), RESOLUTION)
    return np.exp(np.log(deciles).mean(axis=0))


def bootstrap_error(
    statistic: Callable[[np.ndarray], np.ndarray], values: np.ndarray
) -> np.ndarray:
    r"""Standard error of a statistic of ``problems x methods x seeds`` values.

    Seeds are drawn anew with replacement, for each problem apart; a seed's methods stay
    together, since they share starts and noise.
    """
    random = stream(0, "bootstrap")
    problems, _, seeds = values.shape
    drawn = random.integers(seeds, size=(_RESAMPLES, problems, 1, seeds))
    samples = [statistic(np.take_along_axis(values, index, axis=-1)) for index in drawn]
    return np.std(samples, axis=0)
