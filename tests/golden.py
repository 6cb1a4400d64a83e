r"""Golden numbers: what every public bound, bandit, report and claim says, to the digit.

``python tests/golden.py write`` keeps them in a file beside this one, ``python
tests/golden.py`` compares and lists what moved. A change of the house moves none of them by
more than 1e-12 (on one machine; between machines the last digits differ).
"""

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, SupportsFloat

import torch
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "contract"), str(ROOT)]

from bands import BANDS  # noqa: E402

from kernelucb import (  # noqa: E402
    BandUCB,
    BKBBandit,
    FamilyBandit,
    KernelBandit,
    KernelRegression,
    KernelThompsonSampling,
    MartingaleMixtureUCB,
    NormTracker,
    OutcomeConstraints,
    ReplicateNoise,
    SafeSet,
    check_consistency,
    confirmation,
    describe_norm_bound,
    information_gain,
    least_consistent_norm,
    lengthscale_family,
    optimum_report,
    regret_certificate,
    runs_needed,
)
from kernelucb.testing import Truth  # noqa: E402
from problems import constant_mean, frozen_kernel  # noqa: E402

FILE = Path(__file__).with_suffix(".json")
Numbers = Iterator[tuple[str, Any]]


def points(count: int, dimension: int, seed: int) -> Tensor:
    box = torch.tensor([[0.0] * dimension, [1.0] * dimension], dtype=torch.float64)
    return draw_sobol_samples(box, count, 1, seed=seed).squeeze(1)


def reaction(X: Tensor) -> Tensor:
    r"""Yield of B in A -> B -> C, per cent; a problem that no kernel made."""
    heat, hours, dose = 300.0 + 80.0 * X[:, 0], 0.2 + 9.8 * X[:, 1], 0.5 + 1.5 * X[:, 2]
    first, second = (
        rate * dose**power * torch.exp(-energy / 8.314e-3 * (1.0 / heat - 1.0 / 340.0))
        for rate, power, energy in ((0.4, 1.0, 60.0), (0.06, 0.3, 90.0))
    )
    return (
        100.0
        * first
        / (first - second)
        * ((-second * hours).exp() - (-first * hours).exp())
    )


def data_of(truth: Truth, count: int, seed: int) -> tuple[Tensor, Tensor]:
    r"""Runs of a truth, the first three of them repeated."""
    X = points(count, truth.dimension, seed)
    X = torch.cat([X, X[:3]])
    return X, truth.outcomes(X, torch.Generator().manual_seed(seed))


def of_band(acqf: Any, X: Tensor) -> Numbers:
    r"""Sides, values, gains, assumptions and relatives of a band."""
    query, band = points(5, X.shape[1], 9), acqf.band
    yield "bounds", band.bounds(query)
    yield "at the data", band.bounds(X[:2])
    yield "values", acqf(query.unsqueeze(1))
    yield "delta", acqf.assumptions.delta
    yield "norms", band.norm_bounds
    yield "words", str(acqf.assumptions)
    changes = {
        "gain": lambda: band.max_gain_over(query[:3], X[:1]),
        "loss": lambda: band.max_gain_over(query[:3], X[:1], -1),
        "smaller delta": lambda: band.at(delta=0.5 * band.delta).bounds(query[:2]),
        "relaxed": lambda: band.relaxed(1.5, 1.2).bounds(query[:2]),
        "range": lambda: band.within(-1.0, 2.0).bounds(query[:2]),
        "replicates": lambda: band.with_replicates(30).bounds(X[:2]),
        "least norm": lambda: band.relaxed().least_norm_factor,
        "gap": lambda: regret_certificate(acqf, query).gap,
    }
    for name, change in changes.items():
        try:
            yield name, change()
        except Exception as error:  # refusals are golden as well
            yield name, type(error).__name__


def of_bands() -> Numbers:
    r"""Every band of the contract, at few and at more runs."""
    for name, entry in BANDS.items():
        for count, seed in ((5, 1), (16, 2)):
            X, Y = data_of(entry.truth, count, seed)
            band = entry.build(entry.truth.model_of(X, Y))
            for what, value in of_band(band, X):
                yield f"{name}, {count} runs: {what}", value


def of_reaction() -> Numbers:
    r"""Bands, reports, constraints and safe sets of the reaction."""
    X = points(24, 3, 4)
    noise = torch.randn(24, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    Y, kernel = reaction(X) + noise, frozen_kernel("matern52", 0.5)
    state = KernelRegression(X, Y, kernel, 1.0, constant_mean(50.0))
    box = torch.tensor([[0.0] * 3, [1.0] * 3], dtype=torch.float64)
    band = MartingaleMixtureUCB(state, norm_bound=300.0).band.within(0.0, 100.0)
    yield from of_band(BandUCB(band), X)
    limits = OutcomeConstraints(band, 20.0)
    some = {"max_evaluations": 300}
    asked = {
        "box": {"bounds": box, "threshold": 30.0, "baseline": X[0]} | some,
        "context": {"bounds": box, "fixed_features": {1: 0.4}} | some,
        "candidates": {"candidates": X, "tolerance": 2.0},
        "feasible": {"candidates": X, "constraints": limits},
    }
    for name, domain in asked.items():
        found = optimum_report(band, **domain).to_dict()
        yield from ((f"report, {name}: {key}", value) for key, value in found.items())
    safe = SafeSet(band, 20.0, safe_points=X[Y.argmax()].unsqueeze(0))
    yield "safe", safe.is_safe(points(64, 3, 8)).double().sum()
    yield "least norm", least_consistent_norm(state)
    check = check_consistency(state, 300.0)
    yield "consistency", [check.remedy, check.least_consistent_norm]
    yield "description", str(describe_norm_bound(state, 300.0, bounds=box))
    yield (
        "information",
        information_gain(kernel, X, noise_std=1.0, num_points=8, method="upper_bound"),
    )
    yield "confirmation", str(confirmation(Y[:4].tolist(), noise_std=1.0))
    yield "tracker", NormTracker().observe(state)
    yield (
        "replicates",
        ReplicateNoise(torch.cat([X[:3]] * 3), torch.cat([Y[:3]] * 3) + noise[:9]),
    )
    needed = {"norm_bound": 5.0, "noise_std": 0.5, "gap": 2.0, "max_runs": 20}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield "runs", str(runs_needed(frozen_kernel("rbf", 0.5), box[:, :1], **needed))
    sampler = KernelThompsonSampling(state, norm_bound=300.0)
    yield "Thompson", str(sampler.assumptions)


def of_bandits() -> Numbers:
    r"""Traces of the bandits: arms played, sides, norms."""
    truth = Truth.of_norm(3.0, noise_std=0.2, dimension=2, seed=5)
    arms = points(40, 2, 6)
    noise = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    given: dict[str, Any] = {"norm_bound": 4.0, "noise_std": 0.2}
    kernels = lengthscale_family(frozen_kernel("rbf"), 0.15, 0.6)
    made: dict[str, Callable[[], Any]] = {
        f"bandit, {bound}": lambda bound=bound: KernelBandit(
            truth.kernel, bound=bound, **given
        )
        for bound in ("martingale_mixture", "abbasi_yadkori", "igp_ucb")
    }
    made["family bandit"] = lambda: FamilyBandit(kernels, **given)
    made["BKB bandit"] = lambda: BKBBandit(arms, truth.kernel, qbar=5.0, **given)
    for name, make in made.items():
        bandit = make()
        asked = () if name == "BKB bandit" else (arms,)  # it keeps its arms
        for i in range(12):
            chosen = int(bandit.select(*asked))
            outcome = truth.function(arms[chosen : chosen + 1])[0] + noise[i]
            bandit.observe(arms[chosen] if asked else chosen, outcome)
            yield f"{name}: arm {i}", chosen
        yield f"{name}: bounds", bandit.bounds(*asked)
        yield f"{name}: words", str(bandit.assumptions)


def plain(value: Any) -> Any:
    r"""Tensors, tuples and estimates as JSON takes them."""
    if isinstance(value, Tensor):
        return value.detach().double().tolist()
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bool | str | int) or value is None:
        return value
    return float(value) if isinstance(value, SupportsFloat) else str(value)


def numbers() -> dict[str, Any]:
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    rooms = {"": of_bands, "reaction, ": of_reaction, " ": of_bandits}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for prefix, room in rooms.items():
            for name, value in room():
                found[(prefix + name).strip()] = plain(value)
    return found


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        keys = sorted(value) if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield from leaves(value[key])
    else:
        yield value


def differs(now: Any, before: Any, rtol: float) -> bool:
    pairs = list(leaves(now)), list(leaves(before))
    if len(pairs[0]) != len(pairs[1]):
        return True
    for one, other in zip(*pairs, strict=True):
        both = isinstance(one, float | int) and isinstance(other, float | int)
        if both and not math.isclose(one, other, rel_tol=rtol, abs_tol=rtol):
            return not (one != one and other != other)
        if not both and one != other:
            return True
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", nargs="?", choices=["check", "write"], default="check")
    parser.add_argument("--rtol", type=float, default=1e-12)
    given, found = parser.parse_args(), numbers()
    if given.action == "write":
        FILE.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
        print(f"{sum(1 for _ in leaves(found))} values under {len(found)} names")
        return 0
    before = json.loads(FILE.read_text())
    moved = [
        name
        for name in sorted(found.keys() | before.keys())
        if differs(found.get(name), before.get(name), given.rtol)
    ]
    for name in moved:
        print(name, *(str(each.get(name))[:300] for each in (before, found)), sep="\n  ")
    print(f"{len(moved)} of {len(before)} names moved")
    return int(bool(moved))


if __name__ == "__main__":
    sys.exit(main())
