r"""Any acquisition function searches within a bound in an Ax experiment."""

import json
import math

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax_bench import (
    AX_WARNINGS,
    FAST,
    OPTIONS,
    REQUIRED,
    UNIT,
    begun,
    curve,
    fixed_client,
    make_client,
    next_trial,
    node,
    points,
    rows,
    run,
    wave,
    waves,
)
from botorch.acquisition import (
    LogExpectedImprovement,
    qLogNoisyExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.exceptions import UnsupportedError
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import MartingaleMixtureUCB, MetaUCB, ScalarizedUCB
from kernelucb.acquisition import GuardedAcquisition
from kernelucb.models import CosineFeatures, DiscreteMetaModel, FeatureMetaModel
from tolerances import STORED

pytestmark = [
    *AX_WARNINGS,
    # A Monte Carlo function at a point that was observed has a singular covariance.
    pytest.mark.filterwarnings("ignore:A not p.d.::linear_operator"),
]

SEARCH = "qLogNoisyExpectedImprovement"
X = torch.tensor([[0.2], [0.9]], dtype=torch.float64)


def searching(search=SEARCH, **arguments):
    return make_client(search=search, **arguments)


def curve_client():
    return fixed_client(search=SEARCH, search_options={"ucb_every": 3})


def acquisition(client):
    return client._generation_strategy.adapter.generator._acquisition.acqf


def reopened(client):
    return Client._from_json_snapshot(json.loads(json.dumps(client._to_json_snapshot())))


class TestSearch:
    @pytest.mark.parametrize(("objective", "best"), [("y", 0.8), ("-y", 0.2)])
    def test_finds_the_optimum_in_the_direction_of_the_objective(self, objective, best):
        def outcome(parameters):
            return {"y": 900.0 + 40.0 * math.cos((parameters["x"] - 0.8) * math.pi / 0.6)}

        client = searching(parameters=UNIT, objective=objective, num_initial=2)
        run(client, 8, outcome)
        parameters, *_ = client.get_best_parameterization(use_model_predictions=False)
        assert abs(parameters["x"] - best) < 0.05
        assert node(client) == f"{SEARCH} within MartingaleMixtureUCB"
        acqf = acquisition(client)
        assert type(acqf.acqf) is qLogNoisyExpectedImprovement
        assert acqf.band is kernelucb.ax.last_bound(client)
        assert acqf.band.direction == (1 if objective == "y" else -1)

    @pytest.mark.parametrize("acqf_class", REQUIRED)
    def test_every_bound_is_searched_within(self, acqf_class):
        client = searching(acqf_class=acqf_class, options=REQUIRED[acqf_class])
        run(client, 3)
        _, parameters = next_trial(client)
        acqf = acquisition(client)
        assert type(kernelucb.ax.last_bound(client)) is acqf_class
        edge = 10.0 * acqf.temperature * acqf.band.prior_std
        assert float(acqf.excess(points(parameters))) > -edge

    def test_a_turn_of_the_bound(self):
        client = run(searching(search_options={"ucb_every": 1, "temperature": 0.1}), 4)
        acqf = acquisition(client)
        assert acqf.temperature == 0.1
        queries = torch.tensor([[[0.0, 5.0]], [[9.0, 2.0]]], dtype=torch.float64)
        assert_close(acqf(queries), acqf.band(queries))

    def test_options_of_the_searched_function_arrive(self):
        client = searching("qUpperConfidenceBound", search_options={"beta": 9.0})
        acqf = acquisition(run(client, 4)).acqf
        assert type(acqf) is qUpperConfidenceBound
        assert acqf.beta_prime == pytest.approx(math.sqrt(9.0 * math.pi / 2.0))

    @pytest.mark.parametrize("search", [SEARCH, LogExpectedImprovement])
    def test_a_sum_of_outcomes(self, search):
        client = searching(
            search,
            objective="y - 2*cost",
            acqf_class=ScalarizedUCB,
            options={"norm_bound": [20.0, 300.0], "noise_std": [0.5, 1.0]},
            search_options={"ucb_every": 4},
        )
        run(client, 5, lambda p: {"y": wave(p), "cost": p["u"]})
        assert kernelucb.ax.last_bound(client).weights == (-2.0, 1.0)

    def test_the_global_generator_is_left_alone(self):
        torch.manual_seed(5)
        kernelucb.ax.generation_strategy(MartingaleMixtureUCB, OPTIONS, search=SEARCH)
        drawn = torch.rand(3)
        torch.manual_seed(5)
        assert torch.equal(drawn, torch.rand(3))


FEATURES = CosineFeatures(torch.tensor([[0.0, 3.0, 6.0]]), torch.tensor([0.0, 0.5, 1.0]))


class TestEstimatedPriors:
    def test_features(self):
        grid = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)
        weights = torch.randn(60, 3, dtype=torch.float64)
        model = FeatureMetaModel(grid, weights @ FEATURES.double()(grid).detach().mT, FEATURES)
        config = kernelucb.ax.meta_model_config(model)
        client = searching(
            parameters=UNIT,
            acqf_class=MetaUCB,
            options={},
            num_initial=1,
            model_config=config,
            search_options={"ucb_every": 4},
        )
        run(client, 4, lambda parameters: {"y": parameters["x"]})
        assert type(kernelucb.ax.last_bound(client)) is MetaUCB

    @pytest.mark.parametrize("search", [SEARCH, "qUpperConfidenceBound"])
    def test_arms(self, search):
        arms = torch.arange(8, dtype=torch.float64).unsqueeze(-1)
        peaks = torch.linspace(1.0, 6.0, 60, dtype=torch.float64).unsqueeze(-1)
        values = torch.exp(-(((arms.mT - peaks) / 2.0) ** 2))
        model = DiscreteMetaModel(values + 0.05 * torch.randn_like(values), arms)
        arm = ChoiceParameterConfig(
            name="arm", parameter_type="int", values=list(range(8)), is_ordered=True
        )
        client = searching(
            search,
            parameters=[arm],
            acqf_class=MetaUCB,
            options={},
            num_initial=1,
            optimizer_options={},
            model_config=kernelucb.ax.meta_model_config(model),
            search_options={"temperature": 0.0},
        )
        run(client, 5, lambda p: {"y": float(values[-1, p["arm"]])})
        best, *_ = client.get_best_parameterization(use_model_predictions=False)
        assert best["arm"] == 6


class TestSpaces:
    @pytest.mark.parametrize("largest", [2, 30])
    def test_integers_choices_and_logarithms(self, largest):
        parameters = [
            RangeParameterConfig(
                name="rate", parameter_type="float", bounds=(1e-3, 10.0), scaling="log"
            ),
            RangeParameterConfig(name="layers", parameter_type="int", bounds=(0, largest)),
            ChoiceParameterConfig(
                name="kind", parameter_type="str", values=["a", "b", "c"], is_ordered=False
            ),
        ]
        client = searching(parameters=parameters, search_options={"ucb_every": 3})
        run(client, 3, lambda p: {"y": math.log(p["rate"]) + p["layers"] % 5})
        for p in client.get_next_trials(max_trials=3).values():
            assert type(p["layers"]) is int
            assert 0 <= p["layers"] <= largest
            assert p["kind"] in {"a", "b", "c"}
            assert 1e-3 <= p["rate"] <= 10.0
        assert type(acquisition(client)) is GuardedAcquisition

    @pytest.mark.parametrize("temperature", [0.0, 0.02])
    def test_a_finite_space_is_used_up_without_repetition(self, temperature):
        parameters = [
            RangeParameterConfig(name="n", parameter_type="int", bounds=(0, 2)),
            ChoiceParameterConfig(
                name="size", parameter_type="int", values=[1, 5], is_ordered=True
            ),
        ]
        options = {"temperature": temperature}
        client = searching(parameters=parameters, num_initial=2, search_options=options)
        run(client, 5, lambda p: {"y": float(p["n"] * p["size"])})
        arms = client._experiment.arms_by_name.values()
        assert len({tuple(arm.parameters.values()) for arm in arms}) == 5


def wave_client():
    return searching(search_options={"ucb_every": 3})


class TestTrialsUnderWay:
    def test_batches(self):
        client = begun(4, wave_client, waves)
        strategy = client._generation_strategy
        (batch,) = strategy.gen(experiment=client._experiment, n=3)[0]
        assert len({tuple(arm.parameters.values()) for arm in batch.arms}) == 3

    def test_failed_trials_leave_and_running_and_abandoned_ones_are_pending(self):
        client = begun(3, lambda: searching(), waves)
        failed, abandoned, running = pending = client.get_next_trials(max_trials=3)
        assert len(set(map(str, pending.values()))) == 3
        client.mark_trial_failed(failed)
        client.mark_trial_abandoned(abandoned)
        next_trial(client)
        acqf, expected = acquisition(client), points(pending[abandoned], pending[running])
        for each in (acqf, acqf.band):
            assert rows(each.X_pending) == rows(expected)
        assert rows(acqf.acqf.X_baseline[-2:]) == rows(expected)
        statement = kernelucb.ax.last_bound(client).assumptions["outcomes"].statement
        assert "1 trial failed and 1 was abandoned" in statement

    def test_an_analytic_function_and_what_to_do_about_a_trial_under_way(self):
        client = run(searching("LogExpectedImprovement"), 4)
        index, _ = next_trial(client)
        with pytest.raises(UnsupportedError, match="LogExpectedImprovement is analytic and"):
            next_trial(client)
        client.mark_trial_abandoned(index)
        with pytest.raises(UnsupportedError, match="there are 1 .in Ax, trials that are"):
            next_trial(client)
        other = kernelucb.ax.generation_strategy(
            MartingaleMixtureUCB,
            OPTIONS,
            num_initial=4,
            search=SEARCH,
            optimizer_options=FAST,
        )
        client.set_generation_strategy(other)
        run(client, 1)
        assert node(client).startswith(SEARCH)
        assert kernelucb.ax.last_bound(client).regression.num_observations == 4


def chosen(client):
    torch.manual_seed(torch.seed())  # a reopened experiment ignores the global seed
    _, parameters = next_trial(client)
    return parameters


class TestStorage:
    @pytest.mark.parametrize(
        ("search", "options"),
        [
            (SEARCH, {}),
            (SEARCH, {"ucb_every": 2, "tau_max": 0.1}),
            ("qProbabilityOfImprovement", {"tau": 0.01}),
            (LogExpectedImprovement, {"temperature": 0.1}),
        ],
    )
    def test_a_reopened_experiment_goes_on_as_it_would_have(self, search, options):
        client = searching(search, search_options=options)
        for step in range(4):
            parameters = {"u": 3.3 * step - 4.0, "v": (7.0 * step) % 15.0}
            index = client.attach_trial(parameters=parameters)
            client.complete_trial(trial_index=index, raw_data={"y": wave(parameters)})
        for _ in range(2):
            twin = reopened(client)
            index, parameters = next_trial(client)
            assert chosen(twin) == pytest.approx(parameters, abs=15.0 * STORED)
            client.complete_trial(trial_index=index, raw_data={"y": wave(parameters)})

    def test_with_trials_under_way(self):
        client = begun(3, wave_client, waves)
        lost, _ = client.get_next_trials(max_trials=2)
        client.mark_trial_abandoned(lost)
        twin = reopened(client)
        assert chosen(twin) == pytest.approx(chosen(client), abs=15.0 * STORED)

    @pytest.mark.parametrize("acqf_class", REQUIRED)
    def test_the_options_are_stored(self, acqf_class):
        strategy = kernelucb.ax.generation_strategy(
            acqf_class,
            REQUIRED[acqf_class],
            search=qUpperConfidenceBound,
            search_options={"beta": torch.tensor(3.0), "temperature": 0.5},
        )
        client = Client()
        client.configure_experiment(parameters=UNIT)
        client.configure_optimization(objective="y")
        client.set_generation_strategy(strategy)
        copy = reopened(client)._generation_strategy
        arguments = copy._nodes[1].generator_specs[0].generator_kwargs
        assert arguments == strategy._nodes[1].generator_specs[0].generator_kwargs
        assert arguments["botorch_acqf_class"] is GuardedAcquisition
        assert arguments["botorch_acqf_options"] == {
            "search": "qUpperConfidenceBound",
            "search_options": {"beta": 3.0},
            "temperature": 0.5,
            "band": acqf_class,
            "band_options": REQUIRED[acqf_class],
        }


class TestCertificates:
    def test_they_are_those_of_the_bound(self):
        searched, plain = begun(4, curve_client, curve), fixed_client()
        for trial in searched._experiment.trials.values():
            parameters = trial.arm.parameters
            index = plain.attach_trial(parameters=parameters)
            plain.complete_trial(trial_index=index, raw_data=curve(parameters))
        bounds = [kernelucb.ax.current_bound(each) for each in (searched, plain)]
        assert type(bounds[0]) is MartingaleMixtureUCB
        for mine, theirs in zip(bounds[0].bounds(X), bounds[1].bounds(X), strict=True):
            assert_close(mine, theirs)
        assert bounds[0].assumptions.certified
        decisions = [
            kernelucb.ax.CertifiedGapStoppingStrategy(0.5, each).decide()
            for each in (searched, plain)
        ]
        assert decisions[0].arm == decisions[1].arm
        gaps = [decision.certificate.gap for decision in decisions]
        assert gaps[0] == pytest.approx(gaps[1])

    def test_they_do_not_mind_trials_under_way(self):
        client = run(fixed_client(search="LogExpectedImprovement"), 4, curve)
        next_trial(client)
        assert kernelucb.ax.current_bound(client).X_pending is None
        stopping = kernelucb.ax.CertifiedGapStoppingStrategy(100.0, client)
        assert stopping.decide().stop

    def test_an_experiment_that_the_bound_does_not_support(self):
        client = searching(constraints=["cost <= 1.0"])
        with pytest.raises(UnsupportedError, match="MartingaleMixtureUCB cannot keep"):
            next_trial(client)
