r"""Earlier tasks: draws of a reaction's constants, and tables of HPO-B of one space.

A task is listed points and a value at each, and the search is among these. Beside the
calibrated gap stand the same gap at 1.96 posterior standard deviations (plug-in), and for
the reaction the certified gap of the fixed kernel and the norm of as many draws.
"""

from dataclasses import dataclass, field
from functools import cache

import torch
from botorch.models.model import Model
from torch import Tensor

from benchmarks.calibration.play import UpperBound, replayed
from benchmarks.calibration.problems import batch_reaction
from benchmarks.hpob.tasks import GROUPS, task_of
from benchmarks.runner import fixed_kernel, quiet, sobol_points
from benchmarks.runner.study import Settings
from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    norm_from_simulator,
    regret_certificate,
)
from kernelucb.calibration import Loop, RegretClaim, Tables
from kernelucb.calibration.claims import Look
from kernelucb.calibration.policy import Choose
from kernelucb.confidence.tasks import NormFromTasks

DRAWS = 99  # of the reaction calibrate, and give the norm; the others are fresh
RANK = 95  # of their norms: above it with 5 %, and the band fails with another 5 %
DELTA = 0.1
LENGTHS = 0.125, 0.25, 0.5  # of the certified band's kernel
MEAN = 30.0  # %, its mean
PLUG_IN = 1.96
SPACES = [table for group in GROUPS for table in group]


@dataclass(frozen=True)
class Recorder:
    r"""A policy that remembers model and data after some numbers of outcomes."""

    choose: Choose
    looks: list[int]
    kept: dict[int, tuple[Model, Tensor, Tensor]] = field(default_factory=dict, repr=False)

    def __call__(self, X: Tensor, Y: Tensor) -> tuple[Model, Tensor]:
        model, candidate = self.choose(X, Y)
        if len(X) in self.looks:
            self.kept[len(X)] = model, X, Y
        return model, candidate


def reaction(points: Tensor, number: int) -> Tensor:
    r"""Yields (%) of a draw at the points."""
    return batch_reaction(torch.Generator().manual_seed(number))[0](points)


@cache
def norm_of(length: float, count: int) -> NormFromTasks:
    r"""Of the draws at so many points; one for all runs."""
    points = sobol_points(count, 2, seed=0)
    kernel = fixed_kernel("matern52", length)
    return norm_from_simulator(
        lambda number: reaction(points, number) - MEAN, points, kernel, DRAWS, rank=RANK
    )


def searched(s: Settings) -> dict:
    r"""A search of a task, and what is said of its recommended point on the way.

    ``gain`` and ``apart``: posterior mean and standard deviation of the difference to the
    recommended point, so that the gap at any margin follows.
    """
    is_draw = s["task"] == "reaction"
    if is_draw:
        points = sobol_points(s["points"], 2, seed=0)
        values = reaction(points, s["number"])
    else:
        points, values = task_of(s["task"], s["number"], 0, s["points"], s["apart"])
    policy = Recorder(UpperBound(points, s["deviations"]), s["looks"])
    loop = Loop(policy, candidates=points, starts=s["starts"], rounds=s["rounds"])
    functions = Tables([(points, values)], s["noise_std"])
    own_seed = {"seed": s["number"], "number": 0}
    results = replayed(loop, functions, {"regret": RegretClaim()}, own_seed)
    spread, looks = float(values.max() - values.min()), []
    for model, X, Y in policy.kept.values():
        look = Look.of(model, X, loop)
        gain = (look.mean - look.mean[look.recommended])[look.runs :]
        recommended = X[look.recommended].unsqueeze(0)
        at = int((points == recommended).all(-1).nonzero()[0])
        said = {
            "gain": gain.tolist(),
            "apart": look.difference_std[look.runs :].tolist(),
            "regret": float(values.max() - values[at]),
        }
        if is_draw and s["number"] >= DRAWS:
            given = points, X, Y, recommended, s["noise_std"]
            said["certified"] = [certified(length, *given) for length in LENGTHS]
        looks.append(said)
    return results | {"range": spread, "said": looks}


@quiet()  # of norms that the data contradict
def certified(
    length: float,
    points: Tensor,
    X: Tensor,
    Y: Tensor,
    recommended: Tensor,
    noise_std: float,
) -> float:
    r"""The certified gap of a recommended point, outcome units."""
    kernel = fixed_kernel("matern52", length)
    state = KernelRegression(X, Y.squeeze(-1) - MEAN, kernel, noise_std)
    norm = norm_of(length, len(points))
    band = MartingaleMixtureUCB(state, norm_bound=norm, delta=DELTA).band
    return float(regret_certificate(band, points, recommended=recommended).gap)
