r"""Does a stop by a family of kernels, certified beside any search, come too early?"""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

import torch
from botorch import acquisition
from torch import Tensor

from benchmarks import runner
from benchmarks.practical.fitting import fitted_model
from benchmarks.runner import fixed_kernel, stream
from benchmarks.trust.functions import drawn_values, line
from kernelucb import (
    CertifiedGapStopping,
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    lengthscale_family,
)
from kernelucb.regression.kernel_family import LengthscaleFamily

SHORTEST, LONGEST = 0.1, 0.8
NORM, NOISE_STD, DELTA, GAP, START = 3.0, 0.1, 0.05, 0.5, 3
GIVEN = {"norm_bound": NORM, "noise_std": NOISE_STD, "delta": DELTA}
REFITTED = ("logei", "logei+widest")


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One run.

    Attributes:
        kernel: ``"rbf"`` or ``"matern52"``; the length scale is drawn, uniform in its
            logarithm from ``SHORTEST`` to ``LONGEST``.
        search: ``"logei"``: ``LogExpectedImprovement`` on a ``SingleTaskGP`` refitted in
            every round. ``"logei+widest"``: the family's upper bound in every second round.
            ``"widest"``: in all. ``"ax"``: the same in an Ax experiment. ``"known"``: the
            upper bound with the true kernel; only its certificate is asked.
        rounds: How many observations at most.
        seed: Of length scale, function, start and noise; the same for all searches.
    """

    kernel: str
    search: str
    rounds: int
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each search and kernel."""
        file = f"{self.rounds}-rounds-seed-{self.seed:03d}.json"
        return PurePath("stops", self.search, self.kernel, file)


@dataclass(frozen=True)
class Run:
    r"""When each certificate let a run stop, on the same data.

    Attributes:
        lengthscale: The true one.
        family: Number of observations at the stop by the family; 0 without one.
        family_regret: True regret of the recommended point then, over the accepted gap.
        known: The same with the true kernel.
        known_regret: The same.
    """

    lengthscale: float
    family: int = 0
    family_regret: float = 0.0
    known: int = 0
    known_regret: float = 0.0

    def false_stop(self, certificate: str) -> bool:
        r"""Whether ``"family"`` or ``"known"`` stopped further off than accepted."""
        return getattr(self, f"{certificate}_regret") > 1.0


class Game(NamedTuple):
    r"""A function on a finite set of arms under a kernel that only one side knows."""

    kernel: str
    lengthscale: float
    kernels: LengthscaleFamily
    arms: Tensor
    values: Tensor

    @classmethod
    def of(cls, task: Task) -> "Game":
        r"""The game of a task."""
        share = float(stream(task.seed, "length").random())
        length = SHORTEST * (LONGEST / SHORTEST) ** share
        kernel = fixed_kernel(task.kernel, length)
        values = drawn_values("random", kernel, NORM, task.seed)
        family = lengthscale_family(kernel, SHORTEST, LONGEST)
        return cls(task.kernel, length, family, line()[::2], values[::2])

    def known(self, X: Tensor, Y: Tensor) -> MartingaleMixtureUCB:
        r"""The bound that knows the kernel."""
        kernel = fixed_kernel(self.kernel, self.lengthscale)
        state = KernelRegression(X, Y, kernel, NOISE_STD)
        return MartingaleMixtureUCB(state, norm_bound=NORM, delta=DELTA)

    def family(self, model: Any) -> KernelFamilyUCB:
        r"""The bound that knows the ends of the length scales."""
        family = KernelFamily(self.kernels, select="widest")
        return KernelFamilyUCB(model, family, **GIVEN)


class Referee:
    r"""Asks both certificates until each has let the run stop."""

    def __init__(self, game: Game) -> None:
        self.game, self.rule = game, CertifiedGapStopping(GAP, game.arms)
        self.stops: dict[str, tuple[int, float]] = {}

    def ask(self, bounds: dict[str, Any], count: int) -> bool:
        r"""Note the first stop of each certificate; whether each has stopped."""
        for name, bound in bounds.items():
            if name in self.stops:
                continue
            decision = self.rule(bound)
            if decision.stop:
                same = (self.game.arms == decision.certificate.recommended).all(-1)
                self.note(name, count, int(same.int().argmax()))
        return self.stops.keys() >= bounds.keys()

    def note(self, name: str, count: int, recommended: int) -> None:
        r"""A certificate stopped after ``count`` observations with this arm."""
        regret = self.game.values.max() - self.game.values[recommended]
        self.stops[name] = count, float(regret) / GAP

    @property
    def run(self) -> Run:
        r"""What came out."""
        fields = {name: count for name, (count, _) in self.stops.items()}
        regrets = {f"{name}_regret": each for name, (_, each) in self.stops.items()}
        return Run(self.game.lengthscale, **fields, **regrets)


def play(task: Task) -> Run:
    r"""Play a search and ask both certificates in every round."""
    if task.search == "ax":
        from benchmarks.unknown_kernel.stops_ax import play_in_ax

        return play_in_ax(task)
    game = Game.of(task)
    referee, random = Referee(game), stream(task.seed, "start")
    chosen = random.choice(len(game.arms), START, replace=False).tolist()
    noise = NOISE_STD * torch.from_numpy(noises(task))
    while True:
        X, Y = game.arms[chosen], game.values[chosen] + noise[: len(chosen)]
        bounds: dict[str, Any] = {"known": game.known(X, Y)}
        if task.search != "known":
            data = KernelRegression(X, Y, fixed_kernel("rbf", 1.0), NOISE_STD)
            refitted = task.search in REFITTED
            model = fitted_model(X, Y, None)[0] if refitted else data
            bounds["family"] = game.family(model)
        if referee.ask(bounds, len(chosen)) or len(chosen) == task.rounds:
            return referee.run
        acqf = bounds.get("family", bounds["known"])
        if task.search == "logei" or (task.search in REFITTED and len(chosen) % 2 == 0):
            best = model.posterior(model.train_inputs[0]).mean.max()
            acqf = acquisition.LogExpectedImprovement(model, best)
        with torch.no_grad():
            chosen.append(int(acqf(game.arms.unsqueeze(-2)).argmax()))


def noises(task: Task) -> Any:
    r"""Standard normal numbers, one for each observation."""
    return stream(task.seed, "noise").standard_normal(task.rounds)
