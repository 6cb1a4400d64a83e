r"""Everything is saved by pickle and copied by ``deepcopy``: the same numbers, apart.

Bands and bandits of the tables of ``check_band`` and ``check_bandit`` have this law there.
"""

import pickle
import sys
from copy import deepcopy
from functools import partial

import pytest
import torch
from bands import BANDS, CUBE, KERNELS, NORM, TRUTH
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.models.deterministic import GenericDeterministicModel
from torch import Tensor
from torch.testing import assert_close

from kernelucb import (
    BKBBandit,
    CertifiedGapStopping,
    FamilyTracker,
    GuardedAcquisition,
    KernelBandit,
    KernelThompsonSampling,
    LikelihoodRegression,
    MartingaleMixtureUCB,
    MetaPI,
    MixedSpace,
    NormTracker,
    NystromRegression,
    OutcomeConstraints,
    PrequentialRadius,
    ReplicateNoise,
    SafeSet,
    StreamingNoiseTracker,
    UnknownNoise,
    breakdown,
    check_consistency,
    confirmation,
    describe_norm_bound,
    optimum_report,
    regret_certificate,
    runs_needed,
)
from kernelucb.models import BKBModel
from kernelucb.safety import ConstraintWidth
from problems import family_ucb, make_problem, uniform

PROBLEM, ARMS = make_problem(n=12, d=2), uniform(20, 2, seed=3)
X, Y, STATE = PROBLEM.X, PROBLEM.Y, PROBLEM.state
SPACE = MixedSpace(CUBE, discrete_dims={1: [0.25, 0.5]})
budgeted = partial(BKBBandit, ARMS, TRUTH.kernel, qbar=0.5, noise_std=0.2)
# Predicts the same to the last digit whenever it is asked; a GP's posterior need not.
PREDICTOR = GenericDeterministicModel(lambda X: X[..., :1])


def band(**options):
    return MartingaleMixtureUCB(PROBLEM.model, norm_bound=9.0, **options)


def guarded(**options):
    torch.manual_seed(0)
    search = qLogNoisyExpectedImprovement(PROBLEM.model, X)
    acqf = GuardedAcquisition(search, band(), **options)
    acqf(ARMS[:1, None])  # BoTorch's samples get their shape
    return acqf


def safe_set():
    return SafeSet(band(), -1.0, safe_points=X[:1])


def played(bandit):
    r"""Over more than one eigenbasis."""
    for x in ARMS:
        bandit.observe(x, float(TRUTH.function(x[None])))


def rounds(bandit):
    for _ in range(4):
        arms = bandit.batch_select(3)
        bandit.observe(arms, TRUTH.function(ARMS)[arms])


def observed(tracker):
    tracker.observe(STATE)


def predicted(radius):
    radius.observe(PREDICTOR, X, Y, 0.1)


def families(tracker):
    family_ucb(STATE, KERNELS, norm_bound=9.0, tracker=tracker)


def pending(acqf):
    acqf.set_X_pending(X[:2])


def sides(bounded):
    return bounded.bounds(ARMS)


def values(acqf):
    return acqf(ARMS[:, None])


def entries(what):
    return dict(vars(what))


def moments(state):
    return state.mean(ARMS), state.variance(ARMS)


def samples(sampler):
    torch.manual_seed(0)
    return sampler(ARMS, 3)


# How it is made, what changes it, how it is seen.
TRACKERS = {
    "norm": (NormTracker, observed, entries),
    "noise": (
        partial(StreamingNoiseTracker, 2.0, UnknownNoise(0.01)),
        *(observed, entries),
    ),
    "radius": (PrequentialRadius, predicted, lambda r: (r.squared, r.noise_std)),
}
CHANGING = TRACKERS | {
    "families": (FamilyTracker, families, entries),
    "contradicted bandit": (
        partial(KernelBandit, TRUTH.kernel, norm_bound=0.3, noise_std=0.2),
        *(played, lambda b: (sides(b), b.assumptions)),
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
    "guard": (guarded, pending, values),
    "guard in turn": (partial(guarded, ucb_every=2), pending, values),
}
FIXED = {
    "band at": (band, lambda b: (sides(b.at(delta=0.01)), sides(b.relaxed(1.5)))),
    "design": (lambda: band().with_fixed_design(3, candidates=ARMS), sides),
    "noise of replicates": (
        lambda: band(noise_std=ReplicateNoise(X[:3].repeat(4, 1), Y, between=(0.1, 9.0))),
        sides,
    ),
    "meta": (lambda: MetaPI(BANDS["meta"].truth.model_of(X, Y)), values),
    "safe set": (safe_set, lambda s: (s.is_safe(ARMS), s.repair(ARMS), s.assumptions)),
    "width": (lambda: ConstraintWidth(safe_set()), values),
    "constraints": (lambda: OutcomeConstraints([band()], 1), lambda c: c.margins(ARMS)),
    "certificate": (lambda: regret_certificate(band(), space=SPACE), entries),
    "report": (lambda: optimum_report(band(), ARMS, reliability=0.8), str),
    "breakdown": (
        lambda: breakdown(band(), lambda b: float(b.bounds(X[:1])[0]) > -9.0),
        entries,
    ),
    "stop": (lambda: CertifiedGapStopping(1.0, candidates=ARMS), lambda s: s(band())),
    "confirmation": (lambda: confirmation([1.0, 2.0], noise_std=1.0), entries),
    "plan": (lambda: runs_needed(TRUTH.kernel, CUBE, 1.0, 0.1, 2.0), entries),
    "consistency": (lambda: check_consistency(STATE, 9.0), str),
    "norm in words": (lambda: describe_norm_bound(STATE, 9.0, bounds=CUBE), str),
    "sampler": (lambda: KernelThompsonSampling(STATE, norm_bound=9.0), samples),
    "state": (lambda: STATE, moments),
    "sketch": (lambda: NystromRegression(X, Y, TRUTH.kernel, 0.1, X[:5]), moments),
    "counts": (
        lambda: LikelihoodRegression(X, (Y > 0.0).double(), TRUTH.kernel),
        lambda s: s.mode(1.0).latent,
    ),
}


def copies(of):
    return deepcopy(of), pickle.loads(pickle.dumps(of))


def same(one, other):
    r"""Whether nests of tensors, numbers and words agree, but for round-off."""
    assert type(one) is type(other)  # an estimate stays one
    if isinstance(other, Tensor | float):
        assert_close(*map(torch.as_tensor, (one, other)), rtol=1e-9, atol=1e-12)
    elif isinstance(other, dict):
        same([*one.items()], [*other.items()])
    elif isinstance(other, tuple | list):
        for pair in zip(one, other, strict=True):
            same(*pair)
    else:
        assert str(one) == str(other)


@pytest.mark.parametrize("name", FIXED)
def test_a_copy_says_the_same(name):
    make, view = FIXED[name]
    thing = make()
    for twin in copies(thing):
        same(view(twin), view(thing))


@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
@pytest.mark.parametrize("name", CHANGING)
def test_a_copy_goes_on_alike_and_apart(name):
    make, change, view = CHANGING[name]
    thing = make()
    for _ in range(2):
        twins, before = copies(thing), view(thing)
        for twin in twins:
            same(view(twin), before)
            change(twin)
        same(view(thing), before)
        change(thing)
        for twin in twins:
            same(view(twin), view(thing))


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
