r"""Looking for the largest success probability, one outcome in a round."""

import math
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.counts.exact_set import Basis, ExactSet, penalised
from benchmarks.counts.problems import Interval, Problem
from benchmarks.counts.rivals import GaussianBand, VariationalBand, losses_of
from benchmarks.runner import outside, quiet, stream
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_TIE, _ROUND_OFF = 1e-9, 1e-9
_INDUCING = 25  # points of a grid
_GAP = 1e-2  # of log odds, by which the convex set may be computed too large
# Intervals for the probability of every candidate, from candidates played and outcomes.
Learner = Callable[[list[int], Tensor], Interval]


@quiet(InconsistentConfidenceSetWarning)
def play_regret(settings: dict[str, Any]) -> dict[str, Any]:
    r"""One method on one function.

    Returns:
        ``regrets`` of the played candidates; ``simple``, that of the candidate with the
        largest lower end after the last round; ``missed``, the first round after which a
        candidate's probability was outside, 0 where none was; ``width``, the mean in the
        end; ``seconds``.
    """
    task = SimpleNamespace(**settings)
    begin, problem = time.process_time(), Problem(task, task.run)
    candidates = problem.grid(task.candidates)
    truth = problem.latent(candidates).sigmoid()
    learner = _LEARNERS[task.method](problem, candidates)
    own = stream(task.stream, "choices", task.setting, task.run)
    draws = torch.from_numpy(problem.random.random(task.rounds))
    arms, Y, missed = [int(own.integers(len(truth)))], draws[:0], 0
    lower = upper = truth
    for number in range(task.rounds):
        success = draws[number] < truth[arms[-1]]
        Y = torch.cat([Y, success[None].double()])
        is_last = number == task.rounds - 1
        if task.method == "random" and not is_last:
            arms.append(int(own.integers(len(truth))))
            continue
        lower, upper = learner(arms, Y)
        if not missed and bool(outside(truth, lower, upper, _ROUND_OFF).any()):
            missed = number + 1
        if not is_last:
            best = torch.nonzero(upper >= upper.max() - _TIE).squeeze(-1)
            arms.append(int(best[int(own.integers(len(best)))]))
    regrets = truth.max() - truth
    return {
        "regrets": regrets[arms].tolist(),
        "simple": float(regrets[int(lower.argmax())]),
        "missed": missed,
        "width": float((upper - lower).mean()),
        "seconds": time.process_time() - begin,
    }


def _ours(problem: Problem, candidates: Tensor) -> Learner:
    return lambda arms, Y: problem.band(candidates[arms], Y).bounds(candidates)


def _gaussian(problem: Problem, candidates: Tensor) -> Learner:
    band = GaussianBand(problem)
    return lambda arms, Y: band.bounds(candidates[arms], Y, candidates)


class _Running:
    r"""The convex set of running estimators; lower ends after the last round only."""

    def __init__(self, problem: Problem, candidates: Tensor) -> None:
        self.problem, self.task = problem, problem.task
        self.basis = Basis(problem.kernel, candidates[:0], candidates)
        self.estimate = np.zeros(self.basis.queries.shape[1])
        self.limit = math.log(1.0 / self.task.delta)

    def __call__(self, arms: list[int], Y: Tensor) -> Interval:
        task, losses = self.task, losses_of(self.problem, Y)
        last = slice(len(arms) - 1, len(arms))
        self.basis.rows = rows = self.basis.queries[arms]
        latent = task.mean + rows[last] @ self.estimate
        self.limit += float(losses.part(last)(latent)[0].sum())
        self.estimate = penalised(rows, losses, task.mean, task.penalty, self.estimate)
        exact = ExactSet(self.basis, losses, task.mean, task.norm_bound, self.limit, _GAP)
        upper = torch.from_numpy(exact.ends(1.0) + _GAP).sigmoid()
        if len(arms) < task.rounds:
            return torch.zeros_like(upper), upper
        return torch.from_numpy(exact.ends(-1.0) - _GAP).sigmoid(), upper


def _variational(problem: Problem, candidates: Tensor) -> Learner:
    iterations = problem.task.variational_iterations
    band = VariationalBand(problem.grid(_INDUCING), iterations)

    return lambda arms, Y: band.fitted(candidates[arms], Y).bounds(candidates)


_LEARNERS: dict[str, Callable[[Problem, Tensor], Learner]] = {
    "LikelihoodUCB": _ours,
    "Gaussian band": _gaussian,
    "running estimators": _Running,
    "variational GP": _variational,
    "random": _ours,  # uniform choices; the band recommends in the end
}
