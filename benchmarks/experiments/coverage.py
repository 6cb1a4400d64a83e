r"""How often a report on a mixed space, in a context or with a constraint is wrong."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

import kernelucb
from benchmarks.experiments.problems import drawn, known_function
from benchmarks.runner import KnownFunction, quiet, unit_cube
from kernelucb.certificates import OptimumReport
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.exceptions import InconsistentConfidenceSetWarning, NoSafePointError

_ROUND_OFF = 1e-9
PARTS = ("interval", "region", "gap", "feasibility")


@quiet(InconsistentConfidenceSetWarning)  # it may happen, with probability delta
def play_coverage(settings: dict[str, Any]) -> dict[str, Any]:
    r"""A block of sequences. It depends on nothing else that was drawn in this process.

    Returns:
        ``wrong``: for each sequence the parts of a report that were wrong at the first
        look at which one was; a sequence ends there. ``reports``: how many were made;
        there is none where no point is certainly feasible.
    """
    task = SimpleNamespace(**settings)
    numbers = range(task.block * task.size, (task.block + 1) * task.size)
    found = (_Sequence(task, number).play() for number in numbers)
    wrong, reports = map(list, zip(*found, strict=True))
    return {"wrong": wrong, "reports": reports}


class _Sequence:
    r"""Observations of one function, or of two, and the reports on them."""

    def __init__(self, task: SimpleNamespace, number: int) -> None:
        self.task, names = task, (task.case, number)
        self.objective, self.other = (known_function(task, *names, i) for i in range(2))
        self.random = drawn(task, "data", *names)
        noise = self.random.standard_normal((2, task.looks[-1]))
        self.noise = task.noise_std * torch.from_numpy(noise)
        self.arms, self.grid = self.points(task.arms), self.points(task.grid)
        self.has_constraint = task.case == "constrained"
        self.space = kernelucb.MixedSpace(unit_cube(2), discrete_dims={1: task.codes})

    def points(self, count: int) -> Tensor:
        r"""All codes at so many values of the continuous input."""
        line = torch.linspace(0.0, 1.0, count, dtype=torch.float64)
        codes = torch.tensor(self.task.codes, dtype=torch.float64)
        return torch.cartesian_prod(line, codes)

    def band(self, function: KnownFunction, noise: Tensor, X: Tensor):
        r"""With its share of delta, and the beliefs of the task."""
        task, Y = self.task, function(X) + noise[: len(X)]
        noise_std, norm_bound = task.factor * task.noise_std, task.factor * task.norm
        state = kernelucb.KernelRegression(X, Y, function.kernel, noise_std)
        delta = task.delta / 2 if self.has_constraint else task.delta
        return kernelucb.MartingaleMixtureUCB(state, norm_bound=norm_bound, delta=delta)

    def play(self) -> tuple[list[str], int]:
        r"""What was wrong, and the number of reports."""
        X, looks = self.arms[:0], 0
        for number in range(1, self.task.looks[-1] + 1):
            code = self.context()
            arms = self.arms if code is None else self.arms[self.arms[:, 1] == code]
            X = torch.cat([X, self.next_point(X, arms)])
            if number in self.task.looks:
                # Where no point is certainly feasible, nothing is claimed.
                with suppress(NoSafePointError):
                    wrong = self.wrong(self.report(X, code), code)
                    looks += 1
                    if wrong:
                        return wrong, looks
        return [], looks

    def context(self) -> float | None:
        r"""The code of this round, where it is not chosen."""
        if self.task.case != "context":
            return None
        return float(self.random.choice(self.task.codes))

    def next_point(self, X: Tensor, arms: Tensor) -> Tensor:
        r"""The arm of largest upper bound, of those that may be feasible; ``1 x d``."""
        if len(X) == 0:
            return arms[[int(self.random.integers(len(arms)))]]
        acqf = self.band(self.objective, self.noise[0], X)
        if self.has_constraint:
            acqf = kernelucb.ConstrainedUCB(acqf, self.constraints(X), temperature=0.0)
        with torch.no_grad():
            return arms[[int(acqf(arms.unsqueeze(1)).argmax())]]

    def constraints(self, X: Tensor) -> OutcomeConstraints:
        r"""What the band of the other function says."""
        return OutcomeConstraints(self.band(self.other, self.noise[1], X), self.task.level)

    def report(self, X: Tensor, code: float | None) -> OptimumReport:
        r"""On all data so far, for today's context."""
        return kernelucb.optimum_report(
            self.band(self.objective, self.noise[0], X),
            space=self.space,
            fixed_features=None if code is None else {1: code},
            constraints=self.constraints(X) if self.has_constraint else None,
            max_evaluations=self.task.evaluations,
        )

    def wrong(self, report: OptimumReport, code: float | None) -> list[str]:
        r"""The parts of a report that the grid contradicts."""
        grid = self.grid if code is None else self.grid[self.grid[:, 1] == code]
        recommended = report.recommended.unsqueeze(0)
        feasible = True
        if self.has_constraint:
            grid = grid[self.other(grid) >= self.task.level]
            feasible = float(self.other(recommended)) >= self.task.level - _ROUND_OFF
        values, own = self.objective(grid), float(self.objective(recommended))
        largest, best = float(values.max()), grid[values.argmax()]
        low, high = report.region
        holds = {
            # The optimum is at least the value at any feasible point.
            "interval": largest <= report.upper + _ROUND_OFF
            and max(largest, own if feasible else largest) >= report.lower - _ROUND_OFF,
            "region": bool((best >= low - _ROUND_OFF).all())
            and bool((best <= high + _ROUND_OFF).all()),
            "gap": largest - own <= report.gap + _ROUND_OFF,
            "feasibility": feasible,
        }
        return [part for part in PARTS if not holds[part]]
