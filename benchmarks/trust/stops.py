r"""Does ``CertifiedGapStopping`` stop too far from the optimum?"""

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.practical.fitting import fitted_model
from benchmarks.runner import fixed_kernel, stream
from benchmarks.trust.functions import (
    drawn_values,
    line,
    test_function,
)
from kernelucb import (
    CertifiedGapStopping,
    KernelRegression,
    MartingaleMixtureUCB,
    NormTracker,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError

NORM, NOISE_STD, LENGTHSCALE, DELTA = 10.0, 0.1, 0.1, 0.05
GAP, FITTED_GAP, FITTED_START = 1.0, 0.25, 5
FITTED = "fitted"


class _Game(NamedTuple):
    r"""A function on a finite set of arms, and what the bound is told about it."""

    arms: Tensor
    values: Tensor
    gap: float
    start: list[int]
    state: Callable[[Tensor, Tensor], Any]


def play_stop(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Play the largest upper bound and ask the rule in every round.

    Returns:
        Whether the rule raised ``UncertifiedError``, the number of observations at the
        stop (0 without one), and the true regret of the recommended point then, over the
        accepted gap.
    """
    task = SimpleNamespace(**settings)
    game = _game(task)
    noise = torch.from_numpy(stream(task.seed, "noise").standard_normal(200)) * NOISE_STD
    rule = CertifiedGapStopping(game.gap, game.arms, allow_estimated=task.allow_estimated)
    norm_bound, chosen = _norm_bound(task.norm_bound), list(game.start)
    for _ in range(task.rounds):
        outcomes = game.values[chosen] + noise[: len(chosen)]
        state = game.state(game.arms[chosen], outcomes)
        with warnings.catch_warnings():
            # Data that contradict a norm given: the rule sees it and does not stop.
            warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            acqf = MartingaleMixtureUCB(
                state, norm_bound=norm_bound, delta=DELTA, fit="martingale"
            )
        try:
            decision = rule(acqf)
        except UncertifiedError:
            return _ended(refused=True)
        if decision.stop:
            same = (game.arms == decision.certificate.recommended).all(-1)
            regret = game.values.max() - game.values[same].min()
            return _ended(stopped=len(chosen), regret=float(regret) / game.gap)
        chosen.append(int(acqf.bounds(game.arms)[1].argmax()))
    return _ended()


def _ended(refused: bool = False, stopped: int = 0, regret: float = 0.0) -> dict[str, Any]:
    return {"refused": refused, "stopped": stopped, "regret": regret}


def _game(task: SimpleNamespace) -> _Game:
    random = stream(task.seed, "start")
    if task.kernel == FITTED:
        arms, values = test_function(task.function)
        start = random.choice(len(arms), FITTED_START, replace=False).tolist()
        return _Game(arms, values, FITTED_GAP, start, lambda X, Y: _fitted(X, Y))
    kernel = fixed_kernel(task.kernel, LENGTHSCALE)
    values = drawn_values(task.function, kernel, NORM, task.seed)
    start = [int(random.integers(len(values)))]
    return _Game(
        line(), values, GAP, start, lambda X, Y: KernelRegression(X, Y, kernel, NOISE_STD)
    )


def _fitted(X: Tensor, Y: Tensor) -> Any:
    return fitted_model(X, Y, None)[0]


def _norm_bound(name: str) -> Any:
    tracker = NormTracker.cautious()
    return {"given": NORM, "none": None, "cautious": "cautious", "tracker": tracker}[name]
