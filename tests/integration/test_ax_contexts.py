r"""Parameters that are fixed for a trial in Ax: contexts that the user does not choose."""

import math

import pytest
import torch
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax_bench import (
    FAST,
    FIXED,
    GUARDED_WARNINGS,
    SEARCH,
    fixed_client,
    go_on_alike,
    make_client,
    points,
    reopened,
    rows,
    searching,
    wave,
)
from constrained_bench import acquisition, constrained_client, problem

import kernelucb.ax
from kernelucb import regret_certificate
from kernelucb.ax.spaces import inputs_of
from kernelucb.exceptions import NoSafePointError
from problems import with_point

pytestmark = [pytest.mark.slow, *GUARDED_WARNINGS]

RATE = RangeParameterConfig(
    name="rate", parameter_type="float", bounds=(0.01, 10.0), scaling="log"
)
SPACE = [
    RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0)),
    RATE,
    RangeParameterConfig(name="n", parameter_type="int", bounds=(0, 5)),
    ChoiceParameterConfig(
        name="kind", parameter_type="str", values=["a", "b", "c"], is_ordered=False
    ),
]
PLANE = [
    RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0))
    for name in ("x", "t")
]
CONTEXTS = [{"rate": 0.3}, {"n": 4}, {"kind": "b"}, {"rate": 1.7, "n": 1, "kind": "c"}]


def next_in(client, context):
    ((index, parameters),) = client.get_next_trials(
        max_trials=1, fixed_parameters=context
    ).items()
    return index, parameters


def ask(client, context, outcome):
    index, parameters = next_in(client, context)
    client.complete_trial(trial_index=index, raw_data=outcome(parameters))
    return parameters


def rated(parameters):
    return {"y": parameters["x"] + math.log10(parameters["rate"]) + 0.1 * parameters["n"]}


def in_plane(parameters):
    outcomes = problem()(parameters)
    return {name: value + 0.1 * parameters["t"] for name, value in outcomes.items()}


class TestValues:
    @pytest.mark.parametrize("search", [None, SEARCH])
    def test_they_are_handed_out_exactly(self, search):
        client = make_client(SPACE, search=search, num_initial=2)
        for context in [*CONTEXTS, *CONTEXTS[::-1]][: 8 if search is None else 5]:
            parameters = ask(client, context, rated)
            assert {name: parameters[name] for name in context} == context
            assert all(type(parameters[n]) is type(value) for n, value in context.items())

    def test_a_whole_number_for_a_float(self):
        client = make_client(num_initial=1)
        for _ in range(2):
            value = ask(client, {"v": 3}, lambda p: {"y": wave(p)})["v"]
            assert type(value) is float
            assert value == 3.0

    @pytest.mark.parametrize("kind", ["safe", "explored"])
    def test_with_outcome_constraints(self, kind):
        arms = {"safe_arms": [{"x": problem().start}]} if kind == "safe" else {}
        low = problem().threshold - (1.0 if kind == "explored" else 0.0)
        client = constrained_client(
            kind, parameters=PLANE, constraints=[f"z >= {low}"], num_initial=3, **arms
        )
        for step in range(6 if kind == "safe" else 9):
            t = 0.5 + 0.01 * step
            parameters = ask(client, {"t": t}, in_plane)
            assert parameters["t"] == t
            if kind == "safe":
                assert in_plane(parameters)["z"] >= low
        context = {"t": 0.55}
        best = kernelucb.ax.recommended_arm(client, fixed_parameters=context)
        assert best.parameters == {**best.arm.parameters, **context}
        assert in_plane(best.parameters)["z"] >= low
        lower, upper = best.objective
        assert lower <= in_plane(best.parameters)["y"] <= upper

    def test_a_reopened_experiment_goes_on(self):
        client = constrained_client(
            parameters=PLANE, safe_arms=[{"x": problem().start}], num_initial=1
        )
        for t in (0.5, 0.52):
            ask(client, {"t": t}, in_plane)
        go_on_alike(client, reopened(client), fixed_parameters={"t": 0.51})

    @pytest.mark.parametrize(
        ("context", "message"),
        [
            ({"v": 20.0}, "v=20.0, which is outside the search space"),
            ({"w": 1.0}, "fixed_parameters has `w`, which is not a parameter"),
        ],
    )
    @pytest.mark.parametrize("trials", [0, 3])
    def test_refused(self, trials, context, message):
        client = make_client()
        for step in range(trials):
            ask(client, {"v": float(step)}, lambda p: {"y": wave(p)})
        with pytest.raises(ValueError, match=message):
            next_in(client, context)
        assert len(client._experiment.trials) == trials


class TestOtherContexts:
    def test_trials_under_way_there_are_pending(self):
        client = searching(num_initial=2)
        for v in (1.0, 2.0, 3.0):
            ask(client, {"v": v}, lambda p: {"y": wave(p)})
        _, running = next_in(client, {"v": 9.0})
        next_in(client, {"v": 4.0})
        acqf = acquisition(client).acqf
        assert rows(acqf.band.X_pending) == rows(points(running))
        # Known points are compared in the context of the trial.
        assert set(acqf.reference[:, 1].tolist()) == {4.0}
        assert set(acqf.acqf.X_baseline[:-1, 1].tolist()) == {4.0}

    def test_safe_arms_are_of_a_context(self):
        start = problem().start
        client = constrained_client(
            parameters=PLANE, safe_arms=[{"x": start, "t": 0.5}], num_initial=1
        )
        with pytest.raises(NoSafePointError, match=r"No safe arm has t=0\.6"):
            next_in(client, {"t": 0.6})
        assert ask(client, {"t": 0.5}, in_plane) == {"x": start, "t": 0.5}
        # The bands show what is safe in a context close by.
        assert in_plane(ask(client, {"t": 0.51}, in_plane))["z"] >= problem().threshold
        with pytest.raises(NoSafePointError, match="No point that fits the trial"):
            next_in(client, {"t": 0.0})

    def test_a_safe_arm_for_every_context_needs_one(self):
        client = constrained_client(parameters=PLANE, safe_arms=[{"x": 0.5}])
        with pytest.raises(ValueError, match="lacks the parameter `t`"):
            client.get_next_trials(max_trials=1)


class TestCertificates:
    def test_the_gap_of_a_context(self):
        options = FIXED | {"lengthscale": 0.8, "norm_bound": 2.0}
        client = make_client(PLANE, options=options, optimizer_options=FAST)
        for step in range(5):
            ask(client, {"t": 0.2 * step}, lambda p: {"y": p["x"] * (1.0 - p["t"])})
        rule = kernelucb.ax.CertifiedGapStoppingStrategy(0.5, client)
        for t in (0.0, 0.4):
            decision = rule.decide(fixed_parameters={"t": t})
            here = decision.certificate
            assert here.certified
            assert float(here.recommended[1]) == float(here.challenger[1]) == t
            grid = torch.linspace(0.0, 1.0, 101, dtype=torch.float64).unsqueeze(-1)
            inner = regret_certificate(
                kernelucb.ax.current_bound(client),
                with_point(
                    torch.cat([grid, torch.full_like(grid, t)], -1), here.recommended
                ),
                recommended=here.recommended,
            )
            assert inner.gap <= here.gap <= 1.1 * inner.gap + 0.01

    def test_choices_and_logarithms(self):
        client = fixed_client(SPACE, lengthscale=0.8, options={"norm_bound": 3.0})
        for kind in "abca":
            ask(client, {"kind": kind}, rated)
        rule = kernelucb.ax.CertifiedGapStoppingStrategy(0.5, client, max_evaluations=500)
        adapter = client._generation_strategy.adapter
        for context in CONTEXTS:
            decision = rule.decide(fixed_parameters=context)
            there = [{**decision.arm.parameters, **context}]
            assert decision.certificate.rigorous
            assert torch.equal(
                decision.certificate.recommended, inputs_of(adapter, there)[0]
            )

    def test_a_finite_space(self):
        space = [
            RangeParameterConfig(name="n", parameter_type="int", bounds=(0, 5)),
            RangeParameterConfig(name="m", parameter_type="int", bounds=(0, 5)),
        ]
        client = fixed_client(space, num_initial=2)
        for m in (1, 2, 3):
            ask(client, {"m": m}, lambda p: {"y": 0.1 * p["n"]})
        rule = kernelucb.ax.CertifiedGapStoppingStrategy(0.5, client)
        certificate = rule.decide(fixed_parameters={"m": 5}).certificate
        assert certificate.challenger[1] == certificate.recommended[1] == 5.0
        assert certificate.resolution == 0.0
