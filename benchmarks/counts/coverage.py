r"""How often a band misses the function, at any point of a grid in any round."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.counts.problems import Problem, grid
from benchmarks.counts.settings import CoverageTask
from benchmarks.runner import RunStore
from kernelucb import LikelihoodUCB
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_ROUND_OFF = 1e-9  # of the norm bound


@dataclass(frozen=True)
class Run:
    r"""For each sequence of a block the first round of an event, 0 where it never came.

    Attributes:
        missed: The function was outside the band at some candidate.
        contradicted: No function of the norm bound fits the data.
        closest: Smallest distance to the edge of the band, over its width there, at any
            candidate in any round.
    """

    missed: list[int]
    contradicted: list[int]
    closest: list[float]


def play(task: CoverageTask) -> Run:
    r"""Play one block; a sequence ends where one of the events comes."""
    run = Run([], [], [])
    for number in range(task.block * task.size, (task.block + 1) * task.size):
        missed, contradicted, closest = _sequence(task, number)
        run.missed.append(missed)
        run.contradicted.append(contradicted)
        run.closest.append(closest)
    return run


def _sequence(task: CoverageTask, number: int) -> tuple[int, int, float]:
    problem = Problem.draw(task.protocol, task.setting, number, task.chooser)
    candidates = grid(task.candidates, task.setting.dimension)
    truth, closest = problem.latent(candidates), 1.0
    slack = _ROUND_OFF * task.setting.norm_bound
    X, band, room = candidates[:0], None, truth
    Y = X[:, 0]
    for look, count in enumerate(task.batches, 1):
        points = _chosen(task.chooser, problem, candidates, band, room, count)
        X, Y = torch.cat([X, points]), torch.cat([Y, problem.outcomes(points)])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", InconsistentConfidenceSetWarning)
                band = problem.band(X, Y, task.belief.norm, task.belief.copies)
        except InconsistentConfidenceSetWarning:
            return 0, look, closest
        lower, upper = band.latent_bounds(candidates)
        room = torch.minimum(truth - lower, upper - truth)
        closest = min(closest, float((room / (upper - lower)).min()))
        if bool((room < -slack).any()):
            return look, 0, closest
    return 0, 0, closest


def _chosen(
    chooser: str,
    problem: Problem,
    candidates: Tensor,
    band: LikelihoodUCB | None,
    room: Tensor,
    count: int,
) -> Tensor:
    r"""Points of a round: each the best of its own random half of the candidates.

    ``"nearest miss"`` knows the function, and plays where it is closest to an edge of the
    band, or outside.
    """
    size = len(candidates)
    if band is None or chooser == "uniform":
        return candidates[problem.random.integers(size, size=count)]
    score = -room
    if chooser == "bound":
        with torch.no_grad():
            score = band(candidates.unsqueeze(1))
    best = []
    for _ in range(count):
        half = torch.from_numpy(problem.random.permutation(size)[: (size + 1) // 2])
        best.append(half[score[half].argmax()])
    return candidates[torch.stack(best)]


def rows(store: RunStore[Run], tasks: Sequence[CoverageTask]) -> list[dict]:
    r"""Counts for each setting, chooser and belief."""
    found: dict[tuple[str, str, str], list[tuple[int, int, float]]] = {}
    for task in tasks:
        run, key = store.load(task), (task.setting.title, task.chooser, task.belief.name)
        events = zip(run.missed, run.contradicted, run.closest, strict=True)
        found.setdefault(key, []).extend(events)
    return [
        {
            "setting": title,
            "chooser": chooser,
            "belief": belief,
            "sequences": len(events),
            "missed": sum(event[0] > 0 for event in events),
            "contradicted": sum(event[1] > 0 for event in events),
            "either": sum(any(event[:2]) for event in events),
            "closest": f"{min(event[2] for event in events):.3g}",
        }
        for (title, chooser, belief), events in found.items()
    ]
