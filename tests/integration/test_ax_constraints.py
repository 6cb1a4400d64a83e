r"""Outcome constraints in Ax: kept safely, or explored."""

import math

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax_bench import FAST, FIXED, GUARDED_WARNINGS, NORM, SEARCH, UNIT, next_trial, node
from constrained_bench import (
    BY_NAME,
    acquisition,
    constrained_client,
    observed,
    problem,
)

import kernelucb.ax
from kernelucb import KernelFamilyUCB, MartingaleMixtureUCB
from kernelucb.acquisition import ConstrainedUCB, GuardedAcquisition
from kernelucb.exceptions import UncertifiedError
from kernelucb.safety import ConstraintWidth

pytestmark = [pytest.mark.slow, *GUARDED_WARNINGS]

RATE = RangeParameterConfig(name="rate", parameter_type="float", bounds=(0.0, 1.0))
FAMILY = {
    "options": {"shortest": 0.4, "longest": 0.5, "norm_bound": 2.5, "noise_std": 0.05},
    "acqf_class": KernelFamilyUCB,
}


class TestSafe:
    @pytest.mark.parametrize("seed", range(3))
    def test_no_trial_violates_the_constraint(self, seed):
        client = constrained_client(seed=seed)
        chosen = observed(client, 7, seed)
        assert chosen[:2] == [{"x": problem(seed).start}] * 2
        assert len({p["x"] for p in chosen}) > 2
        assert min(problem(seed).margin(p) for p in chosen) >= 0.0
        assert node(client) == "MartingaleMixtureUCB, safe"
        assert acquisition(client).safe_set.assumptions.certified
        best = kernelucb.ax.recommended_arm(client)
        lower, upper = best.objective
        assert lower <= problem(seed)(best.parameters)["y"] <= upper
        assert best.outcomes["z"][0] >= problem(seed).threshold
        assert best.assumptions.certified
        assert "the safe point satisfies" in str(best)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"search": SEARCH},
            {"search": SEARCH, "search_options": {"ucb_every": 2}},
            {"expand_every": 2},
            FAMILY,
        ],
    )
    def test_other_ways_to_search(self, arguments):
        client = constrained_client(**arguments)
        chosen = observed(client, 5)
        assert min(problem().margin(p) for p in chosen) >= 0.0
        is_guarded = type(acquisition(client).acqf) is GuardedAcquisition
        assert is_guarded == ("search" in arguments)

    def test_standard_errors(self):
        client = constrained_client(options=BY_NAME | {"noise_std": None})
        for _ in range(4):
            index, p = next_trial(client)
            assert problem().margin(p) >= 0.0
            outcomes = {name: (mean, 0.05) for name, mean in problem()(p).items()}
            client.complete_trial(trial_index=index, raw_data=outcomes)
        assert acquisition(client).safe_set.assumptions.certified

    def test_turns_of_the_width(self):
        client = constrained_client(expand_every=1)
        observed(client, 3)
        assert (
            type(acquisition(client)._of_turn(acquisition(client).safe_set))
            is ConstraintWidth
        )

    def test_nothing_but_the_safe_arms_is_known_to_be_safe(self):
        client = constrained_client(constraints=["z >= 1.99"], num_initial=1)
        start = {"x": problem().start}
        assert observed(client, 3) == [start] * 3
        decision = kernelucb.ax.CertifiedGapStoppingStrategy(9.0, client).decide()
        assert decision[:1] + decision[2:] == (False, None, None)
        assert "No completed arm is certainly feasible yet (z >= 1.99)" in decision.reason
        assert kernelucb.ax.recommended_arm(client).parameters == start

    def test_safe_arms_in_turn_and_trials_under_way(self):
        arms = [{"x": problem().start}, {"x": problem().start + 0.01}]
        client = constrained_client(safe_arms=arms, num_initial=3)
        trials = client.get_next_trials(max_trials=3)
        assert list(trials.values()) == [arms[0], arms[1], arms[0]]
        for index, parameters in trials.items():
            client.complete_trial(trial_index=index, raw_data=problem()(parameters))
        more = client.get_next_trials(max_trials=2).values()
        assert all(problem().margin(p) >= 0.0 for p in more)
        last = acquisition(client)
        assert len(last.band.X_pending) == 1
        assert len(last.safe_set.constraints) == 1

    def test_integers_choices_and_logarithms(self):
        space = [
            RangeParameterConfig(
                name="rate", parameter_type="float", bounds=(0.01, 1.0), scaling="log"
            ),
            RangeParameterConfig(name="n", parameter_type="int", bounds=(0, 5)),
            ChoiceParameterConfig(
                name="kind", parameter_type="str", values=["a", "b", "c"], is_ordered=False
            ),
        ]
        arm = {"rate": 0.3, "n": 2, "kind": "b"}
        options = {"kernel": "rbf", "norm_bound": 3.0}
        options |= {
            "lengthscale": {"y": 1.0, "z": 2.0},
            "noise_std": {"y": 0.05, "z": 0.01},
        }
        client = constrained_client(
            parameters=space,
            constraints=["z <= 1"],
            safe_arms=[arm],
            options=options,
        )
        for _ in range(5):
            index, p = next_trial(client)
            cost = 0.3 * p["n"] + 0.4 * (p["kind"] == "c")
            assert cost <= 1.0
            assert type(p["n"]) is int
            outcomes = {"y": 0.2 * p["n"] + math.log10(p["rate"]), "z": cost}
            client.complete_trial(trial_index=index, raw_data=outcomes)
        arms = [trial.arm.parameters for trial in client._experiment.trials.values()]
        assert arms[:2] == [arm, arm]
        assert len({a["n"] for a in arms}) > 1
        assert client._experiment.trials[1].arm.name == "0_0"

    @pytest.mark.filterwarnings(
        "ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning"
    )
    def test_data_that_contradict_what_was_given(self):
        options = FIXED | {"norm_bound": {"y": NORM, "z": 0.01}}
        client = constrained_client(options=options)
        observed(client, 2)
        with pytest.raises(UncertifiedError, match="No trial is known to satisfy z >= "):
            next_trial(client)
        other = constrained_client()._generation_strategy
        client.set_generation_strategy(other)
        assert problem().margin(next_trial(client)[1]) >= 0.0

    def test_linear_constraints_on_parameters(self):
        client = Client(random_seed=0)
        space = [*UNIT, RATE]
        client.configure_experiment(parameters=space, parameter_constraints=["x <= rate"])
        low = f"z >= {problem().threshold}"
        client.configure_optimization(objective="y", outcome_constraints=[low])
        strategy = kernelucb.ax.generation_strategy(
            MartingaleMixtureUCB,
            BY_NAME,
            constraints="safe",
            safe_arms=[{"x": problem().start, "rate": 0.4}],
            num_initial=1,
            optimizer_options=FAST,
        )
        client.set_generation_strategy(strategy)
        for p in observed(client, 4):
            assert p["x"] <= p["rate"]
            assert problem().margin(p) >= 0.0

    def test_a_safe_arm_comes_back_to_the_last_digit(self):
        rate = RangeParameterConfig(
            name="x", parameter_type="float", bounds=(1e-3, 10.0), scaling="log"
        )
        client = constrained_client(
            parameters=[rate], safe_arms=[{"x": 0.3}], constraints=["z >= 1.999"]
        )
        assert [p["x"] for p in observed(client, 4)] == [0.3] * 4


class TestExplored:
    @pytest.mark.parametrize("seed", range(2))
    def test_the_recommended_arm_satisfies_the_constraint(self, seed):
        client = constrained_client("explored", seed)
        observed(client, 10, seed)
        best = kernelucb.ax.recommended_arm(client)
        assert problem(seed).margin(best.parameters) >= 0.0
        regret = problem(seed).best - problem(seed)(best.parameters)["y"]
        decision = kernelucb.ax.CertifiedGapStoppingStrategy(0.1, client).decide()
        assert decision.arm == best.arm
        assert decision.certificate.certified
        assert regret <= decision.certificate.gap

    def test_trials_may_be_feasible(self):
        client = constrained_client("explored")
        observed(client, 4)
        for _ in range(3):
            index, parameters = next_trial(client)
            point = torch.tensor([[parameters["x"]]], dtype=torch.float64)
            acqf = acquisition(client).acqf
            assert type(acqf) is ConstrainedUCB
            assert float(acqf.outcome_constraints.possible_margin(point)) > -0.2
            outcomes = problem()(parameters)
            client.complete_trial(trial_index=index, raw_data=outcomes)

    def test_a_search(self):
        client = constrained_client("explored", search=SEARCH)
        observed(client, 4)
        acqf = acquisition(client).acqf
        assert type(acqf) is GuardedAcquisition
        assert acqf.outcome_constraints is acquisition(client).outcome_constraints
        assert type(acqf.acqf).__name__ == SEARCH
        assert node(client) == f"{SEARCH} within MartingaleMixtureUCB, explored"

    def test_estimates_are_allowed_and_said(self):
        client = constrained_client(
            "explored", options={"norm_bound": 4.0, "noise_std": 0.05}
        )
        observed(client, 4)
        best = kernelucb.ax.recommended_arm(client)
        assert not best.assumptions.certified
        assert problem().margin(best.parameters) >= 0.0
