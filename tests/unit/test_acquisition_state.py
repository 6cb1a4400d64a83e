r"""``state_dict`` of an acquisition function: only its own construction's is taken."""

from copy import deepcopy
from io import BytesIO

import pytest
import torch
from botorch.acquisition import FixedFeatureAcquisitionFunction

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    Grid,
    MartingaleMixtureUCB,
    ScalarizedUCB,
)
from kernelucb.exceptions import StateError
from problems import make_problem

BUILD = {
    "exact": lambda model, norm: MartingaleMixtureUCB(model, norm_bound=norm),
    "grid": lambda model, norm: MartingaleMixtureUCB(model, norm_bound=norm, form=Grid()),
    "analytic": lambda model, norm: MartingaleMixtureUCB(
        model, norm_bound=norm, form="analytic"
    ),
    "convex": lambda model, norm: MartingaleMixtureUCB(
        model, norm_bound=norm, form="convex"
    ),
    "Abbasi-Yadkori": lambda model, norm: AbbasiYadkoriUCB(model, norm_bound=norm),
    "IGP": lambda model, norm: IGPUCB(model, norm_bound=norm, horizon=50),
    "sum": lambda model, norm: ScalarizedUCB(
        [MartingaleMixtureUCB(model, norm_bound=norm)] * 2, weights=[1.0, 2.0]
    ),
}


@pytest.fixture(params=BUILD)
def build(request):
    return BUILD[request.param]


def models():
    return make_problem(n=9, d=2).model, make_problem(n=9, d=2, seed=7).model


def saved(acqf):
    buffer = BytesIO()
    torch.save(acqf.state_dict(), buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def test_its_own_state_is_taken(build):
    model, _ = models()
    acqf, again = build(model, 3.0), build(deepcopy(model), 3.0)
    X = make_problem(n=9, d=2).test_X
    before = acqf.bounds(X)
    again.load_state_dict(saved(acqf))
    assert all(map(torch.equal, again.bounds(X), before))


@pytest.mark.parametrize("strict", [True, False])
def test_other_data_or_another_norm_are_refused(build, strict):
    model, other = models()
    acqf = build(model, 3.0)
    X = make_problem(n=9, d=2).test_X
    before = acqf.bounds(X)
    own = acqf.state_dict()
    states = [build(other, 3.0).state_dict(), build(model, 4.0).state_dict()]
    states.append({key: own[key] for key in own if not key.endswith("_extra_state")})
    for state in states:
        with pytest.raises(StateError, match="Build it again"):
            acqf.load_state_dict(state, strict=strict)
        assert all(map(torch.equal, acqf.bounds(X), before))


def test_data_that_differ_in_the_last_digits_are_other_data(build):
    model, _ = models()
    acqf = build(model, 3.0)
    state = saved(acqf)
    name = next(key for key in state if key.endswith("train_targets"))
    state[name] = state[name] * (1.0 + 1e-12)
    with pytest.raises(StateError, match="Build it again"):
        acqf.load_state_dict(state)


def test_through_a_wrapper():
    model, other = models()
    acqf, another = (
        FixedFeatureAcquisitionFunction(
            MartingaleMixtureUCB(m, norm_bound=3.0), d=2, columns=[1], values=[0.5]
        )
        for m in (model, other)
    )
    acqf.load_state_dict(acqf.state_dict())
    with pytest.raises(StateError):
        acqf.load_state_dict(another.state_dict())
