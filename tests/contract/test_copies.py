r"""What is no band or bandit of the other tables: pickled or copied, it says the same.

The laws of bands and bandits have a law of copies.
"""

import pickle
from copy import deepcopy
from functools import partial

import pytest
import torch
from bands import CUBE, NORM, TRUTH
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.models.deterministic import GenericDeterministicModel
from torch import Tensor

from kernelucb import (
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
SPACE = MixedSpace(CUBE, discrete_dims={1: [0.25, 0.5]})
band = partial(MartingaleMixtureUCB, PROBLEM.model, norm_bound=9.0)
budgeted = partial(BKBBandit, ARMS, TRUTH.kernel, qbar=0.5, noise_std=0.2)


def guarded(**options):
    torch.manual_seed(0)
    search = qLogNoisyExpectedImprovement(PROBLEM.model, X)
    acqf = GuardedAcquisition(search, band(), **options)
    acqf(ARMS[:1, None])  # BoTorch's samples get their shape
    return acqf


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
    return acqf(ARMS[:, None])


def samples(sampler):
    torch.manual_seed(0)
    return sampler(ARMS, 3)


# How an object is made, what changes it, how it is seen.
OBJECTS = {
    "norm": (NormTracker, lambda t: t.observe(STATE), entries),
    "noise": (
        partial(StreamingNoiseTracker, 2.0, UnknownNoise(0.01)),
        *(lambda t: t.observe(STATE), entries),
    ),
    "radius": (PrequentialRadius, lambda r: r.observe(PREDICTOR, X, Y, 0.1), entries),
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
    "guard in turn": (
        *(partial(guarded, ucb_every=2), lambda g: g.set_X_pending(X[:2]), values),
    ),
    "safe set": (
        *(lambda: SafeSet(band(), -1.0, safe_points=X[:1]), id),
        lambda s: (s.margins(ARMS), s.repair(ARMS), values(ConstraintWidth(s))),
    ),
    "certificate": (lambda: regret_certificate(band(), space=SPACE), id, entries),
    "report": (lambda: optimum_report(band(), ARMS[:5]), id, str),
    "band at": (
        *(lambda: band().band.within(-3.0, 9.0).with_replicates(), id),
        lambda b: (b.at(delta=0.01).bounds(X), b.relaxed(2.0).bounds(X)),
    ),
    "sampler": (lambda: KernelThompsonSampling(STATE, norm_bound=9.0), id, samples),
}


def said(what):
    if isinstance(what, Tensor):
        return [f"{x:.9g}" for x in what.flatten().tolist()]
    return [*map(said, what)] if isinstance(what, tuple) else repr(what)


# Up to half a second: each is made, changed and seen with two twins, twice.
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
