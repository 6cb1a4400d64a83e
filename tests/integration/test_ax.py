r"""A real Ax experiment, from the first Sobol trial to a reopened file."""

import json
import math
import subprocess
import sys

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.trial_status import TrialStatus
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize

import kernelucb.ax
from kernelucb import IGPUCB, MartingaleMixtureUCB, SrinivasUCB
from kernelucb.acquisition import BOUNDS

pytestmark = [
    # pandas 4 will drop arguments that Ax 1.3 still passes.
    pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning:ax[.]"),
    # Ax's client calls a method that Ax has renamed.
    pytest.mark.filterwarnings("ignore:add_tracking_metric is:DeprecationWarning:ax[.]"),
    # Ax copies a tensor with torch.tensor when it counts objectives.
    pytest.mark.filterwarnings("ignore:To copy construct from:UserWarning:ax[.]"),
]

FAST = {"num_restarts": 2, "raw_samples": 16}
OPTIONS = {"norm_bound": 300.0, "noise_std": 1.0}
UNIT = [RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0))]
PLANE = [
    RangeParameterConfig(name="u", parameter_type="float", bounds=(-5.0, 10.0)),
    RangeParameterConfig(name="v", parameter_type="float", bounds=(0.0, 15.0)),
]
REQUIRED = {
    bound: OPTIONS if bound is not SrinivasUCB else {"noise_std": 1.0} for bound in BOUNDS
}


def make_client(
    parameters=PLANE,
    objective="y",
    acqf_class=MartingaleMixtureUCB,
    options=OPTIONS,
    constraints=None,
    **arguments,
):
    torch.manual_seed(0)
    client = Client(random_seed=0)
    client.configure_experiment(parameters=parameters, name="bench")
    client.configure_optimization(objective=objective, outcome_constraints=constraints)
    arguments = {"num_initial": 3, "seed": 1, "optimizer_options": FAST} | arguments
    client.set_generation_strategy(
        kernelucb.ax.generation_strategy(acqf_class, options, **arguments)
    )
    return client


def next_trial(client):
    ((index, parameters),) = client.get_next_trials(max_trials=1).items()
    return index, parameters


def wave(parameters):
    u, v = parameters["u"], parameters["v"]
    return 5000.0 + 80.0 * math.sin(u / 3.0) + 60.0 * math.cos(v / 4.0)


def run(client, number, outcome=lambda parameters: {"y": wave(parameters)}):
    for _ in range(number):
        index, parameters = next_trial(client)
        client.complete_trial(trial_index=index, raw_data=outcome(parameters))
    return client


def node(client):
    return client._generation_strategy.current_node_name


def points(*parameterizations, names=("u", "v")):
    return torch.tensor(
        [[p[name] for name in names] for p in parameterizations], dtype=torch.float64
    )


def rows(tensor):
    return sorted(tuple(round(value, 9) for value in row) for row in tensor.tolist())


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
    def test_the_value_is_the_side_of_the_band_that_the_objective_asks_for(
        self, objective
    ):
        acqf = kernelucb.ax.last_bound(run(make_client(objective=objective), 4))
        X = torch.tensor([[0.0, 5.0], [9.0, 2.0]], dtype=torch.float64)
        lower, upper = acqf.bounds(X)
        expected = upper if objective == "y" else -lower
        torch.testing.assert_close(acqf(X.unsqueeze(1)), expected)

    @pytest.mark.parametrize("acqf_class", BOUNDS)
    def test_every_bound_chooses_trials(self, acqf_class):
        options = REQUIRED[acqf_class]
        client = run(make_client(acqf_class=acqf_class, options=options), 4)
        assert type(kernelucb.ax.last_bound(client)) is acqf_class

    def test_a_batch_is_spread_over_the_space(self):
        client = run(make_client(), 4)
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
        assert (
            len(scales) == 3
        )  # the model standardised anew each time, the bound did not

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
        client = run(make_client(), 3)
        pending = client.get_next_trials(max_trials=3)
        assert len(set(map(str, pending.values()))) == 3
        next_trial(client)
        acqf = kernelucb.ax.last_bound(client)
        X = points(*pending.values())
        assert rows(acqf.X_pending) == rows(X)
        _, upper = acqf.bounds(X)
        assert (acqf(X.unsqueeze(1)) < upper - 1.0).all()

    def test_failed_trials_leave_and_abandoned_ones_stay(self):
        client = run(make_client(), 3)
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
client = Client.load_from_json_file(sys.argv[1])
torch.manual_seed(3)
((index, parameters),) = client.get_next_trials(max_trials=1).items()
print(json.dumps([index, parameters, kernelucb.ax.last_bound(client).norm_bound]))
"""


class TestStorage:
    def test_a_saved_experiment_goes_on_in_another_process(self, tmp_path):
        path = str(tmp_path / "bench.json")
        client = run(make_client(), 3)
        client.save_to_json_file(path)
        torch.manual_seed(3)
        index, parameters = next_trial(client)
        process = subprocess.run(
            [sys.executable, "-c", REOPEN, path],
            capture_output=True,
            text=True,
            check=True,
        )
        result = json.loads(process.stdout.splitlines()[-1])
        assert result[0] == index
        assert result[1] == pytest.approx(parameters, abs=1e-5)
        assert result[2] == OPTIONS["norm_bound"]

    def test_pending_and_abandoned_trials_survive(self, tmp_path):
        path = str(tmp_path / "bench.json")
        client = run(make_client(), 4)
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

    @pytest.mark.parametrize("acqf_class", BOUNDS)
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
            "alphas": torch.tensor([1.0, 2.0]),
        }
        strategy = kernelucb.ax.generation_strategy(MartingaleMixtureUCB, options)
        stored = strategy._nodes[1].generator_specs[0].generator_kwargs
        assert stored["botorch_acqf_options"] == OPTIONS | {
            "noise_std": 0.5,
            "alphas": [1.0, 2.0],
        }


class TestMixedSpaces:
    @pytest.mark.parametrize("largest", [2, 30])
    def test_integers_choices_and_logarithms(self, largest):
        # 3 combinations of integers are enumerated by optimize_acqf_mixed; 31 go to
        # optimize_acqf_mixed_alternating.
        parameters = [
            RangeParameterConfig(
                name="rate", parameter_type="float", bounds=(1e-3, 10.0), scaling="log"
            ),
            RangeParameterConfig(
                name="layers", parameter_type="int", bounds=(0, largest)
            ),
            ChoiceParameterConfig(
                name="kind",
                parameter_type="str",
                values=["a", "b", "c"],
                is_ordered=False,
            ),
        ]
        client = make_client(parameters)
        run(client, 3, lambda p: {"y": math.log(p["rate"]) + p["layers"] % 5})
        trials = client.get_next_trials(max_trials=3)
        for p in trials.values():
            assert type(p["layers"]) is int
            assert 0 <= p["layers"] <= largest
            assert p["kind"] in {"a", "b", "c"}
            assert 1e-3 <= p["rate"] <= 10.0
        acqf = kernelucb.ax.last_bound(client)
        cube = [[-3.0, 0.0, 0.0, 0.0, 0.0], [1.0, largest, 1.0, 1.0, 1.0]]
        torch.testing.assert_close(
            acqf.model.input_transform.bounds, torch.tensor(cube, dtype=torch.float64)
        )

    def test_a_finite_space_is_used_up_without_repetition(self):
        parameters = [
            RangeParameterConfig(name="n", parameter_type="int", bounds=(0, 3)),
            ChoiceParameterConfig(
                name="size", parameter_type="int", values=[1, 5, 20], is_ordered=True
            ),
        ]
        client = make_client(parameters, num_initial=2)
        run(client, 8, lambda p: {"y": float(p["n"] * p["size"])})
        arms = client._experiment.arms_by_name.values()
        assert len({tuple(arm.parameters.values()) for arm in arms}) == 8


class TestErrors:
    @pytest.mark.parametrize(
        ("objective", "constraints", "message"),
        [
            ("y", ["z >= 1"], "does not take `constraints`"),
            ("y, z", None, "one outcome|2 outputs"),
            ("y + 2*z", None, "2 outputs"),
        ],
    )
    def test_what_the_bound_cannot_do_is_not_ignored(
        self, objective, constraints, message
    ):
        client = make_client(objective=objective, constraints=constraints)
        run(client, 3, lambda p: {"y": wave(p), "z": p["u"]})
        with pytest.raises(UnsupportedError, match=message):
            next_trial(client)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({}, "needs the option `norm_bound`"),
            (None, "needs the option `norm_bound`"),
            ({"norm_bound": -1.0}, "norm_bound must be a finite number above 0"),
            ({"norm_bound": 1.0, "norm": 1.0}, "no option `norm`; it takes norm_bound"),
            ({"norm_bound": 1.0, "delta": 1.5}, "delta must lie strictly between"),
            ({"norm_bound": 1.0, "form": "exact"}, "form must be"),
            ({"norm_bound": 1.0, "maximize": False}, "Ax takes the direction"),
            ({"norm_bound": 1.0, "X_pending": None}, "Leave out the option `X_pending`"),
            ({"norm_bound": 1.0, "noise_std": torch.ones(3)}, "must be one number"),
            ({"norm_bound": 1.0, "noise_std": [1.0, 2.0]}, "must be one number"),
        ],
    )
    def test_wrong_options(self, options, message):
        with pytest.raises(ValueError, match=message):
            kernelucb.ax.generation_strategy(MartingaleMixtureUCB, options)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"num_initial": 0}, "num_initial must be a whole number of at least 1"),
            ({"num_initial": 2.5}, "num_initial must be a whole number"),
            ({"min_observed": 0}, "min_observed must be a whole number of at least 1"),
            ({"num_initial": 2, "min_observed": 3}, "min_observed is 3, above"),
        ],
    )
    def test_wrong_numbers_of_trials(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            kernelucb.ax.generation_strategy(MartingaleMixtureUCB, OPTIONS, **arguments)

    @pytest.mark.parametrize("acqf_class", [SingleTaskGP, "MartingaleMixtureUCB", None])
    def test_only_bounds_are_taken(self, acqf_class):
        with pytest.raises(UnsupportedError, match="must be one of MartingaleMixtureUCB"):
            kernelucb.ax.generation_strategy(acqf_class, OPTIONS)

    def test_a_limit_of_the_theorem_is_reported_by_its_trial(self):
        client = make_client(acqf_class=IGPUCB, options=OPTIONS | {"horizon": 3})
        run(client, 4)
        with pytest.raises(ValueError, match="horizon is 3, but there are 4"):
            next_trial(client)

    def test_no_bound_yet(self):
        client = run(make_client(), 1)
        with pytest.raises(ValueError, match="the strategy is at its node `Sobol`"):
            kernelucb.ax.last_bound(client)

    def test_without_ax_the_import_says_what_to_install(self, monkeypatch):
        for name in [name for name in sys.modules if name.split(".")[0] == "ax"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "ax", None)
        monkeypatch.delitem(sys.modules, "kernelucb.ax")
        with pytest.raises(ImportError, match=r"pip install 'kernelucb\[ax\]'"):
            __import__("kernelucb.ax")
