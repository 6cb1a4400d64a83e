r"""Is the truth inside, where no chance is involved? And what else must always be so."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.attack.bounds import (
    BOUNDS,
    KINDS,
    Attacked,
    Kind,
    bandit_of,
    state,
    width_of,
)
from benchmarks.attack.problems import DELTA, EPS, EPS_SINGLE, Problem, make_problem
from benchmarks.attack.verdicts import Verdict, WrongError, judge
from benchmarks.runner import stream
from kernelucb import Analytic, Grid, MartingaleMixtureUCB

# Of the norm bound, at the edge of a band: what kernelucb promises next to exact numbers.
_PROMISED = 1e-8
# A search stops where its value is flat to half of all digits.
_SEARCH = math.sqrt(EPS)
# Of the width: a bandit's grid of regularisers next to the least consistent norm.
_GRID_SHARE = 0.06


def play(seed: int) -> Verdict:
    r"""One random problem under one bound, or under several that must agree."""
    random = stream(seed, "attack", "numerics")
    share = random.random()
    if share < 0.06:
        return judge(lambda: check_order(seed, random), "exact, grid, analytic")
    if share < 0.12:
        return judge(lambda: check_bandit(seed, random), "bandit, stateless")
    weights = np.array([kind.weight for kind in KINDS.values()])
    name = str(random.choice(list(KINDS), p=weights / weights.sum()))
    return judge(lambda: _check_kind(KINDS[name], seed, random), name)


def _check_kind(kind: Kind, seed: int, random: np.random.Generator) -> None:
    problem = make_problem(seed, kind.largest, kind.plain)
    norm = problem.norm * float(random.choice([1.0, 1.0, 1.001, 3.0]))
    # The constants of Standardize are rounded as the outcomes are.
    norm *= 1.0 + 64.0 * (EPS_SINGLE if problem.single else EPS)
    attacked = kind.build(problem, norm, random)
    truth = kind.covers == "noise" or (
        kind.covers == "exact" and not bool(problem.noise.any())
    )
    check_band(attacked, problem, truth, random)


def check_band(
    attacked: Attacked, problem: Problem, truth: bool, random: np.random.Generator
) -> None:
    r"""The truth inside, no NaN, sides in order, and no point that changes another."""
    queries = problem.queries
    lower, upper = attacked.bounds(queries)
    allowed = problem.tolerance(queries) * max(1.0, abs(attacked.factor))
    _require(bool(torch.isfinite(lower + upper).all()), "bounds are not finite")
    _require(bool((lower <= upper + allowed).all()), "lower above upper")
    if truth:
        edge = _PROMISED * abs(attacked.factor) * problem.norm * problem.prior_std(queries)
        expected = attacked.factor * problem.truth(queries)
        apart = torch.maximum(lower - expected, expected - upper).detach()
        _require_within(apart, allowed + edge / problem.scale, "truth outside by")
    blur = problem.blur(queries, width_of(attacked))
    allowed = allowed + _SEARCH * (upper - lower) + blur
    _check_neighbours(attacked, problem, (lower, upper), allowed, random)
    if attacked.forward is not None:
        values = attacked.forward(queries.reshape(2, -1, 1, queries.shape[-1]))
        apart = (values.detach().reshape(-1) - upper.detach()).abs()
        _require(bool((apart <= allowed).all()), "forward differs from bounds")


def _check_neighbours(
    attacked: Attacked,
    problem: Problem,
    together: tuple[Tensor, Tensor],
    allowed: Tensor,
    random: np.random.Generator,
) -> None:
    r"""The same band alone, and in the company of points very far away."""
    queries = problem.queries
    for index in random.choice(len(queries), 2, replace=False):
        alone = attacked.bounds(queries[index : index + 1])
        for one, all_ in zip(alone, together, strict=True):
            apart = (one - all_[index]).detach().abs()
            _require_within(apart, allowed[[index]], "alone it differs by")
    if attacked.forward is None and "bkb_bandit" in repr(attacked.bounds):
        return
    company = attacked.bounds(torch.cat([queries, problem.far]))
    for here, before in zip(company, together, strict=True):
        apart = (here[: len(queries)] - before).detach().abs()
        _require_within(apart, allowed, "with far neighbours it differs by")


def check_order(seed: int, random: np.random.Generator) -> None:
    r"""Exact within grid within analytic at shared ridge parameters."""
    problem = make_problem(seed)
    noise = problem.noise_std if problem.several else float(problem.noise_std[0])
    model: Any = state(problem, noise) if problem.form == "state" else problem.model()
    level = float(problem.noise_std.max()) ** 2
    alphas = (level * 10.0 ** random.uniform(-2, 2, 3)).tolist()
    given: dict[str, Any] = {"norm_bound": problem.norm * 1.001, "noise_std": noise}
    bands = [
        MartingaleMixtureUCB(model, **given),
        MartingaleMixtureUCB(model, form=Grid(alphas), **given),
        MartingaleMixtureUCB(model, form=Analytic(alphas[0]), **given),
    ]
    allowed = problem.tolerance(problem.queries)
    sides = [band.bounds(problem.queries) for band in bands]
    for (lower, upper), (low, high) in pairwise(sides):
        room = allowed + _SEARCH * (high - low) + problem.blur(problem.queries)
        over = torch.maximum(upper - high, low - lower)
        _require_within(over, room, "wider than at fewer ridge parameters by")


def check_bandit(seed: int, random: np.random.Generator) -> None:
    r"""The same band one observation at a time as from all of them at once."""
    problem, name = make_problem(seed, 40, True), str(random.choice(list(BOUNDS)))
    norm, (_, bound, given) = problem.norm * 1.001, BOUNDS[name]
    # The filters of a bandit are others.
    options = {"fit": "martingale"} if bound is MartingaleMixtureUCB else {}
    bandit = bandit_of(name, problem, norm, **options)
    model: Any = state(problem, float(problem.noise_std[0]))
    band = bound(model, norm_bound=norm, delta=DELTA, **given, **options)
    queries = problem.queries
    (lower, upper), (low, high) = bandit.bounds(queries), band.bounds(queries)
    room = problem.tolerance(queries) + problem.blur(queries)
    wider = torch.maximum(low - lower, upper - high)
    _require_within(-wider, room, f"bandit {name} narrower than the stateless class by")
    if name == "exact":  # over a grid of regularisers
        room = room + _GRID_SHARE * (high - low)
    _require_within(wider, room, f"bandit {name} wider than the stateless class by")


def _require_within(apart: Tensor, room: Tensor, text: str) -> None:
    worst = int((apart / room).argmax())
    held = bool((apart <= room).all())
    _require(held, f"{text} {float(apart[worst]):.3g}, not {float(room[worst]):.3g}")


def _require(holds: bool, text: str) -> None:
    if not holds:
        raise WrongError(text)
