r"""Any acquisition function searches within a bound in an Ax experiment."""

import math

import pytest
import torch
from ax_bench import (
    AX_WARNINGS,
    FAST,
    OPTIONS,
    REQUIRED,
    SEARCH,
    SPREAD,
    along,
    attached,
    built,
    curve,
    fixed_client,
    go_on_alike,
    next_trial,
    node,
    points,
    reopened,
    run,
    searching,
    stopping,
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
from kernelucb import MartingaleMixtureUCB, ScalarizedUCB

pytestmark = AX_WARNINGS


class TestSearch:
    @pytest.mark.slow
    @pytest.mark.parametrize("acqf_class", REQUIRED)
    def test_within_every_bound(self, acqf_class):
        client = searching(acqf_class=acqf_class, options=REQUIRED[acqf_class])
        _, parameters = next_trial(attached(client, SPREAD[:3], waves))
        acqf = built(client).acqf
        assert type(kernelucb.ax.last_bound(client)) is acqf_class
        assert type(acqf.acqf).__name__ == SEARCH
        assert acqf.band is kernelucb.ax.last_bound(client)
        edge = 10.0 * acqf.temperature * acqf.band.prior_std
        assert float(acqf.excess(points(parameters))) > -edge

    def test_a_turn_of_the_bound(self):
        client = searching(search_options={"ucb_every": 1, "temperature": 0.1})
        next_trial(attached(client, SPREAD, waves))
        acqf = built(client).acqf
        assert acqf.temperature == 0.1
        queries = torch.tensor([[[0.0, 5.0]], [[9.0, 2.0]]], dtype=torch.float64)
        assert_close(acqf(queries), acqf.band(queries))

    def test_options_of_the_searched_function_arrive(self):
        client = searching("qUpperConfidenceBound", search_options={"beta": 9.0})
        next_trial(attached(client, SPREAD, waves))
        acqf = built(client).acqf.acqf
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
        attached(client, SPREAD, lambda p: {"y": wave(p), "cost": p["u"]})
        next_trial(client)
        assert kernelucb.ax.last_bound(client).weights == (-2.0, 1.0)

    def test_an_analytic_function_and_what_to_do_about_a_trial_under_way(self):
        client = attached(searching("LogExpectedImprovement"), SPREAD, waves)
        index, _ = next_trial(client)
        with pytest.raises(UnsupportedError, match="LogExpectedImprovement is analytic "):
            next_trial(client)
        client.mark_trial_abandoned(index)
        with pytest.raises(UnsupportedError, match="there are 1 "):
            next_trial(client)
        other = {"num_initial": 4, "search": SEARCH, "optimizer_options": FAST}
        client.set_generation_strategy(
            kernelucb.ax.generation_strategy(MartingaleMixtureUCB, OPTIONS, **other)
        )
        run(client, 1)
        assert node(client).startswith(SEARCH)
        assert kernelucb.ax.last_bound(client).regression.num_observations == 5


def test_certificates_are_those_of_the_bound():
    X = torch.tensor([[0.2], [0.9]], dtype=torch.float64)
    decisions, sides = [], []
    for search in (SEARCH, "LogExpectedImprovement", None):
        client = attached(fixed_client(search=search), along(0.1, 0.4, 0.8), curve)
        next_trial(client)
        bound = kernelucb.ax.current_bound(client)
        assert type(bound) is MartingaleMixtureUCB
        assert bound.X_pending is None
        assert bound.assumptions.certified
        decisions.append(stopping(client, 100.0).decide())
        sides.append(bound.bounds(X))
        assert decisions[-1].stop
        assert_close(sides[-1], sides[0])
    gaps = [decision.certificate.gap for decision in decisions]
    assert gaps == pytest.approx([gaps[0]] * 3)
    assert len({decision.arm.name for decision in decisions}) == 1


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


@pytest.mark.slow
def test_a_function_of_your_own_is_stored_by_its_name(own):
    client = attached(searching(Mean), SPREAD, waves)
    go_on_alike(client, reopened(client))
