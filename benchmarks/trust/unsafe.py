r"""Are points evaluated that ``SafeSet`` calls safe and are not?"""

import warnings
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from benchmarks.practical.fitting import fitted_model
from benchmarks.runner import stream
from benchmarks.safety.problems import DELTA, NOISE_STD, Outcome, line, random_outcome
from kernelucb import KernelRegression, MartingaleMixtureUCB, SafeSet
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError

ARMS, LENGTHSCALE, THRESHOLD, START = 40, 0.2, 0.0, 5


def play_safe(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Evaluate the safe arm closest to the threshold, where a wrong band shows first.

    Returns:
        Whether the band was refused because something was estimated, whether the safe set
        refused to go on because the data contradicted its assumptions, and the number of
        evaluated points that violate the constraint.
    """
    task = SimpleNamespace(**settings)
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
            return _ended(truth, chosen, not band.assumptions.violated)
        chosen.append(_edge(safe_set, arms, chosen))
    return _ended(truth, chosen)


def _start(truth: Tensor, arms: Tensor) -> list[int]:
    r"""The best arm and the truly safe arms next to it, known to be safe."""
    distance = (arms - arms[truth.argmax()]).abs().squeeze(-1)
    return torch.where(truth >= THRESHOLD, distance, torch.inf).argsort()[:START].tolist()


def _band(task: SimpleNamespace, constraint: Outcome, X: Tensor, outcomes: Tensor) -> Any:
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


def _ended(truth: Tensor, chosen: list[int], refused: bool | None = None) -> dict[str, Any]:
    unsafe = int((truth[chosen] < THRESHOLD).sum())
    return {"refused": refused is True, "contradicted": refused is False, "unsafe": unsafe}
