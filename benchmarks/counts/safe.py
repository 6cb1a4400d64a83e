r"""Runs that must stay where a failure probability is below a threshold.

The objective is known, it is the input itself: "as fast as possible, but at most a fifth
of the parts may fail". At every point some parts are tested, and the number of failures
is seen. Even rounds play the best point of the safe set, odd ones its widest interval.
"""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from benchmarks.counts.problems import Problem
from benchmarks.counts.variational import VariationalBand
from kernelucb import SafeSet
from kernelucb.exceptions import UncertifiedError

_INDUCING = 25
_ATTEMPTS = 1000
_ROUND_OFF = 1e-9
# Which candidates are safe, and how wide the interval is at each, from candidates played
# and numbers of failures.
Look = Callable[[list[int], Tensor], tuple[Tensor, Tensor]]


def play_safe(settings: dict[str, Any]) -> dict[str, Any]:
    r"""One run.

    Returns:
        ``unsafe``: number of evaluations above the threshold. ``played``: of all
        evaluations after the first; fewer where the data contradicted the band, which
        then refuses to go on. ``known``: share of the truly safe candidates that are in
        the safe set in the end. ``first``: objective of the start point. ``reached``: the
        best in the safe set in the end. ``best``: the best of a truly safe candidate.
    """
    task, begin = SimpleNamespace(**settings), time.process_time()
    problem, start = problem_with_start(task)
    candidates = problem.grid(task.candidates)
    failing, objective = problem.latent(candidates).sigmoid(), candidates[:, 0]
    look = (_variational if task.method == "variational GP" else _ours)(problem, candidates)
    arms, failures = [start], candidates[:0, 0]
    safe = torch.zeros(len(failing), dtype=torch.bool)
    safe[start] = True
    for number in range(task.rounds):
        failures = torch.cat([failures, problem.outcomes(candidates[arms[-1:]])])
        try:
            safe, widths = look(arms, failures)
        except UncertifiedError:  # the data contradict the band
            break
        score = widths if number % 2 else objective
        arms.append(int(torch.where(safe, score, -torch.inf).argmax()))
    truly = failing <= task.threshold + _ROUND_OFF
    return {
        "unsafe": int((~truly[arms]).sum()),
        "played": len(arms) - 1,
        "known": float(safe[truly].double().mean()),
        "first": float(objective[start]),
        "reached": float(objective[safe].max()),
        "best": float(objective[truly].max()),
        "seconds": time.process_time() - begin,
    }


def problem_with_start(task: SimpleNamespace) -> tuple[Problem, int]:
    r"""The first function of this run that has a safe start, and unsafe points."""
    for attempt in range(_ATTEMPTS):
        problem = Problem(task, task.run + 1001 * attempt)
        failing = problem.latent(problem.grid(task.candidates)).sigmoid()
        starts = torch.nonzero(failing <= task.start).squeeze(-1)
        if len(starts) and bool((failing > task.threshold).any()):
            return problem, int(starts[int(problem.random.integers(len(starts)))])
    raise RuntimeError("No function of this setting has safe and unsafe points.")


def _ours(problem: Problem, candidates: Tensor) -> Look:
    threshold = problem.task.threshold

    def look(arms: list[int], failures: Tensor) -> tuple[Tensor, Tensor]:
        band = problem.band(candidates[arms], failures)
        start = candidates[arms[:1]]
        safe_set = SafeSet(band, threshold, sides="<=", safe_points=start)
        lower, upper = band.bounds(candidates)
        return safe_set.is_safe(candidates), upper - lower

    return look


def _variational(problem: Problem, candidates: Tensor) -> Look:
    task = problem.task
    band = VariationalBand(problem.grid(_INDUCING), task.variational_iterations)

    def look(arms: list[int], failures: Tensor) -> tuple[Tensor, Tensor]:
        X = candidates[arms].repeat_interleave(task.num_trials, 0)
        failed = torch.arange(task.num_trials) < failures.unsqueeze(-1)
        band.fit(X, failed.double().flatten())
        lower, upper = band.bounds(candidates)
        safe = upper <= task.threshold
        safe[arms[0]] = True
        return safe, upper - lower

    return look
