r"""A real Ax experiment, from the first Sobol trial to a reopened file."""

import json
import math
import subprocess
import sys

import pytest
import torch
from ax.api.client import Client
from ax.core.trial_status import TrialStatus
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from ax_bench import (
    AX_WARNINGS,
    OPTIONS,
    REQUIRED,
    SEARCH,
    UNIT,
    begun,
    chosen,
    make_client,
    next_trial,
    node,
    points,
    rows,
    run,
    wave,
    waves,
)
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize

import kernelucb.ax
from kernelucb import Grid, KernelFamilyUCB, MartingaleMixtureUCB, UnknownNoise
from tolerances import SEARCHED

pytestmark = AX_WARNINGS


class TestOptimization:
    @pytest.mark.parametrize(("objective", "best"), [("y", 0.8), ("-y", 0.2)])
    def test_finds_the_optimum_in_the_direction_of_the_objective(self, objective, best):
        def outcome(parameters):
            return {"y": 900.0 + 40.0 * math.cos((parameters["x"] - 0.8) * math.pi / 0.6)}

        client = make_client(UNIT, objective, num_initial=2)
        run(client, 9, outcome)
        parameters, *_ = client.get_best_parameterization(use_model_predictions=False)
        assert abs(parameters["x"] - best) < 0.05
        assert node(client) == "MartingaleMixtureUCB"

    @pytest.mark.parametrize("objective", ["y", "-y"])
    def test_the_value_is_the_side_of_the_band_that_the_objective_asks_for(self, objective):
        acqf = kernelucb.ax.last_bound(run(make_client(objective=objective), 4))
        X = torch.tensor([[0.0, 5.0], [9.0, 2.0]], dtype=torch.float64)
        lower, upper = acqf.bounds(X)
        expected = upper if objective == "y" else -lower
        torch.testing.assert_close(acqf(X.unsqueeze(1)), expected)

    @pytest.mark.parametrize("acqf_class", REQUIRED)
    def test_every_bound_chooses_trials(self, acqf_class):
        options = REQUIRED[acqf_class]
        client = run(make_client(acqf_class=acqf_class, options=options), 4)
        assert type(kernelucb.ax.last_bound(client)) is acqf_class

    def test_a_batch_is_spread_over_the_space(self):
        client = begun(4, make_client, waves)
        strategy = client._generation_strategy
        (batch,) = strategy.gen(experiment=client._experiment, n=3)[0]
        assert len({tuple(arm.parameters.values()) for arm in batch.arms}) == 3


class TestUnits:
    def test_the_bound_sees_the_outcomes_as_reported_in_every_trial(self):
        options = {"norm_bound": 2e4, "noise_std": 1.0}
        client = make_client(num_initial=4, options=options)
        reported, scales = [], set()
        for trial in range(7):
            index, parameters = next_trial(client)
            if trial >= 4:
                acqf = kernelucb.ax.last_bound(client)
                self._check_against_botorch(acqf, reported, options)
                scales.add(float(acqf.model.outcome_transform.stdvs))
            outcome = wave(parameters) + (2000.0 if parameters["v"] > 14 else 0.0)
            client.complete_trial(trial_index=index, raw_data={"y": outcome})
            reported.append((parameters, outcome))
        assert max(y for _, y in reported[:4]) > 6500.0  # Ax would winsorise it
        assert len(scales) == 3  # the model standardised anew each time, the bound did not

    def _check_against_botorch(self, acqf, reported, options):
        X = points(*(parameters for parameters, _ in reported))
        Y = torch.tensor([[y] for _, y in reported], dtype=torch.float64)
        cube = torch.tensor([[-5.0, 0.0], [10.0, 15.0]], dtype=torch.float64)
        model = SingleTaskGP(
            X,
            Y,
            input_transform=Normalize(d=2, bounds=cube),
            outcome_transform=Standardize(m=1),
        )
        model.load_state_dict(acqf.model.state_dict())
        expected = MartingaleMixtureUCB(model, **options)
        queries = torch.tensor([[0.0, 5.0], [9.0, 2.0], [-4.0, 14.0]]).double()
        for actual, wanted in zip(
            acqf.bounds(queries), expected.bounds(queries), strict=True
        ):
            torch.testing.assert_close(actual, wanted, rtol=1e-9, atol=1e-6)
        assert acqf.norm_bound == pytest.approx(options["norm_bound"], rel=1e-12)
        lower, upper = acqf.bounds(X)
        assert ((lower < Y.squeeze(-1)) & (Y.squeeze(-1) < upper)).all()

    def test_reported_standard_errors_are_the_noise_scale(self):
        client = make_client(options={"norm_bound": 3000.0})
        run(client, 4, lambda parameters: {"y": (wave(parameters), 2.5)})
        noise = kernelucb.ax.last_bound(client).regression.noise_std
        torch.testing.assert_close(noise, torch.full((3,), 2.5, dtype=torch.float64))

    @pytest.mark.parametrize("tracked", [1, 3])
    def test_a_tracked_outcome_is_left_out(self, tracked):
        # Tracked in some trials, Ax models a list; tracked in all of them, a batch.
        client = make_client()
        client.configure_tracking_metrics(["cost"])
        run(client, tracked, lambda p: {"y": wave(p), "cost": p["u"]})
        run(client, 4 - tracked)
        acqf = kernelucb.ax.last_bound(client)
        assert acqf.regression.num_observations == 3
        lower, upper = acqf.bounds(points({"u": 0.0, "v": 5.0}))
        assert 4500.0 < float(lower) < float(upper) < 5500.0


class TestTrialsUnderWay:
    def test_pending_trials_are_conditioned_on(self):
        client = begun(3, make_client, waves)
        pending = client.get_next_trials(max_trials=3)
        assert len(set(map(str, pending.values()))) == 3
        next_trial(client)
        acqf = kernelucb.ax.last_bound(client)
        X = points(*pending.values())
        assert rows(acqf.X_pending) == rows(X)
        _, upper = acqf.bounds(X)
        assert (acqf(X.unsqueeze(1)) < upper - 1.0).all()

    def test_failed_trials_leave_and_abandoned_ones_stay(self):
        client = begun(3, make_client, waves)
        pending = client.get_next_trials(max_trials=3)
        failed, abandoned, running = pending
        client.mark_trial_failed(failed)
        client.mark_trial_abandoned(abandoned)
        index, parameters = next_trial(client)
        acqf = kernelucb.ax.last_bound(client)
        assert rows(acqf.X_pending) == rows(points(pending[abandoned], pending[running]))
        assert acqf.regression.num_observations == 3
        client.complete_trial(trial_index=index, raw_data={"y": wave(parameters)})
        next_trial(client)
        assert kernelucb.ax.last_bound(client).regression.num_observations == 4

    def test_sobol_goes_on_until_enough_trials_are_observed(self):
        client = make_client(num_initial=4)
        trials = client.get_next_trials(max_trials=6)  # more workers than Sobol trials
        assert node(client) == "Sobol"
        for index in list(trials)[:2]:
            client.complete_trial(trial_index=index, raw_data={"y": wave(trials[index])})
            assert node(client) == "Sobol"
            next_trial(client)
        assert node(client) == "MartingaleMixtureUCB"
        assert kernelucb.ax.last_bound(client).X_pending.shape == (5, 2)

    def test_min_observed_lets_the_bound_begin_earlier(self):
        client = make_client(num_initial=4, min_observed=1)
        trials = client.get_next_trials(max_trials=4)
        client.complete_trial(trial_index=0, raw_data={"y": wave(trials[0])})
        next_trial(client)
        assert node(client) == "MartingaleMixtureUCB"

    def test_lost_initial_trials_are_replaced(self):
        client = make_client(num_initial=3)
        for index in client.get_next_trials(max_trials=3):
            mark = [client.mark_trial_failed, client.mark_trial_abandoned][index % 2]
            mark(index)
        run(client, 3)
        assert node(client) == "Sobol"
        next_trial(client)
        assert node(client) == "MartingaleMixtureUCB"

    def test_trials_attached_by_hand_count_as_initial(self):
        client = make_client(num_initial=2)
        for parameters in [{"u": 0.0, "v": 1.0}, {"u": 5.0, "v": 9.0}]:
            index = client.attach_trial(parameters=parameters)
            client.complete_trial(trial_index=index, raw_data={"y": wave(parameters)})
        next_trial(client)
        assert kernelucb.ax.last_bound(client).regression.num_observations == 2


REOPEN = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
import kernelucb
assert "ax" not in sys.modules, "kernelucb imports Ax"
import kernelucb.ax
from ax.api.client import Client
for path in sys.argv[1:]:
    client = Client.load_from_json_file(path)
    torch.manual_seed(3)
    (index,) = client.get_next_trials(max_trials=1)
    (generated,) = client._experiment.trials[index].generator_runs
    value = generated.gen_metadata["expected_acquisition_value"]
    certified = kernelucb.ax.last_bound(client).assumptions.certified
    print(json.dumps([index, value, certified]))
"""


class TestStorage:
    def test_a_saved_experiment_goes_on_in_another_process(self, tmp_path):
        paths, trials = [], []
        bounds = [(MartingaleMixtureUCB, None), (KernelFamilyUCB, None)]
        for acqf_class, search in (*bounds, (MartingaleMixtureUCB, SEARCH)):
            paths.append(str(tmp_path / f"{acqf_class.__name__}_{search}.json"))
            client = make_client(
                acqf_class=acqf_class, options=REQUIRED[acqf_class], search=search
            )
            run(client, 3).save_to_json_file(paths[-1])
            torch.manual_seed(3)
            index, _ = next_trial(client)
            trials.append((index, chosen(client, index)))
        process = subprocess.run(
            [sys.executable, "-c", REOPEN, *paths],
            capture_output=True,
            text=True,
            check=True,
        )
        results = map(json.loads, process.stdout.splitlines()[-3:])
        # The kernel of the first bound is Ax's, the family was given.
        for result, trial, given in zip(results, trials, (False, True, False), strict=True):
            assert result[0] == trial[0]
            assert result[1] == pytest.approx(trial[1], rel=SEARCHED, abs=SEARCHED)
            assert result[2] is given

    def test_pending_and_abandoned_trials_survive(self, tmp_path):
        path = str(tmp_path / "bench.json")
        client = begun(4, make_client, waves)
        pending = client.get_next_trials(max_trials=2)
        client.mark_trial_abandoned(min(pending))
        client.save_to_json_file(path)
        reopened = Client.load_from_json_file(path)
        with pytest.raises(ValueError, match="Ask for the next trial first"):
            kernelucb.ax.last_bound(reopened)
        next_trial(reopened)
        acqf = kernelucb.ax.last_bound(reopened)
        assert rows(acqf.X_pending) == rows(points(*pending.values()))
        assert reopened._experiment.trials[min(pending)].status is TrialStatus.ABANDONED
        run(reopened, 1)

    def test_unknown_noise_goes_on_after_reload(self, tmp_path):
        path, options = (
            str(tmp_path / "bench.json"),
            {"norm_bound": 300.0, "noise_std": UnknownNoise(0.1, 50.0)},
        )
        client = run(make_client(options=options), 5)
        client.save_to_json_file(path)
        reopened = Client.load_from_json_file(path)
        for each in (client, reopened):
            torch.manual_seed(3)
            next_trial(each)
        intervals = [
            kernelucb.ax.last_bound(each).noise_interval for each in (client, reopened)
        ]
        assert intervals[1] == pytest.approx(intervals[0], rel=1e-6)
        assert 0.1 <= intervals[0][0] < intervals[0][1] <= 50.0

    @pytest.mark.parametrize("acqf_class", REQUIRED)
    def test_strategies_of_every_bound_are_stored_with_their_options(self, acqf_class):
        options = REQUIRED[acqf_class] | {"delta": 0.01}
        strategy = kernelucb.ax.generation_strategy(acqf_class, options, num_initial=2)
        copy = object_from_json(json.loads(json.dumps(object_to_json(strategy))))
        arguments = copy._nodes[1].generator_specs[0].generator_kwargs
        assert arguments["botorch_acqf_class"] is acqf_class
        assert arguments["botorch_acqf_options"] == options
        assert arguments == strategy._nodes[1].generator_specs[0].generator_kwargs

    def test_tensors_among_the_options_are_stored_as_numbers(self):
        options = OPTIONS | {
            "noise_std": torch.tensor(0.5),
            "form": Grid(torch.tensor([1.0, 2.0])),
        }
        strategy = kernelucb.ax.generation_strategy(MartingaleMixtureUCB, options)
        stored = strategy._nodes[1].generator_specs[0].generator_kwargs
        assert stored["botorch_acqf_options"] == OPTIONS | {
            "noise_std": 0.5,
            "form": Grid([1.0, 2.0]),
        }
