r"""Successes and counts as metrics of real Ax experiments."""

import json

import pytest
import torch
from ax.api.client import Client
from ax_bench import (
    AX_WARNINGS,
    FAST,
    PLANE,
    SEARCH,
    UNIT,
    next_trial,
    node,
    points,
    run,
)
from count_bench import (
    BINOMIAL,
    GRID,
    LATENT,
    LIKELIHOODS,
    MANY,
    NORM,
    STEPS,
    WIDE,
    chance,
    count_client,
    drawn,
    many_successes,
    successes,
)
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import LikelihoodUCB
from kernelucb.exceptions import UncertifiedError
from kernelucb.regression.named import named_kernel
from problems import RKHSFunction, frozen_kernel, likelihood_ucb
from tolerances import LINEAR_SOLVE

pytestmark = [
    pytest.mark.slow,
    *AX_WARNINGS,
    # A Monte Carlo function at a point that was observed has a singular covariance.
    pytest.mark.filterwarnings("ignore:A not p.d.::linear_operator"),
]


def stopping(client, gap=0.3, **arguments):
    return kernelucb.ax.CertifiedGapStoppingStrategy(gap, client, **arguments)


class TestBand:
    @pytest.mark.parametrize("likelihood", LIKELIHOODS)
    def test_is_that_of_the_counts(self, likelihood):
        options = LIKELIHOODS[likelihood] | {"lengthscale": [0.3, 0.6], "outputscale": 0.8}
        total = {"bernoulli": 1.0, "binomial": 20.0, "poisson": 2.5}[likelihood]
        counts = [0.0, 1.0, 1.0, 0.0, 1.0] if total == 1.0 else [3.0, 7.0, 5.0, 16.0, 9.0]
        client, trials = count_client(PLANE, options, num_initial=5), []
        for count in counts:
            index, parameters = next_trial(client)
            # A standard error says nothing that the likelihood does not say better.
            client.complete_trial(index, raw_data={"y": (count / total, 0.1)})
            trials.append(parameters)
        acqf = kernelucb.ax.current_bound(client)
        low = torch.tensor([-5.0, 0.0], dtype=torch.float64)
        scales = torch.tensor([[0.3, 0.6]], dtype=torch.float64)
        kernel = named_kernel("rbf", scales, 0.8).requires_grad_(False)
        names = ("likelihood", "norm_bound", "num_trials", "exposure")
        given = {name: options[name] for name in names if name in options}
        given["mean_module"] = options.get("mean")
        Y = torch.tensor(counts, dtype=torch.float64).unsqueeze(-1)
        expected = likelihood_ucb((points(*trials) - low) / 15.0, Y, kernel, **given)
        queries = torch.tensor([[0.0, 5.0], [9.0, 2.0], [-4.0, 14.0]]).double()
        inside = (queries - low) / 15.0
        for actual, wanted in zip(
            acqf.bounds(queries), expected.bounds(inside), strict=True
        ):
            assert_close(actual, wanted, rtol=LINEAR_SOLVE, atol=LINEAR_SOLVE)
        assert acqf.assumptions.certified

    def test_a_probability_that_is_true_at_every_round(self):
        client = count_client()
        for _ in range(5):
            run(client, 1, successes)
            lower, upper = kernelucb.ax.current_bound(client).bounds(GRID)
            true = LATENT(GRID).flatten().sigmoid()
            assert bool(((lower <= true) & (true <= upper)).all())
            assert bool(((lower > 0.0) & (upper < 1.0)).all())
        assert float((upper - lower).mean()) < 0.65

    # Of the model that Ax fits, from which the bound takes the data alone.
    @pytest.mark.filterwarnings("ignore:Very small noise values")
    @pytest.mark.parametrize("error", [None, 0.0])
    def test_all_outcomes_alike(self, error):
        client = run(count_client(options=WIDE), 5, lambda p: {"y": (0.0, error)})
        lower, upper = kernelucb.ax.current_bound(client).bounds(GRID)
        assert float(upper.min()) < 0.3
        assert float(lower.min()) > 0.0
        assert kernelucb.ax.current_bound(client).assumptions.certified


class TestDecisions:
    @pytest.mark.parametrize("sign", ["", "-"])
    def test_the_gap_is_one_of_probabilities(self, sign):
        client = count_client(STEPS, MANY, objective=f"{sign}y")
        rule = stopping(client)
        true = LATENT(GRID[::5]).flatten().sigmoid()
        for _ in range(12):
            run(client, 1, many_successes)
            decision = rule.decide()
            here = chance(decision.arm.parameters)
            lost = here - float(true.min()) if sign else float(true.max()) - here
            assert lost <= decision.certificate.gap <= 1.0
            if decision.stop:
                break
        assert decision.stop
        assert decision.certificate.certified
        best = kernelucb.ax.recommended_arm(client)
        lower, upper = best.objective
        assert 0.0 < lower <= chance(best.parameters) <= upper < 1.0

    def test_report_and_pictures(self):
        client = run(count_client(), 5, successes)
        report = kernelucb.ax.optimum_report(client, max_evaluations=2000)
        true = float(LATENT(GRID).sigmoid().max())
        assert 0.0 < report.lower <= true <= report.upper < 1.0
        cards = client.compute_analyses(
            analyses=[
                kernelucb.ax.BandAnalysis("x", num_points=5),
                kernelucb.ax.GapAnalysis(most_rounds=2),
                kernelucb.ax.OptimumAnalysis(max_evaluations=2000),
            ],
            display=False,
        )
        band, gap, _ = cards
        assert all("certified" in card.title for card in cards)
        assert band.df["upper"].max() < 1.0
        assert gap.df["gap"].max() <= 1.0

    def test_an_estimated_norm_is_not_acted_on(self):
        options = {name: each for name, each in BINOMIAL.items() if name != "norm_bound"}
        client = run(
            count_client(options=options | {"norm_bound": "cautious"}), 4, successes
        )
        assert kernelucb.ax.current_bound(client).assumptions.estimated == ("norm",)
        with pytest.raises(UncertifiedError, match=r"norm_bound=\.\.\. in the options"):
            stopping(client)

    def test_a_search_within_the_band(self):
        client = run(count_client(search=SEARCH), 5, successes)
        assert type(kernelucb.ax.last_bound(client)) is LikelihoodUCB
        assert node(client) == f"{SEARCH} within LikelihoodUCB"


def test_failed_abandoned_and_pending_trials_and_a_kill(tmp_path):
    client = run(count_client(STEPS, MANY), 4, many_successes)
    failed, abandoned, _ = client.get_next_trials(max_trials=3)
    assert len(kernelucb.ax.last_bound(client).X_pending) == 2
    client.mark_trial_failed(failed)
    client.mark_trial_abandoned(abandoned)
    reason = stopping(client, gap=1e-3).decide().reason
    assert "1 trial failed and 1 was abandoned" in reason
    statement = kernelucb.ax.current_bound(client).assumptions["outcomes"].statement
    assert statement.endswith("abandoned; none of that depended on their outcomes")
    path = str(tmp_path / "counts.json")
    kernelucb.ax.save(client, path)
    twin = Client.load_from_json_file(path)
    bounds = [kernelucb.ax.current_bound(each).bounds(GRID) for each in (client, twin)]
    assert_close(bounds[0], bounds[1])
    assert next_trial(twin) == next_trial(client)
    pending = [kernelucb.ax.last_bound(each).X_pending for each in (client, twin)]
    assert_close(pending[0], pending[1])
    assert kernelucb.ax.last_bound(twin).assumptions.certified


# Successes that are to be many, and failures that must be at most one in five.
MOST, PARTS, SAFE = 0.2, 500, {"x": 0.5}
BOTH = {
    "likelihood": "binomial",
    "kernel": "rbf",
    "lengthscale": {"wins": 0.3, "failures": 0.5},
    "norm_bound": {"wins": NORM, "failures": 2.0},
    "mean": {"wins": 0.0, "failures": -2.5},
    "num_trials": {"wins": 20, "failures": PARTS},
}
FAILURES = RKHSFunction.random(frozen_kernel("rbf", 0.5), 2.0, 1, 11)


def failure_chance(parameters):
    return chance(parameters, FAILURES, -2.5)


def both(parameters):
    seed = int(1e6 * parameters["x"])
    return {
        "wins": drawn(chance(parameters), 20, seed),
        "failures": drawn(failure_chance(parameters), PARTS, seed + 1),
    }


def both_client(kind, **arguments):
    client = Client(random_seed=0)
    client.configure_experiment(parameters=UNIT, name="both")
    client.configure_optimization("wins", outcome_constraints=[f"failures <= {MOST}"])
    own = {"num_initial": 2, "seed": 1, "optimizer_options": FAST, "constraints": kind}
    own |= {"safe_arms": [SAFE]} if kind == "safe" else {}
    strategy = kernelucb.ax.generation_strategy(LikelihoodUCB, BOTH, **(own | arguments))
    client.set_generation_strategy(strategy)
    return client


class TestConstraints:
    @pytest.mark.parametrize("kind", ["safe", "explored"])
    def test_a_failure_probability(self, kind):
        assert failure_chance(SAFE) < MOST
        client, chosen = both_client(kind), []
        for _ in range(4):
            index, parameters = next_trial(client)
            client.complete_trial(index, raw_data=both(parameters))
            chosen.append(parameters)
        if kind == "safe":
            assert max(map(failure_chance, chosen)) <= MOST
            assert len({p["x"] for p in chosen}) > 2
        best = kernelucb.ax.recommended_arm(client)
        assert best.assumptions.certified
        assert failure_chance(best.parameters) <= best.outcomes["failures"][1] <= MOST
        assert best.outcomes["wins"][0] <= chance(best.parameters)
        decision = stopping(client).decide()
        assert decision.certificate.certified
        again = Client._from_json_snapshot(
            json.loads(json.dumps(client._to_json_snapshot()))
        )
        assert next_trial(again) == next_trial(client)
