r"""Batch trials and the orchestrator in Ax, with stopping before, between and after."""

import logging

import pandas
import pytest
import torch
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.api.protocols.metric import IMetric
from ax.api.protocols.runner import IRunner
from ax.core.data import Data
from ax.core.trial_status import TrialStatus
from ax.orchestration.orchestrator import Orchestrator
from ax.orchestration.orchestrator_options import OrchestratorOptions, TrialType
from ax.utils.common.result import Ok
from ax_bench import GUARDED_WARNINGS, SEARCH, begun, curve, fixed_client, reopened, run
from constrained_bench import acquisition, constrained_client, problem

import kernelucb.ax

pytestmark = [pytest.mark.slow, *GUARDED_WARNINGS]


def stopping(client, gap=0.5):
    return kernelucb.ax.CertifiedGapStoppingStrategy(gap, client)


def batch(client, number):
    experiment = client._experiment
    (runs,) = client._generation_strategy.gen(experiment=experiment, n=number)
    trial = experiment.new_batch_trial(generator_runs=runs)
    return trial.mark_running(no_runner_required=True)


def report(client, trial, outcome, arms=None):
    for arm in trial.arms if arms is None else arms:
        means = outcome(arm.parameters)
        frame = [
            {
                "trial_index": trial.index,
                "arm_name": arm.name,
                "metric_name": name,
                "metric_signature": name,
                "mean": mean,
                "sem": float("nan"),
            }
            for name, mean in means.items()
        ]
        client._experiment.attach_data(Data(df=pandas.DataFrame.from_records(frame)))


class TestBatchTrials:
    @pytest.mark.parametrize("search", [None, SEARCH])
    def test_stopping_before_between_and_after(self, search):
        client = fixed_client(search=search)
        with pytest.raises(ValueError, match="No trial has been observed yet"):
            stopping(client).decide()
        first = batch(client, 3)
        with pytest.raises(ValueError, match="No trial has been observed yet"):
            stopping(client).decide()
        report(client, first, curve)
        first.mark_completed()
        gaps = [stopping(client).decide().certificate.gap]
        for _ in range(2):
            trial = batch(client, 3)
            assert len({arm.parameters["x"] for arm in trial.arms}) == 3
            under_way = stopping(reopened(client)).decide()
            assert under_way.certificate.gap == pytest.approx(gaps[-1])
            report(client, trial, curve)
            trial.mark_completed()
            gaps.append(stopping(client).decide().certificate.gap)
        assert gaps[-1] < gaps[0]
        assert kernelucb.ax.current_bound(client).regression.num_observations == 9

    @pytest.mark.parametrize(
        ("search", "turns"), [(None, None), (SEARCH, {"ucb_every": 2})]
    )
    def test_batches_of_a_mixed_space(self, search, turns):
        line = RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0))
        whole = RangeParameterConfig(name="n", parameter_type="int", bounds=(0, 2))
        client = fixed_client([line, whole], search=search, search_options=turns)
        run(client, 3, lambda p: {"y": p["x"] * (2 - p["n"])})
        trial = batch(client, 3)
        assert len({tuple(arm.parameters.values()) for arm in trial.arms}) == 3
        assert set(trial.arm_weights.values()) == {1.0}
        assert acquisition(client).X_pending is None
        assert acquisition(client).band.X_pending is None

    def test_arms_that_are_abandoned_are_not_recommended(self):
        client = begun(3)
        trial = batch(client, 3)
        before = stopping(client).decide()
        *others, last = trial.arms
        report(client, trial, curve, others)
        trial.mark_arm_abandoned(last.name)
        trial.mark_completed()
        decision = stopping(client).decide()
        assert decision.certificate.gap <= before.certificate.gap
        assert decision.arm.name != last.name
        assert "1 arm of a batch was abandoned" in decision.reason
        assert decision.certificate.certified

    @pytest.mark.parametrize(
        ("end", "verb"),
        [
            ("mark_failed", "1 trial failed"),
            ("mark_abandoned", "1 trial was abandoned"),
            ("mark_early_stopped", "1 trial was stopped early"),
        ],
    )
    def test_batches_that_end_early(self, end, verb):
        client = begun(3)
        trial = batch(client, 2)
        report(client, trial, curve)
        getattr(trial, end)(**{"unsafe": True} if end == "mark_early_stopped" else {})
        for each in (client, reopened(client)):
            assert verb in stopping(each).decide().reason
            assert len(batch(each, 2).arms) > 0

    def test_safe_batches(self):
        client = constrained_client(num_initial=1)
        sizes = []
        for _ in range(3):
            trial = batch(client, 3)
            sizes.append(len(trial.arms))
            assert all(problem().margin(arm.parameters) >= 0.0 for arm in trial.arms)
            client = reopened(client)
            trial = client._experiment.trials[trial.index]
            report(client, trial, problem())
            trial.mark_completed()
        assert sizes == [1, 3, 3]
        best = kernelucb.ax.recommended_arm(client)
        assert problem().margin(best.parameters) >= 0.0

    def test_a_safe_batch_has_no_arm_twice(self):
        x = torch.linspace(0.0, 1.0, 41).tolist()
        steps = [
            ChoiceParameterConfig(
                name="x",
                parameter_type="float",
                values=[round(v, 3) for v in x],
                is_ordered=True,
            )
        ]
        arms = [{"x": 0.2}]
        client = constrained_client(parameters=steps, safe_arms=arms, num_initial=1)
        sizes = []
        for number in (1, 4, 4, 4):
            trial = batch(client, number)
            assert set(trial.arm_weights.values()) == {1.0}
            sizes.append(len(trial.arms))
            report(client, trial, problem())
            trial.mark_completed()
        # As many different ones as are known to be safe.
        safe_set = acquisition(client).safe_set
        points = torch.tensor(steps[0].values, dtype=torch.float64).unsqueeze(-1)
        assert sizes[0] == 1
        assert sizes[-1] == min(4, int(safe_set.is_safe(points).sum()))
        assert sizes[-1] > 1

    def test_arms_of_a_safe_batch_are_pending_for_one_another(self):
        client = constrained_client(num_initial=1)
        for _ in range(2):
            trial = batch(client, 2)
            report(client, trial, problem())
            trial.mark_completed()
        band, safe_set = acquisition(client).band, acquisition(client).safe_set
        points = torch.tensor(
            [[a.parameters["x"]] for a in trial.arms], dtype=torch.float64
        )
        assert band.X_pending is None
        assert bool(safe_set.is_safe(points).all())


class Instant(IRunner):
    r"""Every run is over at once; the third one fails."""

    def run(self, trial):
        return {}

    def poll_trial_status(self, trials):
        ends = {TrialStatus.COMPLETED: set()}
        for trial in trials:
            end = TrialStatus.FAILED if trial.index == 2 else TrialStatus.COMPLETED
            ends.setdefault(end, set()).add(trial.index)
        return ends

    def run_trial(self, trial_index, parameterization):
        raise NotImplementedError

    def poll_trial(self, trial_index, trial_metadata):
        raise NotImplementedError


class Outcome(IMetric):
    def __init__(self, name, outcome):
        super().__init__(name)
        self.outcome = outcome

    def fetch_trial_data(self, trial, **arguments):
        frame = [
            {
                "trial_index": trial.index,
                "arm_name": arm.name,
                "metric_name": self.name,
                "metric_signature": self.name,
                "mean": self.outcome(arm.parameters)[self.name],
                "sem": float("nan"),
                "step": 0.0,
            }
            for arm in trial.arms
        ]
        return Ok(Data(df=pandas.DataFrame.from_records(frame)))

    def fetch(self, trial_index, trial_metadata):
        raise NotImplementedError


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


class TestOrchestrator:
    @pytest.mark.parametrize(
        "options",
        [
            {"trial_type": TrialType.BATCH_TRIAL, "batch_size": 3},
            {"max_pending_trials": 3, "run_trials_in_batches": True},
        ],
    )
    def test_it_stops_by_the_certificate(self, options):
        client = fixed_client()
        orchestrated(client, curve, ["y"], 0.5, **options).run_n_trials(20)
        trials = client._experiment.trials
        assert 2 <= len(trials) < 20
        assert "1 trial failed" in stopping(client).decide().reason
        assert stopping(client).decide().stop

    def test_with_safe_constraints(self):
        client = constrained_client()
        loop = orchestrated(client, problem(), ["y", "z"], 0.7, max_pending_trials=2)
        loop.run_n_trials(12)
        arms = client._experiment.arms_by_name.values()
        assert all(problem().margin(arm.parameters) >= 0.0 for arm in arms)
        decision = stopping(client, 0.7).decide()
        assert decision.stop == (len(client._experiment.trials) < 12)
        run(client, 1, problem())
