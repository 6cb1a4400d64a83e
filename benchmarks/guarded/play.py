r"""One run: a rule plays a function, or a block of short sequences for coverage."""

from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from linear_operator.utils.warnings import NumericalWarning

from benchmarks.guarded.rules import Problem, Round
from benchmarks.runner import outside, quiet, seeded, unit_cube
from kernelucb import regret_certificate
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_TOLERANCE = 0.05  # of a certificate on the cube
_EARLY = (25, 50)  # looks on arms before the last round
_ROUND_OFF = 1e-9  # of the norm
# A jitter of BoTorch's, and what is counted.
_EXPECTED = NumericalWarning, InconsistentConfidenceSetWarning


def play(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Regret of every point and of the recommended ones, certified gaps, and seconds.

    It depends on nothing else that was drawn in this process.
    """
    task = SimpleNamespace(**settings)
    with (
        seeded(task.seed, "own", task.setting, task.rule),
        quiet(*_EXPECTED, RuntimeWarning),
    ):
        return _play(task)


def _play(task: SimpleNamespace) -> dict[str, Any]:
    begin, problem = process_time(), Problem.draw(task, task.seed)
    inputs = problem.starts
    early = () if problem.is_box else _EARLY
    looks = [*(number for number in early if number < task.rounds), task.rounds]
    gaps, recommended = [], []
    domain: Any = {"candidates": problem.arms}
    if problem.is_box:
        domain = {"bounds": unit_cube(task.dimension), "tolerance": _TOLERANCE}
    for number in range(1, task.rounds + 1):
        inputs = torch.cat([inputs, Round.observed(problem, inputs).point()])
        if number in looks:
            band = Round.observed(problem, inputs).band
            certificate = regret_certificate(band, **domain)
            gaps.append(certificate.gap)
            value = problem.function(certificate.recommended.unsqueeze(0))
            recommended.append(problem.optimum - float(value))
    regret = (problem.optimum - problem.function(inputs[task.starts :])).tolist()
    if not np.all(np.isfinite([*regret, *gaps])):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    found = {"regret": regret, "looks": looks, "gaps": gaps, "recommended": recommended}
    return found | {"seconds": process_time() - begin}


def play_sequences(settings: dict[str, Any]) -> dict[str, list[int]]:
    r"""For each sequence of a block the first round of an event, 0 where it never came.

    The function was outside the band at some arm, or no function of the norm bound fits.
    """
    task, found = SimpleNamespace(**settings), []
    for sequence in range(task.block * task.size, (task.block + 1) * task.size):
        with seeded(task.stream, "own", task.rule, sequence), quiet(*_EXPECTED):
            found.append(_sequence(task, sequence))
    missed, contradicted = zip(*found, strict=True)
    return {"missed": list(missed), "contradicted": list(contradicted)}


def _sequence(task: SimpleNamespace, sequence: int) -> tuple[int, int]:
    problem = Problem.draw(task, sequence)
    truth, inputs = problem.function(problem.arms), problem.starts
    belief = task.norm_factor * task.norm, task.noise_factor * task.noise_std
    for number in range(len(inputs), task.starts + task.rounds):
        data = Round.observed(problem, inputs, *belief)
        lower, upper = data.band.bounds(problem.arms)
        missed = outside(truth, lower, upper, _ROUND_OFF * task.norm)
        events = bool(missed.any()), data.band.assumptions.violated
        if any(events):  # a sequence ends there
            return events[0] * number, events[1] * number
        inputs = torch.cat([inputs, data.point()])
    return 0, 0
