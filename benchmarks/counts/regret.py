r"""Looking for the largest success probability, one outcome in a round."""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.counts.configuration import RegretTask
from benchmarks.counts.learners import LEARNERS
from benchmarks.counts.problems import Problem, grid
from benchmarks.runner import RunStore, stream
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_TIE = 1e-9
_ROUND_OFF = 1e-9


@dataclass(frozen=True)
class Run:
    r"""One run.

    Attributes:
        regrets: Of the played candidates.
        simple: Regret of the candidate with the largest lower end, after the last round.
        missed: First round after which a candidate's probability was outside; 0 where
            none was.
        width: Mean width in the end.
    """

    regrets: list[float]
    simple: float
    missed: int
    width: float
    seconds: float


def play(task: RegretTask) -> Run:
    r"""One method on one function."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return _play(task)


def _play(task: RegretTask) -> Run:
    begin = time.process_time()
    problem = Problem.draw(task.protocol, task.setting, task.run)
    candidates = grid(task.candidates, task.setting.dimension)
    truth = problem.latent(candidates).sigmoid()
    learner = LEARNERS[task.method](task, problem, candidates)
    own = stream(task.protocol.seed, "choices", task.setting.name, task.run)
    draws = torch.from_numpy(problem.random.random(task.rounds))
    arms, Y, missed = [int(own.integers(len(truth)))], draws[:0], 0
    bounds = truth, truth
    for number in range(task.rounds):
        success = draws[number] < truth[arms[-1]]
        Y = torch.cat([Y, success[None].double()])
        if learner.is_random and number < task.rounds - 1:
            arms.append(int(own.integers(len(truth))))
            continue
        bounds = learner.bounds(arms, Y)
        if not missed and _is_outside(truth, *bounds):
            missed = number + 1
        if number < task.rounds - 1:
            best = torch.nonzero(bounds[1] >= bounds[1].max() - _TIE).squeeze(-1)
            arms.append(int(best[int(own.integers(len(best)))]))
    regrets = truth.max() - truth
    recommended = int(bounds[0].argmax())
    return Run(
        regrets[arms].tolist(),
        float(regrets[recommended]),
        missed,
        float((bounds[1] - bounds[0]).mean()),
        time.process_time() - begin,
    )


def _is_outside(truth: Tensor, lower: Tensor, upper: Tensor) -> bool:
    return bool(((truth < lower - _ROUND_OFF) | (truth > upper + _ROUND_OFF)).any())


def rows(store: RunStore[Run], tasks: Sequence[RegretTask]) -> list[dict]:
    r"""One row for each run."""
    found = []
    for task in tasks:
        run = store.load(task)
        found.append(
            {
                "kernel": task.setting.kernel,
                "dimension": task.setting.dimension,
                "method": task.method,
                "run": task.run,
                "cumulative": f"{sum(run.regrets):.5g}",
                "simple": f"{run.simple:.5g}",
                "missed": run.missed,
                "width": f"{run.width:.5g}",
                "seconds": f"{run.seconds:.3g}",
            }
        )
    return found
