r"""What is no band or bandit of the other tables: pickled or copied, it says the same.

The laws of bands and bandits have a law of copies.
"""

import pickle
import sys
from copy import deepcopy
from functools import partial

import pytest
import torch
from bands import CUBE, NORM, TRUTH
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.exceptions import UnsupportedError
from botorch.models.deterministic import GenericDeterministicModel
from torch import Tensor

from kernelucb import (
    Band,
    BandUCB,
    BKBBandit,
    GuardedAcquisition,
    KernelBandit,
    KernelThompsonSampling,
    MartingaleMixtureUCB,
    MixedSpace,
    NormTracker,
    PrequentialRadius,
    SafeSet,
    StreamingNoiseTracker,
    UnknownNoise,
    breakdown,
    optimum_report,
    regret_certificate,
)
from kernelucb.models import BKBModel
from kernelucb.safety import ConstraintWidth
from problems import make_problem, uniform

PROBLEM, ARMS = make_problem(n=12, d=2), uniform(20, 2, seed=3)
X, Y, STATE = PROBLEM.X, PROBLEM.Y, PROBLEM.state
# Predicts the same to the last digit whenever it is asked; a GP's posterior need not.
PREDICTOR = GenericDeterministicModel(lambda X: X[..., :1])
band = partial(MartingaleMixtureUCB, PROBLEM.model, norm_bound=9.0)
budgeted = partial(BKBBandit, ARMS, TRUTH.kernel, qbar=0.5, noise_std=0.2)


def guarded(**options):
    torch.manual_seed(0)
    search = qLogNoisyExpectedImprovement(PROBLEM.model, X)
    acqf = GuardedAcquisition(search, band(), **options)
    acqf(ARMS[:1, None])  # BoTorch's samples get their shape
    return acqf


def safe_set():
    return SafeSet(band(), -1.0, safe_points=X[:1])


def certificate():
    space = MixedSpace(CUBE, discrete_dims={1: [0.25, 0.5]})
    return regret_certificate(band(), space=space)


def played(bandit):
    r"""Over more than one eigenbasis."""
    for x in ARMS:
        bandit.observe(x, float(TRUTH.function(x[None])))


def rounds(bandit):
    for _ in range(4):
        arms = bandit.batch_select(3)
        bandit.observe(arms, TRUTH.function(ARMS)[arms])


def entries(what):
    return tuple(vars(what).values())


def values(acqf):
    acqf = BandUCB(acqf) if isinstance(acqf, Band) else acqf
    return acqf(ARMS[:, None])


def samples(sampler):
    torch.manual_seed(0)
    return sampler(ARMS, 3)


# How it is made, what changes it, how it is seen.
TRACKERS = {
    "norm": (NormTracker, lambda t: t.observe(STATE), entries),
    "noise": (
        partial(StreamingNoiseTracker, 2.0, UnknownNoise(0.01)),
        *(lambda t: t.observe(STATE), entries),
    ),
    "radius": (PrequentialRadius, lambda r: r.observe(PREDICTOR, X, Y, 0.1), entries),
}
OBJECTS = TRACKERS | {
    "contradicted bandit": (
        partial(KernelBandit, TRUTH.kernel, norm_bound=0.3, noise_std=0.2),
        *(played, lambda b: (b.bounds(ARMS), b.assumptions)),
    ),
    "budgeted bandit": (
        *(partial(budgeted, norm_bound=NORM), rounds),
        lambda b: (b.bounds(), b.inducing, b.batch_select()),
    ),
    "estimating bandit": (budgeted, rounds, lambda b: (b.bounds(), b.norm_bound)),
    "budgeted model": (
        partial(BKBModel, X, Y[:, None], TRUTH.kernel, 0.04, qbar=0.6),
        lambda m: m.observe(ARMS[:3], torch.ones(3, 1).double()),
        lambda m: (m.inducing_points, m.posterior(ARMS).mean),
    ),
    "guard": (guarded, lambda g: g.set_X_pending(X[:2]), values),
    "guard in turn": (
        *(partial(guarded, ucb_every=2), lambda g: g.set_X_pending(X[:2]), values),
    ),
    "safe set": (safe_set, id, lambda s: (s.margins(ARMS), s.repair(ARMS), s.assumptions)),
    "width": (lambda: ConstraintWidth(safe_set()), id, values),
    "certificate": (certificate, id, entries),
    "report": (lambda: optimum_report(band(), ARMS), id, str),
    "breakdown": (
        lambda: breakdown(band(), lambda b: float(b.bounds(X[:1])[0]) > -9.0),
        *(id, entries),
    ),
    "band at": (
        band,
        id,
        lambda b: (b.band.at(delta=0.01).bounds(X), b.band.relaxed(2.0).bounds(X)),
    ),
    "range": (
        lambda: band().band.within(-3.0, 9.0),
        id,
        lambda b: (b.bounds(ARMS), values(b)),
    ),
    "replicates": (band().band.with_replicates, id, lambda b: (b.bounds(X), values(b))),
    "sampler": (lambda: KernelThompsonSampling(STATE, norm_bound=9.0), id, samples),
}


def said(what):
    if isinstance(what, Tensor):
        return [f"{x:.9g}" for x in what.flatten().tolist()]
    return [*map(said, what)] if isinstance(what, tuple) else repr(what)


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
@pytest.mark.parametrize("name", OBJECTS)
def test_a_copy_says_the_same_goes_on_alike_and_apart(name):
    make, change, view = OBJECTS[name]
    thing = make()
    for _ in range(2):
        twins = deepcopy(thing), pickle.loads(pickle.dumps(thing))
        before = said(view(thing))
        for twin in twins:
            assert said(view(twin)) == before
            change(twin)
        assert said(view(thing)) == before
        change(thing)
        for twin in twins:
            assert said(view(twin)) == said(view(thing))


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

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
        torch.set_grad_enabled(True)
    return False


@pytest.mark.parametrize("name", TRACKERS)
def test_an_update_is_whole_or_not_at_all(name):
    make, update, _ = TRACKERS[name]
    new, first, stride = make(), str(vars(make())), 23
    update(new)
    for at in range(stride, 10**6, stride):
        tracker = make()
        if not interrupted(lambda tracker=tracker: update(tracker), at):
            break
        assert str(vars(tracker)) in (first, str(vars(new)))
        if str(vars(tracker)) == first:
            update(tracker)
            assert str(vars(tracker)) == str(vars(new))
    assert at > stride


def test_a_band_loads_no_state_of_another():
    r"""Its tensors beside these assumptions would be no band; also in a list of modules."""
    band = MartingaleMixtureUCB(STATE, norm_bound=5.0)
    other = MartingaleMixtureUCB(make_problem(n=12, d=2, seed=5).state, norm_bound=5.0)
    with pytest.raises(UnsupportedError, match="loads no state"):
        band.load_state_dict(other.state_dict())
    with pytest.raises(UnsupportedError, match="loads no state"):
        torch.nn.ModuleList([band]).load_state_dict(
            torch.nn.ModuleList([other]).state_dict()
        )
