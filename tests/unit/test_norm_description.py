r"""What a norm bound means in outcome units, and what the data say about it."""

import math

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.exceptions.errors import UnsupportedError
from botorch.models import SingleTaskGP, SingleTaskVariationalGP
from botorch.models.transforms import Standardize
from gpytorch.means import LinearMean
from hypothesis import given
from hypothesis import strategies as st

from kernelucb import (
    KernelRegression,
    check_consistency,
    describe_norm_bound,
    least_consistent_norm,
)
from problems import (
    frozen_kernel,
    frozen_model,
    make_problem,
    uniform,
)
from tolerances import LEAST_NORM, REARRANGED

NORM, SQUARE = 3.0, torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()


def state(kernel, n: int = 8, d: int = 2, noise_std: float = 0.1) -> KernelRegression:
    X = uniform(n, d, 3)
    return KernelRegression(X, torch.sin(4.0 * X.sum(-1)), kernel, noise_std)


def numbers(description) -> list[float]:
    r"""Everything in outcome units, the slopes along with the rest."""
    return [
        *(description.range, description.across, description.norm_bound),
        *(description.observed.largest, description.observed.noise_reach),
        description.consistency.least_consistent_norm,
        *(value for c in description.inputs for value in (c.over_step, c.over_side)),
        *(c.slope for c in description.inputs if c.slope is not None),
    ]


@given(st.sampled_from([1e-3, 0.37, 1e4]))
def test_units_of_the_outcomes(factor):
    r"""Outcomes and norm bound of a standardised model times ``s``: everything times it."""
    problem = make_problem(n=10, d=2, norm=NORM)
    described = []
    for s in (1.0, factor):
        transform = Standardize(m=1, min_stdv=1e-14)
        model = frozen_model(
            problem.X, s * problem.Y, problem.kernel, 0.2, outcome_transform=transform
        )
        described.append(describe_norm_bound(model, s * NORM, bounds=SQUARE))
    expected = [factor * value for value in numbers(described[0])]
    assert numbers(described[1]) == pytest.approx(expected, rel=LEAST_NORM)


def test_a_standardized_model_is_described_in_outcome_units():
    r"""The norm bound is in outcome units for the kernel as it stands: no factor but B."""
    problem = make_problem(n=10, d=2)
    model = frozen_model(
        problem.X,
        50.0 + 7.0 * problem.Y,
        problem.kernel,
        0.2,
        mean=0.3,
        outcome_transform=Standardize(m=1),
    )
    described = describe_norm_bound(model, NORM, bounds=SQUARE)
    assert described.range == pytest.approx(NORM, rel=REARRANGED)
    Y = 50.0 + 7.0 * problem.Y
    mean = float(Y.mean() + 0.3 * Y.std())
    assert described.prior_mean == pytest.approx(mean, rel=REARRANGED)
    largest = float((Y - mean).abs().max())
    assert described.observed.largest == pytest.approx(largest, rel=REARRANGED)
    assert described.estimated == ("mean",)


def test_the_least_norm_is_that_of_the_consistency_check():
    problem = make_problem(n=15, d=2, norm=5.0, seed=4)
    described = describe_norm_bound(problem.model, 8.0, 0.1, bounds=SQUARE, delta=0.1)
    check = check_consistency(problem.model, 8.0, 0.1, delta=0.1)
    assert described.consistency == check
    assert described.ratio == 8.0 / check.least_consistent_norm
    assert f"least consistent norm {check.least_consistent_norm:.4g}" in str(described)
    # Half of delta is the price of the second radius: never below that.
    least = least_consistent_norm(problem.model, 0.1, delta=0.05)
    assert check.least_consistent_norm >= least * (1.0 - REARRANGED)


def test_range_of_the_data_next_to_the_noise():
    Y = torch.tensor([0.3, -0.9, 0.2, 0.1], dtype=torch.float64)
    noise = torch.tensor([0.1, 0.1, 0.2, 0.1], dtype=torch.float64)
    regression = KernelRegression(uniform(4, 2, 1), Y, frozen_kernel("rbf"), noise)
    described = describe_norm_bound(regression, NORM, bounds=SQUARE, delta=0.2)
    assert described.observed.largest == pytest.approx(0.9, rel=REARRANGED)
    # 4 * 2 exp(-u^2 / 2) = 0.2
    expected = 0.2 * math.sqrt(2.0 * math.log(40.0))
    assert described.observed.noise_reach == pytest.approx(expected, rel=REARRANGED)


def test_a_trainable_model_is_heuristic():
    X = uniform(8, 2, 1)
    model = SingleTaskGP(X, torch.sin(X.sum(-1, keepdim=True)))
    described = describe_norm_bound(model, NORM, bounds=SQUARE)
    assert described.estimated == ("kernel", "mean", "noise")
    lines = str(described).splitlines()
    assert lines[0] == "heuristic: kernel, mean, noise estimated"
    assert "certified with" not in str(described)
    described = describe_norm_bound(model, NORM, 0.1, bounds=SQUARE)
    assert described.summary == "heuristic: kernel, mean estimated"


def test_a_given_model_says_what_is_left_to_justify():
    problem = make_problem(n=15, d=2, norm=5.0)
    text = str(describe_norm_bound(problem.state, 8.0, bounds=SQUARE))
    first, last = text.splitlines()[0], text.splitlines()[-1]
    assert first == "kernel, mean and noise given; the norm bound is yours to justify"
    assert "certified with probability 0.95 if kernel, mean and noise are as given" in text
    assert "No data can show that a norm bound is large enough" in last


def test_a_contradiction_comes_first():
    problem = make_problem(n=15, d=2, norm=5.0)
    described = describe_norm_bound(problem.state, 0.5, bounds=SQUARE)
    assert str(described).startswith("no guarantee: the data contradict")
    assert described.consistency.remedy in str(described)
    noisy = make_problem(n=40, d=2, duplicates=True, noise_std=1.0, seed=3)
    described = describe_norm_bound(noisy.model, 1e6, 0.02, bounds=SQUARE)
    assert "no norm is consistent with the data at this noise scale" in str(described)
    assert described.ratio == 0.0


def test_data_that_say_nothing():
    regression = KernelRegression(
        uniform(3, 2, 1), torch.zeros(3).double(), frozen_kernel("rbf"), 0.1
    )
    described = describe_norm_bound(regression, NORM, bounds=SQUARE)
    assert described.ratio == math.inf
    assert "say nothing about the norm yet" in str(described)


def test_a_mean_that_varies():
    mean = LinearMean(2).double()
    mean.weights.data = torch.tensor([[1.0], [2.0]]).double()
    X = uniform(8, 2, 1)
    regression = KernelRegression(X, X.sum(-1), frozen_kernel("rbf"), 0.1, mean)
    described = describe_norm_bound(regression, NORM, bounds=SQUARE)
    assert described.prior_mean is None
    assert "prior mean m(x), which varies" in str(described)
    assert "f - m changes by" in str(described)


def test_names_and_units_are_the_users():
    names = ["temperature (°C)", "time (h)"]
    regression = state(frozen_kernel("rbf"))
    described = describe_norm_bound(
        regression, NORM, bounds=SQUARE, input_names=names, outcome_unit="%"
    )
    assert f"What a norm of at most {NORM:.4g} means, in %:" in str(described)
    for name in names:
        assert f"{name}: at most " in str(described)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"norm_bound": 0.0}, ValueError, "norm_bound must be a finite number above 0"),
        ({"norm_bound": None}, ValueError, "norm_bound must be a number"),
        ({"delta": 1.0}, ValueError, "delta must lie strictly between"),
        ({"noise_std": -1.0}, ValueError, "noise_std"),
        ({"bounds": None}, ValueError, "either candidates or bounds"),
        ({"candidates": SQUARE}, ValueError, "either candidates or bounds"),
        ({"bounds": SQUARE.flip(0)}, ValueError, "lower limit in bounds must be below"),
        ({"bounds": SQUARE[:1]}, BotorchTensorDimensionError, "bounds must be `2 x 2`"),
        ({"bounds": SQUARE[:, :1]}, BotorchTensorDimensionError, "must be `2 x 2`"),
        ({"bounds": [[0, 0], [1, 1]]}, InputDataError, "must be a torch tensor"),
        ({"bounds": SQUARE * math.inf}, InputDataError, "bounds contains NaN or inf"),
        ({"steps": [0.1]}, BotorchTensorDimensionError, "steps must be 2 numbers"),
        ({"steps": [0.1, 0.0]}, ValueError, "finite number above 0"),
        ({"steps": [0.1, 1.5]}, ValueError, "longer than its side"),
        ({"input_names": ["x"]}, BotorchTensorDimensionError, "must be 2 names"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    regression = state(frozen_kernel("rbf"))
    given = {"norm_bound": NORM, "bounds": SQUARE, **arguments}
    with pytest.raises(error, match=message):
        describe_norm_bound(regression, **given)


def test_wrong_candidates():
    regression = state(frozen_kernel("rbf"))
    with pytest.raises(InputDataError, match="There are no candidates"):
        describe_norm_bound(regression, NORM, candidates=SQUARE[:0])
    flat = torch.tensor([[0.0, 1.0], [0.5, 1.0]]).double()
    with pytest.raises(InputDataError, match="same value in column 1"):
        describe_norm_bound(regression, NORM, candidates=flat)


def test_a_model_that_cannot_be_represented():
    X = uniform(6, 2, 1)
    model = SingleTaskVariationalGP(X, train_Y=None)
    with pytest.raises(UnsupportedError, match="not an exact"):
        describe_norm_bound(model, NORM, bounds=SQUARE)
