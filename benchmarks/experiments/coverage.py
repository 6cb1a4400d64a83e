r"""How often a report on a mixed space, in a context or with a constraint is wrong."""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import torch
from scipy.stats import binom
from torch import Tensor

from benchmarks.experiments.configuration import Coverage, CoverageTask
from benchmarks.experiments.problems import KnownFunction, cube, drawn
from benchmarks.runner import RunStore, markdown_table, most_events
from kernelucb import (
    ConstrainedUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    MixedSpace,
    optimum_report,
)
from kernelucb.certificates import OptimumReport
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.exceptions import InconsistentConfidenceSetWarning, NoSafePointError

_ROUND_OFF = 1e-9
PARTS = ("interval", "region", "gap", "feasibility")


@dataclass(frozen=True)
class Run:
    r"""For each sequence of a block what was wrong, and how many reports there were.

    Attributes:
        wrong: The parts that were wrong at the first look at which one was; a sequence
            ends there.
        looks: Reports that were made; there is none where no point is certainly feasible.
    """

    wrong: list[list[str]]
    looks: list[int]


def play(task: CoverageTask) -> Run:
    r"""Play one block. It depends on nothing else that was drawn in this process."""
    found = []
    for number in range(task.block * task.size, (task.block + 1) * task.size):
        with warnings.catch_warnings():  # an empty set may happen, with probability delta
            warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            found.append(_Sequence(task, number).play())
    return Run([wrong for wrong, _ in found], [looks for _, looks in found])


class _Sequence:
    r"""Observations of one function, or of two, and the reports on them."""

    def __init__(self, task: CoverageTask, number: int) -> None:
        self.task, self.setting, self.part = task, task.setting, task.space
        names = task.case, number
        self.objective, self.other = (
            KnownFunction.draw(task.protocol, task.setting, *names, i) for i in range(2)
        )
        self.random = drawn(task.protocol, task.setting, "data", *names)
        noise = self.random.standard_normal((2, self.part.looks[-1]))
        self.noise = task.setting.noise_std * torch.from_numpy(noise)
        self.arms = self.points(self.part.arms)
        self.grid = self.points(self.part.grid)
        self.has_constraint = task.case == "constrained"
        self.space = MixedSpace(cube(2), discrete_dims={1: self.part.codes})

    def points(self, count: int) -> Tensor:
        r"""All codes at so many values of the continuous input."""
        line = torch.linspace(0.0, 1.0, count, dtype=torch.float64)
        codes = torch.tensor(self.part.codes, dtype=torch.float64)
        return torch.cartesian_prod(line, codes)

    def band(self, function: KnownFunction, noise: Tensor, X: Tensor):
        r"""With its share of delta, and the beliefs of the task."""
        factor, delta = self.task.factor, self.part.delta
        state = KernelRegression(
            X,
            function(X) + noise[: len(X)],
            function.kernel,
            factor * self.setting.noise_std,
        )
        delta = delta / 2 if self.has_constraint else delta
        return MartingaleMixtureUCB(
            state, norm_bound=factor * self.setting.norm, delta=delta
        )

    def play(self) -> tuple[list[str], int]:
        r"""What was wrong, and the number of reports."""
        X, looks = self.arms[:0], 0
        for number in range(1, self.part.looks[-1] + 1):
            code = self.context()
            arms = self.arms if code is None else self.arms[self.arms[:, 1] == code]
            X = torch.cat([X, self.next_point(X, arms)])
            if number in self.part.looks:
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
        return float(self.random.choice(self.part.codes))

    def next_point(self, X: Tensor, arms: Tensor) -> Tensor:
        r"""The arm of largest upper bound, of those that may be feasible; ``1 x d``."""
        if len(X) == 0:
            return arms[[int(self.random.integers(len(arms)))]]
        acqf = self.band(self.objective, self.noise[0], X)
        if self.has_constraint:
            acqf = ConstrainedUCB(acqf, self.constraints(X), temperature=0.0)
        with torch.no_grad():
            return arms[[int(acqf(arms.unsqueeze(1)).argmax())]]

    def constraints(self, X: Tensor) -> OutcomeConstraints:
        r"""What the band of the other function says."""
        return OutcomeConstraints(self.band(self.other, self.noise[1], X), self.part.level)

    def report(self, X: Tensor, code: float | None) -> OptimumReport:
        r"""On all data so far, for today's context."""
        return optimum_report(
            self.band(self.objective, self.noise[0], X),
            space=self.space,
            fixed_features=None if code is None else {1: code},
            constraints=self.constraints(X) if self.has_constraint else None,
            max_evaluations=self.part.evaluations,
        )

    def wrong(self, report: OptimumReport, code: float | None) -> list[str]:
        r"""The parts of a report that the grid contradicts."""
        grid = self.grid if code is None else self.grid[self.grid[:, 1] == code]
        recommended = report.recommended.unsqueeze(0)
        feasible = True
        if self.has_constraint:
            grid = grid[self.other(grid) >= self.part.level]
            feasible = float(self.other(recommended)) >= self.part.level - _ROUND_OFF
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


def rows(store: RunStore[Run], tasks: Sequence[CoverageTask]) -> list[dict]:
    r"""Counts for each case and belief."""
    found: dict[tuple[str, float], list[Run]] = {}
    for task in tasks:
        found.setdefault((task.case, task.factor), []).append(store.load(task))
    return [
        {
            "case": case,
            "factor": factor,
            "sequences": sum(len(run.wrong) for run in runs),
            "reports": sum(sum(run.looks) for run in runs),
            "failed": sum(any(wrong) for run in runs for wrong in run.wrong),
            **{
                part: sum(part in wrong for run in runs for wrong in run.wrong)
                for part in PARTS
            },
        }
        for (case, factor), runs in found.items()
    ]


def table(part: Coverage, counts: list[dict]) -> list[str]:
    r"""Bands that believe the truth, then wrong ones."""
    cells = []
    for row in counts:
        allowed = most_events(row["sequences"], part.delta, part.false_alarm)
        belief = "the truth" if row["factor"] == 1.0 else f"{row['factor']:g} of both"
        numbers = (row[k] for k in ("sequences", "reports", "failed"))
        cells.append(
            [row["case"], belief, *map(str, numbers), str(allowed)]
            + [str(row[each]) for each in PARTS]
        )
    count = counts[0]["sequences"]
    allowed = most_events(count, part.delta, part.false_alarm)
    alarm, power = (
        float(binom.sf(allowed, count, rate)) for rate in (part.delta, 2.0 * part.delta)
    )
    looks = ", ".join(map(str, part.looks))
    header = ["case", "norm and noise believed", "sequences", "reports", "failed", "limit"]
    return [
        f"Reports after {looks} observations, delta {part.delta:g} for all bands together. "
        "A sequence failed if any part of any report was wrong, and ends there; the last "
        f"columns say which parts. At rate delta more than {allowed} of {count} would come "
        f"with probability {alarm:.1e}, at twice that rate with probability {power:.3f}.",
        "",
        *markdown_table([*header, *PARTS], cells),
    ]
