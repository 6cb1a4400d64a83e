r"""Sums of several metrics as the objective of an Ax experiment."""

import pytest
import torch
from ax.api.client import Client
from ax_bench import GUARDED_WARNINGS, SEARCH, make_client, next_trial, run, wave
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import AbbasiYadkoriUCB, NormTracker, ScalarizedUCB

pytestmark = [pytest.mark.slow, *GUARDED_WARNINGS]
OPTIONS = {"norm_bound": [20.0, 300.0], "noise_std": [0.5, 1.0], "delta": 0.1}


def outcome(parameters):
    return {"y": wave(parameters), "cost": parameters["u"]}


def client_of(objective="y - 2*cost", options=OPTIONS, **arguments):
    return make_client(
        objective=objective, acqf_class=ScalarizedUCB, options=options, **arguments
    )


@pytest.mark.parametrize("objective", ["y - 2*cost", "-2*cost + y"])
def test_entries_are_in_the_alphabetical_order_of_the_outcomes(objective):
    client = run(client_of(objective), 4, outcome)
    acqf = kernelucb.ax.last_bound(client)
    assert acqf.weights == (-2.0, 1.0)
    cost, y = acqf.acqfs
    assert float(cost.regression.train_targets.abs().max()) < 20.0
    assert float(y.regression.train_targets.min()) > 4000.0
    assert [band.norm_bound for band in acqf.acqfs] == pytest.approx([20.0, 300.0])
    assert [float(b.regression.noise_std.max()) for b in acqf.acqfs] == pytest.approx(
        [0.5, 1.0]
    )
    assert [band.delta for band in acqf.acqfs] == [0.05, 0.05]


def test_running_trials_are_pending_and_the_experiment_is_stored(tmp_path):
    client = run(client_of(), 3, outcome)
    ((_, parameters),) = client.get_next_trials(max_trials=1).items()
    next_trial(client)
    pending = kernelucb.ax.last_bound(client).X_pending
    expected = torch.tensor([[parameters["u"], parameters["v"]]], dtype=torch.float64)
    assert_close(pending, expected, rtol=1e-9, atol=1e-9)
    path = str(tmp_path / "client.json")
    client.save_to_json_file(path)
    reopened = Client.load_from_json_file(path)
    next_trial(reopened)
    assert kernelucb.ax.last_bound(reopened).weights == (-2.0, 1.0)


@pytest.mark.parametrize("search", [None, SEARCH])
def test_a_kernel_of_its_own_for_each_outcome(search):
    options = {"norm_bound": {"y": 300.0, "cost": 20.0}, "noise_std": 1.0}
    options |= {"kernel": "matern52", "mean": {"y": 5000.0, "cost": 0.0}}
    options |= {"lengthscale": {"y": {"u": 0.3, "v": 0.6}, "cost": 1.0}}
    client = run(client_of(options=options, search=search), 4, outcome)
    acqf = kernelucb.ax.current_bound(client)
    scales = [
        band.regression.prior.covar_module.base_kernel.lengthscale.flatten().tolist()
        for band in acqf.acqfs
    ]
    assert scales == [pytest.approx([1.0]), pytest.approx([0.3, 0.6])]
    assert acqf.assumptions.certified


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm_bound": [1.0, -1.0]}, "norm_bound must be a finite number above 0"),
        ({"norm_bound": [1.0, 1.0], "noise_std": [1.0]}, "noise_std has 1 entries for 2"),
        ({"norm_bound": 1.0, "bound": AbbasiYadkoriUCB}, "Leave out the option `bound`"),
        ({"norm_bound": 1.0, "options": {"form": "exact"}}, "form must be"),
        ({"norm_bound": 1.0, "options": {"shape": 1}}, "has no option `shape`"),
        ({"norm_bound": 1.0, "options": {"maximize": False}}, "Ax takes the direction"),
        ({"norm_bound": [NormTracker(), 1.0]}, "NormTracker, which Ax cannot store"),
        ({"norm_bound": 1.0, "noise_std": []}, "noise_std has 0 entries"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        kernelucb.ax.generation_strategy(ScalarizedUCB, options)
