r"""How often the union's band misses, and how often the covering member is lost."""

import warnings
from dataclasses import dataclass

from scipy.stats import binom

from benchmarks.runner import RunStore, markdown_table
from benchmarks.unknown_kernel.configuration import Coverage, CoverageTask
from benchmarks.unknown_kernel.learners import Family
from benchmarks.unknown_kernel.play import is_outside
from benchmarks.unknown_kernel.problems import Problem, noise_of, start_arms
from kernelucb.exceptions import InconsistentConfidenceSetWarning


@dataclass(frozen=True)
class Run:
    r"""For each sequence of a block the first round of an event, 0 where it never came.

    Attributes:
        missed: The function was outside the union's band at some arm.
        lost: The member that covers the function was contradicted.
        emptied: All members were.
    """

    missed: list[int]
    lost: list[int]
    emptied: list[int]


def play(task: CoverageTask) -> Run:
    r"""Play one block."""
    first = task.block * task.size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)  # counted
        rounds = [_sequence(task, first + number) for number in range(task.size)]
    return Run(*(list(column) for column in zip(*rounds, strict=True)))


def _sequence(task: CoverageTask, sequence: int) -> tuple[int, int, int]:
    setting, protocol = task.setting(sequence), task.protocol
    problem = Problem.draw(protocol, setting, sequence)
    learner = Family(problem, task.select)
    lengths = task.family.lengthscales
    holds = lengths[-1] <= setting.lengthscale * (1 + 1e-9)
    covering = task.family.covering(setting.lengthscale) if holds else None
    starts, found = start_arms(protocol, setting, sequence), [0, 0, 0]
    for number, error in enumerate(noise_of(protocol, setting, sequence), 1):
        arm = starts[number - 1] if number <= len(starts) else learner.select()
        learner.observe(arm, float(problem.values[arm]) + error)
        missed = is_outside(learner, covering)
        lost = covering is not None and learner.eliminated[covering] > 0
        events = (missed, lost, all(learner.eliminated))
        found = [old or number * now for old, now in zip(found, events, strict=True)]
    return found[0], found[1], found[2]


def limit(sequences: int, delta: float, false_alarm: float) -> int:
    r"""The violations that are passed with at most this probability, at rate delta."""
    return int(binom.ppf(1.0 - false_alarm, sequences, delta))


def rows(store: RunStore[Run], tasks: dict[str, list[CoverageTask]]) -> list[dict]:
    r"""Counts for each label."""
    found = []
    for label, blocks in tasks.items():
        runs = [store.load(task) for task in blocks]
        events = {
            name: [number for run in runs for number in getattr(run, name)]
            for name in ("missed", "lost", "emptied")
        }
        pairs = zip(events["missed"], events["emptied"], strict=True)
        either = [any(pair) for pair in pairs]
        counts = {name: sum(map(bool, rounds)) for name, rounds in events.items()}
        row = {"rule": label, "sequences": len(either), **counts}
        found.append(row | {"missed_or_emptied": sum(either)})
    return found


def table(part: Coverage, counts: list[dict]) -> list[str]:
    r"""The rules, and the family that is wrong."""
    protocol = part.protocol
    sequences = counts[0]["sequences"]
    allowed = limit(sequences, protocol.delta, part.false_alarm)
    header = ["family and rule", "sequences", "outside the union's band", "lost", "emptied"]
    cells = [
        [row["rule"], *(f"{row[k]}" for k in ("sequences", "missed", "lost", "emptied"))]
        for row in counts
    ]
    wrong = counts[-1]
    return [
        f"Sequences of {protocol.starts + protocol.rounds} rounds on {protocol.arms} arms, "
        f"delta {protocol.delta:g}: with the function outside the union's band at any arm "
        "in any round, with the covering member contradicted, with all members "
        f"contradicted. At rate delta more than {allowed} of {sequences} would come with "
        f"probability {part.false_alarm:g} at most.",
        "",
        *markdown_table(header, cells),
        "",
        f"The family that does not hold the function missed or was emptied in "
        f"{wrong['missed_or_emptied']} of {wrong['sequences']} sequences.",
    ]
