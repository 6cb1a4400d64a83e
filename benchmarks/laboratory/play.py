r"""Runs on a table whose outcomes are drawn from its replicates."""

import math
import warnings
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.reliability.claims import chosen_by, problem_of
from benchmarks.runner.files import replicates_of
from kernelucb import (
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    ReplicateNoise,
    confirmation,
    lengthscale_family,
    optimum_report,
)
from kernelucb.regression.named import fixed_kernel

DELTA, LENGTHSCALE = 0.05, 0.5
MARGINS = (1.05, 1.5, 2.0, 3.0)  # times the least consistent norm
COUNTS = (20, 50, 100)
_START, _CONFIRMING = 10, 4
_SIGN = {"agnp": -1.0}  # a loss
_RANGES = {"direct_arylation": (0.0, 100.0)}
_NO_REPLICATES = {"direct_arylation": 2.0}  # % of yield, Gaussian, instead


class Laboratory(NamedTuple):
    r"""A table: ``N x d`` settings, all outcomes of each, and their means."""

    X: Tensor
    outcomes: list[np.ndarray]
    means: Tensor
    noise_std: float  # that is added, 0 where there are replicates

    @classmethod
    def of(cls, name: str) -> "Laboratory":
        X, outcomes = replicates_of(name)
        outcomes = [_SIGN.get(name, 1.0) * each for each in outcomes]
        means = torch.tensor([each.mean() for each in outcomes], dtype=torch.float64)
        return cls(X, outcomes, means, _NO_REPLICATES.get(name, 0.0))

    @property
    def spread(self) -> float:
        return float(self.means.max() - self.means.min())

    def every(self) -> tuple[Tensor, Tensor]:
        r"""Inputs and outcomes of all runs of the table."""
        counts = torch.tensor([len(each) for each in self.outcomes])
        flat = torch.from_numpy(np.concatenate(self.outcomes)).double()
        return self.X.repeat_interleave(counts, 0), flat

    def draw(self, row: int, random: np.random.Generator) -> float:
        drawn = float(random.choice(self.outcomes[row]))
        return drawn + self.noise_std * float(random.standard_normal())

    def noise(self, kind: str) -> Any:
        r"""What is said of the noise: ``"one"`` scale, or ``"groups"`` by first column."""
        if self.noise_std > 0.0:
            return self.noise_std
        by = None if kind == "one" else lambda X: X[:, 0]
        return ReplicateNoise(*self.every(), groups=by)


def _scales(noise: Any, X: Tensor) -> Tensor | float:
    return noise.scales(X, DELTA) if isinstance(noise, ReplicateNoise) else noise


def _band(kernel: str, X: Tensor, Z: Tensor, noise: Any) -> Any:
    r"""The band of standardised outcomes whose norm bound ``relaxed`` multiplies."""
    own = fixed_kernel("matern52", LENGTHSCALE, 1.0)
    state = KernelRegression(X, Z, own, noise)
    if kernel == "family":
        base = fixed_kernel("matern52", 1.0, 1.0)
        family = lengthscale_family(base, shortest=0.25, longest=1.0)
        return KernelFamilyUCB(state, family, norm_bound=1.0, delta=DELTA)
    return MartingaleMixtureUCB(state, norm_bound=1.0, delta=DELTA)


@torch.no_grad()
def play_coverage(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Whether bands at multiples of the least norm miss the mean of a setting."""
    table = Laboratory.of(settings["table"])
    random = np.random.default_rng(settings["seed"])
    taken: list[int] = []
    outcomes: list[float] = []
    rows: list[dict[str, Any]] = []
    noise = table.noise(settings["noise"])
    while len(taken) < max(COUNTS):
        if len(taken) < _START:
            row = int(random.integers(len(table.X)))
        else:  # by a bold upper bound, which follows the noise
            X, Y = table.X[taken], torch.tensor(outcomes, dtype=torch.float64)
            kernel = fixed_kernel("matern52", LENGTHSCALE, float(Y.var()))
            state = KernelRegression(X, Y - Y.mean(), kernel, _scales(noise, X))
            upper = state.mean(table.X) + 2.0 * state.variance(table.X).sqrt()
            row = int(upper.argmax())
        taken.append(row)
        outcomes.append(table.draw(row, random))
        if len(taken) in COUNTS:
            rows += _coverage(table, taken, outcomes, noise, settings["kernel"])
    return {"rows": rows}


def _coverage(
    table: Laboratory, taken: list[int], outcomes: list[float], noise: Any, kernel: str
) -> list[dict[str, Any]]:
    X, Y = table.X[taken], torch.tensor(outcomes, dtype=torch.float64)
    shift, scale = float(Y.mean()), float(Y.std())
    truth = (table.means - shift) / scale
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # norm bounds below the least are tried
        band = _band(kernel, X, (Y - shift) / scale, _scales(noise, X) / scale)
        least = max(band.relaxed().least_norm_factor, 1e-3)
        for margin in MARGINS:
            own = band.relaxed(margin * least)
            for kind, each in (("band", own), ("arms", own.with_replicates(len(truth)))):
                lower, upper = each.bounds(table.X)
                outside = (truth < lower) | (truth > upper)
                rows.append(
                    {
                        "count": len(taken),
                        "margin": margin,
                        "kind": kind,
                        "missed": bool(outside.any()),
                        "share": float(outside.double().mean()),
                        "width": float((upper - lower).mean()) * scale / table.spread,
                    }
                )
    return rows


@torch.no_grad()
def play_width(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Mean widths over all settings of a table, all of whose runs are known."""
    table = Laboratory.of(settings["table"])
    X, Y = table.every()
    pooled = ReplicateNoise(X, Y)
    noise = pooled.groups[0].estimate
    kernel = fixed_kernel(settings["kernel"], settings["lengthscale"], float(Y.var()))
    state = KernelRegression(X, Y - Y.mean(), kernel, noise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = MartingaleMixtureUCB(state, norm_bound=1.0, delta=DELTA)
        norm = settings["margin"] * float(first.least_consistent_norm)
        band = MartingaleMixtureUCB(state, norm_bound=norm, delta=DELTA)
    # Half of the noise's range is on either side of what is measured.
    span = (noise / 3.0, 3.0 * noise)
    measured = ReplicateNoise(X, Y - Y.mean(), between=span)
    of_noise = MartingaleMixtureUCB(state, norm_bound=norm, noise_std=measured)
    arms, design = len(table.X), {"candidates": table.X}
    bands = {
        "band": band,
        "replicates": band.with_replicates(arms),
        "design": band.with_fixed_design(len(Y), **design),
        "both": band.with_replicates(arms).with_fixed_design(len(Y), **design),
        "noise_measured": of_noise,
        "all_measured": of_noise.with_replicates(arms).with_fixed_design(len(Y), **design),
    }
    widths = {}
    for name, each in bands.items():
        lower, upper = each.bounds(table.X)
        widths[name] = float((upper - lower).mean())
    counts = torch.tensor([float(len(each)) for each in table.outcomes]).double()
    level = 2.0 * math.log(2.0 * arms / DELTA)
    plain = 2.0 * noise * (level / counts).sqrt()
    return {"plain": float(plain.mean()), "norm": norm, "noise": noise} | widths


@torch.no_grad()
def play_claims(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Claims after a search, and four confirming runs; which are false by the table."""
    name, seed = settings["table"], settings["seed"]
    table = Laboratory.of(name)
    problem = problem_of(name, seed)._replace(pool=table.X, values=table.means)
    random = np.random.default_rng(7000 + seed)
    known: list[float] = []

    def outcome(taken: list[int]) -> Tensor:
        while len(known) < len(taken):
            known.append(table.draw(taken[len(known)], random))
        return torch.tensor(known[: len(taken)], dtype=torch.float64)

    noise = table.noise("one")
    rows: list[dict[str, Any]] = []
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        chosen = chosen_by(problem, settings["design"], seed, outcome)
        taken: list[int] = []
        for row in islice(chosen, max(COUNTS)):
            taken.append(row)
            if len(taken) in COUNTS[1:]:
                Y = outcome(taken)
                rows += _claims(table, name, taken, Y, noise, settings["margin"], random)
    return {"rows": rows}


def _claims(
    table: Laboratory,
    name: str,
    taken: list[int],
    Y: Tensor,
    noise: Any,
    margin: float,
    random: np.random.Generator,
) -> list[dict[str, Any]]:
    X, scale = table.X[taken], _scales(noise, table.X[taken])
    shift = float(Y.mean())
    kernel = fixed_kernel("matern52", LENGTHSCALE, float(Y.var()))
    state = KernelRegression(X, Y - shift, kernel, scale)
    first = MartingaleMixtureUCB(state, norm_bound=float(Y.std()), delta=DELTA)
    norm = margin * float(first.relaxed().least_consistent_norm)
    band = MartingaleMixtureUCB(state, norm_bound=norm, delta=DELTA)
    if name in _RANGES:
        low, high = _RANGES[name]
        band = band.within(low - shift, high - shift)
    best = taken[int(state.mean(X).argmax())]
    report = optimum_report(
        band, candidates=table.X, recommended=table.X[best], baseline=table.X[taken[0]]
    )
    value, truth = float(table.means[best]) - shift, table.means - shift
    rise = value - float(truth[taken[0]])
    gap = float(truth.max()) - value
    rows = []
    for claim in report.claims:
        own = claim.numbers
        false = {
            "value": lambda own=own: not own[0] <= value <= own[1],
            "baseline": lambda own=own: rise < own[0],
            "anywhere": lambda own=own: gap > own[0],
        }.get(claim.kind)
        if false is None:
            continue
        size = own[1] - own[0] if claim.kind == "value" else own[0]
        rows.append({"kind": claim.kind, "false": bool(false()), "size": size})
    runs = [
        [table.draw(row, random) for _ in range(_CONFIRMING)] for row in (best, taken[0])
    ]
    single = float(scale.max()) if isinstance(scale, Tensor) else scale
    found = confirmation(*runs, noise_std=single, delta=DELTA, expected_runs=_CONFIRMING)
    false = not found.lower <= rise <= found.upper
    rows.append({"kind": "confirmed", "false": false, "size": found.lower})
    return [
        row
        | {"count": len(taken), "regret": gap / table.spread}
        | {"size": row["size"] / table.spread}
        for row in rows
    ]
