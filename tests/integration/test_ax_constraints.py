r"""Outcome constraints in Ax: kept safely, or explored; in contexts and in batches."""

import math

import pytest
import torch
from ax_bench import (
    AX_WARNINGS,
    BY_NAME,
    FIXED,
    KIND,
    NORM,
    SEARCH,
    SQUARE,
    UNIT,
    along,
    ask,
    attached,
    batch,
    built,
    choice,
    constrained_client,
    go_on_alike,
    in_square,
    next_trial,
    node,
    observed,
    problem,
    real,
    reopened,
    report,
    stopping,
    whole,
)

import kernelucb.ax
from kernelucb import KernelFamilyUCB
from kernelucb.acquisition import ConstrainedUCB, GuardedAcquisition
from kernelucb.exceptions import NoSafePointError, UncertifiedError
from kernelucb.safety import ConstraintWidth

pytestmark = AX_WARNINGS

SLOW = pytest.mark.slow
SOME = along(0.1, 0.4, 0.8)
FAMILY = {
    "options": {"shortest": 0.4, "longest": 0.5, "norm_bound": 2.5, "noise_std": 0.05},
    "acqf_class": KernelFamilyUCB,
}


def is_kept(arms, outcome=None, low=None):
    r"""Whether no arm violates the constraint."""
    low = problem().threshold if low is None else low
    return min((outcome or problem())({**arm})["z"] for arm in arms) >= low


class TestSafe:
    @pytest.mark.parametrize(
        ("seed", "trials"),
        [(0, 4), *(pytest.param(seed, 7, marks=SLOW) for seed in range(3))],
    )
    def test_no_trial_violates_the_constraint(self, seed, trials):
        client = constrained_client(seed=seed)
        chosen = observed(client, trials, seed)
        assert chosen[:2] == along(problem(seed).start) * 2
        assert len({p["x"] for p in chosen}) > 2
        assert min(problem(seed).margin(p) for p in chosen) >= 0.0
        assert node(client) == "MartingaleMixtureUCB, safe"
        assert built(client).safe_set.assumptions.certified
        best = kernelucb.ax.recommended_arm(client)
        lower, upper = best.objective
        assert lower <= problem(seed)(best.parameters)["y"] <= upper
        assert best.outcomes["z"][0] >= problem(seed).threshold
        assert best.assumptions.certified
        assert "the safe point satisfies" in str(best)
        lines = [line.split(": ")[0].strip() for line in str(best).splitlines()]
        assert lines[1:3] == ["y (objective)", "z"]

    @SLOW
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
        assert is_kept(observed(client, 5))
        is_guarded = type(built(client).acqf) is GuardedAcquisition
        assert is_guarded == ("search" in arguments)

    def test_standard_errors(self):
        client = constrained_client(options=BY_NAME | {"noise_std": None}, num_initial=1)
        chosen = [
            ask(client, None, lambda p: {n: (y, 0.05) for n, y in problem()(p).items()})
            for _ in range(2)
        ]
        assert is_kept(chosen)
        assert built(client).safe_set.assumptions.certified

    def test_turns_of_the_width(self):
        client = constrained_client(expand_every=1, num_initial=1)
        observed(client, 2)
        assert type(built(client)._of_turn(built(client).safe_set)) is ConstraintWidth

    def test_nothing_but_the_safe_arms_is_known_to_be_safe(self):
        start = along(problem().start)
        client = constrained_client(limits=["z >= 1.99"], num_initial=1)
        assert observed(client, 3) == start * 3
        decision = stopping(client, 9.0).decide()
        assert decision[:1] + decision[2:] == (False, None, None)
        assert "No completed arm is certainly feasible yet (z >= 1.99)" in decision.reason
        assert kernelucb.ax.recommended_arm(client).parameters == start[0]

    @SLOW
    def test_safe_arms_in_turn_and_trials_under_way(self):
        arms = along(problem().start, problem().start + 0.01)
        client = constrained_client(safe_arms=arms, num_initial=3)
        trials = client.get_next_trials(max_trials=3)
        assert list(trials.values()) == [arms[0], arms[1], arms[0]]
        for index, parameters in trials.items():
            client.complete_trial(trial_index=index, raw_data=problem()(parameters))
        assert is_kept(client.get_next_trials(max_trials=2).values())
        assert len(built(client).band.X_pending) == 1
        assert len(built(client).safe_set.constraints) == 1

    @SLOW
    def test_integers_choices_and_logarithms(self):
        arm = {"rate": 0.3, "n": 2, "kind": "b"}
        options = {"kernel": "rbf", "norm_bound": 3.0, "lengthscale": {"y": 1.0, "z": 2.0}}
        options |= {"noise_std": {"y": 0.05, "z": 0.01}}
        client = constrained_client(
            parameters=[real("rate", 0.01, 1.0, scaling="log"), whole("n", 0, 5), KIND],
            limits=["z <= 1"],
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

    def test_a_safe_arm_comes_back_to_the_last_digit(self):
        space = [real("x", 1e-3, 10.0, scaling="log")]
        own = {"safe_arms": along(0.3), "limits": ["z >= 1.999"], "num_initial": 1}
        assert observed(constrained_client(parameters=space, **own), 3) == along(0.3) * 3

    @SLOW
    def test_linear_constraints_on_parameters(self):
        client = constrained_client(
            parameters=[*UNIT, real("rate")],
            parameter_constraints=["x <= rate"],
            safe_arms=[{"x": problem().start, "rate": 0.4}],
            num_initial=1,
        )
        chosen = observed(client, 4)
        assert all(p["x"] <= p["rate"] for p in chosen)
        assert is_kept(chosen)

    @pytest.mark.filterwarnings(
        "ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning"
    )
    def test_data_that_contradict_what_was_given(self):
        options = FIXED | {"norm_bound": {"y": NORM, "z": 0.01}}
        client = attached(constrained_client(options=options), SOME, problem())
        with pytest.raises(UncertifiedError, match="No trial is known to satisfy z >= "):
            next_trial(client)
        client.set_generation_strategy(constrained_client()._generation_strategy)
        assert is_kept([next_trial(client)[1]])


class TestExplored:
    @SLOW
    @pytest.mark.parametrize("seed", range(2))
    def test_the_recommended_arm_satisfies_the_constraint(self, seed):
        client = constrained_client("explored", seed)
        observed(client, 10, seed)
        best = kernelucb.ax.recommended_arm(client)
        assert problem(seed).margin(best.parameters) >= 0.0
        grid = [problem(seed)({"x": i / 200.0}) for i in range(201)]
        optimum = max(each["y"] for each in grid if each["z"] >= problem(seed).threshold)
        decision = stopping(client).decide()
        assert decision.arm == best.arm
        assert decision.certificate.certified
        regret = optimum - problem(seed)(best.parameters)["y"]
        assert regret <= decision.certificate.gap
        joined = kernelucb.ax.optimum_report(client).certificate.assumptions
        names = {item.name.partition(": ")[0] for item in joined.items}
        assert names == {"objective", "z"}

    @pytest.mark.parametrize(
        ("search", "kind"), [(None, ConstrainedUCB), (SEARCH, GuardedAcquisition)]
    )
    def test_trials_may_be_feasible(self, search, kind):
        client = constrained_client("explored", search=search)
        _, parameters = next_trial(attached(client, SOME, problem()))
        point = torch.tensor([[parameters["x"]]], dtype=torch.float64)
        acqf = built(client).acqf
        assert type(acqf) is kind
        assert acqf.outcome_constraints is built(client).outcome_constraints
        assert float(acqf.outcome_constraints.possible_margin(point)) > -0.2
        within = "" if search is None else f"{search} within "
        assert node(client) == f"{within}MartingaleMixtureUCB, explored"

    def test_nothing_is_feasible(self):
        client = constrained_client("explored", limits=["z >= 1.99"])
        attached(client, SOME, problem())
        for use in (kernelucb.ax.recommended_arm, kernelucb.ax.optimum_report):
            with pytest.raises(NoSafePointError, match="No completed arm is certainly fea"):
                use(client)


class TestReopened:
    @SLOW
    @pytest.mark.parametrize(
        ("kind", "arguments"),
        [
            ("safe", {}),
            ("safe", {"search": SEARCH, "expand_every": 2}),
            ("explored", {}),
            ("explored", {"search": SEARCH}),
        ],
    )
    def test_it_goes_on_as_it_would_have(self, kind, arguments):
        client = constrained_client(kind, **arguments)
        for number in (1, 2):
            observed(client, number)
            client.get_next_trials(max_trials=1)
            (index,) = go_on_alike(client, reopened(client))
            for each in (index - 1, index):
                p = client._experiment.trials[each].arm.parameters
                client.complete_trial(trial_index=each, raw_data=problem()(p))
        assert kernelucb.ax.recommended_arm(reopened(client)).arm.name == (
            kernelucb.ax.recommended_arm(client).arm.name
        )


class TestContexts:
    @SLOW
    @pytest.mark.parametrize("kind", ["safe", "explored"])
    def test_constraints_hold_in_the_context(self, kind):
        arms = {"safe_arms": along(problem().start)} if kind == "safe" else {}
        low = problem().threshold - (1.0 if kind == "explored" else 0.0)
        own = {"parameters": SQUARE, "limits": [f"z >= {low}"], "num_initial": 3} | arms
        client = constrained_client(kind, **own)
        contexts = [{"t": 0.5 + 0.01 * i} for i in range(6 if kind == "safe" else 9)]
        chosen = [ask(client, context, in_square) for context in contexts]
        assert [{"t": p["t"]} for p in chosen] == contexts
        assert kind == "explored" or is_kept(chosen, in_square, low)
        context = {"t": 0.55}
        best = kernelucb.ax.recommended_arm(client, fixed_parameters=context)
        assert best.parameters == {**best.arm.parameters, **context}
        assert is_kept([best.parameters], in_square, low)
        lower, upper = best.objective
        assert lower <= in_square(best.parameters)["y"] <= upper
        go_on_alike(client, reopened(client), fixed_parameters={"t": 0.51})

    def test_safe_arms_are_of_a_context(self):
        arm = {"x": problem().start, "t": 0.5}
        client = constrained_client(parameters=SQUARE, safe_arms=[arm], num_initial=1)
        with pytest.raises(NoSafePointError, match=r"No safe arm has t=0\.6"):
            next_trial(client, {"t": 0.6})
        assert ask(client, {"t": 0.5}, in_square) == arm
        # The bands show what is safe in a context close by.
        assert is_kept([ask(client, {"t": 0.51}, in_square)], in_square)
        with pytest.raises(NoSafePointError, match="No point that fits the trial"):
            next_trial(client, {"t": 0.0})

    def test_a_safe_arm_for_every_context_needs_one(self):
        client = constrained_client(parameters=SQUARE, safe_arms=along(0.5))
        with pytest.raises(ValueError, match="lacks the parameter `t`"):
            client.get_next_trials(max_trials=1)


class TestBatches:
    @SLOW
    def test_safe_batches(self):
        client = constrained_client(num_initial=1)
        sizes = []
        for _ in range(3):
            trial = batch(client, 3)
            sizes.append(len(trial.arms))
            assert is_kept(arm.parameters for arm in trial.arms)
            client = reopened(client)
            trial = client._experiment.trials[trial.index]
            report(client, trial, problem())
            trial.mark_completed()
        assert sizes == [1, 3, 3]
        assert is_kept([kernelucb.ax.recommended_arm(client).parameters])

    @SLOW
    def test_no_arm_twice(self):
        x = [round(value, 3) for value in torch.linspace(0.0, 1.0, 41).tolist()]
        steps = [choice("x", x, is_ordered=True)]
        client = constrained_client(parameters=steps, safe_arms=along(0.2), num_initial=1)
        sizes = []
        for number in (1, 4, 4, 4):
            trial = batch(client, number)
            assert set(trial.arm_weights.values()) == {1.0}
            sizes.append(len(trial.arms))
            report(client, trial, problem())
            trial.mark_completed()
        # As many different ones as are known to be safe.
        points = torch.tensor(x, dtype=torch.float64).unsqueeze(-1)
        assert sizes[0] == 1
        assert sizes[-1] == min(4, int(built(client).safe_set.is_safe(points).sum()))
        assert sizes[-1] > 1
        assert built(client).band.X_pending is None
