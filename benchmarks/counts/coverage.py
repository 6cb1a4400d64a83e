r"""How often a band misses the function, at any point of a grid in any round."""

import warnings
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from benchmarks.counts.problems import Problem
from kernelucb import LikelihoodUCB
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_ROUND_OFF = 1e-9  # of the norm bound


def play_coverage(settings: dict[str, Any]) -> dict[str, Any]:
    r"""A block of sequences; for each the first round of an event, 0 without it.

    Returns:
        ``missed``: the function was outside the band at some candidate. ``contradicted``:
        no function of the norm bound fits the data. A sequence ends with either.
        ``closest``: smallest distance to the edge of the band, over its width there, at
        any candidate in any round.
    """
    task = SimpleNamespace(**settings)
    numbers = range(task.block * task.size, (task.block + 1) * task.size)
    columns = zip(*(_sequence(task, number) for number in numbers), strict=True)
    names = ("missed", "contradicted", "closest")
    return dict(zip(names, map(list, columns), strict=True))


def _sequence(task: SimpleNamespace, number: int) -> tuple[int, int, float]:
    problem = Problem(task, number, task.chooser)
    candidates = problem.grid(task.candidates)
    truth, closest = problem.latent(candidates), 1.0
    X, band, room = candidates[:0], None, truth
    Y = X[:, 0]
    for look, count in enumerate(task.batches, 1):
        points = _chosen(task.chooser, problem, candidates, band, room, count)
        X, Y = torch.cat([X, points]), torch.cat([Y, problem.outcomes(points)])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", InconsistentConfidenceSetWarning)
                band = problem.band(X, Y, task.norm_factor, task.copies)
        except InconsistentConfidenceSetWarning:
            return 0, look, closest
        lower, upper = band.latent_bounds(candidates)
        room = torch.minimum(truth - lower, upper - truth)
        closest = min(closest, float((room / (upper - lower)).min()))
        if bool((room < -_ROUND_OFF * task.norm_bound).any()):
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
