r"""Priors in Ax: given, a family, of earlier tasks or fitted; who agrees to estimates."""

import pytest
import torch
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax_bench import (
    AX_WARNINGS,
    NORM,
    REQUIRED,
    SEARCH,
    SPREAD,
    UNIT,
    along,
    arms_model,
    attached,
    built,
    choice,
    curve,
    fixed_client,
    make_client,
    next_trial,
    node,
    points,
    reopened,
    run,
    stopping,
    wave,
    waves,
)
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Standardize
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import (
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    MetaPI,
    MetaUCB,
    NearNormBall,
    NormTracker,
    ScalarizedUCB,
    SrinivasUCB,
    lengthscale_family,
)
from kernelucb.acquisition import BOUNDS, BoundedNorm
from kernelucb.exceptions import UncertifiedError
from kernelucb.models import CosineFeatures, FeatureMetaModel
from problems import frozen_kernel
from tolerances import LINEAR_SOLVE

pytestmark = AX_WARNINGS

QUERIES = torch.tensor([[0.0, 5.0], [9.0, 2.0], [-4.0, 14.0]], dtype=torch.float64)
LOW = torch.tensor([-5.0, 0.0], dtype=torch.float64)
SOME = along(0.1, 0.4, 0.8)


class TestGivenPriors:
    def test_the_bound_is_that_of_the_prior_on_the_trials(self):
        options = {"kernel": "matern32", "lengthscale": [0.3, 0.6], "outputscale": 400.0}
        options |= {"mean": 4900.0, "noise_std": 2.0, "norm_bound": 30.0}
        client = attached(make_client(options=options), SPREAD, waves)
        acqf = kernelucb.ax.current_bound(client)
        unit = 15.0 * torch.tensor([0.3, 0.6], dtype=torch.float64)
        kernel = frozen_kernel("matern32", 1.0, outputscale=400.0)
        Y = torch.tensor([wave(p) for p in SPREAD], dtype=torch.float64) - 4900.0
        state = KernelRegression((points(*SPREAD) - LOW) / unit, Y, kernel, 2.0)
        expected = MartingaleMixtureUCB(state, norm_bound=30.0)
        for actual, wanted in zip(
            acqf.bounds(QUERIES), expected.bounds((QUERIES - LOW) / unit), strict=True
        ):
            assert_close(actual, wanted + 4900.0, rtol=LINEAR_SOLVE, atol=1e-6)
        assert acqf.assumptions.certified

    def test_the_bound_is_that_of_the_family_whatever_ax_fits(self):
        options = {"shortest": [0.2, 0.3], "longest": 0.9, "kernel": ["rbf", "matern32"]}
        options |= {"outputscale": 400.0, "mean": 4900.0}
        given = {"norm_bound": 30.0, "noise_std": 2.0, "delta": 0.1}
        client = make_client(acqf_class=KernelFamilyUCB, options=options | given)
        acqf = kernelucb.ax.current_bound(attached(client, SPREAD, waves))
        Y = torch.tensor([wave(p) for p in SPREAD], dtype=torch.float64) - 4900.0
        bases = [ScaleKernel(base).double() for base in (RBFKernel(), MaternKernel(1.5))]
        for base in bases:
            base.outputscale = torch.tensor(400.0, dtype=torch.float64)
            base.requires_grad_(False)
        kernels = lengthscale_family(bases, [0.2, 0.3], 0.9)
        X = (points(*SPREAD) - LOW) / 15.0
        state = KernelRegression(X, Y, frozen_kernel("rbf"), 2.0)
        expected = KernelFamilyUCB(state, kernels, **given)
        for actual, wanted in zip(
            acqf.bounds(QUERIES), expected.bounds((QUERIES - LOW) / 15.0), strict=True
        ):
            assert_close(actual, wanted + 4900.0, rtol=LINEAR_SOLVE, atol=1e-6)
        assert acqf.consistent == expected.consistent
        assert acqf.assumptions.certified
        # Ax has fitted its model, which standardises the outcomes.
        assert any(p.requires_grad for p in acqf.model.covar_module.parameters())
        assert float(acqf.model.outcome_transform.stdvs) > 1.0

    def test_a_search_is_on_the_model_that_ax_fits(self):
        client = attached(fixed_client(search=SEARCH), SOME, curve)
        next_trial(client)
        acqf = built(client).acqf
        assert type(acqf.acqf.model) is SingleTaskGP
        assert any(each.requires_grad for each in acqf.acqf.model.parameters())
        kernel = acqf.band.regression.prior.covar_module
        assert not any(each.requires_grad for each in kernel.parameters())
        assert float(kernel.base_kernel.lengthscale) == pytest.approx(0.4)
        assert acqf.band.assumptions.certified

    def test_a_model_error_is_an_option(self):
        client = fixed_client(options={"norm_bound": NearNormBall(2.0, 0.1)})
        acqf = kernelucb.ax.current_bound(attached(client, along(0.1, 0.5), curve))
        assert acqf.model_error == 0.1
        assert acqf.assumptions.certified
        assert "within 0.1 of a function g" in acqf.assumptions["norm"].statement


ARMS = torch.arange(8, dtype=torch.float64).unsqueeze(-1)
ARM = choice("arm", range(8), is_ordered=True)
FEATURES = CosineFeatures(torch.tensor([[0.0, 3.0, 6.0]]), torch.tensor([0.0, 0.5, 1.0]))


def feature_model():
    X = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)
    weights = torch.randn(60, 3, dtype=torch.float64)
    return FeatureMetaModel(X, weights @ FEATURES.double()(X).detach().mT, FEATURES)


def arms_client(acqf_class=MetaUCB, options=None, **arguments):
    own = {"model_config": kernelucb.ax.meta_model_config(arms_model(8)), "num_initial": 1}
    own |= {"optimizer_options": {}} | arguments
    return make_client([ARM], acqf_class=acqf_class, options=options or {}, **own)


def reward(parameters):
    return {"y": bump(parameters["arm"])}


def bump(arm):
    return float(torch.exp(-((torch.tensor(float(arm)) - 6.0) ** 2) / 4.0))


class TestEarlierTasks:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("acqf_class", "search"),
        [(MetaUCB, None), (MetaPI, None), (MetaUCB, SEARCH)],
    )
    def test_finds_the_best_arm(self, acqf_class, search):
        client = run(arms_client(acqf_class, search=search), 5, reward)
        best, *_ = client.get_best_parameterization(use_model_predictions=False)
        assert best["arm"] == 6
        acqf = kernelucb.ax.last_bound(client)
        assert type(acqf) is acqf_class
        assert acqf.model.num_evaluations == 4
        pending = client.get_next_trials(max_trials=2).values()
        assert len({parameters["arm"] for parameters in pending}) == 2

    def test_the_bound_is_that_of_the_model_on_the_trials(self):
        arms = along(1, 4, 6, name="arm")
        client = attached(arms_client(options={"delta": 0.1}), arms, reward)
        X = points(*arms, names=["arm"])
        Y = torch.tensor([[reward(arm)["y"]] for arm in arms], dtype=torch.float64)
        model = arms_model(8).condition_on_observations(X, Y)
        expected = MetaUCB(model, delta=0.1).bounds(ARMS)
        actual = kernelucb.ax.current_bound(client).bounds(ARMS)
        for left, right in zip(actual, expected, strict=True):
            assert_close(left, right)

    def test_a_continuous_prior_is_stored_and_goes_on(self):
        own = {"model_config": kernelucb.ax.meta_model_config(feature_model())}
        client = make_client(UNIT, acqf_class=MetaUCB, options={}, **own)
        twin = reopened(attached(client, SOME, lambda p: {"y": p["x"]}))
        X = torch.tensor([[0.2], [0.9]], dtype=torch.float64)
        bounds = [kernelucb.ax.current_bound(each).bounds(X) for each in (client, twin)]
        assert_close(*bounds)
        next_trial(twin)
        assert type(kernelucb.ax.last_bound(twin)) is MetaUCB


KERNEL = (
    "kernel=... and lengthscale=... in the options, which fix kernel and mean of the bound "
    "(or the bound KernelFamilyUCB, which needs only a range of length scales)"
)
NUMBER = "norm_bound=... in the options"
GAIN = "theorem=BoundedNorm(information_gain=...) in the options"
CAUTIOUS = {"norm_bound": "cautious"}


def fitted_client(**options):
    return make_client(UNIT, options={"norm_bound": 4.0, "noise_std": 0.1} | options)


def sum_client(norm_bound):
    options = {"norm_bound": norm_bound, "noise_std": 0.1}
    return make_client(UNIT, "y + z", ScalarizedUCB, options)


class OwnGP(SingleTaskGP):
    r"""A model of which nobody knows in advance whether Ax fits it."""


class TestConsent:
    @pytest.mark.parametrize(
        ("make", "estimates", "ways"),
        [
            (
                lambda: fitted_client(**CAUTIOUS),
                "kernel, mean, norm",
                f"{KERNEL}, and {NUMBER}",
            ),
            (lambda: fixed_client(options={}), "norm", NUMBER),
            (lambda: reopened(fixed_client(options=CAUTIOUS)), "norm", NUMBER),
            (
                lambda: fixed_client(
                    acqf_class=SrinivasUCB, options={"theorem": BoundedNorm(NORM)}
                ),
                "information gain",
                GAIN,
            ),
            (
                lambda: sum_client([2.0, None]),
                "kernel, mean, norm",
                f"{KERNEL}, and {NUMBER}",
            ),
        ],
    )
    def test_estimates_are_refused_before_the_first_trial(self, make, estimates, ways):
        client = make()
        with pytest.raises(UncertifiedError) as caught:
            stopping(client)
        message = str(caught.value)
        assert f"rests on estimates ({estimates}), so its" in message
        assert f"give generation_strategy {ways}, or pass allow_estimated=True" in message
        stopping(client, allow_estimated=True)

    @pytest.mark.parametrize("acqf_class", [MetaUCB, MetaPI])
    def test_estimated_priors(self, acqf_class):
        client = attached(arms_client(acqf_class), along(3, name="arm"), reward)
        with pytest.raises(UncertifiedError, match=r"\(inputs\).* known: pass allow_est"):
            stopping(client).decide()

    @pytest.mark.filterwarnings("ignore::botorch.exceptions.BotorchWarning")
    @pytest.mark.parametrize(
        ("norm_bound", "stop", "words"),
        [
            (4.0, True, ": heuristic: kernel, mean estimated: at most"),
            (1e-3, False, "no guarantee: norm violated"),
        ],
    )
    def test_consent_is_not_for_what_the_data_contradict(self, norm_bound, stop, words):
        client = attached(fitted_client(norm_bound=norm_bound), SOME, curve)
        decision = stopping(client, 1e6, allow_estimated=True).decide()
        assert decision.stop is stop
        assert words in decision.reason
        assert not decision.certificate.certified

    def test_what_only_a_fitted_model_shows_is_refused_then(self):
        config = ModelConfig(
            botorch_model_class=OwnGP, outcome_transform_classes=[Standardize], name="own"
        )
        options = {"norm_bound": 4.0, "noise_std": 0.1}
        client = make_client(UNIT, options=options, model_config=config)
        noiseless = fixed_client(options={"norm_bound": NORM, "noise_std": None})
        for each, estimates in ((client, "kernel, mean"), (noiseless, "noise")):
            rule = stopping(each, 100.0)
            attached(each, SOME, curve)
            with pytest.raises(UncertifiedError, match=rf"estimates \({estimates}\)"):
                rule.decide()
            with pytest.raises(UncertifiedError, match=rf"estimates \({estimates}\)"):
                rule.should_stop_optimization(each._experiment)


class TestCautious:
    @pytest.mark.slow
    @pytest.mark.parametrize("acqf_class", BOUNDS)
    def test_every_bound_estimates_the_norm_anew(self, acqf_class):
        def options_with(norm_bound):
            if acqf_class is SrinivasUCB:
                return {"theorem": BoundedNorm(norm_bound), "noise_std": 1.0}
            return REQUIRED[acqf_class] | {"norm_bound": norm_bound}

        options = options_with("cautious")
        client = make_client(UNIT, acqf_class=acqf_class, options=options)
        attached(client, along(0.1, 0.3, 0.6, 0.9), curve)
        X = torch.linspace(0.0, 1.0, 5, dtype=torch.float64).unsqueeze(-1)
        for each in (client, reopened(client)):
            next_trial(each)
            assert node(each) == acqf_class.__name__
            acqf = kernelucb.ax.last_bound(each)
            assert acqf.assumptions["norm"].status == "estimated"
            given = options_with(NormTracker.cautious())
            expected = acqf_class(acqf.model, **given)
            for actual, wanted in zip(acqf.bounds(X), expected.bounds(X), strict=True):
                assert_close(actual, wanted, rtol=LINEAR_SOLVE, atol=LINEAR_SOLVE)

    def test_it_is_more_than_the_estimate_of_a_search(self):
        clients = [fixed_client(options=options) for options in ({}, CAUTIOUS)]
        search, cautious = (
            kernelucb.ax.current_bound(attached(each, along(0.1, 0.7), curve)).norm_bound
            for each in clients
        )
        assert cautious > search

    def test_for_one_outcome_of_a_sum(self):
        client = sum_client([4.0, "cautious"])
        attached(client, SOME, lambda p: curve(p) | {"z": p["x"]})
        assumptions = kernelucb.ax.current_bound(client).assumptions
        assert assumptions["output 1: norm"].status == "given"
        assert assumptions["output 2: norm"].status == "estimated"
