r"""How often a band misses the function, whatever rule chose the points."""

import warnings
from dataclasses import dataclass

import torch
from botorch.utils.sampling import manual_seed
from linear_operator.utils.warnings import NumericalWarning
from scipy.stats import binom

from benchmarks.guarded.configuration import Coverage, CoverageTask
from benchmarks.guarded.problems import Problem
from benchmarks.guarded.rules import Round
from benchmarks.runner import RunStore, markdown_table, stream
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_ROUND_OFF = 1e-9  # of the norm


@dataclass(frozen=True)
class Run:
    r"""For each sequence of a block the first round of an event, 0 where it never came.

    Attributes:
        missed: The function was outside the band at some arm.
        contradicted: No function of the norm bound fits the data.
    """

    missed: list[int]
    contradicted: list[int]


def play(task: CoverageTask) -> Run:
    r"""Play one block; a sequence ends where one of the events comes."""
    found = []
    for sequence in range(task.block * task.size, (task.block + 1) * task.size):
        own = stream(task.protocol.seed, "own", task.rule.name, sequence)
        with manual_seed(int(own.integers(2**31))), warnings.catch_warnings():
            warnings.simplefilter("ignore", NumericalWarning)  # a jitter of BoTorch's
            warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)  # counted
            found.append(_sequence(task, sequence))
    return Run(*(list(column) for column in zip(*found, strict=True)))


def _sequence(task: CoverageTask, sequence: int) -> tuple[int, int]:
    protocol = task.protocol
    problem = Problem.draw(protocol, task.setting, sequence)
    truth, inputs = problem.function(problem.arms), problem.starts
    slack = _ROUND_OFF * protocol.norm
    for number in range(len(inputs), protocol.starts + protocol.rounds):
        data = Round(
            problem,
            inputs,
            problem.function(inputs) + problem.noise[:number],
            task.norm_factor * protocol.norm,
            task.noise_factor * protocol.noise_std,
        )
        lower, upper = data.band.bounds(problem.arms)
        outside = (truth < lower - slack) | (truth > upper + slack)
        events = bool(outside.any()), data.band.assumptions.violated
        if any(events):
            return events[0] * number, events[1] * number
        inputs = torch.cat([inputs, data.point(task.rule)])
    return 0, 0


def limit(sequences: int, delta: float, false_alarm: float) -> int:
    r"""The events that are passed with at most this probability, at rate delta."""
    return int(binom.ppf(1.0 - false_alarm, sequences, delta))


def rows(store: RunStore[Run], tasks: list[CoverageTask]) -> list[dict]:
    r"""Counts for each rule and belief."""
    found: dict[tuple, list[tuple[int, int]]] = {}
    for task in tasks:
        key = task.rule.label, task.norm_factor, task.noise_factor
        run = store.load(task)
        pairs = zip(run.missed, run.contradicted, strict=True)
        found.setdefault(key, []).extend(pairs)
    return [
        {
            "rule": rule,
            "norm_factor": norm,
            "noise_factor": noise,
            "sequences": len(events),
            "missed": sum(missed > 0 for missed, _ in events),
            "contradicted": sum(against > 0 for _, against in events),
            "either": sum(any(event) for event in events),
        }
        for (rule, norm, noise), events in found.items()
    ]


def table(part: Coverage, counts: list[dict]) -> list[str]:
    r"""Bands that believe the truth, then wrong ones."""
    protocol = part.protocol
    sequences = counts[0]["sequences"]
    allowed = limit(sequences, protocol.delta, part.false_alarm)
    power = binom.sf(allowed, sequences, 2.0 * protocol.delta)
    cells = [
        [
            row["rule"],
            _belief(row),
            *(f"{row[k]}" for k in ("sequences", "missed", "contradicted", "either")),
        ]
        for row in counts
    ]
    header = ["points chosen by", "band believes", "sequences", "missed", "contradicted"]
    return [
        f"Sequences of {protocol.starts + protocol.rounds - 1} observations, a look at the "
        f"band on all {part.setting.arms} arms after each, delta {protocol.delta:g}: those "
        "in which the function was outside the band at any arm after any of them, and "
        "those in which no function of the norm bound was left; a sequence ends there. At "
        f"rate delta more than {allowed} of {sequences} would come with probability "
        f"{part.false_alarm:g} at most; at twice that rate they would with probability "
        f"{power:.4f}.",
        "",
        *markdown_table([*header, "either"], cells),
    ]


def _belief(row: dict) -> str:
    if row["norm_factor"] != 1.0:
        return f"{row['norm_factor']:g} times the norm"
    if row["noise_factor"] != 1.0:
        return f"{row['noise_factor']:g} times the noise"
    return "the truth"
