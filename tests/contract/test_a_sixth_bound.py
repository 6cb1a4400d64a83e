r"""A bound as a stranger writes it: one class in one file, and the contract holds.

``docs/architecture.md`` counts its lines.
"""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from bands import NORM, TRUTH
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from scipy.stats import binom

from kernelucb.acquisition.bounds import RegressionUCB
from kernelucb.acquisition.ucb import register_input_constructor
from kernelucb.confidence.assumptions import rkhs_assumptions
from kernelucb.confidence.band import Band, rebuildable
from kernelucb.confidence.norm import norm_bound_under_prior
from kernelucb.confidence.ridge import fixed_ridge_band
from kernelucb.data import KernelRegression
from kernelucb.papers.wang_de_freitas import FIXED_DESIGN
from kernelucb.testing import band_checks
from problems import normal, uniform

# --- from here ---


@rebuildable()
def fixed_design(model, norm_bound=None, noise_std=None, delta=0.05):
    regression = KernelRegression.of(model, noise_std)
    norm = norm_bound_under_prior(norm_bound, regression, delta)
    source = "sub-Gaussian tails at fixed inputs"
    assumptions = rkhs_assumptions(
        source, regression, delta, norm.assumption, anytime=False
    )
    assumptions = replace(assumptions.with_extra(FIXED_DESIGN), all_points=False)
    width = norm.value + math.sqrt(2.0 * math.log(2.0 / delta))
    return Band(fixed_ridge_band(regression, 1.0, width, assumptions), data=regression)


@register_input_constructor
class FixedDesignUCB(RegressionUCB):
    r"""``mean +- (B + sqrt(2 ln(2/delta))) sd`` at one point and in one round.

    Source: sub-Gaussian tails of the estimate's noise, whose variance is at most that of
    the posterior. Assumes inputs that were fixed before any outcome was seen.
    """

    def __init__(
        self,
        model,
        *,
        norm_bound=None,
        noise_std=None,
        delta=0.05,
        maximize=True,
        posterior_transform=None,
        X_pending=None,
    ):
        band = fixed_design(model, norm_bound, noise_std, delta)
        super().__init__(band, maximize, posterior_transform, X_pending, model)


# --- to here ---

BUILD = partial(FixedDesignUCB, norm_bound=NORM)
LAWS = dict(band_checks(BUILD, TRUTH, skip={"contradiction": "a ball around an estimate"}))


@pytest.mark.parametrize("law", LAWS)
def test_law(law):
    LAWS[law]()


def test_botorch_and_other_numbers():
    X = uniform(9, 2, seed=1)
    model = TRUTH.model_of(X, TRUTH.outcomes(X, torch.Generator().manual_seed(0)))
    arguments = get_acqf_input_constructor(FixedDesignUCB)(model, norm_bound=NORM)
    band = FixedDesignUCB(**arguments)
    wider = band.band.at(norm_bound=2.0 * NORM)
    assert band.assumptions.certified
    low, high = (torch.stack(each.bounds(X)).diff(dim=0) for each in (band, wider))
    assert bool((high > low).all())


@pytest.mark.slow
def test_coverage_at_one_point():
    r"""300 designs: a limit of false alarm 1e-4, which an eighth of the width exceeds."""
    X, point = uniform(8, 2, seed=3), uniform(1, 2, seed=4)
    noise, missed = TRUTH.noise_std * normal(300 * 8, seed=5).reshape(300, 8), [0, 0]
    for each in noise:
        model = KernelRegression(X, TRUTH.function(X) + each, TRUTH.kernel, TRUTH.noise_std)
        lower, upper = BUILD(model).bounds(point)
        off = abs(float(TRUTH.function(point) - 0.5 * (lower + upper)))
        for i, share in enumerate((0.5, 0.0625)):
            missed[i] += off > share * float(upper - lower)
    limit = binom.isf(1e-4, len(noise), 0.05)
    assert missed[0] <= limit < missed[1]
