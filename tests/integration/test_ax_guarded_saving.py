r"""Searches within a bound in Ax: storage, certificates, and what is refused."""

import pytest
import torch
from ax.api.client import Client
from ax_bench import (
    GUARDED_WARNINGS,
    OPTIONS,
    REQUIRED,
    SEARCH,
    UNIT,
    begun,
    curve,
    fixed_client,
    go_on_alike,
    next_trial,
    reopened,
    run,
    searching,
    searching_in_turns,
    wave,
    waves,
)
from botorch.acquisition import (
    AcquisitionFunction,
    LogExpectedImprovement,
    qUpperConfidenceBound,
)
from botorch.acquisition.input_constructors import (
    ACQF_INPUT_CONSTRUCTOR_REGISTRY,
    acqf_input_constructor,
)
from botorch.exceptions import UnsupportedError
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import MartingaleMixtureUCB, MetaPI, SrinivasUCB
from kernelucb.models import DiscreteMetaModel

pytestmark = [pytest.mark.slow, *GUARDED_WARNINGS]

X = torch.tensor([[0.2], [0.9]], dtype=torch.float64)


def curve_client():
    return fixed_client(search=SEARCH, search_options={"ucb_every": 3})


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
            ((index, parameters),) = go_on_alike(client, reopened(client)).items()
            client.complete_trial(trial_index=index, raw_data={"y": wave(parameters)})

    def test_with_trials_under_way(self):
        client = begun(3, searching_in_turns, waves)
        lost, _ = client.get_next_trials(max_trials=2)
        client.mark_trial_abandoned(lost)
        go_on_alike(client, reopened(client))

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
        assert arguments["botorch_acqf_class"] is acqf_class
        assert arguments["botorch_acqf_options"] == REQUIRED[acqf_class]
        assert arguments["acquisition_options"] == {
            "search": "qUpperConfidenceBound",
            "search_options": {"beta": 3.0},
            "temperature": 0.5,
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


class Mean(AcquisitionFunction):
    def forward(self, X):
        return self.model.posterior(X).mean.squeeze(-1).squeeze(-1)


@pytest.fixture
def own():
    @acqf_input_constructor(Mean)
    def construct_inputs(model, posterior_transform=None):
        return {"model": model}

    yield
    del ACQF_INPUT_CONSTRUCTOR_REGISTRY[Mean]


class TestOwnFunctions:
    def test_a_class_is_stored_by_its_name(self, own):
        client = run(searching(Mean), 3)
        go_on_alike(client, reopened(client))

    def test_one_without_an_input_constructor(self):
        with pytest.raises(UnsupportedError, match="Mean has no input constructor"):
            searching(Mean)

    def test_another_bound(self):
        client = searching(SrinivasUCB, search_options={"noise_std": 1.0})
        run(client, 4)
        assert type(kernelucb.ax.last_bound(client)) is MartingaleMixtureUCB


class TestRefusals:
    @pytest.mark.parametrize(
        ("search", "message"),
        [
            ("LogNoisyExpectedImprovement", "cannot be told the objective"),
            ("qBestGuess", "no acquisition function 'qBestGuess' with an input"),
        ],
    )
    def test_functions(self, search, message):
        with pytest.raises((UnsupportedError, ValueError), match=message):
            searching(search)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"beta": 2.0}, "qLogNoisy.* has no option `beta`; it takes temperature"),
            ({"ucb_evry": 2}, "takes temperature, ucb_every, prune_baseline"),
            ({"ref_point": 0.0}, "Leave out the option `ref_point`"),
            ({"maximize": False}, "Ax takes the direction from the objective"),
            ({"X_pending": None}, "Ax passes it from the experiment"),
            ({"sampler": None}, "Ax cannot store it"),
            ({"temperature": -1.0}, "temperature must not be negative"),
            ({"ucb_every": 0}, "ucb_every must be a whole number"),
            ({"tau_max": print}, "tau_max cannot be a builtin"),
        ],
    )
    def test_options(self, options, message):
        with pytest.raises(ValueError, match=message):
            searching(search_options=options)

    def test_options_without_a_search(self):
        with pytest.raises(ValueError, match="search_options is given without search"):
            searching(None, search_options={"ucb_every": 2})

    def test_the_options_of_the_bound_are_checked_as_ever(self):
        with pytest.raises(ValueError, match="has no option `norm`"):
            searching(options=OPTIONS | {"norm": 1.0})

    def test_priors_at_candidates(self):
        arms = torch.arange(4, dtype=torch.float64).unsqueeze(-1)
        model = DiscreteMetaModel(torch.randn(30, 4, dtype=torch.float64), arms)
        config = kernelucb.ax.meta_model_config(model)
        given = {"options": {}, "model_config": config}
        with pytest.raises(UnsupportedError, match="MetaPI has no band"):
            searching(acqf_class=MetaPI, **given)
        with pytest.raises(ValueError, match="temperature must be 0 where the prior is"):
            searching(
                acqf_class=kernelucb.MetaUCB, search_options={"temperature": 1.0}, **given
            )
