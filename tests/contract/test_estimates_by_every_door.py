r"""A number that the data made is no given number, by whatever attribute it is read.

Every object is built from outcomes and, with the same inputs, from other outcomes. A
number that differs came from the outcomes: where it is a norm, a noise scale, a model error
or a constant of a theorem, or a multiple or ratio of some, it is an ``Estimate``. What else
differs is listed by its name below, with its meaning; a new name is found by this test.
"""

import json
import math
import pickle
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions import UnsupportedError

import kernelucb
from kernelucb import (
    BKBUCB,
    IGPUCB,
    AbbasiYadkoriUCB,
    BKBBandit,
    FamilyBandit,
    KernelBandit,
    KernelFamilyUCB,
    KernelRegression,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    NearNormBall,
    NormTracker,
    NystromRegression,
    PrequentialRadius,
    ReplicateNoise,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    WangDeFreitasUCB,
    breakdown,
    check_consistency,
    describe_norm_bound,
    failure_probability,
    level_set,
    norm_from_tasks,
    optimum_report,
    regret_certificate,
    runs_needed,
)
from kernelucb._numerics.estimates import Estimate
from kernelucb.certificates.words import Claim
from kernelucb.confidence.band import weighted_sum
from kernelucb.data.exact import RidgeState
from kernelucb.data.from_model import ModelData
from kernelucb.models import BKBModel
from kernelucb.page.table import Table
from kernelucb.papers import BoundedNorm
from problems import float64, frozen_kernel, normal

pytestmark = pytest.mark.filterwarnings(
    "ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning"
)

KERNEL = frozen_kernel("matern52", 0.3)
X = torch.cat([float64([[i / 8] for i in range(9)]), float64([[0.0], [0.25], [1.0]])])
BOX, ARMS = float64([[0.0], [1.0]]), X[:9]
LIMITS = UnknownNoise(0.01, 3.0)


def outcomes(seed):
    return (2.0 + seed) * torch.sin((6.0 + seed) * X[:, 0]) + 0.1 * normal(len(X), seed)


def state(seed, noise=0.3):
    return KernelRegression(X, outcomes(seed), KERNEL, noise)


def band(seed, norm_bound=None, **options):
    return MartingaleMixtureUCB(state(seed), norm_bound=norm_bound, **options).band


def estimate(seed):
    return band(seed).norm_bounds[0]


def family(seed, norm=None):
    kernels = [KERNEL, frozen_kernel("rbf", 0.2)]
    return KernelFamilyUCB(state(seed), kernels, norm_bound=norm or estimate(seed)).band


def tracked(seed):
    tracker = NormTracker()
    tracker.observe(state(seed))
    return tracker


def streamed(seed):
    tracker = StreamingNoiseTracker(30.0, LIMITS)
    tracker.observe(state(seed))
    return tracker


def page(seed):
    table = pd.DataFrame({"x": X[:, 0].tolist(), "y": outcomes(seed).tolist()})
    found = kernelucb.report(table, "y", bounds={"x": (0, 1)}, threshold=0.0)
    names = ("norm_bound", "norm_given", "least_norm", "noise", "tolerance", "set_delta")
    numbers = {name: getattr(found, name) for name in names}
    return [numbers, found.band, found.report, found.claims, found.level_set]


def tables_of_a_page(seed):
    table = pd.DataFrame({"x": X[:, 0].tolist(), "y": outcomes(seed).tolist()})
    found = kernelucb.report(table, "y", bounds={"x": (0, 1)}, range=(-9.0, 9.0))
    found._gap = lambda *asked: 1.0
    return {"curve": [row[0] for row in found.curve], "map": [row[0] for row in found.map]}


def earlier(seed):
    return norm_from_tasks([(ARMS, outcomes(seed + j)[:9]) for j in range(20)], KERNEL)


def played(bandit, seed):
    for row, outcome in zip(X, outcomes(seed), strict=True):
        bandit.observe(row, outcome)
    return bandit


def by_arm(seed):
    bandit = BKBBandit(ARMS, KERNEL, noise_std=0.3)
    bandit.observe([*range(9)], outcomes(seed)[:9])
    return bandit


def predicted(seed):
    radius, noise = PrequentialRadius(), 0.1 * estimate(seed)
    radius.observe_predictions(0.0 * X[:, 0], 1.0 + 0.0 * X[:, 0], outcomes(seed), noise, X)
    return radius


def stands(band):
    return float(band.bounds(X[:1])[0][0]) > -50.0


def replicates(seed):
    return ReplicateNoise(X, outcomes(seed))


def both(make):
    return lambda seed: [make(seed), make(seed).required_set]


# Objects of every kind, by what they are made of.
BANDS = {
    "estimated norm": band,
    "larger estimate": lambda seed: band(seed, NormTracker(inflation=1.5, floor=4.0)),
    "raised norm": lambda seed: band(seed, 0.5),
    "handed back": lambda seed: band(seed, 1.5 * estimate(seed)),
    "near ball": lambda seed: band(seed, NearNormBall(None, 0.1)),
    "near by an estimate": lambda seed: band(seed, NearNormBall(30.0, estimate(seed) / 90)),
    "analytic": lambda seed: band(seed, form="analytic"),
    "grid": lambda seed: band(seed, form="grid"),
    "martingale": lambda seed: band(seed, fit="martingale"),
    "unknown noise": lambda seed: band(seed, 30.0, noise_std=UnknownNoise()),
    "limits of the noise": lambda seed: band(seed, 30.0, noise_std=LIMITS),
    "estimated noise": lambda seed: band(seed, 30.0, noise_std=0.1 * estimate(seed)),
    "noise of replicates": lambda seed: band(seed, 30.0, noise_std=replicates(seed)),
    "with replicates": lambda seed: band(seed).with_replicates(),
    "fixed design": lambda seed: band(seed).with_fixed_design(12, candidates=X),
    "relaxed": lambda seed: band(seed).relaxed(1.2, 1.1),
    "raised and relaxed": lambda seed: band(seed, 0.5).relaxed(1.2, 1.1),
    "in a range": lambda seed: band(seed).within(-99.0, 9.0 * estimate(seed)),
    "tasks": lambda seed: band(seed, earlier(seed), delta=0.2),
    "tasks, design": lambda seed: band(seed, earlier(seed), delta=0.2).with_fixed_design(
        12, candidates=X
    ),
    "AY": lambda seed: AbbasiYadkoriUCB(state(seed)).band,
    "IGP": lambda seed: IGPUCB(state(seed), horizon=99).band,
    "Wang": lambda seed: WangDeFreitasUCB(state(seed)).band,
    "Srinivas": lambda seed: (
        SrinivasUCB(state(seed), theorem=BoundedNorm(estimate(seed), 3.0)).band
    ),
    "streaming": lambda seed: (
        StreamingKernelUCB(state(seed), norm_bound=30.0, noise_std=LIMITS).band
    ),
    "family": family,
    "family, raised": lambda seed: family(seed, 0.5),
    "sketched": lambda seed: (
        SketchedMartingaleMixtureUCB(
            NystromRegression(X, outcomes(seed), KERNEL, 0.3, X[:9])
        ).band
    ),
    "BKB": lambda seed: (
        BKBUCB(BKBModel(X, outcomes(seed).unsqueeze(-1), KERNEL, alpha=0.09)).band
    ),
    "likelihood": lambda seed: (
        LikelihoodUCB(LikelihoodRegression(X, (outcomes(seed) > 0.5).double(), KERNEL)).band
    ),
    "sum": lambda seed: weighted_sum([band(seed), band(seed + 1)], [1.0, -0.5]),
    "of outputs": lambda seed: ScalarizedUCB([band(seed), band(seed)], [1.0, 2.0]).band,
}
RESULTS = {
    "description": lambda seed: describe_norm_bound(
        state(seed), estimate(seed), bounds=BOX
    ),
    "consistency": lambda seed: check_consistency(state(seed), estimate(seed)),
    "contradiction": lambda seed: check_consistency(state(seed), 0.5),
    "certificate": lambda seed: regret_certificate(band(seed), candidates=X),
    "report": lambda seed: optimum_report(band(seed), candidates=ARMS, threshold=0.0),
    "report as data": lambda seed: optimum_report(band(seed), candidates=ARMS).to_dict(),
    "breakdown": lambda seed: breakdown(band(seed), stands),
    "breakdown of a sum": lambda seed: breakdown(
        weighted_sum([band(seed), band(seed + 1)], [1.0, 1.0]), stands
    ),
    "level set": lambda seed: level_set(band(seed), 0.5, candidates=ARMS),
    "share": lambda seed: failure_probability(band(seed), 0.5, X),
    "replicates": lambda seed: [replicates(seed), replicates(seed).limits(0.05)],
    "bandit": lambda seed: played(KernelBandit(KERNEL, noise_std=0.3), seed),
    "bandit of a theorem": lambda seed: played(
        KernelBandit(KERNEL, noise_std=0.3, bound="igp_ucb", horizon=99), seed
    ),
    "family of bandits": lambda seed: played(
        FamilyBandit([KERNEL], norm_bound=estimate(seed), noise_std=0.3), seed
    ),
    "bandit of BKB": by_arm,
    "predictions": predicted,
    "norm tracker": tracked,
    "noise tracker": streamed,
    "tasks themselves": earlier,
    "limits themselves": lambda seed: UnknownNoise(0.01, estimate(seed)),
    "plan": lambda seed: runs_needed(
        KERNEL, BOX, norm_bound=estimate(seed), noise_std=0.3, gap=1.0, max_runs=4
    ),
    "page": page,
    "tables of a page": tables_of_a_page,
}
DOORS = {name: both(make) for name, make in BANDS.items()} | RESULTS

# Numbers that come from the outcomes, and are no norm, noise scale or constant.
VALUES = {
    "of an outcome": "gap gaps gap_found lower upper resolution numbers optimum "
    "outcome_range label outcomes",
    "points and shares": "recommended challenger region share share_at_most status "
    "unresolved inside outside open possibly surely shares kept_share",
    "to compute with": "log_step mean_weights regularizer regularizers shrinkage "
    "squared_widths width batch_width radius ball level room centre products limits error "
    "centre_weights model_error informed_centre informed_features observed_features slopes "
    "arms predicted squared",
}
MEANINGS = {name: why for why, names in VALUES.items() for name in names.split()}
# Objects that have been looked at elsewhere, and identities.
SAME = {"required_set", "beside", "key", "rebuild", "plain", "data", *dir(torch.nn.Module)}
# States and runs are arrays to compute with; the noise that they hand on is ``noise_std``.
STATES = (RidgeState, LikelihoodRegression, ModelData, Table)
WITHOUT = {"certificate", "level set", "share", "plan", "family of bandits"}  # estimates
SLOW = {"report", "report as data", "breakdown of a sum", "page", "tables of a page"}


def numbers(value, path=(), depth=5):
    r"""Paths to all public numbers of an object, through all it holds."""
    if isinstance(value, Estimate | torch.Tensor) or type(value) is float:
        yield path, value
    elif depth == 0 or isinstance(value, bool | int | str | type(None)):
        return
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from numbers(each, (*path, name), depth - 1)
    elif isinstance(value, RidgeState):
        yield (*path, "noise_std"), value.noise_std
    elif isinstance(value, STATES):
        return
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        for index, each in enumerate(value):
            yield from numbers(each, (*path, index), depth - 1)
    elif type(value).__module__.startswith("kernelucb"):
        for name in dir(value):
            if name.startswith("_") or name in SAME:
                continue
            with suppress(
                AttributeError, TypeError, UnsupportedError
            ):  # not of this object
                each = getattr(value, name)
                if not callable(each) or isinstance(each, torch.nn.Module):
                    yield from numbers(each, (*path, name), depth - 1)


def comes_from_outcomes(one, other):
    r"""Whether a plain number differs between two objects of the same inputs."""
    if isinstance(one, Estimate) or isinstance(other, Estimate):
        return not (isinstance(one, Estimate) and isinstance(other, Estimate))
    if isinstance(one, torch.Tensor):
        return not torch.equal(one, other)
    return one != other and not (math.isnan(one) and math.isnan(other))


doors = pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in DOORS],
)


@pytest.mark.one_in(3)
@doors
def test_a_number_from_the_outcomes_is_an_estimate(name):
    first, second = (dict(numbers(DOORS[name](seed))) for seed in (0, 1))
    plain = [
        path
        for path, value in first.items()
        if path in second and comes_from_outcomes(value, second[path])
    ]
    assert not [path for path in plain if not MEANINGS.keys() & {*path}]
    found = [x for x in first.values() if isinstance(x, Estimate)]
    assert found or name in WITHOUT
    found = [x for x in found if not isinstance(x.value, torch.Tensor)]
    sizes = [x for x in found if 1e-3 < x < 1e8]
    for number in sizes[:2]:
        for options in ({"norm_bound": 1.05 * number}, {"noise_std": number / 2}):
            made = band(0, **{"norm_bound": 30.0} | options)
            assert not made.assumptions.certified


GIVEN = {
    "norm": lambda: (band(0, 30.0), ("norm_bounds", "prior_norm", "noise_scale")),
    "set": lambda: (band(0, 30.0).required_set, ("norm",)),
    "of a family": lambda: (family(0, 30.0).required_set.parts[0], ("norm",)),
    "description": lambda: (
        describe_norm_bound(state(0), 30.0, bounds=BOX),
        ("norm_bound", "range", "across", "inputs"),
    ),
    "consistency": lambda: (check_consistency(state(0), 30.0), ("norm_bound",)),
    "limits of a design": lambda: (
        band(0, 30.0).with_fixed_design(12, candidates=X),
        ("prior_norm", "given_norm"),
    ),
}


@pytest.mark.parametrize("make", GIVEN.values(), ids=GIVEN)
def test_a_given_number_stays_given(make):
    r"""Else all could be estimates, and no band certified."""
    held, names = make()
    for name in names:
        values = [value for _, value in numbers({name: getattr(held, name)})]
        assert values
        for value in values:
            assert type(value) is float
            assert "norm" not in band(0, value).assumptions.estimated


def test_numbers_of_a_claim_are_estimates_and_json():
    r"""In the dictionary; what is read from its text is the reader's own statement."""
    data = Claim("value", "", (1.0,), breakdown=breakdown(band(0), stands)).to_dict()
    read = json.loads(json.dumps(data))
    for name in ("norm_bound", "noise_std", "margin"):
        assert isinstance(data[name], Estimate)
        assert isinstance(1.05 * data[name], Estimate)
        assert isinstance(np.float64(1.05) * data[name], Estimate)
        assert type(read[name]) is float
        assert data[name] == read[name]
        assert pickle.loads(pickle.dumps(data[name])) == data[name]
    assert Claim("best run", "", ()).to_dict()["norm_bound"] is None
