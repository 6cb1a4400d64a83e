r"""Stopping by certificate in Ax: decisions, batches, the orchestrator."""

import logging

import pytest
import torch
from ax.api.protocols.metric import IMetric
from ax.api.protocols.runner import IRunner
from ax.core.arm import Arm
from ax.core.trial_status import TrialStatus
from ax.orchestration.orchestrator import Orchestrator
from ax.orchestration.orchestrator_options import OrchestratorOptions
from ax_bench import (
    AX_WARNINGS,
    CURVE,
    GRID,
    KIND,
    NOISE_STD,
    NORM,
    SEARCH,
    STEPS,
    UNIT,
    along,
    attached,
    batch,
    built,
    choice,
    constrained_client,
    curve,
    fixed_client,
    make_client,
    next_trial,
    points,
    problem,
    real,
    reopened,
    report,
    run,
    stopping,
    whole,
)

import kernelucb.ax
from kernelucb import KernelFamilyUCB, WangDeFreitasUCB, regret_certificate
from tolerances import SEARCHED

pytestmark = AX_WARNINGS
CONTRADICTION = "kernelucb.exceptions.InconsistentConfidenceSetWarning"
SOME = along(0.1, 0.4, 0.8, 0.6, 0.25)
FAMILY = {"shortest": 0.2, "longest": 0.8, "kernel": "matern52", "norm_bound": NORM}
FAMILY |= {"noise_std": NOISE_STD, "select": "widest"}


def gap_of(client):
    return stopping(client).decide().certificate.gap


def level(parameters):
    r"""The curve, where ``x`` may be an integer up to 20."""
    scale = 20.0 if isinstance(parameters["x"], int) else 1.0
    return curve({"x": parameters["x"] / scale})["y"]


def family_client(parameters=STEPS, objective="-y"):
    return make_client(parameters, objective, KernelFamilyUCB, FAMILY)


class TestStops:
    r"""With a true gap below the tolerance, whatever is seen."""

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("make", "gap", "sign", "most"),
        [
            (fixed_client, 0.5, 1.0, 25),
            (family_client, 0.5, -1.0, 15),
            (lambda: family_client(UNIT, "y"), 0.5, 1.0, 15),
        ],
    )
    def test_with_noise(self, make, gap, sign, most):
        client, stops = make(), []
        rule = stopping(client, gap)
        optimum = float(CURVE(GRID).max())
        for _ in range(most):
            noise = NOISE_STD * float(torch.randn(()))
            run(client, 1, lambda p, noise=noise: {"y": sign * (level(p) + noise)})
            decision = rule.decide()
            stops.append(decision.stop)
            lost = optimum - level(decision.arm.parameters)
            assert lost <= decision.certificate.gap
            if decision.stop:
                break
        assert stops[-1]
        assert decision.certificate.gap <= gap
        assert decision.certificate.assumptions.certified
        assert "estimate" not in decision.reason
        told = rule.should_stop_optimization(client._experiment)
        assert told == (True, decision.reason)


class TestDecision:
    def test_is_the_certificate_of_the_best_observed_arm(self):
        client = attached(fixed_client(), SOME, curve)
        rule = stopping(client, 100.0)
        decision = rule.decide()
        acqf = kernelucb.ax.current_bound(client)
        arms = [trial.arm for trial in client._experiment.trials.values()]
        X = points(*(arm.parameters for arm in arms), names=["x"])
        best = int(acqf.bounds(X)[0].argmax())
        assert decision.arm == arms[best]
        box = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
        expected = regret_certificate(
            acqf, bounds=box, recommended=X[best], max_evaluations=20_000
        )
        assert decision.certificate.gap == expected.gap
        assert decision.certificate.certified
        told = rule.should_stop_optimization(client._experiment)
        assert told == (True, decision.reason)

    def test_minimised_metrics_are_the_mirror_image(self):
        largest = attached(fixed_client(), SOME, curve)
        smallest = attached(fixed_client(objective="-y"), SOME, lambda p: curve(p, -1.0))
        one, other = stopping(largest).decide(), stopping(smallest).decide()
        assert one.arm.parameters == other.arm.parameters
        assert one.certificate.gap == pytest.approx(other.certificate.gap, rel=1e-6)

    def test_the_gap_is_in_units_of_the_metric(self):
        plain = attached(fixed_client(), SOME, curve)
        thousands = attached(fixed_client(unit=1e3), SOME, lambda p: curve(p, unit=1e3))
        assert gap_of(thousands) == pytest.approx(1e3 * gap_of(plain), rel=SEARCHED)

    @pytest.mark.filterwarnings(f"ignore::{CONTRADICTION}")
    def test_never_without_a_guarantee(self):
        sizes = [choice("size", [0.0, 0.2, 0.7, 1.0], is_ordered=True), KIND]
        one_round = fixed_client(sizes, acqf_class=WangDeFreitasUCB)
        arms = [{"size": size, "kind": "b"} for size in (0.0, 0.7, 1.0)]
        attached(one_round, arms, lambda p: {"y": p["size"]})
        contradicted = attached(fixed_client(), SOME, lambda p: curve(p, unit=100.0))
        for client, why in ((one_round, "design"), (contradicted, "norm")):
            decision = stopping(client, 1e6).decide()
            assert not decision.stop
            assert f"no guarantee: {why} violated" in decision.reason

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"gap": 0.0}, "gap must be a finite number above 0"),
            ({"min_trials": 0}, "min_trials must be a whole number of at least 1"),
            ({"max_evaluations": 0}, "max_evaluations must be a whole number"),
        ],
    )
    def test_wrong_numbers(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            stopping(fixed_client(), **arguments)


class TestTrialsUnderWay:
    @pytest.mark.slow
    def test_checks_leave_no_trace(self):
        trials = []
        for asked in (True, False):
            client = make_client(UNIT, options={"norm_bound": 4.0, "noise_std": 0.1})
            torch.manual_seed(0)
            parameters = []
            for _ in range(6):
                index, chosen = next_trial(client)
                client.complete_trial(trial_index=index, raw_data=curve(chosen))
                parameters.append(chosen["x"])
                if asked:
                    stopping(client, allow_estimated=True).decide()
            trials.append(parameters)
        assert trials[0] == trials[1]

    def test_all_outcomes_count_and_pending_trials_do_not(self):
        client = attached(fixed_client(), SOME, curve)
        before = stopping(client).decide()
        failed, abandoned, running = client.get_next_trials(max_trials=3)
        assert gap_of(client) == before.certificate.gap
        client.mark_trial_failed(failed)
        client.attach_data(trial_index=abandoned, raw_data={"y": 1.0})
        client.mark_trial_abandoned(abandoned)
        after = stopping(client).decide()
        assert after.certificate.gap == before.certificate.gap
        assert after.arm == before.arm
        stop, _ = stopping(client, 100.0).should_stop_optimization(client._experiment)
        assert stop
        rule = stopping(client, 100.0, inactive_when_pending_trials=True)
        stop, reason = rule.should_stop_optimization(client._experiment)
        assert (stop, reason) == (False, "There are pending trials in the experiment.")
        again = stopping(reopened(client)).decide()
        assert again.arm.parameters == after.arm.parameters
        assert again.certificate.gap == pytest.approx(after.certificate.gap, rel=1e-6)
        parameters = client._experiment.trials[running].arm.parameters
        client.complete_trial(trial_index=running, raw_data=curve(parameters))
        assert kernelucb.ax.current_bound(client).regression.num_observations == 6

    def test_before_the_bound_takes_over(self):
        client = fixed_client(num_initial=5)
        with pytest.raises(ValueError, match="No trial has been observed yet"):
            stopping(client).decide()
        stop, reason = stopping(client).should_stop_optimization(client._experiment)
        assert not stop
        assert "only 0 completed trials" in reason
        run(client, 2, curve)
        assert gap_of(client) > 0.0
        rule = stopping(client, 100.0, min_trials=3)
        stop, reason = rule.should_stop_optimization(client._experiment)
        assert not stop
        assert "minimum of 3" in reason

    def test_arms_outside_the_search_space_are_not_recommended(self):
        client = fixed_client()
        client._experiment.new_trial().add_arm(Arm(parameters={"x": 1.5}))
        client._experiment.trials[0].mark_running(no_runner_required=True)
        client.complete_trial(trial_index=0, raw_data={"y": 1.0})
        with pytest.raises(ValueError, match="No trial in the search space"):
            stopping(client).decide()


class TestBatches:
    @pytest.mark.slow
    @pytest.mark.parametrize("search", [None, SEARCH])
    def test_stopping_before_between_and_after(self, search):
        client = fixed_client(search=search)
        first = batch(client, 3)
        with pytest.raises(ValueError, match="No trial has been observed yet"):
            stopping(client).decide()
        report(client, first, curve)
        first.mark_completed()
        gaps = [gap_of(client)]
        for _ in range(2):
            trial = batch(client, 3)
            assert len({arm.parameters["x"] for arm in trial.arms}) == 3
            assert gap_of(reopened(client)) == pytest.approx(gaps[-1])
            report(client, trial, curve)
            trial.mark_completed()
            gaps.append(gap_of(client))
        assert gaps[-1] < gaps[0]
        assert kernelucb.ax.current_bound(client).regression.num_observations == 9

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("search", "turns"), [(None, None), (SEARCH, {"ucb_every": 2})]
    )
    def test_in_a_mixed_space(self, search, turns):
        space = [real("x"), whole("n", 0, 2)]
        client = fixed_client(space, search=search, search_options=turns)
        run(client, 3, lambda p: {"y": p["x"] * (2 - p["n"])})
        trial = batch(client, 3)
        assert len({tuple(arm.parameters.values()) for arm in trial.arms}) == 3
        assert set(trial.arm_weights.values()) == {1.0}
        assert built(client).X_pending is None
        assert built(client).band.X_pending is None

    def test_arms_that_are_abandoned_are_not_recommended(self):
        client = attached(fixed_client(), SOME, curve)
        trial = client._experiment.new_batch_trial()
        trial.add_arms_and_weights([Arm({"x": x}, f"arm {x}") for x in (0.15, 0.5, 0.95)])
        trial.mark_running(no_runner_required=True)
        before = gap_of(client)
        *others, last = trial.arms
        report(client, trial, curve, others)
        trial.mark_arm_abandoned(last.name)
        trial.mark_completed()
        decision = stopping(client).decide()
        assert decision.certificate.gap <= before
        assert decision.arm.name != last.name
        assert "1 arm of a batch was abandoned" in decision.reason
        assert decision.certificate.certified


class Instant(IRunner):
    r"""Every run is over at once; the third one fails."""

    def run_trial(self, trial_index, parameterization):
        return dict(parameterization)

    def poll_trial(self, trial_index, trial_metadata):
        return TrialStatus.FAILED if trial_index == 2 else TrialStatus.COMPLETED


class Outcome(IMetric):
    def __init__(self, name, outcome):
        super().__init__(name)
        self.outcome = outcome

    def fetch(self, trial_index, trial_metadata):
        return 0, self.outcome(trial_metadata)[self.name]


def orchestrated(client, outcome, names, gap, **options):
    client.configure_metrics([Outcome(name, outcome) for name in names])
    client.configure_runner(Instant())
    settings = OrchestratorOptions(
        global_stopping_strategy=stopping(client, gap),
        init_seconds_between_polls=0,
        min_seconds_before_poll=0.0,
        logging_level=logging.ERROR,
        **options,
    )
    strategy = client._generation_strategy
    return Orchestrator(client._experiment, strategy, settings)


@pytest.mark.slow
class TestOrchestrator:
    @pytest.mark.parametrize(
        "options", [{"max_pending_trials": 3, "run_trials_in_batches": True}, {}]
    )
    def test_it_stops_by_the_certificate(self, options):
        client = fixed_client()
        orchestrated(client, curve, ["y"], 0.5, **options).run_n_trials(20)
        assert 2 <= len(client._experiment.trials) < 20
        decision = stopping(client, 0.5).decide()
        assert decision.stop
        assert "1 trial failed" in decision.reason

    def test_with_safe_constraints(self):
        client = constrained_client()
        loop = orchestrated(client, problem(), ["y", "z"], 0.7, max_pending_trials=2)
        loop.run_n_trials(12)
        arms = client._experiment.arms_by_name.values()
        assert all(problem().margin(arm.parameters) >= 0.0 for arm in arms)
        decision = stopping(client, 0.7).decide()
        assert decision.stop == (len(client._experiment.trials) < 12)
        run(client, 1, problem())
