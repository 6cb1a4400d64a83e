r"""The default search with the package's margins, on functions that no prior drew.

A run keeps the least margin at which its claim is true and the largest at which it stops,
so that margins of any prior are tried on the same runs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from botorch.test_functions import (
    Ackley,
    Branin,
    Hartmann,
    Levy,
    Rosenbrock,
    SixHumpCamel,
    SyntheticTestFunction,
)
from torch import Tensor

from benchmarks.calibration.play import Search, replayed
from benchmarks.runner import captioned, sobol_points, unit_cube
from benchmarks.runner.simulators import SALLEN_KEY, SIMULATORS
from benchmarks.runner.study import Settings, Summary
from kernelucb.calibration import Loop, RegretClaim, default_margins
from kernelucb.calibration.claims import Look, Truth
from kernelucb.calibration.default import Prior
from kernelucb.calibration.policy import Functions, Problem
from kernelucb.calibration.run import TESTED

NOISE = 0.02  # of the range
ACCEPTED = 0.05, 0.1  # regrets at which to stop, of the range
DELTAS = 0.1, 0.2, 0.3
PRIORS: tuple[Prior, ...] = "botorch", "matern", "either"
_SIZES = 8, 256  # restarts and samples of the default policy
_TESTED: dict[str, SyntheticTestFunction] = {
    "Branin": Branin(negate=True),
    "six-hump camel": SixHumpCamel(negate=True),
    "Rosenbrock 2": Rosenbrock(2, negate=True),
    "Levy 2": Levy(2, negate=True),
    "Ackley 2": Ackley(2, negate=True),  # a needle
    "Hartmann 3": Hartmann(3, negate=True),
    "Hartmann 6": Hartmann(6, negate=True),
}
_SIMULATED = SIMULATORS | {"Sallen-Key": SALLEN_KEY}
NAMES = [*_SIMULATED, *_TESTED]


class Named(NamedTuple):
    r"""A function of the unit cube."""

    function: Callable[[Tensor], Tensor]
    dimension: int

    @classmethod
    def of(cls, name: str) -> "Named":
        if name in _SIMULATED:
            process = _SIMULATED[name]
            return cls(lambda X: torch.from_numpy(process(X.numpy())), process.dimension)
        tested = _TESTED[name]
        lower, upper = tested.bounds.double()
        return cls(lambda X: tested(lower + (upper - lower) * X), tested.dim)

    @property
    def spread(self) -> float:
        r"""Range over 16,384 points."""
        values = self.function(sobol_points(16_384, self.dimension, seed=0))
        return float(values.max() - values.min())


@dataclass(frozen=True)
class OneFunction(Functions):
    r"""The same function in every replay; the noise is another."""

    name: str

    statement = "the function is this one"

    def draw(self, number: int, generator: torch.Generator) -> Problem:
        named = Named.of(self.name)
        return Problem(named.function, NOISE * named.spread)


@dataclass(frozen=True)
class Regret(RegretClaim):
    r"""As its score, the regret of the recommended input over the range."""

    spread: float

    def score(self, look: Look, truth: Truth) -> float:
        return (truth.best - float(truth.values[look.recommended])) / self.spread


@dataclass(frozen=True)
class Reach(Regret):
    r"""As its score, the margin above which the gap is above ``accepted`` of the range."""

    accepted: float

    def score(self, look: Look, truth: Truth) -> float:
        best = float(truth.values[look.recommended]) + self.accepted * self.spread
        return RegretClaim.score(self, look, truth._replace(best=best))


def stopped(s: Settings) -> dict:
    r"""The default search on a function, its fits by ``benchmarks.calibration.fit``."""
    named = Named.of(s["function"])
    spread, inputs = named.spread, named.dimension
    policy = Search("BoTorch", s["rule"], *_SIZES)
    loop = Loop(policy, unit_cube(inputs), rounds=s["rounds"])
    claims = {"regret": Regret(spread), "claim": RegretClaim()}
    claims |= {str(share): Reach(spread, share) for share in ACCEPTED}
    return replayed(loop, OneFunction(s["function"]), claims, s) | {"inputs": inputs}


def stops_by_default(runs: pd.DataFrame) -> dict[str, Summary]:
    r"""Stops at the package's margins of each prior, and at the larger ones."""
    looks = pd.DataFrame(
        row
        for run in runs.to_dict("records")
        for prior in PRIORS
        for delta in DELTAS
        for row in decided(run, prior, delta)
    )
    by = ["margins", "delta"]
    text = (
        f"{len(runs)} default searches of {runs['function'].nunique()} functions, two to "
        f"six inputs, up to {runs['rounds'].iloc[0]} runs, noise {NOISE:.0%} of the range. "
        "False: share of the runs with a stop at a regret that is not accepted; claim "
        "false: share of the runs in which the claim was false at some round."
    )
    return {
        "": _summary(looks, by, text),
        "by_function": _summary(looks[looks["delta"] == DELTAS[0]], ["function", *by], ""),
    }


def decided(run: dict, prior: Prior, delta: float) -> list[dict]:
    r"""For each regret to accept, when it stopped and whether falsely."""
    margins = default_margins(unit_cube(run["inputs"]), prior=prior)
    first = margins.first
    late = {
        name: np.array(each)[first - run["starts"] :]
        for name, each in (run["scores"] | run["statistics"]).items()
    }
    counts = range(first, run["rounds"] + 1)
    needed = np.array(
        [margins.margin(RegretClaim(), delta * (1.0 - TESTED), n) for n in counts]
    )
    limits = {
        k: margins.limit(k, TESTED * delta / len(run["statistics"]))
        for k in run["statistics"]
    }
    beyond = [late[name] > limit for name, limit in limits.items()]
    unlike = np.maximum.accumulate(np.any(beyond, 0))
    rows = []
    for share in ACCEPTED:
        may = (late[str(share)] >= needed) & ~unlike
        at, is_stop = int(may.argmax()), bool(may.any())
        rows.append(
            {
                "function": run["function"],
                "margins": prior,
                "delta": delta,
                "accepted": share,
                "spent": counts[at] if is_stop else np.nan,
                "false": is_stop and bool(late["regret"][at] > share),
                "claim false": bool((late["claim"] > needed).any()),
                "unlike": bool(unlike.any()),
            }
        )
    return rows


def _summary(looks: pd.DataFrame, by: list[str], text: str) -> Summary:
    rows = []
    for names, part in looks.groupby(by, sort=False):
        row = dict(zip(by, names, strict=True))
        for share, own in part.groupby("accepted"):
            row["runs"] = len(own)
            row[f"stops at {share:.0%}"] = int(own["spent"].notna().sum())
            row[f"false at {share:.0%}"] = int(own["false"].sum())
            row[f"runs spent at {share:.0%}"] = own["spent"].median()
        row["claim false"] = round(float(part["claim false"].mean()), 3)
        row["unlike"] = round(float(part["unlike"].mean()), 3)
        rows.append(row)
    table = pd.DataFrame(rows)
    cells = [[str(cell).replace("nan", "-") for cell in row] for row in table.to_numpy()]
    return Summary(table, captioned(text, [*table.columns], cells) if text else [])
