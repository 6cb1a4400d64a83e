r"""Trackers load states and take updates in full or not at all."""

import json
import math
from copy import deepcopy

import pytest
import torch
from botorch.models.deterministic import GenericDeterministicModel

from interruptions import check_atomic
from kernelucb import NormTracker, PrequentialRadius, StreamingNoiseTracker, UnknownNoise
from kernelucb._numerics.states import sealed
from kernelucb.exceptions import InconsistentConfidenceSetWarning, StateError
from problems import make_problem

PROBLEM = make_problem(n=8, d=2)
# Predicts the same to the last digit whenever it is asked; a GP's posterior need not.
PREDICTOR = GenericDeterministicModel(lambda X: X[..., :1])


def new_norm():
    return NormTracker(inflation=1.2, floor=1.5)


def new_noise(noise_upper=None):
    return StreamingNoiseTracker(2.0, UnknownNoise(0.01, noise_upper))


def bounded_noise():
    return new_noise(5.0)


def norm_update(tracker):
    return tracker.observe(PROBLEM.state)


def new_radius():
    return PrequentialRadius(0.1)


def radius_update(radius):
    return radius.observe(PREDICTOR, PROBLEM.X, PROBLEM.Y, 0.1)


TRACKERS = {
    "norm": (new_norm, norm_update),
    "noise": (new_noise, norm_update),
    "bounded noise": (bounded_noise, norm_update),
    "radius": (new_radius, radius_update),
}


def used(name):
    make, update = TRACKERS[name]
    tracker = make()
    update(tracker)
    return tracker


STATES = {name: used(name).state_dict() for name in TRACKERS}
WRONG = [
    None,
    "1.0",
    True,
    -1.0,
    math.nan,
    math.inf,
    1e308,
    10**400,
    [],
    ["1.0"],
    [math.nan],
    {},
    torch.ones(2),
]
# What a tracker may have come to, whatever it was before.
FAIR = {
    ("noise", "upper"): None,
    ("noise", "consistent"): True,
    ("noise", "estimated"): [],
    ("bounded noise", "consistent"): True,
    ("bounded noise", "estimated"): [],
}


def tampered(name):
    for key, own in STATES[name].items():
        yield f"without {key}", {k: v for k, v in STATES[name].items() if k != key}
        fair = [repr(own), repr(FAIR.get((name, key), own))]
        for value in WRONG:
            if repr(value) not in fair:
                yield f"{key} = {value!r:.20}", STATES[name] | {key: value}
    yield "extra key", STATES[name] | {"more": 1.0}
    yield "other version", STATES[name] | {"version": 2}
    yield "no mapping", list(STATES[name])


@pytest.mark.parametrize("name", TRACKERS)
def test_a_tampered_state_changes_nothing(name):
    tracker = used(name)
    before = tracker.state_dict()
    for case, state in tampered(name):
        try:
            tracker.load_state_dict(state)
        except StateError:
            assert tracker.state_dict() == before, case
        else:
            pytest.fail(f"{name} took a state with {case}")


def resealed(state):
    r"""A state that nobody changed after it was saved: it was wrong before."""
    return sealed({key: state[key] for key in state if key not in ("version", "checksum")})


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("norm", {"least_consistent_norm": 1e9}, "least_consistent_norm is above"),
        ("bounded noise", {"lower": 4.0, "upper": 3.0}, "lower is above upper"),
        ("bounded noise", {"estimated": ["prior"]}, r"estimated\[0\] must be \"kernel\""),
        ("radius", {"outcomes": [0.0]}, "8 noise scales, 1 outcomes"),
        ("radius", {"squared": 4.6}, "squared must lie in"),
    ],
)
def test_entries_that_contradict_each_other(name, changes, message):
    with pytest.raises(StateError, match=message):
        TRACKERS[name][0]().load_state_dict(resealed(STATES[name] | changes))


@pytest.mark.parametrize("name", TRACKERS)
def test_resumes_from_json_exactly_and_keeps_copies(name):
    make, update = TRACKERS[name]
    saved, resumed = json.loads(json.dumps(STATES[name])), make()
    resumed.load_state_dict(saved)
    assert resumed.state_dict() == STATES[name]
    for value in saved.values():
        if isinstance(value, list):
            value.append(0.5)
    saved.clear()
    assert resumed.state_dict() == STATES[name]
    tracker = used(name)
    assert update(resumed) == update(tracker)
    assert resumed.state_dict() == tracker.state_dict()


def test_what_was_estimated_stays_so():
    noise = UnknownNoise(0.01)
    estimated = StreamingNoiseTracker(used("norm").observe(PROBLEM.state), noise)
    state = json.loads(json.dumps(estimated.state_dict()))
    resumed = StreamingNoiseTracker(state["norm_bound"], noise)
    resumed.load_state_dict(state)
    assert resumed.estimated == {"norm"}
    estimated.load_state_dict(resealed(state | {"estimated": []}))
    assert estimated.estimated == {"norm"}


@pytest.mark.parametrize("name", TRACKERS)
def test_an_update_is_whole_or_not_at_all(name):
    make, update = TRACKERS[name]
    interruptions = check_atomic(make, update, lambda each: each.state_dict(), stride=23)
    assert interruptions > 0
    loading = check_atomic(
        make,
        lambda each: each.load_state_dict(deepcopy(STATES[name])),
        lambda each: each.state_dict(),
    )
    assert loading > 0


def test_a_warning_that_is_an_error_leaves_the_new_state():
    quiet = make_problem(n=8, d=2).state.with_noise_std(0.1)
    tracker = StreamingNoiseTracker(1e-3, UnknownNoise(1e-6, 1e-5))
    with pytest.raises(InconsistentConfidenceSetWarning):
        tracker.observe(quiet)
    assert not tracker.consistent
    assert tracker.num_observations == 8
