r"""A kernel bandit that is interrupted, or used by two threads."""

import threading
import warnings
from copy import deepcopy

import pytest
from test_bandit import BOUNDS, NORM, Game, make_bandit
from torch.testing import assert_close

from interruptions import check_atomic, interrupt
from kernelucb import NormTracker
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import frozen_kernel
from tolerances import BANDIT

# A short form; every line is tried with a stride of 1.
STRIDE = 211


def played(bound, norm_bound, rounds=15):
    r"""A bandit whose eigenbasis is due at the next update, and some arms."""
    kernel = frozen_kernel("matern52")
    bandit, game = make_bandit(kernel, bound, norm_bound), Game(kernel)
    game.play(bandit, rounds)
    return bandit, game.arms()


def calls(bandit, arms):
    state, x, others = bandit.state_dict(), arms[0], arms.flip(0)
    return {
        "observe": lambda subject: subject.observe(x, 0.1),
        "bounds": lambda subject: subject.bounds(others),
        "load": lambda subject: subject.load_state_dict(state),
    }


@pytest.mark.parametrize(
    ("bound", "norm_bound"),
    [("exact", 0.3), ("exact", None), ("grid", NORM), ("igp", NORM)],
)
def test_an_interruption_leaves_the_state_before_or_after(bound, norm_bound):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        bandit, arms = played(bound, norm_bound)

        def view(subject):
            return subject.bounds(arms), subject.state_dict(), subject.assumptions.certified

        for name, call in calls(bandit, arms).items():
            subject = played(bound, norm_bound, 3)[0] if name == "load" else bandit
            tolerance = BANDIT * NORM
            check_atomic(
                lambda subject=subject: deepcopy(subject),
                call,
                view,
                tolerance=tolerance,
                stride=STRIDE,
            )


@pytest.mark.parametrize("bound", BOUNDS)
def test_interrupted_bounds_leave_what_is_known_of_the_arms_before(bound):
    r"""An arm that was scored before the interruption is observed after it."""
    bandit, arms = played(bound, 2.0 * NORM)
    bandit.select(arms)
    undisturbed, others, at = deepcopy(bandit), arms.flip(0), 1
    undisturbed.observe(arms[3], 0.1)
    expected = undisturbed.bounds(arms)
    subject = deepcopy(bandit)
    while interrupt(lambda: subject.bounds(others), at):  # noqa: B023
        subject.observe(arms[3], 0.1)
        for ours, theirs in zip(subject.bounds(arms), expected, strict=True):
            assert_close(ours, theirs, rtol=0.0, atol=BANDIT * NORM)
        subject, at = deepcopy(bandit), at + 1 + at // 8


def test_a_tracker_given_follows_the_estimate():
    r"""The bandit has its own, which changes with the rest; the user's is told."""
    tracker = NormTracker.cautious()
    bandit, arms = played("exact", tracker)
    assert bandit.norm_bound == tracker.norm_bound > 0.0
    norm, least = tracker.estimates
    tracker.estimates = 3.0 * norm, least  # by another bound that shares it
    bandit.observe(arms[0], 0.0)
    assert bandit.norm_bound == tracker.norm_bound


@pytest.mark.parametrize("name", ["observe", "bounds", "load"])
def test_two_threads_at_a_time_are_refused(name):
    bandit, arms = played("analytic", NORM, 3)
    call = calls(bandit, arms)[name]
    expected, errors = bandit.bounds(arms), []

    def overlap():
        try:
            call(bandit)
        except RuntimeError as error:
            errors.append(str(error))

    with bandit._exclusive:  # as within a call
        thread = threading.Thread(target=overlap)
        thread.start()
        thread.join()
    assert len(errors) == 1
    assert "Another thread is using this object" in errors[0]
    for ours, theirs in zip(bandit.bounds(arms), expected, strict=True):
        assert bool((ours == theirs).all())
