r"""The exact band against 60-digit arithmetic, where double precision is strained."""

import itertools

import pytest
import torch

from kernelucb import KernelRegression, MartingaleMixtureUCB
from kernelucb.data.exact import FilteredRegression
from oracles.high_precision import exact_bands
from problems import RKHSFunction, frozen_kernel, normal, uniform
from tolerances import HIGH_PRECISION

TRUE_NORM, DELTA = 3.0, 0.05


STRAINED = ["duplicates", "near-duplicates, 1e-6", "a dense line"]


def make_inputs(name: str) -> torch.Tensor:
    points, jitter = uniform(4, 2, 7), normal(8, 8).reshape(4, 2)
    line = torch.linspace(0.0, 0.2, 12, dtype=torch.float64)
    return {
        "single observation": points[:1],
        "duplicates": torch.cat([points, points[:3], points[:1]]),
        "near-duplicates, 1e-9": torch.cat([points, points + 1e-9 * jitter]),
        "near-duplicates, 1e-6": torch.cat([points, points + 1e-6 * jitter]),
        "a dense line": torch.stack([line, torch.zeros_like(line)], dim=-1),
    }[name]


def relative_error(
    design,
    kernel_name,
    lengthscale,
    noise_std,
    outcome_scale=1.0,
    inflation=1.3,
    fit="martingale",
):
    r"""Largest error of a bound, relative to the larger of the two, over query points.

    The queries are a point far from the data, one at an input and one beside it.
    """
    kernel, X = frozen_kernel(kernel_name, lengthscale), make_inputs(design)
    function = RKHSFunction.random(kernel, TRUE_NORM, 2, seed=7, terms=4)
    Y = outcome_scale * (function(X) + noise_std * normal(len(X), 9))
    given = {"norm_bound": inflation * TRUE_NORM * outcome_scale, "delta": DELTA}
    arguments = given | {"covariance_scale": outcome_scale**2}
    scale = noise_std * outcome_scale
    state = KernelRegression(X, Y, kernel, scale)
    acqf = MartingaleMixtureUCB(state, fit=fit, covariance_scale=outcome_scale**2, **given)
    counted = acqf.band.confidence_set.regression
    if fit == "filters":
        assert isinstance(counted, FilteredRegression)
        squared = acqf.band.function_constraints.radius.squared(counted)
        arguments["filtered"] = (counted.spectral_filter, squared)
    else:
        hidden = state.hidden_part(arguments["norm_bound"])
        arguments["hidden"] = hidden if hidden > 0.01 else 0.0
    queries = torch.stack([X.new_tensor([0.9, 0.9]), X[0], X[0] + 1e-5])
    errors = []
    exact = exact_bands(
        kernel_name, float(kernel.lengthscale), X, Y, queries, scale, **arguments
    )
    for (low, high), lower, upper in zip(exact, *acqf.bounds(queries), strict=True):
        error = max(abs(float(lower) - low), abs(float(upper) - high))
        errors.append(error / max(abs(low), abs(high)))
    return max(errors)


DESIGNS = ["single observation", "near-duplicates, 1e-9", *STRAINED]
CASES = [
    *itertools.product(DESIGNS, ("rbf", "matern52"), (0.3, 2.0), (1e-4, 1e-2, 5.0)),
    *itertools.product(["duplicates"], ["rbf"], [0.3], (1e-4, 5.0), (1e-6, 1e7)),
    *itertools.product(STRAINED, ["rbf"], [2.0], [1e-2], [1.0], [10.0]),  # a loose norm
    *itertools.product(
        *(STRAINED, ["rbf"], [2.0], (1e-3, 1e-2, 5.0), [1.0], [1.3], ["filters"])
    ),
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_band_is_right_to_the_digits_that_are_left(case):
    assert relative_error(*case) <= HIGH_PRECISION


def test_the_designs_are_ill_conditioned():
    X = make_inputs("a dense line")
    eigenvalues = torch.linalg.eigvalsh(frozen_kernel("rbf", 2.0)(X).to_dense())
    assert float(eigenvalues[-1] / eigenvalues[0].abs()) > 1e16
