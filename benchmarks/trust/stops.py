r"""Does ``CertifiedGapStopping`` stop too far from the optimum?"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks import runner
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


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run.

    Attributes:
        kernel: ``"rbf"`` or ``"matern52"``, known to the bound, or ``"fitted"``: a
            ``SingleTaskGP`` with its defaults, fitted again in every round.
        function: ``"random"`` or ``"spike"``, of norm 10; with ``"fitted"`` one of
            ``TEST_FUNCTIONS``.
        norm_bound: ``"given"``, ``"none"``, ``"cautious"``, or ``"tracker"``, a cautious
            one that is kept over the rounds.
        allow_estimated: Of the rule.
        rounds: How often the rule is asked at most.
        seed: Of function, start and noise; the same for all rules.
    """

    kernel: str
    function: str
    norm_bound: str
    allow_estimated: bool
    rounds: int
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each rule on each kind of function."""
        consent = "allowed" if self.allow_estimated else "default"
        function = self.function.replace(" ", "-").lower()
        file = f"{self.rounds}-rounds-seed-{self.seed:03d}.json"
        folder = f"{self.kernel}-{function}"
        return PurePath("stops", f"{self.norm_bound}-{consent}", folder, file)


@dataclass(frozen=True)
class Run:
    r"""How one run ended.

    Attributes:
        refused: Whether the rule raised ``UncertifiedError``.
        stopped: Number of observations at the stop; 0 without one.
        regret: True regret of the recommended point at the stop, over the accepted gap.
    """

    refused: bool = False
    stopped: int = 0
    regret: float = 0.0

    @property
    def false_stop(self) -> bool:
        r"""Whether it stopped further from the optimum than accepted."""
        return self.stopped > 0 and self.regret > 1.0


class _Game(NamedTuple):
    r"""A function on a finite set of arms, and what the bound is told about it."""

    arms: Tensor
    values: Tensor
    gap: float
    start: list[int]
    state: Callable[[Tensor, Tensor], Any]


def play(task: Task) -> Run:
    r"""Play the largest upper bound and ask the rule in every round."""
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
            return Run(refused=True)
        if decision.stop:
            same = (game.arms == decision.certificate.recommended).all(-1)
            regret = game.values.max() - game.values[same].min()
            return Run(stopped=len(chosen), regret=float(regret) / game.gap)
        chosen.append(int(acqf.bounds(game.arms)[1].argmax()))
    return Run()


def _game(task: Task) -> _Game:
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
