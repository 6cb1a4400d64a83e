r"""What a norm bound means for successes and counts."""

import math

import pytest
import torch
from botorch.exceptions import UnsupportedError
from gpytorch.means import ConstantMean, LinearMean

from kernelucb import (
    KernelRegression,
    LikelihoodRegression,
    LikelihoodUCB,
    check_consistency,
    describe_norm_bound,
)
from problems import frozen_kernel
from tolerances import LEAST_NORM, REARRANGED

NORM, LENGTH = 1.5, 0.5
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
X = torch.tensor([[0.1, 0.2], [0.5, 0.5], [0.1, 0.2], [0.9, 0.4]], dtype=torch.float64)
SURVIVED = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
DEFECTS = torch.tensor([3.0, 0.0, 4.0, 1.0], dtype=torch.float64)
LENGTHS = torch.tensor([2.0, 0.5, 3.0, 4.0], dtype=torch.float64)


def constant(value):
    mean = ConstantMean().double().requires_grad_(False)
    mean.constant.fill_(value)
    return mean


def successes(mean=None, outputscale=4.0):
    kernel = frozen_kernel("rbf", LENGTH, outputscale)
    return LikelihoodRegression(X, SURVIVED, kernel, mean_module=mean)


def counts(mean=None):
    kernel = frozen_kernel("rbf", LENGTH)
    given = {"likelihood": "poisson", "exposure": LENGTHS, "mean_module": mean}
    return LikelihoodRegression(X, DEFECTS, kernel, **given)


def test_values_for_successes():
    described = describe_norm_bound(successes(constant(0.5)), NORM, bounds=SQUARE)
    reach = 2.0 * NORM  # the kernel's standard deviation is 2
    assert described.range == pytest.approx(reach, rel=REARRANGED)
    across = reach * math.sqrt(2.0 - 2.0 * math.exp(-0.5 * 2.0 / LENGTH**2))
    assert described.across == pytest.approx(across, rel=REARRANGED)
    for change in described.inputs:
        over_side = reach * math.sqrt(2.0 - 2.0 * math.exp(-0.5 / LENGTH**2))
        assert change.over_side == pytest.approx(over_side, rel=REARRANGED)
        # A margin of 1e-6 is added to slopes.
        assert change.slope == pytest.approx(reach / LENGTH, rel=2.0 * LEAST_NORM)
    assert described.prior_mean == 0.5
    ends = [1.0 / (1.0 + math.exp(-end)) for end in (0.5 - reach, 0.5 + reach)]
    assert described.outcome_range == pytest.approx(ends, rel=REARRANGED)


def test_values_for_counts():
    described = describe_norm_bound(counts(constant(-1.0)), NORM, bounds=SQUARE)
    assert described.range == pytest.approx(NORM, rel=REARRANGED)
    ends = [math.exp(-1.0 - NORM), math.exp(-1.0 + NORM)]
    assert described.outcome_range == pytest.approx(ends, rel=REARRANGED)


def test_the_function_is_described_as_for_noisy_outcomes_under_its_prior():
    described = describe_norm_bound(counts(), NORM, candidates=X)
    kernel = frozen_kernel("rbf", LENGTH)
    noisy = KernelRegression(X, DEFECTS, kernel, noise_std=0.1)
    other = describe_norm_bound(noisy, NORM, candidates=X)
    assert described.inputs == other.inputs
    assert (described.range, described.across) == (other.range, other.across)


def test_outcomes_at_one_input_are_added_up():
    described = describe_norm_bound(counts(), NORM, bounds=SQUARE)
    assert described.observed.total == (8.0, 9.5)
    assert (described.observed.lowest, described.observed.highest) == (
        (0.0, 0.5),
        (7.0, 5.0),
    )
    assert described.observed.highest.rate == 1.4
    # Twice 1 of 1 at the one input says more than once at the other.
    described = describe_norm_bound(successes(), NORM, bounds=SQUARE)
    assert described.observed.total == (3.0, 4.0)
    assert (described.observed.lowest, described.observed.highest) == (
        (0.0, 1.0),
        (2.0, 2.0),
    )


@pytest.mark.parametrize("data", [successes(), counts()])
def test_the_least_norm_is_that_of_the_consistency_check(data):
    described = describe_norm_bound(data, NORM, bounds=SQUARE, delta=0.1)
    assert described.consistency == check_consistency(data, NORM, delta=0.1)


def test_words_for_successes():
    described = describe_norm_bound(successes(outputscale=1.0), 2.0, bounds=SQUARE)
    lines = [line.strip() for line in str(described).splitlines()]
    assert lines[:4] == [
        "kernel, mean and likelihood given; the norm bound is yours to justify",
        "What a norm of at most 2 means for f, the log odds:",
        "f(x) is within 2 of the prior mean 0: between -2 and 2",
        "so the probability of a success is between 0.1192 and 0.8808",
    ]
    assert "adding c to f multiplies the odds p / (1 - p) by exp(c)" in lines
    assert ("3 of 4 trials succeeded (0.75); input by input from 0 of 1 to 2 of 2") in lines
    assert "noise" not in str(described)


def test_words_for_counts():
    name = "number of pores per metre"
    described = describe_norm_bound(counts(), 1.0, bounds=SQUARE, outcome_unit=name)
    lines = [line.strip() for line in str(described).splitlines()]
    assert lines[1] == "What a norm of at most 1 means for f, the log rate:"
    assert lines[3] == f"so the {name} is between 0.3679 and 2.718"
    assert "adding c to f multiplies the rate by exp(c)" in lines
    observed = (
        "8 counted in an exposure of 9.5 (0.842); input by input from 0 in 0.5 to 7 in 5"
    )
    assert observed in lines
    unnamed = describe_norm_bound(counts(), 1.0, bounds=SQUARE)
    assert "so the rate for each unit of exposure is between" in str(unnamed)


def test_a_mean_that_varies_leaves_the_probabilities_out():
    mean = LinearMean(2).double().requires_grad_(False)
    mean.weights.copy_(torch.tensor([[1.0], [2.0]]))
    described = describe_norm_bound(successes(mean), NORM, bounds=SQUARE)
    assert (described.prior_mean, described.outcome_range) == (None, None)
    assert "prior mean m(x), which varies" in str(described)
    assert "probability of a success" not in str(described)


def test_what_is_estimated_or_contradicted_comes_first():
    line = torch.linspace(0.0, 1.0, 40, dtype=torch.float64).unsqueeze(-1)
    survived = 40.0 * (line[:, 0] > 0.5)
    described = {}
    for name, mean in {"given": None, "fitted": ConstantMean().double()}.items():
        data = LikelihoodRegression(
            *(line, survived, frozen_kernel("rbf")),
            **{"likelihood": "binomial", "num_trials": 40, "mean_module": mean},
        )
        described[name] = [
            describe_norm_bound(data, norm_bound, bounds=SQUARE[:, :1])
            for norm_bound in (0.1, 1e9)
        ]
    small, large = map(str, described["given"])
    contradicted = "the data contradict the norm bound, the kernel or the likelihood"
    assert small.startswith(f"no guarantee: {contradicted}")
    assert "certified with probability 0.95 if kernel, mean and likelihood are as" in large
    fitted = described["fitted"][1]
    assert fitted.summary == "heuristic: mean estimated"
    assert "not certified: mean estimated" in str(fitted)


def test_what_has_no_meaning_is_refused():
    for ask in (describe_norm_bound, check_consistency):
        own = {"bounds": SQUARE} if ask is describe_norm_bound else {}
        with pytest.raises(ValueError, match="no noise scale of their own"):
            ask(counts(), NORM, noise_std=0.1, **own)
        acqf = LikelihoodUCB(counts(), norm_bound=NORM)
        with pytest.raises(UnsupportedError, match=r"acqf\.data in place of"):
            ask(acqf.regression, NORM, **own)
        assert ask(acqf.data, NORM, **own).norm_bound == NORM
