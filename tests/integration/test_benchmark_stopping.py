r"""The stopping benchmark: rules written here, and rules run from their packages."""

import numpy as np
import pandas as pd
import pytest
import torch

pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")

from benchmarks.stopping import __main__ as stopping
from benchmarks.stopping.calibrated import CLAIM, claimed, decided, margins_of, play_claims
from benchmarks.stopping.play import SHARES, next_of, play, search
from benchmarks.stopping.problems import target_of
from benchmarks.stopping.rules import Look, Posterior, ax_improvement
from kernelucb.calibration import Loop, claims

pytestmark = pytest.mark.slow


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_ax_s_rule_stops_where_the_package_does():
    pytest.importorskip("ax", reason="needs kernelucb[ax]")
    from ax.api.client import Client
    from ax.global_stopping.strategies.improvement import ImprovementGlobalStoppingStrategy
    from ax_bench import UNIT

    outcomes = np.random.default_rng(1).standard_normal(24).cumsum()
    client = Client()
    client.configure_experiment(UNIT)
    client.configure_optimization("y")
    for x, y in zip(np.linspace(0.0, 1.0, 24), outcomes.tolist(), strict=True):
        client.complete_trial(client.attach_trial({"x": float(x)}), {"y": (y, 0.0)})
    theirs = ImprovementGlobalStoppingStrategy(min_trials=10)
    target, found = target_of("drawn-rbf-1d", 0), set()
    for count in range(10, 25):
        Y = torch.from_numpy(outcomes[:count])
        ours = ax_improvement(Look(target, [*range(count)], Y, 1.0, 1.0, None))
        stop, _ = theirs._should_stop_optimization(client._experiment, count - 1)
        assert ours == bool(stop)
        found.add(ours)
    assert found == {True, False}


def test_draws_of_two_independent_points_have_the_probability_of_the_normal_law():
    r"""P(gain > 2) is 2.28 %: the standard deviation of the difference is 1."""
    apart = torch.diag(torch.tensor([0.5, 0.5], dtype=torch.float64))
    posterior = Posterior(torch.zeros(2, dtype=torch.float64), apart)
    assert 2.0 < posterior.regret(0) < 2.6  # 2.3 %, too near 2.5 % for the draws; 0.5 %


def test_a_stop_is_false_where_its_regret_is_above_what_was_accepted():
    r"""Counted by hand: two runs, one false stop after 12 and one run without a stop."""
    rule, none = "after Ax's improvement", {"bounds": {}}
    runs = pd.DataFrame(
        [
            none | {"stops": {rule: [12, 11]}, "regrets": [0.3, 0.2, 0.06]},
            none | {"stops": {rule: [0, 0]}, "regrets": [0.3, 0.2, 0.04]},
        ]
    ).assign(budget=12, problem="throw")
    rows = stopping.stops(runs).rows.query("problems == 'simulators'")
    row = rows.set_index("accepted").loc[0.05]
    assert (row["runs"], row["stops"], row["false stops"]) == (2, 1, 1)
    assert (row["never"], row["regret"], row["saved"]) == (0.5, 0.06, 0.0)
    assert rows.set_index("accepted").loc[0.2, "false stops"] == 0


def test_all_rules_look_at_one_run():
    run = play({"problem": "known-matern52-1d", "seed": 0, "budget": 12})
    assert len(run["regrets"]) == 3
    assert {"gap, norm given", "after Wilson (2024)", "budget of 20"} <= run["stops"].keys()
    assert run["stops"]["budget of 20"] == [0, 0]
    assert run["bounds"]["gap, norm given"] > 0.0
    assert "gap in range, twice the least" not in run["stops"]


def test_the_claim_of_a_search_is_that_of_the_package():
    target = target_of("known-matern52-1d", 0)
    loop = Loop(next_of, candidates=target.pool, starts=10, rounds=12)
    for look in search(target, 0, 12):
        said, truth = claimed(look)
        theirs = claims.Look.of(look.model, look.X, loop)
        assert (said.runs, said.recommended) == (theirs.runs, theirs.recommended)
        for name in ("mean", "std", "difference_std"):
            ours, expected = getattr(said, name), getattr(theirs, name)
            torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4)
        assert CLAIM.score(said, truth) == pytest.approx(CLAIM.score(theirs, truth), 1e-2)
    run = play_claims(
        {"problem": "known-matern52-1d", "seed": 0, "budget": 12, "function": "own"}
    )
    for share, margin in zip(SHARES, run["reach"][-1], strict=True):
        accepted = share * target.spread
        assert float(CLAIM.limits(said, margin)[1]) == pytest.approx(accepted)


def test_a_calibrated_stop_is_counted_by_hand():
    r"""Margins are scores of known ranks; a run unlike its replays stops only untested."""
    rounds, like = 51, {"residual": [1.0] * 51, "noise": [1.0] * 51, "norm": [1.0] * 51}
    draws = pd.DataFrame([like | {"scores": [float(i)] * rounds} for i in range(199)])
    reach = [[192.0, 186.0]] * 35 + [[192.0, 194.0]] * 16  # from 45 outcomes on
    run = like | {"residual": [1.0] * 30 + [2.0] * 21, "scores": [190.0] * rounds}
    run |= {"reach": reach, "ends": [0.0] * 41}
    (found,) = decided(pd.DataFrame([run]), margins_of(draws))
    assert found["stops"] == {
        "calibrated, 90%": [20, 0],  # 187, of rank 138
        "calibrated, 90%, untested": [20, 20],  # 184, of rank 135
        "calibrated, 95%": [0, 0],  # 195, of rank 146
        "calibrated, 95%, untested": [20, 45],  # 192, of rank 143
    }
    assert found["unlike"] == 40
    assert [*found["broken"].values()] == [True, True, False, False]
