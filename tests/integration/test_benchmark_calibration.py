r"""Commands on calibrated claims: margins that are shipped, and what is said of them."""

import json
import math
from dataclasses import replace

import pandas as pd
import pytest
import torch
from botorch.models import SingleTaskGP

pytest.importorskip("joblib", reason="the benchmarks need kernelucb[bench]")

from benchmarks.calibration import __main__ as calibration
from benchmarks.calibration import results, stops
from benchmarks.calibration.fit import MODELS
from benchmarks.calibration.margins import main
from benchmarks.calibration.play import Search, UpperBound
from benchmarks.calibration.tasks import Recorder, searched
from benchmarks.runner import sobol_points, unit_cube
from kernelucb.calibration import (
    CalibratedGapStopping,
    Loop,
    RegretClaim,
    default_margins,
)
from kernelucb.calibration.claims import Look
from kernelucb.calibration.policy import fitted
from kernelucb.calibration.replay import Replays


# Five seconds: three replays of a few rounds each.
@pytest.mark.slow
def test_margins_are_made_and_extended(tmp_path, capsys):
    few = ["--inputs", "1", "--rounds", "6", "--output", str(tmp_path)]
    main([*few, "--replays", "1"])
    before = (tmp_path / "margins_botorch_1.jsonl").read_text()
    main([*few, "--replays", "3"])
    text = (tmp_path / "margins_botorch_1.jsonl").read_text()
    assert text.startswith(before)
    assert [json.loads(line)["replay"] for line in text.splitlines()[1:]] == [0, 1, 2]
    # Three replays have ranks for .3 alone.
    assert "RegretClaim(), margins by delta: 0.3: " in capsys.readouterr().out


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_the_quick_fit_is_that_of_botorch(name):
    X = sobol_points(9, 2, seed=1)
    Y = (6.0 * X).sin().sum(-1, keepdim=True)
    with torch.enable_grad():
        quick, slow = MODELS[name](X, Y), fitted(MODELS[name].build(X, Y))
    points = sobol_points(50, 2, seed=2)
    ours, theirs = (model.posterior(points) for model in (quick, slow))
    # Optimizers stop where a step gains 1e-9; the density is flat to its root there.
    std = theirs.variance.sqrt()
    assert float(((ours.mean - theirs.mean) / std).abs().max()) < 1e-3
    assert float((ours.variance.sqrt() / std - 1.0).abs().max()) < 1e-3
    assert (
        float((SingleTaskGP(X, Y).posterior(points).mean - theirs.mean).abs().max()) > 0.1
    )


def played(study, name, tmp_path, only, change):
    r"""The rows of a command in small, and its runs."""
    study.main([name, "--only", *only, "--change", *change, "--output", str(tmp_path)])
    files = sorted((tmp_path / "runs").glob("*/*.json"))
    texts = [json.loads(file.read_text()) for file in files]
    runs = pd.DataFrame([each["settings"] | each["results"] for each in texts])
    tables = {
        file.stem: pd.read_csv(file) for file in (tmp_path / "results").glob(f"{name}*.csv")
    }
    return tables, runs


# Twelve replays of two rounds.
@pytest.mark.slow
def test_shares_of_false_claims_are_those_of_the_fresh_runs(tmp_path):
    numbers = ",".join(map(str, range(190, 202)))
    only, change = [f"number={numbers}", "family=reaction"], ["rounds=6", "points=20"]
    tables, runs = played(calibration.STUDY, "validity", tmp_path, only, change)
    table = tables["validity"].set_index(["claim", "delta"])
    assert len(table) == 6 * 2
    for claim in ("regret", "band", "level share"):
        scores = [max(each[claim]) for each in runs["scores"]]
        before = [s for s, n in zip(scores, runs["number"], strict=True) if n < 199]
        fresh = [s for s, n in zip(scores, runs["number"], strict=True) if n >= 199]
        # Nine replays: the largest for .1, the third largest for .3.
        for delta, margin in ((0.1, max(before)), (0.3, sorted(before)[-3])):
            row = table.loc[(claim, delta)]
            assert row["margin"] == pytest.approx(margin, abs=1e-4)
            assert row["false"] == pytest.approx(
                sum(s > margin for s in fresh) / 3, abs=1e-3
            )
            half = sum(s > margin / 2 for s in fresh) / 3
            assert row["half"] == pytest.approx(half, abs=1e-3)
    across = tables["validity_across"].set_index("claim")
    assert across.loc["regret", "reaction"] == table.loc[("regret", 0.1), "false"]
    # Beta-binomial of mean .1: both sets are random.
    assert (table["limit"] > table.index.get_level_values("delta")).all()
    assert (table["limit"] > 0.1 + 2 * (0.09 / 3) ** 0.5).all()


@pytest.mark.slow
def test_one_policy_s_margins_are_held_against_another_s_runs(tmp_path):
    numbers = ",".join(map(str, range(10)))
    only = [f"number={numbers}", "model=BoTorch", "rule=default,upper bound"]
    change = ["rounds=10", "num_restarts=1", "raw_samples=8"]
    tables, runs = played(calibration.STUDY, "policies", tmp_path, only, change)
    table = tables["policies"].set_index(["rule", "from"])
    worst = {
        rule: [max(each["regret"]) for each in part.sort_values("number")["scores"]]
        for rule, part in runs.groupby("rule")
    }
    for rule, scores in worst.items():
        row = table.loc[(rule, 5)]
        assert row["margin 0.1"] == pytest.approx(max(scores), abs=1e-3)
        assert row["low 0.2"] <= row["margin 0.2"] <= row["high 0.2"]
        # Nine others of the first policy: the largest of them.
        ours = worst["default"]
        above = [s > max(ours[:i] + ours[i + 1 :]) for i, s in enumerate(scores)]
        assert row["false 0.1"] == pytest.approx(sum(above) / 10)


@pytest.mark.slow
@pytest.mark.usefixtures("small_data")
def test_gaps_of_tasks_are_those_of_their_margins(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "SHAPING", 9)
    numbers = ",".join(map(str, [0, *range(82, 102)]))
    change = ["rounds=10", "looks=[10]", "points=12"]
    tables, runs = played(
        calibration.STUDY, "tasks", tmp_path, [f"number={numbers}"], change
    )
    ours = tables["tasks"].set_index("gap")
    draws = runs[runs["task"] == "reaction"]
    fresh = draws[draws["number"] >= 99]
    assert (ours["runs"] == 3).all()
    plug_in = [
        max(
            g + 1.96 * s
            for look in run["said"]
            for g, s in zip(look["gain"], look["apart"], strict=True)
        )
        / run["range"]
        for _, run in fresh.iterrows()
    ]
    row = ours.loc["plug-in 1.96, from 10 on"]
    assert row["median gap after 10"] == pytest.approx(sorted(plug_in)[1], abs=1e-3)
    certified = [min(run["said"][0]["certified"]) for _, run in fresh.iterrows()]
    regrets = [run["said"][0]["regret"] for _, run in fresh.iterrows()]
    assert all(gap > regret for gap, regret in zip(certified, regrets, strict=True))
    few = tables["tasks_hpob"].set_index(["margin of", "from"])
    assert few.loc[("2 of the space", 5), "promised"] == pytest.approx(1 / 3, abs=1e-3)
    assert few.loc[("one of each other space", 5), "runs"] == len(calibration.SPACES)


def test_a_recorder_is_the_policy_that_it_remembers():
    points = sobol_points(20, 2, seed=0)
    settings = {"task": "reaction", "number": 3, "points": 20, "deviations": 2.0}
    settings |= {"starts": 5, "rounds": 7, "looks": [7], "noise_std": 2.0}
    found = searched(settings)
    policy = Recorder(UpperBound(points, 2.0), [7])
    loop = Loop(policy, candidates=points, starts=5, rounds=7)
    X = loop.first_inputs(0)
    loop.round(X, X[:, :1])
    assert not policy.kept
    X = points[:7]
    model, _ = loop.round(X, X.sum(-1, keepdim=True).sin())
    assert torch.equal(policy.kept[7][1], X)
    look = Look.of(model, X, loop)
    gain = (look.mean - look.mean[look.recommended])[7:]
    _, upper = RegretClaim().limits(look, 1.96)
    assert float((gain + 1.96 * look.difference_std[7:]).max()) == pytest.approx(
        float(upper)
    )
    assert [len(look["gain"]) for look in found["said"]] == [20]
    assert len(found["scores"]["regret"]) == 3


# Two searches of nine rounds.
@pytest.mark.slow
def test_a_stop_is_decided_as_a_user_s_would_be():
    r"""From scores afterwards, as ``CalibratedGapStopping`` does under way."""
    settings = {"rule": "default", "function": "throw", "number": 0, "seed": 0}
    settings |= {"starts": 5, "rounds": 13}
    run, named = settings | stops.stopped(settings), stops.Named.of("throw")
    policy = Recorder(Search("BoTorch", "default", 8, 256), [*range(5, 14)])
    loop = Loop(policy, unit_cube(2), rounds=13)
    Replays(loop, stops.OneFunction("throw"), (RegretClaim(),), 0).play(0, 13)
    margins = default_margins(unit_cube(2), prior="botorch")
    replayed = replace(margins, loop=Loop(policy, unit_cube(2)))
    rules = {
        share: CalibratedGapStopping(share * named.spread, replayed)
        for share in stops.ACCEPTED
    }
    found = {}
    for count, (model, X, Y) in policy.kept.items():
        for share, rule in rules.items():
            if rule(model, None, X, Y).stop:
                found.setdefault(share, count)
    rows = {row["accepted"]: row for row in stops.decided(run, "botorch", 0.1)}
    assert found
    assert {k: row["spent"] for k, row in rows.items() if k in found} == found
    assert all(math.isnan(row["spent"]) for k, row in rows.items() if k not in found)
    assert not any(row["false"] for row in rows.values())
    # A regret of the whole range is not accepted.
    lost = run | {"scores": run["scores"] | {"regret": [1.0] * 9}}
    assert [r["false"] for r in stops.decided(lost, "botorch", 0.1)] == [
        share in found for share in stops.ACCEPTED
    ]
