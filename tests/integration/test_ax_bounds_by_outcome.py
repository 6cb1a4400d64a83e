r"""Outcomes with bounds of their own in Ax: a measurement, and failures to be kept rare."""

import pytest
import torch
from ax.api.client import Client
from ax_bench import (
    FAST,
    GUARDED_WARNINGS,
    SEARCH,
    UNIT,
    curve,
    go_on_alike,
    next_trial,
    node,
    reopened,
    run,
)
from botorch.exceptions import InputDataError, UnsupportedError
from constrained_bench import acquisition

import kernelucb.ax
from kernelucb import KernelFamilyUCB, LikelihoodUCB, MartingaleMixtureUCB, SrinivasUCB
from problems import RKHSFunction, frozen_kernel

pytestmark = [pytest.mark.slow, *GUARDED_WARNINGS]

PARTS, MOST = 500, 0.2
FAILURES = RKHSFunction.random(frozen_kernel("rbf", 0.5), 2.0, 1, seed=11)
CLASSES = {"y": MartingaleMixtureUCB, "failures": LikelihoodUCB}
OPTIONS = {
    "norm_bound": {"y": 2.0, "failures": 2.0},
    "likelihood": "binomial",
    "num_trials": PARTS,
    "noise_std": 0.05,
    "kernel": {"y": "matern52", "failures": "rbf"},
    "lengthscale": {"y": 0.4, "failures": 0.5},
    "mean": {"failures": -2.5},
}
GIVEN = {"num_initial": 2, "seed": 1}
SAFE = {"constraints": "safe", "safe_arms": [{"x": 0.5}]}


def strategy(classes=CLASSES, options=OPTIONS, **arguments):
    own = {"optimizer_options": FAST} | GIVEN | SAFE | arguments
    return kernelucb.ax.generation_strategy(classes, options, **own)


def client_of(generation_strategy, constraint=f"failures <= {MOST}"):
    client = Client(random_seed=0)
    client.configure_experiment(parameters=UNIT, name="measured")
    client.configure_optimization("y", outcome_constraints=[constraint])
    client.set_generation_strategy(generation_strategy)
    return client


def failure_chance(parameters):
    x = torch.tensor([[parameters["x"]]], dtype=torch.float64)
    return float((FAILURES(x) - 2.5).sigmoid())


def outcome(parameters):
    generator = torch.Generator().manual_seed(int(1e6 * parameters["x"]))
    draws = torch.rand(PARTS, generator=generator, dtype=torch.float64)
    failed = (draws < failure_chance(parameters)).double().mean()
    return curve(parameters) | {"failures": float(failed)}


def test_each_outcome_has_its_own_bound(tmp_path):
    client, chosen = client_of(strategy()), []
    for _ in range(4):
        index, parameters = next_trial(client)
        client.complete_trial(index, raw_data=outcome(parameters))
        chosen.append(parameters)
    assert max(map(failure_chance, chosen)) <= MOST
    assert len({p["x"] for p in chosen}) > 2
    assert node(client) == "MartingaleMixtureUCB and LikelihoodUCB, safe"
    bands = acquisition(client).bands
    assert {name: type(band) for name, band in bands.items()} == CLASSES
    assert [band.delta for band in bands.values()] == [0.025, 0.025]
    best = kernelucb.ax.recommended_arm(client)
    assert best.assumptions.certified
    lower, upper = best.objective
    assert lower <= curve(best.parameters)["y"] <= upper
    assert failure_chance(best.parameters) <= best.outcomes["failures"][1] <= MOST
    assert kernelucb.ax.CertifiedGapStoppingStrategy(0.1, client).decide().arm is not None
    go_on_alike(client, reopened(client))


@pytest.mark.parametrize("search", [None, SEARCH])
def test_explored_with_a_family(search):
    classes = {"y": KernelFamilyUCB, "failures": LikelihoodUCB}
    apart = ("norm_bound", "lengthscale", "mean")
    options = {name: each for name, each in OPTIONS.items() if name not in apart}
    options |= {"lengthscale": 0.5, "mean": {"failures": -2.5}}
    options |= {"norm_bound": 2.5, "noise_std": 0.05, "shortest": 0.4, "longest": 0.5}
    options |= {"kernel": {"y": "matern52", "failures": "rbf"}, "delta": 0.1}
    kind = {"constraints": "explored", "safe_arms": None}
    client = run(client_of(strategy(classes, options, search=search, **kind)), 4, outcome)
    bands = acquisition(client).bands
    assert {name: type(band) for name, band in bands.items()} == classes
    assert all(band.assumptions.certified and band.delta == 0.05 for band in bands.values())


@pytest.mark.parametrize(
    ("classes", "options", "message"),
    [
        ({}, {}, "acqf_class is an empty mapping"),
        (
            {"y": SrinivasUCB, "failures": LikelihoodUCB},
            {},
            r"acqf_class\['y'\] must be one of .* got SrinivasUCB",
        ),
        (
            CLASSES,
            OPTIONS | {"horizon": 9},
            "horizon is given .* bounds of none that take it",
        ),
        (
            CLASSES,
            OPTIONS | {"noise_std": {"failures": 0.1}},
            "noise_std is given for the outcomes failures, and there are bounds of y that",
        ),
        (
            CLASSES,
            OPTIONS | {"mean": {"failure": -2.5}},
            "mean is given for the outcomes failure, and there are bounds of failures, y",
        ),
        (CLASSES, OPTIONS | {"likelihood": None}, "give likelihood="),
        (CLASSES, OPTIONS | {"norm_bound": {"y": -1.0}}, "norm_bound must be"),
    ],
)
def test_errors_before_the_strategy_exists(classes, options, message):
    with pytest.raises((ValueError, UnsupportedError), match=message):
        strategy(classes, options)


def test_it_is_for_constraints():
    with pytest.raises(ValueError, match="acqf_class is a mapping, for an objective and"):
        strategy(constraints=None, safe_arms=None)


def test_the_outcomes_are_those_of_the_experiment():
    client = client_of(strategy(), "breaks <= 0.1")
    with pytest.raises(ValueError, match=r"for the outcomes failures, y, and .* breaks, y"):
        next_trial(client)
    assert len(client._experiment.trials) == 0


def test_only_the_outcomes_of_a_count_must_be_counts():
    client = client_of(strategy())
    index, parameters = next_trial(client)
    client.complete_trial(index, raw_data={"y": 0.1234567, "failures": 7.0})
    with pytest.raises(InputDataError, match="more successes than num_trials"):
        kernelucb.ax.recommended_arm(client)
    client.attach_data(index, raw_data=outcome(parameters))
    kernelucb.ax.recommended_arm(client)
