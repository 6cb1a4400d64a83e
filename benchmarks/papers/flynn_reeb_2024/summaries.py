r"""From finished runs to numbers: regret curves, totals, agreement with the paper."""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.papers.flynn_reeb_2024.configuration import (
    HERE,
    Configuration,
    Method,
    Setting,
    Task,
)
from benchmarks.papers.flynn_reeb_2024.store import RunStore

# Differences above this many standard errors of the difference count as disagreement.
AGREEMENT = 2.0


@dataclass(frozen=True)
class Moments:
    r"""Mean and population standard deviation (as in the paper) of ``n`` repetitions."""

    mean: float
    std: float
    n: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Moments":
        values = np.asarray(list(values))
        return cls(float(values.mean()), float(values.std()), len(values))

    def distance(self, other: "Moments") -> float:
        r"""Difference of the means in standard errors of the difference."""
        error = math.sqrt(self.std**2 / self.n + other.std**2 / other.n)
        return (self.mean - other.mean) / error if error else math.inf


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

    def only(self, setting: Setting) -> "Selection":
        r"""The same for one setting."""
        return replace(self, settings=[setting])


def cumulative_regret(
    store: RunStore, selection: Selection, setting: Setting, method: Method
) -> np.ndarray:
    r"""Cumulative regret, ``repetitions x rounds``."""
    runs = [store.load(task) for task in selection.runs_of(setting, method)]
    return np.cumsum([run.regret for run in runs], axis=1)


def total_regret(
    store: RunStore, selection: Selection, setting: Setting, method: Method
) -> Moments:
    r"""Cumulative regret after the last round."""
    return Moments.of(cumulative_regret(store, selection, setting, method)[:, -1])


def published() -> dict[tuple[str, str], Moments]:
    r"""The paper's numbers by method and setting."""
    with (HERE / "expected.csv").open(encoding="utf-8", newline="") as file:
        return {
            (row["method"], row["setting"]): Moments(
                float(row["mean"]), float(row["std"]), int(row["n"])
            )
            for row in csv.DictReader(file)
        }


def write_rows(path: Path, rows: Sequence[dict]) -> None:
    r"""A CSV file with the keys of the first row as header."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read_rows(path: Path) -> list[dict[str, str]]:
    r"""The rows of a CSV file, as text."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
