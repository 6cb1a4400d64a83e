r"""Are points evaluated that ``SafeSet`` calls safe and are not?"""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from benchmarks.practical.fitting import fitted_model
from benchmarks.runner import line, quiet, stream
from benchmarks.safety.play import (
    ARMS,
    DELTA,
    NOISE_STD,
    THRESHOLD,
    Outcome,
    constraint_of,
    edge,
)
from kernelucb import KernelRegression, MartingaleMixtureUCB, SafeSet
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError

START = 5


def play_safe(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Evaluate the safe arm closest to the threshold, where a wrong band shows first.

    Returns:
        Whether the band was refused because something was estimated, whether the safe set
        refused to go on because the data contradicted its assumptions, and the number of
        evaluated points that violate the constraint.
    """
    task, arms = SimpleNamespace(**settings), line(ARMS)
    allowed: Any = {"allow_estimated": task.allow_estimated}
    constraint = constraint_of(task.seed, task.norm)
    truth, chosen = constraint.values, _start(constraint.values, arms)
    noise = torch.from_numpy(stream(task.seed, "noise").standard_normal(200)) * NOISE_STD
    for _ in range(task.rounds):
        outcomes = truth[chosen] + noise[: len(chosen)]
        band = _band(task, constraint, arms[chosen], outcomes)
        try:
            safe = SafeSet(band, THRESHOLD, safe_points=arms[chosen], **allowed)
        except UncertifiedError:
            return _ended(truth, chosen, not band.assumptions.violated)
        chosen.append(edge(safe.margin(arms), safe.is_safe(arms), chosen))
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
    norm_bound = given[task.norm_bound]
    with quiet(InconsistentConfidenceSetWarning):  # SafeSet refuses such a band; counted
        return MartingaleMixtureUCB(
            state, norm_bound=norm_bound, delta=DELTA, fit="martingale"
        )


def _ended(truth: Tensor, chosen: list[int], refused: bool | None = None) -> dict[str, Any]:
    unsafe = int((truth[chosen] < THRESHOLD).sum())
    return {"refused": refused is True, "contradicted": refused is False, "unsafe": unsafe}
