r"""Are points evaluated that ``SafeSet`` calls safe and are not?"""

import warnings
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import torch
from torch import Tensor

from benchmarks import runner
from benchmarks.practical.fitting import fitted_model
from benchmarks.runner import stream
from benchmarks.safety.problems import DELTA, NOISE_STD, Outcome, line, random_outcome
from kernelucb import KernelRegression, MartingaleMixtureUCB, SafeSet
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError

ARMS, LENGTHSCALE, THRESHOLD, START = 40, 0.2, 0.0, 5


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run.

    Attributes:
        model: ``"known"`` (kernel and noise given) or ``"fitted"`` (a ``SingleTaskGP``
            with its defaults, fitted again in every round).
        norm: Of the constraint.
        norm_bound: ``"given"``, ``"none"`` or ``"cautious"``.
        allow_estimated: Of the safe set.
        rounds: Number of evaluations after the start.
        seed: Of the constraint and the noise; the same for all.
    """

    model: str
    norm: float
    norm_bound: str
    allow_estimated: bool
    rounds: int
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each band."""
        consent = "allowed" if self.allow_estimated else "default"
        file = f"{self.rounds}-rounds-seed-{self.seed:03d}.json"
        band = f"{self.model}-{self.norm_bound}-{consent}"
        return PurePath("unsafe", f"norm-{self.norm:g}", band, file)


@dataclass(frozen=True)
class Run:
    r"""How one run ended.

    Attributes:
        refused: Whether the band was refused because something was estimated.
        contradicted: Whether the safe set refused to go on because the data contradicted
            the band's assumptions.
        unsafe: Evaluated points that violate the constraint.
    """

    refused: bool = False
    contradicted: bool = False
    unsafe: int = 0


def play(task: Task) -> Run:
    r"""Evaluate the safe arm closest to the threshold, where a wrong band shows first."""
    arms = line(ARMS)
    constraint = random_outcome(2 * task.seed + 1, arms, task.norm, LENGTHSCALE)
    truth, chosen = constraint.values, _start(constraint.values, arms)
    noise = torch.from_numpy(stream(task.seed, "noise").standard_normal(200)) * NOISE_STD
    for _ in range(task.rounds):
        outcomes = truth[chosen] + noise[: len(chosen)]
        band = _band(task, constraint, arms[chosen], outcomes)
        try:
            safe_set = SafeSet(
                band,
                THRESHOLD,
                safe_points=arms[chosen],
                allow_estimated=task.allow_estimated,
            )
        except UncertifiedError:
            contradicted = band.assumptions.violated
            unsafe = _violations(truth, chosen)
            return Run(not contradicted, contradicted, unsafe)
        chosen.append(_edge(safe_set, arms, chosen))
    return Run(unsafe=_violations(truth, chosen))


def _start(truth: Tensor, arms: Tensor) -> list[int]:
    r"""The best arm and the truly safe arms next to it, known to be safe."""
    distance = (arms - arms[truth.argmax()]).abs().squeeze(-1)
    return torch.where(truth >= THRESHOLD, distance, torch.inf).argsort()[:START].tolist()


def _band(task: Task, constraint: Outcome, X: Tensor, outcomes: Tensor) -> Any:
    if task.model == "fitted":
        state: Any = fitted_model(X, outcomes, None)[0]
    else:
        state = KernelRegression(X, outcomes, constraint.kernel, NOISE_STD)
    given = {"given": constraint.norm, "none": None, "cautious": "cautious"}
    with warnings.catch_warnings():
        # The safe set refuses such a band, and the run counts that.
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return MartingaleMixtureUCB(
            state, norm_bound=given[task.norm_bound], delta=DELTA, fit="martingale"
        )


def _edge(safe_set: SafeSet, arms: Tensor, chosen: list[int]) -> int:
    r"""The safe arm of least margin that was not evaluated yet, if there is one."""
    margin, safe = safe_set.margin(arms), safe_set.is_safe(arms)
    fresh = safe.clone()
    fresh[chosen] = False
    candidates = fresh if bool(fresh.any()) else safe
    return int(torch.where(candidates, margin, torch.inf).argmin())


def _violations(truth: Tensor, chosen: list[int]) -> int:
    return int((truth[chosen] < THRESHOLD).sum())
