r"""From finished runs to numbers: regret curves, totals, agreement with the paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.papers.flynn_reeb_2024.configuration import (
    Configuration,
    Method,
    Setting,
    Task,
)
from benchmarks.papers.flynn_reeb_2024.play import Run
from benchmarks.runner import Moments, RunStore, read_table

# Differences above this many standard errors of the difference count as disagreement.
AGREEMENT = 2.0


@dataclass(frozen=True)
class Selection:
    r"""Which runs an experiment consists of."""

    configuration: Configuration
    settings: Sequence[Setting]
    methods: Sequence[Method]
    repetitions: int
    rounds: int

    def runs_of(self, setting: Setting, method: Method) -> list[Task]:
        r"""The repetitions of one method in one setting."""
        protocol = self.configuration.protocol
        return [
            Task(protocol, setting, method, repetition, self.rounds)
            for repetition in range(self.repetitions)
        ]

    def tasks(self) -> list[Task]:
        r"""All runs; a repetition is finished in every setting before the next begins."""
        return [
            task
            for repetition in range(self.repetitions)
            for setting in self.settings
            for method in self.methods
            for task in self.runs_of(setting, method)[repetition : repetition + 1]
        ]


def cumulative_regret(
    store: RunStore[Run], selection: Selection, setting: Setting, method: Method
) -> np.ndarray:
    r"""Cumulative regret, ``repetitions x rounds``."""
    runs = [store.load(task) for task in selection.runs_of(setting, method)]
    return np.cumsum([run.regret for run in runs], axis=1)


def total_regret(
    store: RunStore[Run], selection: Selection, setting: Setting, method: Method
) -> Moments:
    r"""Cumulative regret after the last round."""
    return Moments.of(cumulative_regret(store, selection, setting, method)[:, -1])


def published() -> dict[tuple[str, str], Moments]:
    r"""The paper's numbers by method and setting."""
    table = read_table(Path(__file__).with_name("expected.csv"))
    return {
        (row.method, row.setting): Moments(float(row.mean), float(row.std), int(row.n))
        for row in table[["method", "setting", "mean", "std", "n"]].itertuples()
    }
