r"""Priors estimated from earlier tasks in an Ax experiment."""

import json

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from ax_bench import AX_WARNINGS, OPTIONS, UNIT, make_client, next_trial, node, run
from botorch.exceptions import UnsupportedError

import kernelucb.ax
from kernelucb import MartingaleMixtureUCB, MetaPI, MetaUCB
from kernelucb.models import CosineFeatures, DiscreteMetaModel, FeatureMetaModel

pytestmark = [pytest.mark.slow, *AX_WARNINGS]

NUM_ARMS, NUM_TASKS = 12, 60
ARMS = torch.arange(NUM_ARMS, dtype=torch.float64).unsqueeze(-1)
CHOICE = [
    ChoiceParameterConfig(
        name="arm",
        parameter_type="int",
        values=list(range(NUM_ARMS)),
        is_ordered=True,
    )
]
FEATURES = CosineFeatures(torch.tensor([[0.0, 3.0, 6.0]]), torch.tensor([0.0, 0.5, 1.0]))


def bump(peak, X):
    return 40.0 * torch.exp(-(((X - peak) / 2.5) ** 2)).squeeze(-1)


def discrete_model():
    peaks = torch.linspace(2.0, 9.0, NUM_TASKS).double()
    noise = torch.randn(NUM_TASKS, NUM_ARMS).double()
    return DiscreteMetaModel(torch.stack([bump(p, ARMS) for p in peaks]) + noise, ARMS)


def feature_model():
    X = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)
    weights = torch.randn(NUM_TASKS, 3, dtype=torch.float64)
    values = weights @ FEATURES.double()(X).detach().mT
    return FeatureMetaModel(X, values, FEATURES)


def discrete_client(acqf_class=MetaUCB, **options):
    model = discrete_model()
    config = kernelucb.ax.meta_model_config(model)
    arguments = {"num_initial": 1, "optimizer_options": {}, "model_config": config}
    return make_client(CHOICE, acqf_class=acqf_class, options=options, **arguments), model


def reward(parameters):
    at = torch.tensor([[float(parameters["arm"])]], dtype=torch.float64)
    return {"y": float(bump(7.0, at))}


@pytest.mark.parametrize("acqf_class", [MetaUCB, MetaPI])
def test_finds_the_best_arm(acqf_class):
    client, model = discrete_client(acqf_class)
    run(client, 7, reward)
    parameters, *_ = client.get_best_parameterization(use_model_predictions=False)
    assert parameters["arm"] == 7
    acqf = kernelucb.ax.last_bound(client)
    assert type(acqf) is acqf_class
    assert acqf.model.num_evaluations == 6
    assert acqf.model.num_tasks == NUM_TASKS
    torch.testing.assert_close(acqf.model.mean_module(ARMS), model.mean_module(ARMS))


def test_the_bound_is_that_of_the_model_on_the_trials():
    client, model = discrete_client(delta=0.1)
    trials = []
    for _ in range(4):
        index, parameters = next_trial(client)
        client.complete_trial(trial_index=index, raw_data=reward(parameters))
        trials.append(parameters)
    X = torch.tensor([[float(trial["arm"])] for trial in trials[:3]], dtype=torch.float64)
    Y = torch.tensor([[reward(trial)["y"]] for trial in trials[:3]], dtype=torch.float64)
    expected = MetaUCB(model.condition_on_observations(X, Y), delta=0.1).bounds(ARMS)
    for left, right in zip(
        kernelucb.ax.last_bound(client).bounds(ARMS), expected, strict=True
    ):
        torch.testing.assert_close(left, right)


def test_a_continuous_search_that_is_stored_and_goes_on(tmp_path):
    config = kernelucb.ax.meta_model_config(feature_model())
    client = make_client(
        UNIT, acqf_class=MetaUCB, options={}, num_initial=1, model_config=config
    )
    run(client, 4, lambda parameters: {"y": parameters["x"]})
    assert node(client) == "MetaUCB"
    path = str(tmp_path / "bench.json")
    client.save_to_json_file(path)
    reopened = Client.load_from_json_file(path)
    for each in (client, reopened):
        torch.manual_seed(3)
        next_trial(each)
    X = torch.tensor([[0.2], [0.9]], dtype=torch.float64)
    bands = [kernelucb.ax.last_bound(each).bounds(X) for each in (client, reopened)]
    torch.testing.assert_close(bands[0], bands[1])


def test_pending_trials_are_not_repeated():
    client, _ = discrete_client()
    run(client, 2, reward)
    pending = client.get_next_trials(max_trials=3)
    assert len({parameters["arm"] for parameters in pending.values()}) == 3


def test_stored_options():
    config = kernelucb.ax.meta_model_config(discrete_model())
    options = {"delta": 0.01}
    strategy = kernelucb.ax.generation_strategy(MetaUCB, options, model_config=config)
    copy = object_from_json(json.loads(json.dumps(object_to_json(strategy))))
    arguments = copy._nodes[1].generator_specs[0].generator_kwargs
    assert arguments == strategy._nodes[1].generator_specs[0].generator_kwargs
    assert arguments["botorch_acqf_options"] == options


def test_what_does_not_fit_together_is_refused():
    config = kernelucb.ax.meta_model_config(discrete_model())
    with pytest.raises(UnsupportedError, match="need model_config=meta_model_config"):
        kernelucb.ax.generation_strategy(MetaUCB)
    with pytest.raises(UnsupportedError, match="bounds need a model without an estimated"):
        kernelucb.ax.generation_strategy(MartingaleMixtureUCB, OPTIONS, model_config=config)
