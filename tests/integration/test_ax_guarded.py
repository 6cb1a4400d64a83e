r"""Any acquisition function searches within a bound in an Ax experiment."""

import math

import pytest
import torch
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.parameter_constraint import ParameterConstraint
from ax_bench import (
    FAST,
    GUARDED_WARNINGS,
    OPTIONS,
    REQUIRED,
    SEARCH,
    UNIT,
    begun,
    fixed_client,
    next_trial,
    node,
    points,
    rows,
    run,
    searching,
    searching_in_turns,
    wave,
    waves,
)
from botorch.acquisition import (
    LogExpectedImprovement,
    qLogNoisyExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.exceptions import UnsupportedError
from constrained_bench import constrained_client
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import MartingaleMixtureUCB, MetaUCB, ScalarizedUCB
from kernelucb.acquisition import GuardedAcquisition
from kernelucb.models import CosineFeatures, DiscreteMetaModel, FeatureMetaModel

pytestmark = [pytest.mark.slow, *GUARDED_WARNINGS]


def acquisition(client):
    return client._generation_strategy.adapter.generator._acquisition.acqf


def acquisition_options(client):
    spec = client._generation_strategy._nodes[1].generator_specs[0]
    return spec.generator_kwargs["acquisition_options"]


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


SQUARE = [
    RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0))
    for name in ("x", "t")
]


@pytest.mark.parametrize("kind", [None, "explored"])
def test_the_reference_keeps_the_parameter_constraints_in_the_context(kind):
    def outcome(parameters):
        x = parameters["x"]
        return {"y": 0.5 * x} | ({} if kind is None else {"z": 0.3 * x * x})

    if kind is None:
        client = fixed_client(SQUARE, search=SEARCH)
    else:
        client = constrained_client(
            kind, parameters=SQUARE, constraints=["z >= -9"], search=SEARCH
        )
    limit = ParameterConstraint(inequality="x + t <= 1.0")
    client._experiment.search_space.add_parameter_constraints([limit])
    for t in (0.1, 0.1, 0.1, 0.1, 0.5):
        fixed = {"max_trials": 1, "fixed_parameters": {"t": t}}
        ((index, parameters),) = client.get_next_trials(**fixed).items()
        client.complete_trial(trial_index=index, raw_data=outcome(parameters))
    # In the context known points lie where they could not have been observed.
    observed = client._generation_strategy.adapter.generator._acquisition.X_observed
    assert float(observed.sum(-1).max()) > 1.0
    reference = acquisition(client).reference
    assert len(reference) == 1
    assert float(reference.sum()) <= 1.0


FEATURES = CosineFeatures(torch.tensor([[0.0, 3.0, 6.0]]), torch.tensor([0.0, 0.5, 1.0]))


class TestEstimatedPriors:
    def test_features(self):
        grid = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)
        weights = torch.randn(60, 3, dtype=torch.float64)
        model = FeatureMetaModel(
            grid, weights @ FEATURES.double()(grid).detach().mT, FEATURES
        )
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
        )
        assert acquisition_options(client)["temperature"] == 0.0
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


class TestTrialsUnderWay:
    def test_batches(self):
        for make in (searching, searching_in_turns):
            client = begun(4, make, waves)
            strategy = client._generation_strategy
            (batch,) = strategy.gen(experiment=client._experiment, n=3)[0]
            assert len({tuple(arm.parameters.values()) for arm in batch.arms}) == 3
            acqf = acquisition(client)
            assert acqf.X_pending is None
            assert len(acqf.acqf.X_baseline) <= 4

    def test_failed_trials_leave_and_running_and_abandoned_ones_are_pending(self):
        client = begun(3, searching, waves)
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
        with pytest.raises(
            UnsupportedError, match="LogExpectedImprovement is analytic and"
        ):
            next_trial(client)
        client.mark_trial_abandoned(index)
        with pytest.raises(UnsupportedError, match="there are 1 "):
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
