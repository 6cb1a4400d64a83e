r"""From a band to words: no public road says more than the band may say.

Every way in which a band is less than certified, times every road from a band to another
band, times every road from there to words.
"""

import re
from dataclasses import replace
from functools import partial

import pandas as pd
import pytest
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.exceptions import UnsupportedError
from gpytorch.means import ConstantMean

import kernelucb
from kernelucb import (
    IGPUCB,
    BandUCB,
    CertifiedGapStopping,
    ConstrainedUCB,
    GuardedAcquisition,
    KernelFamilyUCB,
    KernelRegression,
    LevelSetAmbiguity,
    MartingaleMixtureUCB,
    OutcomeConstraints,
    ParetoWidth,
    SafeSet,
    ScalarizedUCB,
    SrinivasUCB,
    WangDeFreitasUCB,
    failure_probability,
    level_set,
    optimum_report,
    pareto_set,
    regret_certificate,
)
from kernelucb._numerics.estimates import Estimate
from kernelucb.certificates import claims
from kernelucb.confidence.band import band_of
from kernelucb.exceptions import UncertifiedError
from kernelucb.page import study
from problems import frozen_kernel, make_problem

pytestmark = pytest.mark.filterwarnings(
    "ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning"
)

PROBLEM = make_problem(n=10, norm=4.0, noise_std=0.1, seed=3)
X = torch.cat([PROBLEM.X, PROBLEM.X[:3]])
Y = torch.cat([PROBLEM.Y, PROBLEM.Y[:3] + 0.5])
LIST = torch.linspace(0.0, 1.0, 7, dtype=torch.float64).unsqueeze(-1)
SHORT = {"candidates": LIST, "max_evaluations": 200}


def state(noise_std=0.4, trainable=False, mean=None):
    kernel = frozen_kernel("rbf").requires_grad_(trainable)
    return KernelRegression(X, Y, kernel, noise_std, mean)


def band(data=None, **options):
    data = state() if data is None else data
    return MartingaleMixtureUCB(data, **{"norm_bound": 20.0, **options})


# A band and the first words that it may have; None where limits stand in its guarantee.
SMALL, LARGE, KERNEL = {"norm_bound": 0.2}, {"norm_bound": 20.0}, frozen_kernel("rbf")
ESTIMATED, VIOLATED = "heuristic: ", "no guarantee: "
FLAWS = {
    "estimated kernel": (lambda: band(state(trainable=True)), ESTIMATED),
    "estimated mean": (lambda: band(state(mean=ConstantMean().double())), ESTIMATED),
    "estimated noise": (lambda: band(noise_std=Estimate(0.4)), ESTIMATED),
    "estimated norm": (lambda: band(norm_bound=None), ESTIMATED),
    "norm handed back": (
        lambda: band(norm_bound=1.5 * band().band.least_norms[0]),
        ESTIMATED,
    ),
    "violated norm": (lambda: band(**SMALL), VIOLATED),
    "violated noise": (lambda: band(state(0.01)), VIOLATED),
    "violated range": (lambda: band().band.within(90.0, 100.0), VIOLATED),
    "violated replicates": (lambda: band(**SMALL).band.with_replicates(), VIOLATED),
    "violated family": (lambda: KernelFamilyUCB(state(), [KERNEL], **SMALL), VIOLATED),
    "violated theorem": (lambda: WangDeFreitasUCB(state(), **LARGE), VIOLATED),
    "single points": (lambda: SrinivasUCB(state()), None),
    "one round": (lambda: WangDeFreitasUCB(state(), **LARGE, fixed_design=True), None),
    "horizon": (lambda: IGPUCB(state(), **LARGE, horizon=40), None),
}
LIMITS = {
    "single points": r"single points|all points at once|points of the domain",
    "one round": r"one round|at a round that the data choose",
    "horizon": r"round up to 40|up to round 40|^certified: at most",  # in such a round
}
# What the user gives anew is a new assumption; a number handed back is an estimate.
RENEWED = {("violated range", "range"), ("violated range", "relaxed range")}

of = partial(band_of, "band")
BANDS = {
    "itself": lambda b: b,
    "relaxed": lambda b: of(b).relaxed(),
    "larger norm": lambda b: of(b).relaxed(1.5),
    "larger noise": lambda b: of(b).relaxed(1.0, 2.0),
    "relaxed twice": lambda b: of(b).relaxed(1.5).relaxed(1.0, 1.5),
    "delta": lambda b: of(b).at(delta=0.04),
    "relaxed delta": lambda b: of(b).relaxed().at(delta=0.04),
    "relaxed norm": lambda b: of(b).relaxed().at(norm_bound=of(b).relaxed().norm_bounds[0]),
    "range": lambda b: of(b).within(upper=1e3),
    "relaxed range": lambda b: of(b).relaxed().within(upper=1e3),
    "replicates": lambda b: of(b).with_replicates(),
    "relaxed replicates": lambda b: of(b).relaxed().with_replicates(),
    "design": lambda b: of(b).relaxed().with_fixed_design(5, candidates=LIST),
    "pending": lambda b: BandUCB(b, X_pending=LIST[:1]),
    "sum": lambda b: ScalarizedUCB([b, band()], [1.0, 0.5]),
    "relaxed sum": lambda b: ScalarizedUCB([band(), b], [1.0, 0.5]).band.relaxed(),
    "sum of relaxed": lambda b: ScalarizedUCB([of(b).relaxed(), band()], [1.0, -0.5]),
    "constrained": lambda b: ConstrainedUCB(
        band(), OutcomeConstraints([of(b).relaxed()], [-90.0])
    ),
}


def report(b, **options):
    r"""A report without its claims, which take long and have no word of their own."""
    return replace(optimum_report(b, **SHORT, **options), said=tuple)


def beside(b):
    r"""A certified objective whose constraint has the band."""
    return report(band(), constraints=OutcomeConstraints([b], [-90.0]))


def search(b):
    model = PROBLEM.model
    return GuardedAcquisition(qLogNoisyExpectedImprovement(model, PROBLEM.X), b)


WORDS = {
    "band": repr,
    "assumptions": lambda b: str(b.assumptions),
    "set": lambda b: repr(of(b).confidence_set),
    "summary": lambda b: b.assumptions.summary,
    "legend": lambda b: b.assumptions.verdict,
    "report": lambda b: str(report(b)),
    "report as data": lambda b: report(b).to_json(),
    "report of a constraint": lambda b: str(beside(b)),
    "certificate": lambda b: str(regret_certificate(b, **SHORT)),
    "level set": lambda b: str(level_set(b, -90.0, candidates=LIST)),
    "failures": lambda b: str(failure_probability(b, -90.0, LIST)),
    "front": lambda b: str(pareto_set([band(), b], LIST, 0.1)),
    "next of a level": lambda b: repr(LevelSetAmbiguity(b, -90.0)),
    "next of a front": lambda b: repr(ParetoWidth([band(), b], 0.1)),
    "stop": lambda b: CertifiedGapStopping(1e6, LIST, allow_estimated=True)(b).reason,
    "certified stop": lambda b: CertifiedGapStopping(1e6, LIST)(b).reason,
    "constraints": lambda b: str(OutcomeConstraints(b, -90.0).assumptions),
    "safe set": lambda b: repr(SafeSet(b, -90.0)),
    "estimated safe set": lambda b: repr(SafeSet(b, -90.0, allow_estimated=True)),
    "guard": lambda b: str(search(b).assumptions),
}


# Of these the objective's band alone is asked, which is certified.
OF_THE_OBJECTIVE = {
    *("set", "report of a constraint", "constraints", "safe set", "estimated safe set"),
    *("level set", "failures", "front", "next of a level", "next of a front"),
}


def says_certified(text):
    text = text.replace('"certified": false', "")
    return re.search(r"(?<!not )\bcertified\b", text) is not None


_SHARE = 3  # by default one road to words in so many, each with all flaws


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("flaw", "road"),
    [  # by default a fifth of the pairs, in which all flaws meet all words
        pytest.param(flaw, road, marks=[pytest.mark.slow] if (i + j) % 5 else [])
        for i, flaw in enumerate(FLAWS)
        for j, road in enumerate(BANDS)
    ],
)
def test_words_are_never_stronger_than_the_band(flaw, road, every):
    build, first = FLAWS[flaw]
    start = [*FLAWS].index(flaw) + [*BANDS].index(road)
    if (flaw, road) in RENEWED:
        assert BANDS[road](build()).assumptions.certified
        return
    try:
        lesser = BANDS[road](build())
    except (UnsupportedError, UncertifiedError, TypeError):
        return  # refused: no words
    for place, (name, words) in enumerate(WORDS.items()):
        if not every and (start + place) % _SHARE:
            continue
        if road == "constrained" and name in OF_THE_OBJECTIVE:
            continue
        try:
            text = words(lesser)
        except (UnsupportedError, UncertifiedError):  # refused: no words
            continue
        if first is None:
            # At most "certified" with its limits beside it.
            limited = re.search(LIMITS[flaw], text) or text == "certified"
            assert limited or not says_certified(text), (name, text)
        else:
            assert not says_certified(text), (name, text)
        if first is VIOLATED and road != "relaxed norm":
            assert "no guarantee" in text, (name, text)


RUNS = pd.DataFrame({"x": X.squeeze(-1), "y": Y})
GIVEN = {"noise_std": 0.4, "norm_bound": 20.0, "kernel": "rbf", "lengthscale": 0.3}
GIVEN |= {"mean": 0.0, "bounds": {"x": (0.0, 1.0)}, "effort": "quick"}
PAGES = [
    ({}, "certified"),
    ({"norm_bound": None}, "heuristic: norm estimated"),
    ({"noise_std": None}, "heuristic: noise estimated"),
    ({"mean": None}, "heuristic: mean estimated"),
    ({"bounds": None}, "heuristic: kernel estimated"),
    ({"norm_bound": 0.2}, "no guarantee: norm violated"),
    ({"range": (90.0, 100.0)}, "no guarantee: range violated"),
    ({"norm_bound": 0.2, "minimize": True}, "no guarantee: norm violated"),
]


# Whole pages.
@pytest.mark.representatives(
    "changes1-heuristic: norm estimated", "changes6-no guarantee: range violated"
)
@pytest.mark.parametrize(("changes", "first"), PAGES)
def test_a_page_says_no_more_than_its_band(changes, first, monkeypatch):
    monkeypatch.setattr(study, "_EVALUATIONS", 50)
    monkeypatch.setattr(claims, "_CLOSE", 30.0)  # of breakdown values, which are not read
    text = kernelucb.report(RUNS, "y", **(GIVEN | changes)).text
    given = ", if what was given is true" if first == "certified" else ""
    assert f"\n{first}{given}\n" in text
    assert says_certified(text) == (first == "certified")
    assert "[given] the RKHS norm" not in text or "norm" not in first
    # Under a contradiction nothing else is said.
    assert ("What may be said" in text) == ("violated" not in first)
