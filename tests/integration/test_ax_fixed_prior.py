r"""Ax experiments whose kernel, mean and noise are given and never fitted."""

import json

import pytest
import torch
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from ax_bench import (
    AX_WARNINGS,
    UNIT,
    curve,
    fixed_client,
    make_client,
    next_trial,
    points,
    run,
    wave,
)
from botorch.exceptions import InputDataError
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import KernelRegression, MartingaleMixtureUCB
from problems import frozen_kernel
from tolerances import LINEAR_SOLVE

pytestmark = AX_WARNINGS


def test_the_bound_is_that_of_the_prior_on_the_trials():
    config = kernelucb.ax.fixed_model_config(
        "matern32", [0.3, 0.6], outputscale=400.0, mean=4900.0, noise_std=2.0
    )
    client = make_client(options={"norm_bound": 30.0}, model_config=config)
    trials = []
    for _ in range(5):
        index, parameters = next_trial(client)
        client.complete_trial(trial_index=index, raw_data={"y": wave(parameters)})
        trials.append(parameters)
    acqf = kernelucb.ax.current_bound(client)
    low = torch.tensor([-5.0, 0.0], dtype=torch.float64)
    unit = 15.0 * torch.tensor([0.3, 0.6], dtype=torch.float64)
    kernel = frozen_kernel("matern32", 1.0, outputscale=400.0)
    Y = torch.tensor([wave(p) for p in trials], dtype=torch.float64) - 4900.0
    state = KernelRegression((points(*trials) - low) / unit, Y, kernel, 2.0)
    expected = MartingaleMixtureUCB(state, norm_bound=30.0)
    queries = torch.tensor([[0.0, 5.0], [9.0, 2.0], [-4.0, 14.0]]).double()
    for actual, wanted in zip(
        acqf.bounds(queries), expected.bounds((queries - low) / unit), strict=True
    ):
        assert_close(actual, wanted + 4900.0, rtol=LINEAR_SOLVE, atol=1e-6)
    assert acqf.assumptions.certified


def test_a_model_error_is_an_option():
    client = run(fixed_client(options={"norm_bound": 2.0, "model_error": 0.1}), 4, curve)
    acqf = kernelucb.ax.current_bound(client)
    assert acqf.model_error == 0.1
    assert acqf.assumptions.certified
    assert "within 0.1 of a function g" in acqf.assumptions["norm"].statement


def test_reported_standard_errors_are_the_noise_where_none_is_given():
    config = kernelucb.ax.fixed_model_config("matern52", 0.4)
    client = make_client(UNIT, options={"norm_bound": 4.0}, model_config=config)
    run(client, 3, lambda p: {"y": (curve(p)["y"], 0.25)})
    acqf = kernelucb.ax.current_bound(client)
    assert_close(acqf.regression.noise_std, torch.full((3,), 0.25).double())
    assert acqf.assumptions.certified


def test_without_any_noise_scale():
    config = kernelucb.ax.fixed_model_config("matern52", 0.4)
    client = make_client(UNIT, options={"norm_bound": 4.0}, model_config=config)
    run(client, 3, curve)
    with pytest.raises(InputDataError, match="give noise_std to the model"):
        next_trial(client)


@pytest.mark.parametrize("tracked", [1, 3])
def test_a_tracked_outcome_is_left_out(tracked):
    client = fixed_client()
    client.configure_tracking_metrics(["cost"])
    run(client, tracked, lambda p: curve(p) | {"cost": 7.0 + p["x"]})
    run(client, 4 - tracked, curve)
    acqf = kernelucb.ax.current_bound(client)
    assert acqf.regression.num_observations == 4
    assert acqf.regression.train_targets.max() < 7.0
    assert acqf.assumptions.certified


@pytest.mark.parametrize(
    ("kernel", "options", "message"),
    [
        ("linear", {"lengthscale": 1.0}, "kernel must be one of rbf, matern12"),
        ("rbf", {"lengthscale": [0.1, 0.0]}, "lengthscale must be a finite number"),
        ("rbf", {"lengthscale": 1.0, "outputscale": -1.0}, "outputscale must be"),
        ("rbf", {"lengthscale": 1.0, "mean": float("nan")}, "mean must be a finite"),
        ("rbf", {"lengthscale": 1.0, "noise_std": 0.0}, "noise_std must be a finite"),
    ],
)
def test_bad_input(kernel, options, message):
    with pytest.raises(ValueError, match=message):
        kernelucb.ax.fixed_model_config(kernel, **options)


def test_a_fixed_prior_is_stored_with_its_numbers():
    config = kernelucb.ax.fixed_model_config(
        "rbf", torch.tensor([0.1, 0.2]), outputscale=3.0, mean=5.0
    )
    strategy = kernelucb.ax.generation_strategy(
        MartingaleMixtureUCB, {"norm_bound": 1.0}, model_config=config
    )
    copy = object_from_json(json.loads(json.dumps(object_to_json(strategy))))
    arguments = copy._nodes[1].generator_specs[0].generator_kwargs
    assert arguments == strategy._nodes[1].generator_specs[0].generator_kwargs
