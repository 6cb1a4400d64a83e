r"""Command line: ``python -m benchmarks.golden freeze|compare [--part NAME ...]``."""

import json
import math
import platform
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.golden.builders import ARMS, BANDITS, KINDS, Kind
from benchmarks.golden.problems import Problem, make_problem
from benchmarks.runner import (
    Benchmark,
    BenchmarkError,
    Call,
    fixed_kernel,
    names,
    option,
    rkhs_norm,
    stream,
)
from kernelucb import (
    MixedSpace,
    check_consistency,
    describe_norm_bound,
    information_gain,
    least_consistent_norm,
    lengthscale_family,
    optimum_report,
    regret_certificate,
)

BENCHMARK = Benchmark("benchmarks.golden", "Numbers that a rebuilt library must reproduce.")
PARTS = ["bandit", *dict.fromkeys(kind.part for kind in KINDS.values())]
NUMBERS = Path(__file__).with_name("numbers.json")
_VERSIONS = ("torch", "gpytorch", "botorch", "numpy", "scipy", "cvxpy", "clarabel")
_SHAKES = 4
Numbers = dict[str, Any]
Case = Callable[..., Numbers]

# Allowed differences, by the last word of a quantity's name, and what they are relative to.
# Gaps on boxes come from searches and from branch and bound, which end where values are
# flat; edges of guards are divided by a temperature; bandits may search coarser grids; one
# other arm where two are level changes all the rest of a run.
ALLOWED = {
    "bound": (1e-9, "width"),
    "value": (1e-9, "width"),
    "gap": (1e-9, "width"),
    "norm": (1e-9, "itself"),
    "soft": (1e-6, "spread"),
    "box": (1e-6, "itself"),
    "share": (0.01, "one"),
    "played": (3e-3, "width"),
    "regret": (0.1, "itself"),
    "words": (0.0, "one"),
    "mask": (0.0, "one"),
}


def cases(part: str) -> Iterator[tuple[str, Case]]:
    r"""Names of a part's problems, and how their numbers are found."""
    if part == "bandit":
        yield from ((name, partial(bandit_run, name)) for name in BANDITS)
        return
    for name, kind in KINDS.items():
        if kind.part == part:  # the numbers of a kind do not depend on the other kinds
            first = zlib.crc32(name.encode()) % 1000
            for number in range(kind.count):
                yield f"{name} {number}", partial(numbers_of, kind, first + number)


def shaken(values: Tensor, seed: int) -> Tensor:
    r"""Values moved by some multiples of round-off; seed 0 leaves them."""
    if seed == 0:
        return values
    normal = stream(seed, "shaken").standard_normal(values.shape)
    return values * (1.0 + 1e-14 * torch.from_numpy(normal))


def numbers_of(kind: Kind, number: int, seed: int = 0) -> Numbers:
    r"""What a bound says on one problem, or that it raises."""
    problem = make_problem(number, **kind.keywords)
    names = ("X", "Y", "further")
    moved = {name: shaken(getattr(problem, name), seed) for name in names}
    problem = replace(problem, **moved)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = _numbers(kind.build(problem, **kind.own), problem, kind.asks)
            return {name: _plain(value) for name, value in found}
        except Exception as error:  # its class must not change either
            return {"words": type(error).__name__}


def _numbers(band: Any, p: Problem, asks: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    X = p.queries
    if "safe" in asks:
        yield "margin bound", band.margin(X)
        yield "mask", band.is_safe(torch.cat([X, p.X])).double()
        yield "words", str(band.assumptions).splitlines()[0]
        return
    if "mask" in asks:
        value = band(X.unsqueeze(1))
        yield "soft", value
        yield "mask", torch.isclose(value, band.acqf(X.unsqueeze(1))).double()
        yield "reference box", band.reference
        return
    if "described" in asks:
        noise = p.noise_std if p.form == "state" else p.options["noise_std"]
        for method in ("exact", "greedy", "spectral", "upper_bound"):
            given = {"noise_std": p.noise, "method": method, "num_points": 3}
            yield f"{method} gain norm", [information_gain(p.kernel, p.X, **given)]
        words = describe_norm_bound(p.model(), p.norm_bound, noise, bounds=p.box)
        yield "described norm", [words.range, words.across]
        yield "least norm", [least_consistent_norm(p.model(), noise)]
        check = check_consistency(p.model(), 0.5 * p.norm_bound, noise)
        yield "checked norm", [check.least_consistent_norm, float(check.consistent)]
        return
    X = ARMS if "arms" in asks else X
    lower, upper = band.bounds(X)
    yield "lower bound", lower
    yield "upper bound", upper
    yield "value", band(X.unsqueeze(1))
    yield "words", str(band.assumptions).splitlines()[0]
    if "norm" in asks:
        yield "norm", [band.least_consistent_norm]
    if "points" in asks:
        yield "gap", [regret_certificate(band, candidates=X).gap]
    budget = {"tolerance": 0.1, "max_evaluations": 3000}
    if "box" in asks:
        yield "box", [regret_certificate(band, bounds=p.box, **budget).gap]
    if "space" in asks:
        levels = {0: [0.0, 0.5 * float(p.box[1, 0]), float(p.box[1, 0])]}
        space = MixedSpace(p.box, discrete_dims=levels)
        yield "space box", [regret_certificate(band, space=space, **budget).gap]
    if "fixed" in asks:
        middle = {p.X.shape[-1] - 1: 0.5 * float(p.box[1, 0])}
        found = regret_certificate(band, bounds=p.box, fixed_features=middle, **budget)
        yield "fixed box", [found.gap]
    if "report" in asks:
        report = optimum_report(band, bounds=p.box, **budget)
        yield "optimum box", [report.lower, report.upper, report.gap]
        yield "share", [report.share, report.share_at_most]


def bandit_run(name: str, seed: int = 0, rounds: int = 30) -> Numbers:
    r"""Bands after given plays, and the regret where the bandit chooses."""
    random = stream(0, "golden", "bandit")
    kernel = fixed_kernel("matern52", 0.4)
    arms = torch.from_numpy(random.random((40, 2)))
    weights = torch.from_numpy(random.standard_normal(40))
    weights *= 3.0 / rkhs_norm(kernel, arms, weights)
    truth = kernel(arms).to_dense() @ weights
    noise = shaken(0.1 * torch.from_numpy(random.standard_normal(rounds)), seed)
    plays = random.integers(0, 40, rounds).tolist()
    family, budgeted = name.startswith("family"), name.startswith("bkb")

    def make() -> Any:
        bandit, own = BANDITS[name]
        given: dict[str, Any] = {"norm_bound": 4.5, "noise_std": 0.1, **own}
        if budgeted:
            return bandit(arms, kernel, qbar=4.0, **given)
        return bandit(lengthscale_family(kernel, 0.2, 0.8) if family else kernel, **given)

    def observe(bandit: Any, arm: int, y: Tensor) -> None:
        bandit.observe(arm if budgeted else arms[arm], float(y))

    searching = make()
    regret = 0.0
    for each in noise:
        arm = searching.select() if budgeted else searching.select(arms)
        observe(searching, arm, truth[arm] + each)
        regret += float(truth.max() - truth[arm])
    given = make()
    for arm, each in zip(plays, noise, strict=True):
        observe(given, arm, truth[arm] + each)
    lower, upper = given.bounds() if budgeted else given.bounds(arms)
    kind = "bound" if budgeted else "played"
    return {
        f"lower {kind}": _plain(lower),
        f"upper {kind}": _plain(upper),
        "regret": [regret],
        "words": str(given.assumptions).splitlines()[0],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value
    return torch.as_tensor(value, dtype=torch.float64).detach().reshape(-1).tolist()


def differences(old: Numbers, new: Numbers) -> Iterator[tuple[str, float]]:
    r"""Of each quantity, the largest difference over its unit; infinite where none fits."""
    for name in sorted(old.keys() | new.keys()):
        before, after = old.get(name), new.get(name)
        if before == after:
            yield name, 0.0
        elif isinstance(before, list) and isinstance(after, list):
            yield name, _apart(before, after, _units(name, old))
        else:
            yield name, math.inf


def _apart(before: list[float], after: list[float], units: Tensor) -> float:
    if len(before) != len(after):
        return math.inf
    a, b = _tensor(before), _tensor(after)
    apart = torch.where(a == b, 0.0, (a - b).abs() / units)
    return float(apart.nan_to_num(nan=math.inf, posinf=math.inf).max())


def _tensor(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _units(name: str, old: Numbers) -> Tensor:
    values = _tensor(old[name])
    lower, upper = (
        [_tensor(old[each]) for each in old if each in (f"{side} bound", f"{side} played")]
        for side in ("lower", "upper")
    )
    width = upper[0] - lower[0] if lower else torch.ones(1).double()
    width = width.clamp_min(1e-3 * float(width.max()))  # at noiseless data it is 0
    kind = ALLOWED[name.split()[-1]][1]
    if kind == "width":
        return width if len(width) == len(values) else width.max().expand(len(values))
    if kind == "one":
        return torch.ones_like(values)
    if kind == "spread":
        return (values.max() - values.min()).expand(len(values))
    return values.abs().clamp_min(1e-6 * float(width.max()))


def allowed(name: str, loose: dict[str, float]) -> float:
    r"""Allowed difference: ten times what round-off alone makes of it, if that is more."""
    return max(ALLOWED[name.split()[-1]][0], 10.0 * loose.get(name, 0.0))


def loose_numbers(case: Case, numbers: Numbers) -> dict[str, float]:
    r"""How far round-off in the data moves numbers, where that comes near what is allowed.

    Filters are chosen, counts search for tangents, challengers change: where two choices
    are level, round-off decides and the bound jumps.
    """
    found: dict[str, float] = {}
    for seed in range(1, _SHAKES + 1):
        for name, size in differences(numbers, case(seed=seed)):
            if not isinstance(numbers.get(name), str):
                found[name] = max(found.get(name, 0.0), size)
    return {n: size for n, size in found.items() if 10.0 * size > ALLOWED[n.split()[-1]][0]}


@BENCHMARK.command(
    "freeze", options=[option("--force", action="store_true", help="overwrite")]
)
def freeze(call: Call) -> list[Path]:
    r"""Write the numbers of what stands; never by accident."""
    if NUMBERS.exists() and not call.options.force:
        raise BenchmarkError(f"{NUMBERS} exists; --force overwrites the referee.")
    found: dict[str, Any] = {part: {} for part in PARTS}
    for part in PARTS:
        for name, case in cases(part):
            numbers = case()
            found[part][name] = numbers, loose_numbers(case, numbers)
    about = {name: version(name) for name in _VERSIONS} | {
        "python": platform.python_version()
    }
    lines = [f'"about": {json.dumps(about)}']
    for part, each in found.items():
        rows = ",\n".join(f"{json.dumps(n)}: {json.dumps(v)}" for n, v in each.items())
        lines.append(f'"{part}": {{\n{rows}\n}}')
    NUMBERS.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")
    return [NUMBERS]


@BENCHMARK.command("compare", options=[names("--part", "only these", choices=PARTS)])
def compare(call: Call) -> None:
    r"""One line for each part, and the problems that differ by more than is allowed."""
    frozen, failed = json.loads(NUMBERS.read_text(encoding="utf-8")), False
    for part in call.options.part or PARTS:
        start, rows, old = time.perf_counter(), [], dict(frozen[part])
        strict = sum(not loose for _, loose in old.values())
        for name, case in cases(part):
            numbers, loose = old.pop(name, ({}, {}))
            now = case()
            for what, size in differences(numbers, now):
                limit = allowed(what, loose)
                if size == math.inf and what == "words":
                    name += f": {numbers.get(what)!r} became {now.get(what)!r}"
                share = size / limit if limit else math.inf
                share = 0.0 if size == 0.0 or limit == math.inf else share
                rows.append((share, name, what, size))
        rows += [(math.inf, name, "not asked any more", math.inf) for name in old]
        share, name, what, size = max(rows)
        count, took = len(frozen[part]), time.perf_counter() - start
        print(
            f"{part}: {count} problems, {strict} of them strict; worst {share:.2g} of what "
            f"is allowed ({name}, {what}: {size:.2g}), {took:.0f} s"
        )
        for share, name, what, size in sorted(rows, reverse=True):
            if share > 1.0:
                failed = True
                print(f"  {name}, {what}: {size:.2g}, {share:.2g} of what is allowed")
    if failed:
        raise BenchmarkError("Numbers have changed.")


if __name__ == "__main__":
    BENCHMARK.main()
