r"""What Ax experiments may estimate, and who must agree before it is acted on."""

import pytest
import torch
from ax.api.client import Client
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax_bench import (
    AX_WARNINGS,
    NOISE_STD,
    NORM,
    REQUIRED,
    UNIT,
    curve,
    fixed_client,
    make_client,
    next_trial,
    node,
    run,
)
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import (
    MartingaleMixtureUCB,
    MetaPI,
    MetaUCB,
    NormTracker,
    ScalarizedUCB,
    SrinivasUCB,
    UnknownNoise,
)
from kernelucb._numerics.estimates import EstimatedNumber, estimated
from kernelucb.acquisition import BOUNDS, BoundedNorm
from kernelucb.exceptions import UncertifiedError
from kernelucb.models import DiscreteMetaModel
from tolerances import LINEAR_SOLVE

pytestmark = [pytest.mark.slow, *AX_WARNINGS]

FIXED = (
    "kernel=... and lengthscale=... in the options, which fix kernel and mean of the bound "
    "(or the bound KernelFamilyUCB, which needs only a range of length scales)"
)
NUMBER = "norm_bound=... in the options"
GAIN = "theorem=BoundedNorm(information_gain=...) in the options"
CAUTIOUS = {"norm_bound": "cautious"}


def stopping(client, gap=100.0, **arguments):
    return kernelucb.ax.CertifiedGapStoppingStrategy(gap, client, **arguments)


def fitted_client(**options):
    return make_client(UNIT, options={"norm_bound": 4.0, "noise_std": 0.1} | options)


def sum_client(norm_bound):
    options = {"norm_bound": norm_bound, "noise_std": 0.1}
    return make_client(UNIT, "y + z", ScalarizedUCB, options)


def theorem_3_client():
    options = {"theorem": BoundedNorm(NORM)}
    return fixed_client(acqf_class=SrinivasUCB, options=options)


def meta_client(acqf_class):
    tasks = torch.eye(5, dtype=torch.float64).repeat(12, 1)
    candidates = torch.linspace(0.0, 1.0, 5, dtype=torch.float64).unsqueeze(-1)
    config = kernelucb.ax.meta_model_config(DiscreteMetaModel(tasks, candidates))
    return make_client(UNIT, acqf_class=acqf_class, options={}, model_config=config)


class OwnGP(SingleTaskGP):
    r"""A model of which nobody knows in advance whether Ax fits it."""


class TestConsent:
    @pytest.mark.parametrize(
        ("make", "estimates", "ways"),
        [
            (fitted_client, "kernel, mean", FIXED),
            (
                lambda: fitted_client(**CAUTIOUS),
                "kernel, mean, norm",
                f"{FIXED}, and {NUMBER}",
            ),
            (lambda: fixed_client(options={}), "norm", NUMBER),
            (lambda: fixed_client(options=CAUTIOUS), "norm", NUMBER),
            (theorem_3_client, "information gain", GAIN),
            (
                lambda: sum_client([2.0, None]),
                "kernel, mean, norm",
                f"{FIXED}, and {NUMBER}",
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
        client = meta_client(acqf_class)
        client.complete_trial(client.attach_trial({"x": 0.25}), raw_data={"y": 0.5})
        with pytest.raises(UncertifiedError, match=r"\(inputs\).* known: pass allow_est"):
            stopping(client).decide()

    def test_after_reload(self, tmp_path):
        path = str(tmp_path / "bench.json")
        fixed_client(options=CAUTIOUS).save_to_json_file(path)
        reopened = Client.load_from_json_file(path)
        with pytest.raises(UncertifiedError, match=r"estimates \(norm\)"):
            stopping(reopened)

    def test_with_consent_it_stops_and_says_what_was_estimated(self):
        client = run(fitted_client(), 5, curve)
        decision = stopping(client, allow_estimated=True).decide()
        assert decision.stop
        assert ": heuristic: kernel, mean estimated: at most" in decision.reason
        assert not decision.certificate.certified

    @pytest.mark.filterwarnings("ignore::botorch.exceptions.BotorchWarning")
    def test_consent_is_not_for_what_the_data_contradict(self):
        client = run(fitted_client(norm_bound=1e-3), 4, curve)
        decision = stopping(client, 1e6, allow_estimated=True).decide()
        assert not decision.stop
        assert "no guarantee: norm violated" in decision.reason

    def test_standard_errors_are_a_noise_that_is_given(self):
        client = fixed_client(options={"norm_bound": NORM, "noise_std": None})
        rule = stopping(client)
        run(client, 4, lambda p: {"y": (curve(p)["y"], NOISE_STD)})
        decision = rule.decide()
        assert decision.stop
        assert decision.certificate.certified

    def test_what_only_a_fitted_model_shows_is_refused_then(self):
        config = ModelConfig(
            botorch_model_class=OwnGP, outcome_transform_classes=[Standardize], name="own"
        )
        options = {"norm_bound": 4.0, "noise_std": 0.1}
        client = make_client(UNIT, options=options, model_config=config)
        rule = stopping(client)
        run(client, 3, curve)
        with pytest.raises(UncertifiedError, match=r"estimates \(kernel, mean\)"):
            rule.decide()
        with pytest.raises(UncertifiedError, match=r"estimates \(kernel, mean\)"):
            rule.should_stop_optimization(client._experiment)


class TestCautious:
    @pytest.mark.parametrize("acqf_class", BOUNDS)
    def test_every_bound_estimates_the_norm_anew(self, acqf_class, tmp_path):
        def options_with(norm_bound):
            if acqf_class is SrinivasUCB:
                return {"theorem": BoundedNorm(norm_bound), "noise_std": 1.0}
            return REQUIRED[acqf_class] | {"norm_bound": norm_bound}

        options = options_with("cautious")
        client = make_client(UNIT, acqf_class=acqf_class, options=options)
        run(client, 4, curve)
        assert node(client) == acqf_class.__name__
        path = str(tmp_path / "bench.json")
        client.save_to_json_file(path)
        X = torch.linspace(0.0, 1.0, 5, dtype=torch.float64).unsqueeze(-1)
        for each in (client, Client.load_from_json_file(path)):
            next_trial(each)
            acqf = kernelucb.ax.last_bound(each)
            assert acqf.assumptions["norm"].status == "estimated"
            given = options_with(NormTracker.cautious())
            expected = acqf_class(acqf.model, **given)
            for actual, wanted in zip(acqf.bounds(X), expected.bounds(X), strict=True):
                assert_close(actual, wanted, rtol=LINEAR_SOLVE, atol=LINEAR_SOLVE)

    def test_it_is_more_than_the_estimate_of_a_search(self):
        norms = []
        for options in ({}, CAUTIOUS):
            client = run(fixed_client(options=options), 2, curve)
            norms.append(kernelucb.ax.current_bound(client).norm_bound)
        assert norms[1] > norms[0]

    def test_for_one_outcome_of_a_sum(self):
        client = sum_client([4.0, "cautious"])
        run(client, 3, lambda p: curve(p) | {"z": p["x"]})
        assumptions = kernelucb.ax.current_bound(client).assumptions
        assert assumptions["output 1: norm"].status == "given"
        assert assumptions["output 2: norm"].status == "estimated"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("norm_bound", {"norm_bound": EstimatedNumber(3.0)}),
        ("norm_bound", {"norm_bound": 1.2 * EstimatedNumber(3.0)}),
        ("y", {"norm_bound": {"y": EstimatedNumber(3.0)}}),
        ("norm_bound", {"norm_bound": 2 * estimated(torch.ones(1).double())}),
        ("noise_std", {"noise_std": 2 * estimated(torch.ones(1).double()).max()}),
        ("upper", {"noise_std": UnknownNoise(0.01, EstimatedNumber(1.0))}),
        ("outputscale", {"kernel": "rbf", "outputscale": EstimatedNumber(1.0)}),
        ("lengthscale", {"kernel": "rbf", "lengthscale": [0.3, EstimatedNumber(0.3)]}),
    ],
)
def test_an_estimate_is_no_option(name, options):
    r"""Stored as a plain number it would come back as given."""
    with pytest.raises(ValueError, match=f"{name} is an estimate"):
        kernelucb.ax.generation_strategy(
            MartingaleMixtureUCB, options={"norm_bound": 9.0} | options
        )
