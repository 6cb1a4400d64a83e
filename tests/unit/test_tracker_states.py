r"""Trackers load states and take updates in full or not at all."""

import json
import sys

import pytest
import torch
from botorch.models.deterministic import GenericDeterministicModel

from kernelucb import NormTracker, PrequentialRadius, StreamingNoiseTracker, UnknownNoise
from kernelucb.exceptions import InconsistentConfidenceSetWarning
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


def test_what_was_estimated_stays_so():
    noise = UnknownNoise(0.01)
    estimated = StreamingNoiseTracker(used("norm").observe(PROBLEM.state), noise)
    state = json.loads(json.dumps(estimated.state_dict()))
    resumed = StreamingNoiseTracker(state["settings"]["norm_bound"], noise)
    resumed.load_state_dict(state)
    assert resumed.estimated == {"norm"}
    estimated.load_state_dict(state | {"estimated": []})
    assert estimated.estimated == {"norm"}


def interrupted(call, at):
    r"""Whether a ``KeyboardInterrupt`` before the ``at``-th line of ours ended a call."""
    count = 0

    def trace(frame, event, _):
        nonlocal count
        if "kernelucb" not in frame.f_globals.get("__name__", ""):
            return None
        count += event == "line"
        if count == at:
            raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
        torch.set_grad_enabled(True)
    return False


@pytest.mark.parametrize(("loads", "stride"), [(False, 23), (True, 1)])
@pytest.mark.parametrize("name", TRACKERS)
def test_an_update_is_whole_or_not_at_all(name, loads, stride):
    make, update = TRACKERS[name]
    call = (lambda each: each.load_state_dict(STATES[name])) if loads else update
    before, at = make().state_dict(), stride
    while True:
        tracker = make()
        if not interrupted(lambda tracker=tracker: call(tracker), at):
            break
        assert tracker.state_dict() in (before, STATES[name])
        if tracker.state_dict() == before:
            call(tracker)
            assert tracker.state_dict() == STATES[name]
        at += stride
    assert at > stride


def test_a_warning_that_is_an_error_leaves_the_new_state():
    quiet = make_problem(n=8, d=2).state.with_noise_std(0.1)
    tracker = StreamingNoiseTracker(1e-3, UnknownNoise(1e-6, 1e-5))
    with pytest.raises(InconsistentConfidenceSetWarning):
        tracker.observe(quiet)
    assert not tracker.consistent
    assert tracker.num_observations == 8
