r"""Tables: are claims true in fresh runs, of other policies, with few tasks?"""

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pandas as pd
import torch
from scipy.stats import betabinom
from torch import Tensor

from benchmarks.calibration.play import UpperBound, claims_of
from benchmarks.calibration.tasks import DELTA, DRAWS, LENGTHS, PLUG_IN, SPACES
from benchmarks.hpob.tasks import GROUPS, group_of
from benchmarks.runner import captioned, stream
from benchmarks.runner.study import Summary
from kernelucb.calibration import Loop, Margins, RegretClaim
from kernelucb.calibration.claims import ranked

REPLAYS = 199  # numbers below calibrate claims, the others are fresh
DELTAS = 0.1, 0.3
OURS = "BoTorch", "default"  # model and rule of the default policy
SHAPING = 49  # of the draws choose how a margin differs between rounds
_LATE = 5  # rounds left out where claims are made from ten outcomes on


def scores_of(runs: pd.DataFrame, claim: str) -> Tensor:
    r"""``runs x rounds`` least margins at which a claim is true."""
    return torch.tensor([each[claim] for each in runs["scores"]], dtype=torch.float64)


def share(false: Tensor) -> float:
    return float(false.double().mean())


def true_in_fresh_runs(runs: pd.DataFrame) -> dict[str, Summary]:
    r"""How often claims are false in fresh runs, at their margins and at half of these."""
    return {"": _of_their_own(runs), "across": _of_others(runs)}


def _of_their_own(runs: pd.DataFrame) -> Summary:
    before, fresh = (runs[mask] for mask in _split(runs, REPLAYS))
    fresh_runs, rows = dict(iter(fresh.groupby("family"))), []
    for family, part in before.groupby("family", sort=False):
        for claim in claims_of(0.0):
            ours = scores_of(part, claim).amax(-1)
            scores = scores_of(fresh_runs[family], claim).amax(-1)
            for delta in DELTAS:
                margin, row = ranked(ours, delta), {"functions": family, "claim": claim}
                row |= {"delta": delta, "margin": margin, "false": share(scores > margin)}
                row |= {"half": share(scores > margin / 2.0)}
                rows.append(row | {"plug-in": share(scores > PLUG_IN)})
    table = pd.DataFrame(rows)
    counts = (len(each) // table["functions"].nunique() for each in (before, fresh))
    text, limits = _what_may_be(table, runs, *counts)
    table["limit"] = table["delta"].map(limits)
    return Summary(table.round(4), captioned(text, *_side_by_side(table)))


def _of_others(runs: pd.DataFrame) -> Summary:
    r"""Shares of false claims at the margin of other functions' replays."""
    before, fresh = (
        dict(iter(runs[mask].groupby("family", sort=False)))
        for mask in _split(runs, REPLAYS)
    )
    rows, delta = [], DELTAS[0]
    for claim in ("regret", "value", "optimum", "band"):
        for family, part in before.items():
            margin = ranked(scores_of(part, claim).amax(-1), delta)
            row = {"claim": claim, "margin of": family, "margin": round(margin, 2)}
            for other, tested in fresh.items():
                row[other] = round(share(scores_of(tested, claim).amax(-1) > margin), 3)
            rows.append(row)
    text = (
        "Share of fresh runs on the functions of a column in which a claim was false at "
        f"some round, at the margin (delta {delta:g}) of replays on those of the row."
    )
    return _summary(rows, text)


def _split(runs: pd.DataFrame, count: int) -> tuple[pd.Series, pd.Series]:
    return runs["number"] < count, runs["number"] >= count


def _what_may_be(
    table: pd.DataFrame, runs: pd.DataFrame, replays: int, count: int
) -> tuple[str, dict[float, float]]:
    r"""In words what exact claims would show, and the limits of shares by delta."""
    limits, alone, beyond = dict[float, float](), list[str](), dict[float, float]()
    for delta in DELTAS:
        over = replays + 1 - math.ceil((1.0 - delta) * (replays + 1) - 1e-9)
        law = betabinom(count, over, replays + 1 - over)
        limits[delta] = delta + 2.0 * float(law.std()) / count
        beyond[delta] = float(law.sf(math.floor(limits[delta] * count)))
        alone.append(f"{delta + 2.0 * math.sqrt(delta * (1.0 - delta) / count):.3f}")
    limit = table["delta"].map(limits)
    above, seen = (int((table[name] > limit).sum()) for name in ("false", "half"))
    ends = " and ".join(f"{limits[delta]:.3f}" for delta in DELTAS)
    first = runs.iloc[0]
    text = (
        f"Share of {count} fresh runs in which a claim was false at some round, at the "
        f"margin of {replays} replays, at half of it, and at {PLUG_IN} deviations. Given "
        "the replays, the share of false runs is random (its law Beta, its mean delta); "
        f"with the error of the fresh runs two standard errors end at {ends} for delta "
        f"{' and '.join(f'{each:g}' for each in DELTAS)} (by the fresh runs alone at "
        f"{' and '.join(alone)}). Above are {above} of {len(table)} shares; of exact "
        f"claims {float(table['delta'].map(beyond).sum()):.1f} would be, and claims of one "
        f"row of functions share their runs. At half the margin {seen} of {len(table)} are "
        f"above. Two inputs, {first['points']} listed points, upper bound of "
        f"{first['deviations']:g} deviations on BoTorch's default model refitted in every "
        f"round, {first['starts']} to {first['rounds']} outcomes."
    )
    return text, limits


def _side_by_side(table: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    r"""One row for each family and claim, the deltas beside each other."""
    header, rows = ["functions", "claim"], []
    for delta in DELTAS:
        header += [f"margin at {delta:g}", "false", "at half"]
    formats = {"margin": ".2f", "false": ".3f", "half": ".3f"}
    for names, part in table.groupby(["functions", "claim"], sort=False):
        each = part.to_dict("records")
        cells = [format(row[name], f) for row in each for name, f in formats.items()]
        rows.append([*names, *cells, format(each[0]["plug-in"], ".3f")])
    return [*header, f"at {PLUG_IN}"], rows


def margins_of_policies(runs: pd.DataFrame) -> Summary:
    r"""Margins of the regret claim by policy, and how often one's are another's."""
    groups, rows = dict(iter(runs.groupby(["model", "rule"], sort=False))), []
    for names, part in groups.items():
        for first, late in ((5, 0), (10, _LATE)):
            scores, ours = (
                scores_of(each, "regret")[:, late:].amax(-1)
                for each in (part, groups[OURS])
            )
            row = dict(zip(("model", "rule"), names, strict=True))
            row |= {"from": first, "replays": len(part), "median": float(scores.median())}
            for delta in (0.2, 0.1):
                low, margin, high = _with_error(scores, delta)
                row |= {f"margin {delta:g}": margin, f"low {delta:g}": low}
                row[f"high {delta:g}"] = high
                row[f"false {delta:g}"] = _by_others(ours, scores, delta)
            rows.append(row)
    return Summary(pd.DataFrame(rows).round(3), captioned(_POLICIES, *_policies(rows)))


_POLICIES = (
    "Margin of the regret claim from 5 outcomes on and from 10 on, on draws of BoTorch's "
    "default prior in two inputs, 20 outcomes; in brackets the scores one standard error "
    "of the rank away. Share false: of the policy's runs at the margin of the first row's "
    "replays on the other draws."
)


def _with_error(scores: Tensor, delta: float) -> tuple[float, float, float]:
    r"""A margin between the scores that are a standard error of its rank away."""
    count, ordered = len(scores), scores.sort().values
    error = math.sqrt(count * delta * (1.0 - delta))
    rank = math.ceil((1.0 - delta) * (count + 1) - 1e-9)
    ends = (min(max(round(rank + each), 1), count) for each in (-error, error))
    low, high = (float(ordered[each - 1]) for each in ends)
    return low, ranked(scores, delta), high


def _by_others(ours: Tensor, theirs: Tensor, delta: float) -> float:
    r"""Share of runs above the margin of a policy's replays on the other functions."""
    others = (torch.cat([ours[:i], ours[i + 1 :]]) for i in range(len(ours)))
    margins = torch.tensor([ranked(each, delta) for each in others], dtype=torch.float64)
    return share(theirs > margins)


def _policies(rows: list[dict]) -> tuple[list[str], list[list[str]]]:
    header = ["acquisition, model"]
    for first in (5, 10):
        header += [f"{name}, from {first}" for name in ("0.2", "0.1", "false 0.2, 0.1")]
    cells: dict[str, list[str]] = {}
    for row in rows:
        names = f"{row['rule']}, {row['model']}"
        margins = [
            f"{row[f'margin {d}']:.2f} ({row[f'low {d}']:.2f} to {row[f'high {d}']:.2f})"
            for d in ("0.2", "0.1")
        ]
        false = ", ".join(f"{row[f'false {d}']:.2f}" for d in ("0.2", "0.1"))
        cells.setdefault(names, [names]).extend([*margins, false])
    return header, [*cells.values()]


def gaps_from_tasks(runs: pd.DataFrame) -> dict[str, Summary]:
    r"""Gaps calibrated by earlier tasks, beside a plug-in's and the certified gap."""
    draws = runs[runs["task"] == "reaction"]
    listed = runs[runs["task"] != "reaction"]
    return {"": _of_draws(draws), "hpob": _of_tables(listed)}


Margin = Callable[[int], float]  # by the number of outcomes


def _said(run: dict, margin: Margin, since: int) -> list[dict]:
    r"""At each look the gap over the range, whether it is false, and whether any was."""
    scores, rows = enumerate(run["scores"]["regret"], run["starts"]), []
    ever = any(score > margin(n) for n, score in scores if n >= since)
    for count, look in zip(run["looks"], run["said"], strict=True):
        gains, apart = (np.array(look[name]) for name in ("gain", "apart"))
        gap = float((gains + margin(count) * apart).max())
        rows.append(_row(run, count, look["regret"], gap) | {"ever": ever})
    return rows


def _row(run: dict, count: int, regret: float, gap: float) -> dict:
    false = regret > gap + 1e-9 * run["range"]
    return {"after": count, "gap": gap / run["range"], "false": false}


def _certified(run: dict, number: int) -> list[dict]:
    r"""As above, of one of the kernels; between the looks nothing was asked."""
    pairs = zip(run["looks"], run["said"], strict=True)
    return [_row(run, n, s["regret"], s["certified"][number]) for n, s in pairs]


def _together(labels: dict, said: list[dict]) -> dict:
    frame = pd.DataFrame(said)
    row = labels | {"runs": len(frame) // frame["after"].nunique()}
    for count, part in frame.groupby("after"):
        row[f"median gap after {count}"] = part["gap"].median()
        row[f"false after {count}"] = part["false"].mean()
    return row | {
        "false at some round": frame["ever"].mean() if "ever" in frame else np.nan
    }


def _of_draws(runs: pd.DataFrame) -> Summary:
    before, fresh = (runs[mask] for mask in _split(runs, DRAWS))
    ways, rows, tested = _ways_of_draws(before), [], fresh.to_dict("records")
    for name, (margin, since) in ways.items():
        said = [row for run in tested for row in _said(run, margin, since)]
        rows.append(_together({"gap": name}, said))
    for number, length in enumerate(LENGTHS):
        said = [row for run in tested for row in _certified(run, number)]
        rows.append(_together({"gap": f"certified, length {length:g}"}, said))
    looks = [*enumerate(runs["looks"].iloc[0])]
    regrets = [
        np.mean([r["said"][i]["regret"] / r["range"] for r in tested]) for i, _ in looks
    ]
    for row in rows[: len(ways)]:
        margin, _ = ways[row["gap"]]
        row["margins"] = ", ".join(f"{margin(count):.2f}" for _, count in looks)
    text = (
        f"{len(before)} draws of a reaction's constants calibrate, or give the norm; "
        f"{len(fresh)} others are searched. Gap of the recommended point over the range "
        f"of its draw, median; shares of false gaps (delta {DELTA:g}). Mean true regret "
        f"after {' and '.join(str(count) for _, count in looks)} runs: "
        f"{' and '.join(f'{each:.4f}' for each in regrets)}."
    )
    return _summary(rows, text)


def _ways_of_draws(before: pd.DataFrame) -> dict[str, tuple[Margin, int]]:
    r"""Margins by the number of outcomes, and from how many on claims are made."""
    first, claim, scores = before.iloc[0], RegretClaim(), scores_of(before, "regret")
    point = torch.zeros(1, 2, dtype=torch.float64)
    sizes = {"starts": 1, "rounds": int(first["rounds"])}
    loop = Loop(UpperBound(point, first["deviations"]), candidates=point, **sizes)
    nothing, start = {"noise": torch.zeros_like(scores)}, int(first["starts"])
    every = Margins(loop, "draws", {claim.name: scores}, nothing, first=start)
    late = every.since(start + _LATE)
    shaped = late.shaped(SHAPING, DELTA)
    return {
        name: (partial(margins.margin, claim, DELTA), margins.first)
        for name, margins in (
            (f"calibrated, from {every.first} on", every),
            (f"calibrated, from {late.first} on", late),
            (f"calibrated, shaped by {SHAPING}", shaped),
        )
    } | {f"plug-in {PLUG_IN}, from {late.first} on": (lambda _: PLUG_IN, late.first)}


def _summary(rows: list[dict], text: str) -> Summary:
    table = pd.DataFrame(rows).round(4)
    cells = [[str(cell).replace("nan", "-") for cell in row] for row in table.to_numpy()]
    return Summary(table, captioned(text, [*table.columns], cells))


def _siblings(table: str, _: int) -> list[str]:
    return [each for each in group_of(table) if each != table]


def _spaces(table: str, seed: int) -> list[str]:
    random, own = stream(seed, "spaces", table), group_of(table)
    return [str(random.choice(each)) for each in GROUPS if each is not own]


def _of_tables(runs: pd.DataFrame) -> Summary:
    r"""Leave one table out: the others' largest score is the margin for it."""
    found, rows = {(r["task"], r["number"]): r for r in runs.to_dict("records")}, []
    for late in (0, _LATE):
        highest = {key: max(r["scores"]["regret"][late:]) for key, r in found.items()}
        first = int(runs["starts"].iloc[0]) + late
        for way, others, count in _ways_of_tables():
            said, margins = list[dict](), list[float]()
            for (task, seed), run in found.items():
                names = others(task, seed)
                if len(names) == count:
                    most = max((highest[each, seed] for each in names), default=PLUG_IN)
                    margins.append(most)
                    said += _said(run, lambda _, most=most: most, first)
            labels = {"margin of": way, "from": first}
            labels["promised"] = 1.0 / (count + 1.0) if count else np.nan
            rows.append(_together(labels, said) | {"margin": float(np.median(margins))})
    text = (
        f"{len(SPACES)} tables of HPO-B whose space has others, searched among up to "
        f"{int(runs['points'].iloc[0])} of their rows; the margin is the largest score of "
        "other tables, so that the claim is false at some round with at most the promised "
        "probability where tables are exchangeable. Within a space it is so in this table "
        "by construction, as one table of a space has the largest score: the gaps are what "
        "few tasks buy. Gap of the recommended point over the range of the rows, median."
    )
    return _summary(rows, text)


def _ways_of_tables() -> Iterator[tuple[str, Callable[[str, int], list[str]], int]]:
    for count in sorted({len(group) - 1 for group in GROUPS}):
        yield f"{count} of the space", _siblings, count
    yield "one of each other space", _spaces, len(GROUPS) - 1
    yield f"{PLUG_IN} (plug-in)", lambda *_: [], 0
