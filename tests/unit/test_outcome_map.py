r"""The increasing map from outcomes to a model's scale: BoTorch's transforms, by hand."""

import math
from copy import deepcopy
from pickle import dumps, loads

import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.models.transforms.outcome import (
    Bilog,
    ChainedOutcomeTransform,
    Log,
    Power,
    Standardize,
)
from torch.testing import assert_close

from kernelucb.regression.outcome_map import IDENTITY, outcome_units
from problems import float64, normal, uniform
from tolerances import EPS, GRADCHECK

# Every map on outcomes, and the outcomes at which it is looked at.
POSITIVE = 3.0 * uniform(40, 1, seed=0)[:, 0].sort().values + 0.01
REAL = 3.0 * normal(40, seed=1).sort().values
TRANSFORMS = {
    "none": (lambda: None, REAL),
    "log": (Log, POSITIVE),
    "root": (lambda: Power(0.5), POSITIVE),
    "square": (lambda: Power(2.0), POSITIVE),
    "bilog": (Bilog, REAL),
    "log of root": (
        lambda: ChainedOutcomeTransform(power=Power(0.5), log=Log()),
        POSITIVE,
    ),
    "bilog of log": (lambda: ChainedOutcomeTransform(log=Log(), bilog=Bilog()), POSITIVE),
    "root of log": (lambda: ChainedOutcomeTransform(a=Log(), b=Power(0.5)), POSITIVE + 1.0),
}


def outcome_map(name):
    return outcome_units(TRANSFORMS[name][0]()).outcome_map


@pytest.fixture(params=TRANSFORMS)
def name(request):
    return request.param


def test_is_botorchs(name):
    build, Y = TRANSFORMS[name]
    transform, own = build(), outcome_map(name)
    theirs = Y if transform is None else transform(Y.unsqueeze(-1))[0].squeeze(-1)
    assert_close(own.forward(Y), theirs, rtol=8 * EPS, atol=8 * EPS)
    back = theirs if transform is None else transform.untransform(theirs.unsqueeze(-1))[0]
    assert_close(own.inverse(theirs), back.reshape(-1), rtol=1e-13, atol=1e-13)


def test_inverse_and_order(name):
    own, Y = outcome_map(name), TRANSFORMS[name][1]
    values = own.forward(Y)
    assert bool((values.diff() > 0.0).all())
    assert_close(own.inverse(values), Y, rtol=1e-12, atol=1e-12)
    everywhere = torch.linspace(-6.0, 6.0, 99, dtype=torch.float64)
    assert bool((own.inverse(everywhere).diff() >= 0.0).all())


def test_gradient(name):
    own = outcome_map(name)
    values = torch.tensor([-1.3, 0.4, 1.7], dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(own.inverse, values, **GRADCHECK)
    zero = torch.zeros(1, dtype=torch.float64).requires_grad_()
    own.inverse(zero).sum().backward()
    assert bool(zero.grad.isfinite().all())


def test_ends():
    ends = {
        "none": (-math.inf, -math.inf),
        "log": (-math.inf, 0.0),
        "root": (0.0, 0.0),
        "square": (0.0, 0.0),
        "bilog": (-math.inf, -math.inf),
        "log of root": (-math.inf, 0.0),
        "bilog of log": (-math.inf, 0.0),
        "root of log": (0.0, 1.0),
    }
    for name, (least, least_outcome) in ends.items():
        own = outcome_map(name)
        assert (own.least, own.least_outcome) == (least, least_outcome)
        # Beyond the image there are no outcomes: what lies there counts as the end.
        if math.isfinite(least):
            assert float(own.inverse(float64(least - 1.0))) == least_outcome
    assert outcome_map("log").domain == "above 0"
    assert outcome_map("root of log").domain == "at least 1"


def test_huge_values_are_infinite_not_nan():
    values = torch.tensor([-1e4, 1e4, -math.inf, math.inf], dtype=torch.float64)
    for name in TRANSFORMS:
        assert not bool(outcome_map(name).inverse(values).isnan().any())


def test_which_outcomes_it_takes():
    zero, minus = float64(0.0), float64(-1.0)
    assert outcome_map("none").takes(minus)
    assert outcome_map("bilog").takes(minus)
    assert outcome_map("root").takes(zero)
    for name in ("log", "root", "square"):
        assert not outcome_map(name).takes(minus)
    assert not outcome_map("log").takes(zero)
    with pytest.raises(InputDataError, match=r"must be above 0, .* after Log"):
        outcome_map("log").observed(zero)


@pytest.mark.parametrize("sign", [1, -1])
def test_largest_gain(name, sign):
    own, steps = outcome_map(name), torch.linspace(0.0, 1.0, 401, dtype=torch.float64)
    for lower, upper, gain in ((-0.9, 0.7, 0.5), (0.2, 0.3, 2.0), (-2.0, -1.0, 0.1)):
        # Values in the image at the point, and at the one that is better by the gain.
        values = (lower + (upper - lower) * steps).clamp_min(own.least)
        others = (values + sign * gain).clamp_min(own.least)
        gains = (own.inverse(others) - own.inverse(values)).abs()
        bound = float(own.largest_gain(*map(float64, (gain, lower, upper)), sign))
        assert bound >= float(gains.max()) - 1e-12
        if (len(own.steps) < 2 or name == "log of root") and lower > own.least + gain:
            assert bound <= float(gains.max()) + 1e-12
    infinite = own.largest_gain(*map(float64, (1.0, 0.0, math.inf)))
    assert not math.isnan(float(infinite))


def test_units():
    assert outcome_units(None) == (0.0, 1.0, IDENTITY, False)
    transform = ChainedOutcomeTransform(log=Log(), standardize=Standardize(m=1))
    Y = POSITIVE.unsqueeze(-1)
    standard, _ = transform(Y)
    offset, scale, own, learned = outcome_units(transform.eval())
    assert learned
    assert str(own.steps[0]) == "Log"
    assert_close(offset + scale * standard, Y.log(), rtol=1e-13, atol=1e-13)
    nested = ChainedOutcomeTransform(inner=transform, outer=Standardize(m=1))
    standard, _ = nested.train()(Y)
    offset, scale, own, _ = outcome_units(nested.eval())
    assert_close(own.inverse(offset + scale * standard), Y, rtol=1e-12, atol=1e-12)


def test_words_and_copies():
    own = outcome_map("log of root")
    assert own.after == " after Power(0.5) and Log"
    assert IDENTITY.after == ""
    assert IDENTITY.is_identity
    assert "median" in own.statement
    assert own == deepcopy(own) == loads(dumps(own))
    assert own != outcome_map("log")
