r"""Runs that must stay where a failure probability is below a threshold.

The objective is known, it is the input itself: "as fast as possible, but at most a fifth
of the parts may fail". At every point some parts are tested, and the number of failures
is seen. Even rounds play the best point of the safe set, odd ones its widest interval.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.counts.configuration import SafeTask
from benchmarks.counts.problems import Problem, grid
from benchmarks.counts.variational import VariationalBand
from benchmarks.runner import RunStore
from kernelucb import SafeSet
from kernelucb.exceptions import UncertifiedError

_INDUCING = 25
_ATTEMPTS = 1000
_ROUND_OFF = 1e-9


@dataclass(frozen=True)
class Run:
    r"""One run.

    Attributes:
        unsafe: Number of evaluations above the threshold.
        rounds: Of all evaluations after the first; fewer where the data contradicted the
            band, which then refuses to go on.
        known: Share of the truly safe candidates that are in the safe set in the end.
        start: Objective of the start point.
        reached: Best objective in the safe set in the end.
        best: Best objective of a truly safe candidate.
    """

    unsafe: int
    rounds: int
    known: float
    start: float
    reached: float
    best: float
    seconds: float


class _Sequence:
    r"""Outcomes at candidates, and what a method knows to be safe.

    Args:
        start: The candidate that is known to be safe beforehand.
    """

    def __init__(self, task: SafeTask, problem: Problem, candidates: Tensor, start: int):
        self.task, self.problem, self.candidates = task, problem, candidates
        self.arms, self.Y = [start], candidates[:0, 0]
        inducing = grid(_INDUCING, task.setting.dimension)
        self.variational = VariationalBand(inducing, task.variational_iterations)

    def observe(self) -> None:
        r"""The number of failures at the last arm."""
        point = self.candidates[self.arms[-1:]]
        self.Y = torch.cat([self.Y, self.problem.outcomes(point)])

    def look(self) -> tuple[Tensor, Tensor]:
        r"""Which candidates are safe, and how wide the interval is at each.

        Raises:
            UncertifiedError: If the data contradict the band.
        """
        start = self.candidates[self.arms[:1]]
        if self.task.method == "variational GP":
            trials = self.task.setting.num_trials
            X = self.candidates[self.arms].repeat_interleave(trials, 0)
            failed = torch.arange(trials) < self.Y.unsqueeze(-1)
            self.variational.fit(X, failed.double().flatten())
            lower, upper = self.variational.bounds(self.candidates)
            safe = upper <= self.task.threshold
            safe[self.arms[0]] = True
            return safe, upper - lower
        band = self.problem.band(self.candidates[self.arms], self.Y)
        safe_set = SafeSet(band, self.task.threshold, sides="<=", safe_points=start)
        lower, upper = band.bounds(self.candidates)
        return safe_set.is_safe(self.candidates), upper - lower


def play(task: SafeTask) -> Run:
    r"""One run."""
    begin = time.process_time()
    problem, start = _with_start(task)
    candidates = grid(task.candidates, task.setting.dimension)
    failing, objective = problem.latent(candidates).sigmoid(), candidates[:, 0]
    sequence = _Sequence(task, problem, candidates, start)
    safe = torch.zeros(len(failing), dtype=torch.bool)
    safe[start] = True
    for number in range(task.rounds):
        sequence.observe()
        try:
            safe, widths = sequence.look()
        except UncertifiedError:
            break
        score = widths if number % 2 else objective
        sequence.arms.append(int(torch.where(safe, score, -torch.inf).argmax()))
    played = failing[sequence.arms]
    truly = failing <= task.threshold + _ROUND_OFF
    return Run(
        int((played > task.threshold + _ROUND_OFF).sum()),
        len(sequence.arms) - 1,
        float(safe[truly].double().mean()),
        float(objective[start]),
        float(objective[safe].max()),
        float(objective[truly].max()),
        time.process_time() - begin,
    )


def _with_start(task: SafeTask) -> tuple[Problem, int]:
    r"""The first function of this run that has a safe start, and unsafe points."""
    candidates = grid(task.candidates, task.setting.dimension)
    for attempt in range(_ATTEMPTS):
        number = task.run + 1001 * attempt
        problem = Problem.draw(task.protocol, task.setting, number)
        failing = problem.latent(candidates).sigmoid()
        starts = torch.nonzero(failing <= task.start).squeeze(-1)
        if len(starts) and bool((failing > task.threshold).any()):
            return problem, int(starts[int(problem.random.integers(len(starts)))])
    raise RuntimeError("No function of this setting has safe and unsafe points.")


def rows(store: RunStore[Run], tasks: Sequence[SafeTask]) -> list[dict]:
    r"""One row for each run."""
    found = []
    for task in tasks:
        run = store.load(task)
        found.append(
            {
                "kernel": task.setting.kernel,
                "method": task.method,
                "run": task.run,
                "unsafe": run.unsafe,
                "rounds": run.rounds,
                "known": f"{run.known:.4g}",
                "start": f"{run.start:.4g}",
                "reached": f"{run.reached:.4g}",
                "best": f"{run.best:.4g}",
                "seconds": f"{run.seconds:.3g}",
            }
        )
    return found
