r"""The Ax experiment that the tests of `kernelucb.ax` run."""

import functools
import json
import math
from copy import deepcopy
from itertools import count

import pytest
import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import (
    KernelFamilyUCB,
    MartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
)
from kernelucb.acquisition import BOUNDS
from problems import RKHSFunction, frozen_kernel
from tolerances import SEARCHED

AX_WARNINGS = [
    # pandas 4 will drop arguments that Ax 1.3 still passes.
    pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning:ax[.]"),
    # Ax's client calls a method that Ax has renamed.
    pytest.mark.filterwarnings("ignore:add_tracking_metric is:DeprecationWarning:ax[.]"),
    # Ax reopens outcome constraints in a way that it has deprecated itself.
    pytest.mark.filterwarnings("ignore:Passing `metric` to Out:DeprecationWarning:ax[.]"),
    # BoTorch's remarks on a line search that stops at a flat optimum; it starts again once.
    pytest.mark.filterwarnings("ignore:Optimization failed:RuntimeWarning:botorch[.]"),
    # Ax copies a tensor with torch.tensor when it counts objectives.
    pytest.mark.filterwarnings("ignore:To copy construct from:UserWarning:ax[.]"),
]
GUARDED_WARNINGS = [
    *AX_WARNINGS,
    # A Monte Carlo function at a point that was observed has a singular covariance.
    pytest.mark.filterwarnings("ignore:A not p.d.::linear_operator"),
]

FAST = {"num_restarts": 2, "raw_samples": 16}
OPTIONS = {"norm_bound": 300.0, "noise_std": 1.0}
UNIT = [RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0))]
PLANE = [
    RangeParameterConfig(name="u", parameter_type="float", bounds=(-5.0, 10.0)),
    RangeParameterConfig(name="v", parameter_type="float", bounds=(0.0, 15.0)),
]
REQUIRED = dict.fromkeys(BOUNDS, OPTIONS) | {
    SrinivasUCB: {"noise_std": 1.0},
    StreamingKernelUCB: {"norm_bound": 300.0, "noise_std": UnknownNoise(0.1, 50.0)},
    KernelFamilyUCB: OPTIONS | {"shortest": 0.5, "longest": 1.0, "mean": 5000.0},
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


SEARCH = "qLogNoisyExpectedImprovement"


def searching(search=SEARCH, **arguments):
    return make_client(search=search, **arguments)


def searching_in_turns():
    return searching(search_options={"ucb_every": 3})


def next_trial(client):
    ((index, parameters),) = client.get_next_trials(max_trials=1).items()
    return index, parameters


def wave(parameters):
    u, v = parameters["u"], parameters["v"]
    return 5000.0 + 80.0 * math.sin(u / 3.0) + 60.0 * math.cos(v / 4.0)


def waves(parameters):
    return {"y": wave(parameters)}


def run(client, number, outcome=waves):
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


NORM, NOISE_STD = 2.0, 0.05
FIXED = {"kernel": "matern52", "lengthscale": 0.4, "noise_std": NOISE_STD}
CURVE_KERNEL = frozen_kernel("matern52", 0.4)
CURVE = RKHSFunction.random(CURVE_KERNEL, NORM, d=1, seed=5)


def curve(parameters, sign=1.0, unit=1.0):
    r"""A function of norm 2 for the kernel of `fixed_client`, times sign and unit."""
    x = torch.tensor([[parameters["x"]]], dtype=torch.float64)
    return {"y": sign * unit * float(CURVE(x))}


def fixed_client(
    parameters=UNIT, objective="y", unit=1.0, lengthscale=0.4, options=None, **arguments
):
    r"""An experiment whose kernel, mean and noise are given, outcomes in ``unit``."""
    prior = FIXED | {"lengthscale": lengthscale, "outputscale": unit**2}
    prior |= {"noise_std": unit * NOISE_STD}
    options = prior | ({"norm_bound": NORM} if options is None else options)
    return make_client(parameters, objective, options=options, **arguments)


@functools.cache
def _begun(number, make, outcome):
    client = run(begun(number - 1, make, outcome), 1, outcome) if number else make()
    return client, torch.get_rng_state()


def begun(number, make=fixed_client, outcome=curve):
    r"""``run(make(), number, outcome)``, a copy where another test has asked for it."""
    client, random = _begun(number, make, outcome)
    torch.set_rng_state(random)
    return deepcopy(client)


def reopened(client):
    return Client._from_json_snapshot(json.loads(json.dumps(client._to_json_snapshot())))


SEEDS = count(1)


def chosen(client, index):
    r"""The values that the search for a trial reached; without a search, its parameters.

    Many points may have such a value but for the last digits: at which a search ends then
    depends on the processor.
    """
    trial = client._experiment.trials[index]
    (generated,) = trial.generator_runs
    values = (generated.gen_metadata or {}).get("expected_acquisition_value")
    return trial.arm.parameters if values is None else values


def go_on_alike(client, twin, max_trials=1, **arguments):
    r"""The next trials of an experiment; its twin chooses as well, whatever the seed."""
    trials = []
    for each in (client, twin):
        torch.manual_seed(next(SEEDS))
        trials.append(each.get_next_trials(max_trials=max_trials, **arguments))
    assert list(trials[0]) == list(trials[1])
    for index in trials[0]:
        expected = pytest.approx(chosen(client, index), rel=SEARCHED, abs=SEARCHED)
        if chosen(twin, index) != expected:  # of a search that ended before it converged
            values = [_values_at_fixed_points(each) for each in (client, twin)]
            assert_close(*values, rtol=SEARCHED, atol=SEARCHED)
    return trials[0]


def _values_at_fixed_points(client):
    r"""Of the function that chose the last trial."""
    acqf = client._generation_strategy.adapter.generator._acquisition.acqf
    dimension = getattr(acqf, "band", acqf).regression.dimension
    points = torch.rand(64, 1, dimension, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return acqf(points.double())
