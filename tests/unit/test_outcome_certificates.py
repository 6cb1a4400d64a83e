r"""Certificates and reports on models of transformed outcomes are about outcomes."""

import math

import pytest
import torch
from botorch.models.transforms.outcome import Bilog, Log, Power
from torch.testing import assert_close

from kernelucb import MartingaleMixtureUCB, optimum_report, regret_certificate
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from problems import RKHSFunction, frozen_kernel, frozen_model, normal, uniform
from tolerances import SEARCHED

KERNEL, NOISE_STD, NORM = frozen_kernel("matern52", 0.4), 0.1, 2.0
FUNCTION = RKHSFunction.random(KERNEL, NORM, d=1, seed=3)
X, GRID = uniform(12, 1, seed=4), torch.linspace(0, 1, 41, dtype=torch.float64)[:, None]
BOX = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
# On the models' scale; above zero, where powers are.
SHIFT = 2.0 * NORM
LATENT = SHIFT + FUNCTION(X) + NOISE_STD * normal(len(X), seed=5)
CASES = {
    "log": (Log, torch.exp),
    "root": (lambda: Power(0.5), torch.square),
    "square": (lambda: Power(2.0), torch.sqrt),
    "bilog": (Bilog, torch.expm1),
}


def bound(name=None, **options):
    transform, Y = None, LATENT
    if name is not None:
        build, inverse = CASES[name]
        transform, Y = build(), inverse(LATENT)
    model = frozen_model(X, Y, KERNEL, NOISE_STD, mean=SHIFT, outcome_transform=transform)
    return MartingaleMixtureUCB(model, norm_bound=NORM, **options)


@pytest.fixture(params=CASES)
def name(request):
    return request.param


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize(
    "domain", [{"candidates": GRID}, {"bounds": BOX}], ids=["points", "box"]
)
def test_gaps_are_in_outcome_units(name, maximize, domain):
    acqf, other = bound(name, maximize=maximize), bound(maximize=maximize)
    own, latent = (regret_certificate(each, **domain) for each in (acqf, other))
    found = torch.stack([own.recommended, latent.recommended])
    promised = other.bounds(found)[0 if maximize else 1]
    assert_close(promised[0], promised[1], rtol=SEARCHED, atol=SEARCHED)
    best = own.recommended.unsqueeze(0)
    sign, outcome_map = acqf.direction, acqf.outcome_map
    sides = torch.cat(other.bounds(best))
    worst = (
        outcome_map.inverse(sides + sign * latent.gap) - outcome_map.inverse(sides)
    ).abs()
    assert math.isclose(own.gap, float(worst.max()), rel_tol=1e-6)
    # The true gap, of medians.
    truth = outcome_map.inverse(SHIFT + FUNCTION(GRID))
    there = outcome_map.inverse(SHIFT + FUNCTION(best))
    assert own.gap >= float((sign * (truth - there)).max())
    assert own.certified
    assert 0.0 <= own.resolution <= own.gap
    assert (own.resolution == 0.0) == (latent.resolution == 0.0)


def test_reports_are_in_outcome_units(name):
    acqf, outcome_map = bound(name), bound(name).outcome_map
    own, latent = (optimum_report(each, bounds=BOX) for each in (acqf, bound()))
    ends = outcome_map.inverse(torch.tensor([latent.lower, latent.upper]).double())
    assert_close(torch.tensor([own.lower, own.upper]).double(), ends, rtol=1e-6, atol=0.0)
    assert (
        own.lower <= float(outcome_map.inverse(SHIFT + FUNCTION(GRID)).max()) <= own.upper
    )
    assert math.isclose(own.share, latent.share)


def test_constraints_are_in_outcome_units(name):
    level = float(LATENT.median())
    threshold = float(bound(name).outcome_map.inverse(torch.tensor(level).double()))
    own = OutcomeConstraints(bound(name), threshold, sides="<=")
    other = OutcomeConstraints(bound(), level, sides="<=")
    for domain in ({"candidates": GRID}, {"bounds": BOX}):
        one, two = (
            regret_certificate(bound(), **domain, constraints=each) for each in (own, other)
        )
        assert math.isclose(one.gap, two.gap, rel_tol=1e-6)
