r"""One run: a rule plays one seed of a setting."""

import warnings
from dataclasses import dataclass
from time import process_time

import numpy as np
import torch
from botorch.utils.sampling import manual_seed
from linear_operator.utils.warnings import NumericalWarning

from benchmarks.guarded.configuration import Task
from benchmarks.guarded.problems import Problem
from benchmarks.guarded.rules import Round
from benchmarks.runner import stream
from kernelucb import regret_certificate
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_TOLERANCE = 0.05  # of a certificate on the cube
_EARLY = (25, 50)  # looks on arms before the last round


@dataclass(frozen=True)
class Run:
    r"""Result of a task. Regret is the largest value in the domain minus the true value.

    Attributes:
        regret: Of every point that the rule chose.
        rounds: Numbers of the rounds after which the gap was certified.
        gaps: What was certified then.
        recommended: Regret of the points that the certificates are for.
        seconds: Processor time of the whole run.
    """

    regret: list[float]
    rounds: list[int]
    gaps: list[float]
    recommended: list[float]
    seconds: float


def play(task: Task) -> Run:
    r"""Play one task. It depends on nothing else that was drawn in this process."""
    own = stream(task.seed, "own", task.setting.name, task.rule.name)
    with manual_seed(int(own.integers(2**31))), warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # a jitter of BoTorch's
        warnings.simplefilter("ignore", RuntimeWarning)  # a search that begins anew
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)  # counted
        return _play(task)


def _play(task: Task) -> Run:
    begin, protocol = process_time(), task.protocol
    problem = Problem.draw(protocol, task.setting, task.seed)
    inputs = problem.starts
    early = () if problem.is_box else _EARLY
    looks = [*(number for number in early if number < protocol.rounds), protocol.rounds]
    gaps, recommended = [], []
    for number in range(1, protocol.rounds + 1):
        values = problem.function(inputs)
        point = Round(problem, inputs, values + problem.noise[: len(inputs)]).point(
            task.rule
        )
        inputs = torch.cat([inputs, point])
        if number in looks:
            values = problem.function(inputs)
            band = Round(problem, inputs, values + problem.noise[: len(inputs)]).band
            domain = {"bounds": problem.cube} if problem.is_box else {}
            certificate = regret_certificate(
                band,
                None if problem.is_box else problem.arms,
                tolerance=_TOLERANCE,
                **domain,
            )
            gaps.append(certificate.gap)
            value = problem.function(certificate.recommended.unsqueeze(0))
            recommended.append(problem.optimum - float(value))
    values = problem.function(inputs[protocol.starts :])
    regret = (problem.optimum - values).tolist()
    if not np.all(np.isfinite([*regret, *gaps])):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    return Run(regret, looks, gaps, recommended, process_time() - begin)
