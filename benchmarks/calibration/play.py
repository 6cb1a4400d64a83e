r"""Policies, and replays of them: one run of a study is one replay.

A replay's random numbers follow from its seed and number, as in ``calibrate``: numbers of
one seed are exchangeable, whichever of them calibrate and whichever are tested.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import process_time

import torch
from botorch.acquisition import (
    AcquisitionFunction,
    UpperConfidenceBound,
    qLogNoisyExpectedImprovement,
)
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from torch import Tensor

from benchmarks.calibration.fit import MODELS
from benchmarks.calibration.problems import FAMILIES
from benchmarks.runner import sobol_points, unit_cube
from benchmarks.runner.study import Settings
from kernelucb import MartingaleMixtureUCB
from kernelucb.calibration import (
    BandClaim,
    LevelSetClaim,
    LevelShareClaim,
    Loop,
    OptimumClaim,
    RegretClaim,
    ValueClaim,
)
from kernelucb.calibration.claims import Claim
from kernelucb.calibration.policy import Functions
from kernelucb.calibration.replay import Line, Replays

WRONG = 0.05  # share of points that a level set may claim wrongly


@dataclass(frozen=True)
class UpperBound:
    r"""One round: the listed point of largest mean plus so many standard deviations.

    The model is fitted anew.
    """

    points: Tensor
    deviations: float

    def __call__(self, X: Tensor, Y: Tensor) -> tuple[Model, Tensor]:
        model = MODELS["BoTorch"](X, Y)
        with torch.no_grad():
            posterior = model.posterior(self.points)
            upper = posterior.mean + self.deviations * posterior.variance.sqrt()
        return model, self.points[upper.argmax()].unsqueeze(0)


def claims_of(level: float) -> dict[str, Claim]:
    r"""Every kind of claim, by its name in tables."""
    return {
        "regret": RegretClaim(),
        "value": ValueClaim(),
        "optimum": OptimumClaim(),
        "band": BandClaim(),
        "level set": LevelSetClaim(level, wrong=WRONG),
        "level share": LevelShareClaim(level),
    }


def replayed(loop: Loop, functions: Functions, claims: dict, s: Settings) -> dict:
    r"""Scores of a replay by the names of claims, its statistics and its seconds."""
    started = process_time()
    replays = Replays(loop, functions, tuple(claims.values()), s["seed"])
    line: Line = replays.play(s["number"], loop.rounds)
    scores = {name: line["scores"][claim.name] for name, claim in claims.items()}
    seconds = process_time() - started
    return {"scores": scores, "statistics": line["statistics"], "seconds": seconds}


def validity(s: Settings) -> dict:
    r"""The upper bound over listed points, on a function of a family."""
    points, (functions, level) = sobol_points(s["points"], 2, seed=0), FAMILIES[s["family"]]
    policy = UpperBound(points, s["deviations"])
    loop = Loop(policy, candidates=points, starts=s["starts"], rounds=s["rounds"])
    return replayed(loop, functions, claims_of(level), s)


RULES: dict[str, Callable[[SingleTaskGP, Tensor], AcquisitionFunction]] = {
    "default": lambda model, _: MartingaleMixtureUCB(model),
    "no improvement": lambda model, _: MartingaleMixtureUCB(model, turns=("upper", "mean")),
    "upper bound": lambda model, _: UpperConfidenceBound(model, beta=4.0),
    "qLogNEI": qLogNoisyExpectedImprovement,
}
AS_AX = "default, searched as by Ax"
RULES[AS_AX] = RULES["default"]


@dataclass(frozen=True)
class Search:
    r"""One round: the maximum in the unit square of a rule on a model fitted anew."""

    model: str
    rule: str
    num_restarts: int
    raw_samples: int

    def __call__(self, X: Tensor, Y: Tensor) -> tuple[Model, Tensor]:
        model = MODELS[self.model](X, Y)
        rule, sizes = RULES[self.rule](model, X), (self.num_restarts, self.raw_samples)
        candidate, _ = optimize_acqf(rule, unit_cube(X.shape[1]), 1, *sizes)
        return model, candidate


def policies(s: Settings) -> dict:
    r"""A policy in the unit square, on a draw of a prior."""
    policy = Search(s["model"], s["rule"], s["num_restarts"], s["raw_samples"])
    loop = Loop(policy, unit_cube(2), starts=s["starts"], rounds=s["rounds"])
    return replayed(loop, FAMILIES[s["family"]].functions, {"regret": RegretClaim()}, s)
