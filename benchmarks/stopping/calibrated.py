r"""The calibrated stop: the study's own search, replayed on draws of the default prior.

A run keeps margins, no decisions: the least at which its claim of the regret is true, and
the largest at which it stops. So replays and searches are played in any order.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from benchmarks.runner import line, quiet
from benchmarks.stopping.play import SHARES, next_of, regret_of, search
from benchmarks.stopping.problems import POOL, Target, target_of
from benchmarks.stopping.rules import BUDGET, START, Look
from kernelucb.calibration import Loop, PriorDraws, RegretClaim, claims
from kernelucb.calibration.claims import Margins, Truth, residual, statistics_of

FIRST = 20  # outcomes from which claims are made; fixed before the replays, as the next
REPLAYS, _CHOOSE_SHAPE, _SHAPE = 199, 50, 0.1
_TEST = 0.02  # of delta, for three statistics: their largest values in 149 replays
STATISTICS = "residual", "noise", "norm"
_GRID = np.arange(0.0, 20.5, 0.5)  # margins at which the bound of the last round is kept
CLAIM = RegretClaim()


class Promise(NamedTuple):
    r"""How often, and whether a run unlike its replays may stop."""

    delta: float
    is_tested: bool

    @property
    def words(self) -> str:
        return f"{1.0 - self.delta:.0%} of the prior's draws"

    def margin(self, margins: Margins, count: int) -> float:
        r"""After so many outcomes; the test has its part of delta."""
        return margins.margin(CLAIM, self.delta - _TEST * self.is_tested, count)


PROMISES = {
    f"calibrated, {1.0 - delta:.0%}{', untested' * (not is_tested)}": Promise(
        delta, is_tested
    )
    for delta in (0.1, 0.05)
    for is_tested in (True, False)
}


def claimed(look: Look) -> tuple[claims.Look, Truth]:
    r"""What the model says of the settings played and the pool, and what is true there."""
    places, best = torch.tensor([*look.taken, *range(len(look.target.pool))]), look.best
    mean, covariance = look.fitted.mean, look.fitted.covariance
    variance = covariance.diagonal()
    apart = (variance + variance[best] - 2.0 * covariance[best]).clamp_min(0.0).sqrt()
    apart[best] = 0.0  # round-off
    each = (part[places] for part in (mean, look.fitted.std, apart))
    said = claims.Look(*each, len(look.taken), look.taken.index(best), 1)
    return said, Truth(look.target.values[places], float(look.target.values.max()))


@quiet()
def play_claims(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Of a search on the problem, or on a draw of the prior at its settings.

    After each evaluation: the least margin at which the claim is true, the largest at which
    it stops for each regret to accept, the statistics, the true regret over the range.
    """
    target = target_of(settings["problem"], settings["seed"])
    if settings["function"] == "draw":
        random = torch.Generator().manual_seed(settings["seed"])
        drawn = PriorDraws(target.pool.shape[1]).draw(settings["seed"], random)
        target = Target(target.pool, drawn.values(target.pool))
    kept, before, said = defaultdict[str, list[Any]](list), None, None
    for look in search(target, settings["seed"], settings["budget"]):
        with torch.no_grad():
            said, truth = claimed(look)
        value = float(truth.values[said.recommended])
        best = [value + share * target.spread for share in SHARES]  # reached: not enough
        kept["regrets"].append(regret_of(look))
        kept["scores"].append(CLAIM.score(said, truth))
        kept["reach"].append([CLAIM.score(said, truth._replace(best=b)) for b in best])
        for name, value in statistics_of(look.model, look.X, look.Y).items():
            kept[name].append(value)
        x, y = look.X[-1:], float(look.Y[-1])
        kept["residual"].append(0.0 if before is None else residual(before, x, y))
        before = look.model
    assert said is not None
    ends = [float(CLAIM.limits(said, margin)[1]) / target.spread for margin in _GRID]
    return kept | {"ends": ends}


def margins_of(draws: pd.DataFrame) -> Margins:
    r"""Margins of the claim, from the replays in the order of their numbers."""
    series = {
        name: torch.tensor(draws[name].tolist(), dtype=torch.float64)
        for name in ("scores", *STATISTICS)
    }
    # For its number of rounds: each replay has a pool of its own.
    loop = Loop(next_of, candidates=line(POOL), starts=START, rounds=BUDGET)
    scores = {CLAIM.name: series.pop("scores")}
    margins = Margins(loop, PriorDraws.statement, scores, series, first=START)
    return margins.since(FIRST).shaped(_CHOOSE_SHAPE, _SHAPE)


def limits_of(margins: Margins) -> dict[str, float]:
    r"""What each statistic of a run like its replays stays below."""
    return {name: margins.limit(name, _TEST / len(STATISTICS)) for name in STATISTICS}


def margins_table(margins: Margins) -> pd.DataFrame:
    r"""Margins by rounds, and limits of the statistics."""
    rows = [
        {"promise": name}
        | {f"after {n}": round(each.margin(margins, n), 3) for n in range(FIRST, 61, 10)}
        for name, each in PROMISES.items()
    ]
    limits = {f"limit of {k}": round(v, 3) for k, v in limits_of(margins).items()}
    return pd.DataFrame(rows).assign(**limits)


def decided(runs: pd.DataFrame, margins: Margins) -> Iterator[dict[str, Any]]:
    r"""Runs with the stops of all promises, as ``play`` returns them.

    ``unlike`` is the number of outcomes from which on a run is unlike its replays, 0 if
    never; ``broken`` says for each promise whether the claim was false in any round.
    """
    limits, counts = limits_of(margins), np.arange(FIRST, BUDGET + 1)
    needed = {
        name: np.array([each.margin(margins, n) for n in counts])
        for name, each in PROMISES.items()
    }
    for run in runs.to_dict("records"):
        late = {k: np.array(run[k])[FIRST - START :] for k in ("scores", "reach", *limits)}
        unlike = np.any([late[name] > limits[name] for name in limits], 0)
        unlike, stops = np.maximum.accumulate(unlike), {}
        for name, promise in PROMISES.items():
            reached = late["reach"] >= needed[name][:, None]
            reached &= ~(unlike & promise.is_tested)[:, None]
            stops[name] = [int(each.any() * counts[each.argmax()]) for each in reached.T]
        yield run | {
            "stops": stops,
            "bounds": {k: np.interp(c[-1], _GRID, run["ends"]) for k, c in needed.items()},
            "unlike": int(unlike.any() * counts[unlike.argmax()]),
            "broken": {k: bool((late["scores"] > c).any()) for k, c in needed.items()},
        }
