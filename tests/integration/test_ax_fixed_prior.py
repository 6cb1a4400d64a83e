r"""Ax experiments whose kernel, mean and noise are given and never fitted."""

import json

import pytest
import torch
from ax.generators.torch.botorch_modular.kernels import ScaleMaternKernel
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from ax_bench import (
    GUARDED_WARNINGS,
    SEARCH,
    curve,
    fixed_client,
    make_client,
    next_trial,
    points,
    run,
    wave,
)
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Standardize
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import KernelRegression, MartingaleMixtureUCB, NearNormBall
from problems import frozen_kernel
from tolerances import LINEAR_SOLVE

pytestmark = [pytest.mark.slow, *GUARDED_WARNINGS]


def test_the_bound_is_that_of_the_prior_on_the_trials():
    options = {"kernel": "matern32", "lengthscale": [0.3, 0.6], "outputscale": 400.0}
    options |= {"mean": 4900.0, "noise_std": 2.0, "norm_bound": 30.0}
    client = make_client(options=options)
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


def other_model():
    r"""What Ax fits instead of the default, in the units of the outcomes again."""
    return ModelConfig(
        botorch_model_class=SingleTaskGP,
        covar_module_class=ScaleMaternKernel,
        outcome_transform_classes=[Standardize],
        name="other",
    )


def test_the_search_is_on_the_model_that_ax_fits_and_the_band_on_its_own_kernel():
    client = run(fixed_client(search=SEARCH), 5, curve)
    acqf = client._generation_strategy.adapter.generator._acquisition.acqf
    assert type(acqf.acqf.model) is SingleTaskGP
    assert any(each.requires_grad for each in acqf.acqf.model.parameters())
    kernel = acqf.band.regression.prior.covar_module
    assert not any(each.requires_grad for each in kernel.parameters())
    assert float(kernel.base_kernel.lengthscale) == pytest.approx(0.4)
    assert acqf.band.assumptions.certified


def test_the_band_does_not_depend_on_what_ax_fits():
    grid = torch.linspace(0.0, 1.0, 7, dtype=torch.float64).unsqueeze(-1)
    sides = []
    for config in (None, other_model()):
        client = fixed_client(model_config=config)
        for x in (0.1, 0.4, 0.8):
            client.complete_trial(client.attach_trial({"x": x}), raw_data=curve({"x": x}))
        sides.append(kernelucb.ax.current_bound(client).bounds(grid))
    for one, other in zip(*sides, strict=True):
        assert_close(one, other, rtol=LINEAR_SOLVE, atol=1e-9)


def test_a_model_error_is_an_option():
    client = run(fixed_client(options={"norm_bound": NearNormBall(2.0, 0.1)}), 4, curve)
    acqf = kernelucb.ax.current_bound(client)
    assert acqf.model_error == 0.1
    assert acqf.assumptions.certified
    assert "within 0.1 of a function g" in acqf.assumptions["norm"].statement


def test_reported_standard_errors_are_the_noise_where_none_is_given():
    client = fixed_client(options={"norm_bound": 4.0, "noise_std": None})
    run(client, 3, lambda p: {"y": (curve(p)["y"], 0.25)})
    acqf = kernelucb.ax.current_bound(client)
    assert_close(acqf.regression.noise_std, torch.full((3,), 0.25).double())
    assert acqf.assumptions.certified


def test_without_any_noise_scale():
    client = run(fixed_client(options={"norm_bound": 4.0, "noise_std": None}), 3, curve)
    next_trial(client)
    assert kernelucb.ax.last_bound(client).assumptions.estimated == ("noise",)


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
    given = {"kernel": kernel, "norm_bound": 1.0, "noise_std": 0.1} | options
    with pytest.raises(ValueError, match=message):
        kernelucb.ax.generation_strategy(MartingaleMixtureUCB, given)


def test_a_fixed_prior_is_stored_with_its_numbers():
    options = {"kernel": "rbf", "lengthscale": torch.tensor([0.1, 0.2])}
    options |= {"outputscale": 3.0, "mean": 5.0, "norm_bound": 1.0}
    strategy = kernelucb.ax.generation_strategy(MartingaleMixtureUCB, options)
    copy = object_from_json(json.loads(json.dumps(object_to_json(strategy))))
    arguments = copy._nodes[1].generator_specs[0].generator_kwargs
    assert arguments == strategy._nodes[1].generator_specs[0].generator_kwargs
