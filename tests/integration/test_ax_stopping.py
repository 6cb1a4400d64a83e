r"""Stopping by certificate in real Ax experiments, and priors that are never fitted."""

import logging
import math

import pytest
import torch
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.api.protocols.metric import IMetric
from ax.api.protocols.runner import IRunner
from ax.core.arm import Arm
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.orchestration.orchestrator import Orchestrator
from ax.orchestration.orchestrator_options import OrchestratorOptions
from ax_bench import (
    AX_WARNINGS,
    CURVE,
    NOISE_STD,
    UNIT,
    begun,
    curve,
    fixed_client,
    make_client,
    next_trial,
    points,
    run,
)
from botorch.exceptions import UnsupportedError

import kernelucb.ax
from kernelucb import (
    MartingaleMixtureUCB,
    WangDeFreitasUCB,
    regret_certificate,
)
from problems import with_point
from tolerances import SEARCHED

pytestmark = [pytest.mark.slow, *AX_WARNINGS]
CONTRADICTION = "kernelucb.exceptions.InconsistentConfidenceSetWarning"

GRID = torch.linspace(0.0, 1.0, 1001, dtype=torch.float64).unsqueeze(-1)
SIZES = [
    ChoiceParameterConfig(
        name="size", parameter_type="float", values=[0.0, 0.2, 0.7, 1.0], is_ordered=True
    ),
    ChoiceParameterConfig(
        name="kind", parameter_type="str", values=["a", "b", "c"], is_ordered=False
    ),
]


def noisy(parameters):
    return {"y": curve(parameters)["y"] + NOISE_STD * float(torch.randn(()))}


def fitted_client():
    return make_client(UNIT, options={"norm_bound": 4.0, "noise_std": 0.1})


def stopping(client, gap=0.1, **arguments):
    return kernelucb.ax.CertifiedGapStoppingStrategy(gap, client, **arguments)


def gap_of(client):
    return stopping(client).decide().certificate.gap


class TestDecision:
    def test_stops_with_a_true_gap_below_the_tolerance(self):
        client, decisions = fixed_client(), []
        rule = stopping(client, 0.5)
        for _ in range(25):
            run(client, 1, noisy)
            decisions.append(rule.decide())
            lost = float(CURVE(GRID).max()) - curve(decisions[-1].arm.parameters)["y"]
            assert lost <= decisions[-1].certificate.gap
            if decisions[-1].stop:
                break
        assert decisions[-1].stop
        assert lost <= decisions[-1].certificate.gap <= 0.5
        assert not any(decision.stop for decision in decisions[:-1])
        assert decisions[-1].certificate.assumptions.certified
        assert "estimate" not in decisions[-1].reason
        experiment = client._experiment
        assert rule.should_stop_optimization(experiment) == (True, decisions[-1].reason)

    def test_is_the_certificate_of_the_best_observed_arm(self):
        client = run(fixed_client(), 6, noisy)
        decision = stopping(client).decide()
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

    def test_minimised_metrics_are_the_mirror_image(self):
        largest, smallest = fixed_client(), fixed_client(objective="-y")
        run(largest, 6, curve)
        run(smallest, 6, lambda parameters: curve(parameters, sign=-1.0))
        one, other = stopping(largest).decide(), stopping(smallest).decide()
        assert one.arm.parameters == pytest.approx(other.arm.parameters)
        assert one.certificate.gap == pytest.approx(other.certificate.gap, rel=1e-6)

    def test_the_gap_is_in_units_of_the_metric(self):
        plain, thousands = begun(6), fixed_client(unit=1000.0)
        for trial in plain._experiment.trials.values():
            index = thousands.attach_trial(parameters=trial.arm.parameters)
            outcome = curve(trial.arm.parameters, unit=1000.0)
            thousands.complete_trial(trial_index=index, raw_data=outcome)
        assert gap_of(thousands) == pytest.approx(1000.0 * gap_of(plain), rel=SEARCHED)

    @pytest.mark.filterwarnings(f"ignore::{CONTRADICTION}")
    def test_never_on_data_that_contradict_the_norm(self):
        client = run(fixed_client(), 3, lambda p: curve(p, unit=100.0))
        decision = stopping(client, 1e6).decide()
        assert not decision.stop
        assert "no guarantee: norm violated" in decision.reason

    def test_never_on_a_bound_for_one_round(self):
        client = run(fixed_client(acqf_class=WangDeFreitasUCB, parameters=SIZES), 3, named)
        decision = stopping(client, 1e6).decide()
        assert not decision.stop
        assert "no guarantee: design violated" in decision.reason


def named(parameters):
    return {"y": parameters["size"] + 0.5 * (parameters["kind"] == "b")}


class TestTrialsUnderWay:
    def test_checks_leave_no_trace(self):
        asked, silent = (fitted_client() for _ in range(2))
        trials = []
        for client in (asked, silent):
            torch.manual_seed(0)
            parameters = []
            for _ in range(6):
                index, chosen = next_trial(client)
                client.complete_trial(trial_index=index, raw_data=curve(chosen))
                parameters.append(chosen["x"])
                if client is asked:
                    stopping(client, allow_estimated=True).decide()
            trials.append(parameters)
        assert trials[0] == trials[1]

    def test_all_outcomes_count_and_pending_trials_do_not(self):
        client = begun(5)
        assert kernelucb.ax.last_bound(client).regression.num_observations == 4
        assert kernelucb.ax.current_bound(client).regression.num_observations == 5
        before = gap_of(client)
        pending = client.get_next_trials(max_trials=3)
        assert gap_of(client) == before
        stop, reason = stopping(client, 100.0).should_stop_optimization(client._experiment)
        assert stop
        assert "from the optimum" in reason
        index, parameters = pending.popitem()
        client.complete_trial(trial_index=index, raw_data=curve(parameters))
        assert kernelucb.ax.current_bound(client).regression.num_observations == 6

    def test_waits_for_pending_trials_where_that_is_asked_for(self):
        client = begun(5)
        client.get_next_trials(max_trials=1)
        rule = stopping(client, 100.0, inactive_when_pending_trials=True)
        stop, reason = rule.should_stop_optimization(client._experiment)
        assert (stop, reason) == (False, "There are pending trials in the experiment.")

    def test_failed_and_abandoned_trials_tell_nothing(self):
        client = begun(5)
        before = stopping(client).decide()
        failed, abandoned = client.get_next_trials(max_trials=2)
        client.mark_trial_failed(failed)
        client.mark_trial_abandoned(abandoned)
        after = stopping(client).decide()
        assert after.certificate.gap == before.certificate.gap
        assert after.arm == before.arm

    def test_abandoned_after_its_outcome(self):
        client = begun(5)
        before = gap_of(client)
        index, parameters = next_trial(client)
        client.attach_data(trial_index=index, raw_data=curve(parameters))
        client.mark_trial_abandoned(index)
        assert gap_of(client) == before

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


class TestReopened:
    @pytest.mark.parametrize("fixed", [True, False])
    def test_the_same_certificate_after_reload(self, fixed, tmp_path):
        client = run(fixed_client() if fixed else fitted_client(), 5, curve)
        client.get_next_trials(max_trials=2)
        path = str(tmp_path / "bench.json")
        client.save_to_json_file(path)
        consent = {} if fixed else {"allow_estimated": True}
        before = stopping(client, **consent).decide()
        after = stopping(Client.load_from_json_file(path), **consent).decide()
        assert after.arm.parameters == pytest.approx(before.arm.parameters)
        assert after.certificate.gap == pytest.approx(before.certificate.gap, rel=1e-6)
        assert after.certificate.assumptions.certified is fixed


class TestDomains:
    def test_a_finite_space_is_gone_through(self):
        client = run(fixed_client(SIZES), 6, named)
        decision = stopping(client).decide()
        assert decision.certificate.certified
        assert decision.certificate.resolution == 0.0
        acqf = kernelucb.ax.current_bound(client)
        # Ax sees the size and one column for each kind.
        rows = [
            [size, *(float(kind == other) for other in range(3))]
            for size in (0.0, 0.2, 0.7, 1.0)
            for kind in range(3)
        ]
        everything = torch.tensor(rows, dtype=torch.float64)
        expected = regret_certificate(
            acqf, everything, recommended=decision.certificate.recommended
        )
        assert decision.certificate.gap == pytest.approx(expected.gap, rel=1e-9)

    def test_parameter_constraints_take_candidates_away(self):
        integers = [
            RangeParameterConfig(name=name, parameter_type="int", bounds=(0, 4))
            for name in ("m", "n")
        ]
        gaps = []
        for constraints in ([], ["m + n <= 4"]):
            client = Client(random_seed=0)
            client.configure_experiment(
                parameters=integers, parameter_constraints=constraints
            )
            client.configure_optimization(objective="y")
            options = {"kernel": "rbf", "lengthscale": 0.5, "noise_std": 0.1}
            strategy = kernelucb.ax.generation_strategy(
                MartingaleMixtureUCB, options | {"norm_bound": 2.0}
            )
            client.set_generation_strategy(strategy)
            for m, n in ((0, 0), (2, 2), (0, 4), (4, 0)):
                index = client.attach_trial(parameters={"m": m, "n": n})
                client.complete_trial(trial_index=index, raw_data={"y": 0.1 * m})
            decision = stopping(client).decide()
            gaps.append(decision.certificate.gap)
            assert decision.certificate.certified
        assert gaps[1] < gaps[0]
        assert float(decision.certificate.challenger.sum()) <= 4.0

    def test_integers_beside_reals_are_enumerated(self):
        mixed = [
            *UNIT,
            RangeParameterConfig(name="n", parameter_type="int", bounds=(0, 3)),
        ]
        client = run(fixed_client(mixed), 4, curve)
        decision = stopping(client).decide()
        assert decision.certificate.certified
        assert decision.certificate.resolution > 0.0
        combinations = torch.cartesian_prod(GRID[::50, 0], torch.arange(4).double())
        inner = regret_certificate(
            kernelucb.ax.current_bound(client),
            with_point(combinations, decision.certificate.recommended),
            recommended=decision.certificate.recommended,
        )
        assert inner.gap <= decision.certificate.gap

    def test_logarithmic_scales(self):
        rate = RangeParameterConfig(
            name="x", parameter_type="float", bounds=(1e-3, 10.0), scaling="log"
        )

        def outcome(parameters):
            return curve({"x": (math.log10(parameters["x"]) + 3.0) / 4.0})

        client = run(fixed_client([rate]), 4, outcome)
        decision = stopping(client).decide()
        assert decision.certificate.certified
        X = torch.linspace(-3.0, 1.0, 201, dtype=torch.float64).unsqueeze(-1)
        inner = regret_certificate(
            kernelucb.ax.current_bound(client),
            with_point(X, decision.certificate.recommended),
            recommended=decision.certificate.recommended,
        )
        assert inner.gap <= decision.certificate.gap <= 1.1 * inner.gap

    def test_four_dimensions_are_rigorous_and_loose(self):
        four = [
            RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0))
            for name in ("x", "b", "c", "d")
        ]
        client = run(fixed_client(four), 4, curve)
        rule = kernelucb.ax.CertifiedGapStoppingStrategy(1e6, client, max_evaluations=2000)
        decision = rule.decide()
        assert decision.stop
        assert decision.certificate.certified
        assert decision.certificate.resolution > 0.0


class Instant(IRunner):
    r"""Every run is over at once."""

    def run_trial(self, trial_index, parameterization):
        return {"x": parameterization["x"]}

    def poll_trial(self, trial_index, trial_metadata):
        return TrialStatus.COMPLETED


class Curve(IMetric):
    def fetch(self, trial_index, trial_metadata):
        return 0, curve(trial_metadata)["y"]


def test_the_orchestrator_stops_by_it():
    client = fixed_client()
    client.configure_metrics([Curve("y")])
    client.configure_runner(Instant())
    options = OrchestratorOptions(
        global_stopping_strategy=stopping(client, 0.5),
        init_seconds_between_polls=0,
        min_seconds_before_poll=0.0,
        logging_level=logging.ERROR,
    )
    Orchestrator(client._experiment, client._generation_strategy, options).run_n_trials(30)
    assert 3 <= len(client._experiment.trials) < 30
    assert stopping(client, 0.5).decide().stop


class TestErrors:
    def test_a_strategy_without_a_bound(self):
        spec = GeneratorSpec(generator_enum=Generators.SOBOL)
        strategy = GenerationStrategy(
            name="Sobol", nodes=[GenerationNode(name="Sobol", generator_specs=[spec])]
        )
        client = begun(2)
        client.set_generation_strategy(strategy)
        with pytest.raises(UnsupportedError, match="Sobol has no bound of this package"):
            stopping(client)

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
