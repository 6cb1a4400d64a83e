r"""``state_dict`` of what keeps constraints: only that of one built alike is taken."""

from io import BytesIO

import pytest
import torch
from botorch.acquisition import (
    FixedFeatureAcquisitionFunction,
    qLogNoisyExpectedImprovement,
)

from kernelucb import (
    ConstrainedUCB,
    GuardedAcquisition,
    MartingaleMixtureUCB,
    OutcomeConstraints,
    SafeSet,
)
from kernelucb.exceptions import StateError
from kernelucb.safety import ConstraintWidth
from problems import make_problem

PROBLEM, OTHER = make_problem(n=8, d=2), make_problem(n=8, d=2, seed=7)
LIMITS = {"thresholds": -1.0, "sides": ">="}
CHANGES = [{"thresholds": -0.5}, {"sides": "<="}, {"problem": OTHER}]
EDGES = [{"temperature": 0.1}, {"observed": OTHER.X[:3]}]


def parts(problem=PROBLEM, **limits):
    band = MartingaleMixtureUCB(problem.model, norm_bound=3.0)
    return band, OutcomeConstraints(band, **LIMITS | limits)


def constrained(temperature=0.02, observed=None, **changes):
    band, limits = parts(**changes)
    return ConstrainedUCB(band, limits, temperature=temperature, observed=observed)


def guarded(temperature=0.02, observed=None, ucb_every=None, **changes):
    band, limits = parts(**changes)
    torch.manual_seed(0)
    search = qLogNoisyExpectedImprovement(band.model, PROBLEM.X)
    return GuardedAcquisition(
        search,
        ConstrainedUCB(band, limits, observed=observed, temperature=temperature),
        temperature=temperature,
        observed=observed,
        ucb_every=ucb_every,
    )


def unconstrained(temperature=0.02, constraints=None):
    band, limits = parts()
    search = MartingaleMixtureUCB(band.model, norm_bound=3.0)
    band = ConstrainedUCB(band, limits) if constraints else band
    return GuardedAcquisition(search, band, temperature=temperature)


def width(**changes):
    _, limits = parts(**changes)
    (limit,) = limits.constraints
    return ConstraintWidth(SafeSet(limit.band, limit.threshold, sides=limit.side))


CASES = [
    *((constrained, change) for change in CHANGES + EDGES),
    *((guarded, change) for change in [*CHANGES, *EDGES, {"ucb_every": 3}]),
    *((unconstrained, change) for change in [{"temperature": 0.1}, {"constraints": True}]),
    *((width, change) for change in CHANGES),
]


@pytest.mark.parametrize("build", [constrained, guarded, unconstrained, width])
def test_its_own_state_is_taken(build):
    saved, acqf = build(), build()
    saved(PROBLEM.test_X.unsqueeze(-2))  # BoTorch's samples get their shape
    before = acqf(PROBLEM.test_X.unsqueeze(-2))
    buffer = BytesIO()
    torch.save(saved.state_dict(), buffer)
    buffer.seek(0)
    acqf.load_state_dict(torch.load(buffer, weights_only=True))
    assert torch.equal(acqf(PROBLEM.test_X.unsqueeze(-2)), before)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(("build", "change"), CASES)
def test_that_of_another_construction_is_refused(build, change, strict):
    acqf, other = build(), build(**change)
    own = {key: value.clone() for key, value in acqf.state_dict().items()}
    with pytest.raises(StateError, match="Build it again"):
        acqf.load_state_dict(other.state_dict(), strict=strict)
    assert all(torch.equal(value, own[key]) for key, value in acqf.state_dict().items())


def test_without_its_own_entry_and_through_a_wrapper():
    acqf = constrained()
    own = acqf.state_dict()
    with pytest.raises(StateError):
        acqf.load_state_dict({k: v for k, v in own.items() if k != "_extra_state"})
    wrapped, other = (
        FixedFeatureAcquisitionFunction(constrained(thresholds=t), 2, [1], [0.5])
        for t in (-1.0, -0.5)
    )
    wrapped.load_state_dict(wrapped.state_dict())
    with pytest.raises(StateError):
        wrapped.load_state_dict(other.state_dict())
