r"""Saved states of budgeted bandits and models: whole, or refused with the old one kept."""

import pytest
import torch
from botorch.models.transforms import Normalize, Standardize
from gpytorch.means import ConstantMean
from torch.testing import assert_close

from kernelucb import BKBBandit
from kernelucb.exceptions import StateError
from kernelucb.models import BKBModel
from problems import float64, frozen_kernel, normal, uniform
from tolerances import SKETCH

ARMS = uniform(9, 2, 0)
SHIFT = ConstantMean().double()
SHIFT.constant = float64(1.0)


def bandit_of(played=3, arms=ARMS, kernel="matern32", **options):
    defaults = {"norm_bound": 1.0, "noise_std": 0.3, "seed": 4}
    bandit = BKBBandit(arms, frozen_kernel(kernel), **{**defaults, **options})
    for step in range(played):
        bandit.observe([step, step, 2 * step], [0.5, 0.1 * step, 1.0])
    return bandit


BANDIT = bandit_of().state_dict()


class TestBandit:
    @pytest.mark.parametrize("state", [None, [], "text", {}, torch.ones(3)])
    def test_no_state(self, state):
        with pytest.raises(StateError):
            bandit_of().load_state_dict(state)

    @pytest.mark.parametrize(
        "options",
        [
            {"norm_bound": 2.0},
            {"noise_std": 0.2},
            {"delta": 0.1},
            {"qbar": 3.0},
            {"epsilon": 0.4},
            {"alpha": 1.0},
            {"batch_growth": 1.2},
            {"radius": "practical"},
            {"radius": "theorem2"},
            {"kernel": "matern52"},
            {"mean_module": SHIFT},
            {"arms": ARMS + 1.0},
            {"arms": ARMS[:-1]},
        ],
    )
    def test_another_construction(self, options):
        with pytest.raises(StateError):
            bandit_of(1, **options).load_state_dict(BANDIT)

    def test_copies(self):
        r"""Neither the saved state nor the one that was loaded is the bandit's own."""
        bandit = bandit_of()
        state = bandit.state_dict()
        other = bandit_of(0)
        other.load_state_dict(state)
        expected = [bound.clone() for bound in bandit.bounds()]
        for value in state.values():
            if torch.is_tensor(value):
                value.zero_()
        for restored in (bandit, other):
            restored.observe(0, 1.0)
        bandit = bandit_of()
        assert_close(bandit.bounds(), tuple(expected))
        bandit.observe(0, 1.0)
        assert_close(other.bounds(), bandit.bounds(), rtol=0, atol=SKETCH)

    def test_without_observations(self):
        bandit = bandit_of()
        bandit.load_state_dict(bandit_of(0).state_dict())
        assert bandit.num_observations == 0
        assert_close(bandit.bounds(), bandit_of(0).bounds())


def model_of(n=12, seed=0, kernel="matern32", **options):
    X = torch.cat([uniform(n, 2, seed), uniform(2, 2, seed)])
    defaults = {"alpha": 0.04, "qbar": 0.5}
    transforms = {
        "input_transform": Normalize(2),
        "outcome_transform": Standardize(1),
    }
    return BKBModel(
        X,
        3.0 + 2.0 * normal(len(X), seed).unsqueeze(-1),
        frozen_kernel(kernel),
        **{**defaults, **transforms, **options},
    )


MODEL = model_of().state_dict()


@pytest.fixture(scope="module")
def other():
    return model_of(5, seed=3)


def prediction(model):
    posterior = model.posterior(uniform(4, 2, 9))
    return posterior.mean, posterior.variance


class TestModel:
    @pytest.mark.parametrize("state", [None, [], "text", {}, torch.ones(3)])
    def test_no_state(self, other, state):
        with pytest.raises(StateError):
            other.load_state_dict(state)

    @pytest.mark.parametrize(
        "options",
        [
            {"kernel": "matern52"},
            {"alpha": 0.05},
            {"qbar": 0.6},
            {"mean_module": SHIFT},
            {"input_transform": None},
            {"outcome_transform": None},
            {"input_transform": Normalize(2, bounds=torch.tensor([[0.0] * 2, [3.0] * 2]))},
        ],
    )
    def test_another_construction(self, options):
        with pytest.raises(StateError):
            model_of(5, **options).load_state_dict(MODEL)

    def test_a_state_that_is_refused_changes_nothing(self, other):
        before, extra = prediction(other), MODEL["_extra_state"]
        for wrong in ({"kernelucb": -1}, {"class": "BKBBandit"}, {"settings": {}}):
            with pytest.raises(StateError):
                other.load_state_dict({**MODEL, "_extra_state": {**extra, **wrong}})
        assert_close(prediction(other), before, rtol=0, atol=0)

    def test_within_another_module(self):
        models = torch.nn.ModuleList([model_of(), model_of(7, seed=1)])
        others = torch.nn.ModuleList([model_of(4, seed=2), model_of(9, seed=5)])
        others.load_state_dict(models.state_dict())
        for model, loaded in zip(models, others, strict=True):
            assert_close(prediction(loaded), prediction(model))

    def test_copies(self):
        model, state = model_of(5, seed=3), model_of().state_dict()
        model.load_state_dict(state)
        before = prediction(model)
        for value in (*state.values(), *state["_extra_state"].values()):
            if torch.is_tensor(value):
                value.zero_()
        assert_close(prediction(model), before, rtol=0, atol=0)
        model.observe(uniform(3, 2, 6), normal(3, 1).unsqueeze(-1))
        assert model.num_observations == 17
