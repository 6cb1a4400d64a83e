r"""What people write who come from ``UpperConfidenceBound``, and what they are told."""

import inspect
import pickle

import numpy as np
import pytest
import torch
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models import ModelListGP, SingleTaskGP

from kernelucb import (
    BKBUCB,
    AbbasiYadkoriUCB,
    BKBBandit,
    KernelBandit,
    KernelRegression,
    KernelThompsonSampling,
    MartingaleMixtureUCB,
    NormTracker,
    SafeSet,
    ScalarizedUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    regret_certificate,
)
from kernelucb.acquisition import BOUNDS
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError
from kernelucb.models import BKBModel
from problems import make_problem

PROBLEM = make_problem(n=6)
OTHER = make_problem(n=6, seed=1)


@pytest.mark.parametrize("acqf_class", [*BOUNDS, ScalarizedUCB])
def test_there_is_no_beta(acqf_class):
    with pytest.raises(TypeError, match="has no beta"):
        acqf_class(PROBLEM.model, beta=2.0)


@pytest.mark.parametrize("acqf_class", BOUNDS)
def test_a_beta_by_position(acqf_class):
    with pytest.raises(TypeError, match=f"{acqf_class.__name__} has no beta, and takes by"):
        acqf_class(PROBLEM.model, 2.0)


def test_signatures_and_pickling_are_those_of_the_class():
    parameters = inspect.signature(MartingaleMixtureUCB).parameters
    assert list(parameters)[:3] == ["model", "norm_bound", "noise_std"]
    acqf = MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0)
    again = pickle.loads(pickle.dumps(acqf))
    assert torch.equal(again(PROBLEM.test_X[:, None]), acqf(PROBLEM.test_X[:, None]))


def test_numpy_points():
    acqf, X = MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0), np.zeros((4, 1))
    for use in (acqf.bounds, acqf, acqf.majorant):
        with pytest.raises(InputDataError, match="X must be a torch tensor, got ndarray"):
            use(X)
    with pytest.raises(InputDataError, match="X_pending must be a torch tensor"):
        acqf.set_X_pending(X)


def test_a_list_of_models():
    models = ModelListGP(PROBLEM.model, OTHER.model)
    with pytest.raises(UnsupportedError, match=r"use ScalarizedUCB\.from_model"):
        MartingaleMixtureUCB(models, norm_bound=3.0)


@pytest.mark.parametrize("acqf_class", [MartingaleMixtureUCB, AbbasiYadkoriUCB])
def test_a_cautious_norm_bound_is_that_of_the_cautious_tracker(acqf_class):
    acqf = acqf_class(PROBLEM.model, norm_bound="cautious")
    tracked = acqf_class(PROBLEM.model, norm_bound=NormTracker.cautious())
    assert acqf.norm_bound == tracked.norm_bound
    assert acqf.norm_bound > acqf_class(PROBLEM.model).norm_bound
    assert acqf.assumptions.summary == "heuristic: norm estimated"


def test_other_words_for_a_norm_bound():
    with pytest.raises(ValueError, match=r"norm_bound must be a number, .* or None"):
        MartingaleMixtureUCB(PROBLEM.model, norm_bound="large")
    with pytest.raises(ValueError, match=r"norm_bound must be a number, .* or None"):
        StreamingKernelUCB(PROBLEM.model, norm_bound="large", noise_std=UnknownNoise(0.1))


def test_a_safe_set_on_estimates_needs_consent():
    band = MartingaleMixtureUCB(PROBLEM.model, norm_bound="cautious")
    with pytest.raises(UncertifiedError, match="heuristic: norm estimated") as refusal:
        SafeSet(band, 0.0)
    assert "norm: pass norm_bound" in str(refusal.value)
    allowed = SafeSet(band, 0.0, allow_estimated=True)
    assert str(allowed.assumptions).startswith("heuristic: norm of constraint 1 estimated")


def test_length_scales_that_do_not_fit_the_inputs():
    X = torch.rand(3, 1, dtype=torch.float64)
    for scales in ([0.1, 0.2], [0.1, 0.2, 0.3]):
        with pytest.raises(BotorchTensorDimensionError, match="inputs have 1 columns"):
            MartingaleMixtureUCB.from_model(
                SingleTaskGP(X, X.sin()), kernel="rbf", lengthscale=scales
            )


def test_numpy_data_and_domains():
    acqf, X = MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0), np.zeros((4, 1))
    box = [[0.0], [1.0]]
    safe_set = SafeSet(acqf, 0.0)
    for use in (
        lambda: KernelRegression(X, X[:, 0], PROBLEM.kernel, 0.1),
        lambda: regret_certificate(acqf, X),
        lambda: regret_certificate(acqf, bounds=box),
        lambda: safe_set.is_safe(X),
        lambda: SafeSet(acqf, 0.0, safe_points=X),
    ):
        with pytest.raises(InputDataError, match="must be a torch tensor"):
            use()


def test_what_is_no_constraint():
    bandit = BKBBandit(PROBLEM.X, PROBLEM.kernel, norm_bound=3.0, noise_std=0.1)
    for band in (bandit, KernelThompsonSampling(PROBLEM.model, norm_bound=3.0)):
        with pytest.raises(UnsupportedError, match="must be an instance of Band"):
            SafeSet(band, 0.0)


def test_a_bandit_that_comes_to_contradict_its_data():
    bandit = KernelBandit(PROBLEM.kernel, norm_bound=0.1, noise_std=0.1)
    bandit.observe(torch.zeros(1), 0.0)
    safe_set = SafeSet(bandit, -1.0)
    assert bool(safe_set.is_safe(PROBLEM.X).all())
    for x in (0.1, 0.5, 1.0):
        bandit.observe(torch.full((1,), x), 5.0)
    with pytest.warns(InconsistentConfidenceSetWarning):
        bandit.bounds(PROBLEM.X)
    with pytest.raises(UncertifiedError, match="norm violated"):
        safe_set.is_safe(PROBLEM.X)


def test_a_saved_bandit_beyond_its_horizon():
    longer, shorter = (
        KernelBandit(
            PROBLEM.kernel, norm_bound=3.0, noise_std=0.1, bound="igp_ucb", horizon=h
        )
        for h in (5, 2)
    )
    for x, y in zip(PROBLEM.X[:4], PROBLEM.Y[:4], strict=True):
        longer.observe(x, y)
    with pytest.raises(ValueError, match="horizon is 5 in the state"):
        shorter.load_state_dict(longer.state_dict())


def test_estimates_stay_estimates_when_they_are_passed_on():
    estimate = NormTracker().observe(PROBLEM.model)
    X, Y, noise = PROBLEM.X, PROBLEM.Y.unsqueeze(-1), {"noise_std": 0.1}
    budgeted = BKBModel(X, Y, PROBLEM.kernel, alpha=0.01, qbar=1e4)
    for taker in (
        MartingaleMixtureUCB(PROBLEM.model, norm_bound=estimate),
        BKBUCB(budgeted, norm_bound=estimate),
        KernelBandit(PROBLEM.kernel, norm_bound=estimate, **noise),
        BKBBandit(X, PROBLEM.kernel, norm_bound=estimate, qbar=1e4, **noise),
    ):
        assert taker.assumptions.summary == "heuristic: norm estimated"
    tracker = StreamingNoiseTracker(estimate, UnknownNoise(0.05), delta=0.03)
    again = StreamingNoiseTracker(float(estimate), UnknownNoise(0.05), delta=0.03)
    tracker.observe(PROBLEM.model)
    again.load_state_dict(tracker.state_dict())
    for each in (tracker, again):
        band = StreamingKernelUCB(
            PROBLEM.model, noise_std=UnknownNoise(0.05), tracker=each, delta=0.05
        )
        assert band.assumptions.estimated == ("norm",)
