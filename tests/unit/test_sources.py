r"""``assumptions.source`` names the paper and the theorem whose statement is used."""

import pytest
import torch

from kernelucb import (
    BKBUCB,
    IGPUCB,
    AbbasiYadkoriUCB,
    Analytic,
    BKBBandit,
    Filters,
    Grid,
    KernelBandit,
    KernelThompsonSampling,
    LikelihoodRegression,
    MartingaleMixture,
    MartingaleMixtureUCB,
    MetaPI,
    MetaUCB,
    NearNormBall,
    NystromRegression,
    OutcomeConstraints,
    PrequentialRadius,
    SafeSet,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from kernelucb.acquisition import BoundedNorm, CompactDomain, FiniteDomain
from kernelucb.confidence.fit.filters import FILTERS_SOURCE
from kernelucb.models import BKBModel, CosineFeatures, DiscreteMetaModel, FeatureMetaModel
from problems import (
    family_ucb,
    likelihood_ucb,
    make_problem,
    uniform,
)

PROBLEM = make_problem(n=6)
MODEL, X, KERNEL = PROBLEM.model, PROBLEM.X, PROBLEM.kernel
Y = PROBLEM.Y.unsqueeze(-1)
NORM = {"norm_bound": 9.0}
GIVEN = {**NORM, "noise_std": 0.1}
LIMITS = UnknownNoise(0.01, 1.0)

ENERGY = "with the energy of the noise (ours)"
FLYNN = "Flynn & Reeb (2024)"
CLOSED = f"{FLYNN}, Eq. (8)"
SCALES = f"{FLYNN}, Theorem 4.1, for a mixture over scales (ours)"
PREDICTED = (
    f"{FLYNN}, Theorem 4.1, for predictions one step ahead, with the energy of the noise "
    "(ours)"
)
UNKNOWN = "Ville's inequality for a mixture over noise scales (ours)"
SKETCH = f"weak duality of {FLYNN}, Theorem 4.5, in the span of a few features (ours)"
ABOVE = "bounded from above (ours)"
FILTERS = "Mixture of filters (ours; docs/mathematics.md)"
ENERGY = "with the energy of the noise (ours)"
NEAR = "with a model error (ours)"
DUAL = f"{FLYNN}, Theorem 4.5; fit: {FILTERS}"
MARTINGALE = {"fit": "martingale"}
NEARBY = {"norm_bound": NearNormBall(NORM["norm_bound"], 0.1)}
DURAND = "Durand, Maillard & Pineau (2018)"
ABBASI = f"Abbasi-Yadkori (2012), Theorem 3.11 ({DURAND}, Theorem 1)"
COROLLARY = (
    f"{DURAND}, Corollary 1, the noise bounds of Theorem 3 as its proof gives them (ours)"
)
PROPOSITION = (
    f"Wang & de Freitas (2014), Proposition 1 ({DURAND}, Lemma 3), its last term in noise "
    "units (ours)"
)
BKB = "Abbasi-Yadkori (2012), Theorem 3.11, for any inducing points (ours)"
THEOREM2 = (
    "Calandriello et al. (2019), Theorem 2, its logarithm as the proof gives it (ours)"
)
SRINIVAS = "Srinivas et al. (2010), Theorem"
META = "Wang, Kim & Kaelbling (2018)"


def predicted():
    radius = PrequentialRadius()
    radius.observe_predictions(torch.zeros(6), torch.ones(6), PROBLEM.Y, 0.1, PROBLEM.X)
    return radius


def mixture(**options):
    return MartingaleMixtureUCB(PROBLEM.state, **(NORM | options))


@pytest.mark.parametrize(
    ("options", "form", "fit"),
    [
        ({}, "Theorem 4.5", FILTERS),
        ({"form": "convex"}, "Theorem 4.4", FILTERS),
        ({"form": "analytic"}, "Corollary 4.6", FILTERS),
        ({"form": Grid()}, "Eq. (12) over a grid", FILTERS),
        ({"fit": Filters("mixture")}, "Theorem 4.5", FILTERS),
        (MARTINGALE, "Theorem 4.5", CLOSED),
        ({**MARTINGALE, "form": "convex"}, "Theorem 4.4", CLOSED),
        ({**MARTINGALE, "form": "analytic"}, "Corollary 4.6", CLOSED),
        ({**MARTINGALE, "form": Analytic(0.02)}, "Corollary 4.6", CLOSED),
        ({**MARTINGALE, "form": Grid()}, "Eq. (12) over a grid", CLOSED),
        ({**MARTINGALE, "form": Grid([0.1, 1.0])}, "Eq. (12) over a grid", CLOSED),
        ({"fit": MartingaleMixture(0.5)}, "Theorem 4.5", CLOSED),
        ({"fit": MartingaleMixture([0.5, 1.0])}, "Theorem 4.5", SCALES),
        (
            {"fit": MartingaleMixture("mixture"), "form": "analytic"},
            "Corollary 4.6",
            SCALES,
        ),
        ({"fit": predicted()}, "Theorem 4.5", PREDICTED),
        ({"fit": predicted(), "form": Grid()}, "Eq. (12) over a grid", PREDICTED),
        (
            NEARBY,
            "Theorem 4.5",
            f"{FILTERS}, {NEAR}",
        ),
        (
            {**MARTINGALE, **NEARBY},
            "Theorem 4.5",
            f"{CLOSED}, {NEAR}",
        ),
        (
            {"fit": predicted(), **NEARBY},
            "Theorem 4.5",
            f"{PREDICTED}, {NEAR}",
        ),
        ({"noise_std": UnknownNoise()}, "Theorem 4.5", UNKNOWN),
        ({"noise_std": LIMITS, "form": "convex"}, "Theorem 4.4", UNKNOWN),
    ],
)
def test_forms_and_fits_of_the_mixture(options, form, fit):
    assert mixture(**options).assumptions.source == f"{FLYNN}, {form}; fit: {fit}"


@pytest.mark.parametrize(
    ("options", "how", "fit"),
    [
        ({}, "Union", FILTERS),
        ({"combine": "all"}, "Intersection", FILTERS),
        (MARTINGALE, "Union", CLOSED),
        ({"fit": predicted()}, "Union", PREDICTED),
        (
            NEARBY,
            "Union",
            f"{FILTERS}, {NEAR}",
        ),
    ],
)
def test_families(options, how, fit):
    acqf = family_ucb(PROBLEM.state, [KERNEL], **(NORM | options))
    whole = f"{how} over a family of kernels (ours)"
    expected = f"{whole}, each by {FLYNN}, Theorem 4.5; fit: {fit}"
    assert acqf.assumptions.source == expected


RATIO = "Emmenegger et al. 2023"
ELLIPSOID = (
    f"{FLYNN}, Theorem 4.5; ellipsoid of secant curvatures (ours); "
    "tangents of the losses (ours)"
)
MIXED = f"Likelihood ratio with a mixture ({RATIO}), evidence bounded (ours)"


def test_successes_and_counts():
    successes = (Y.median() < Y).double()
    expected = {"ellipsoid": ELLIPSOID, "tangent": "Tangents of the losses (ours)"}
    for form, source in expected.items():
        acqf = likelihood_ucb(X, successes, KERNEL, **NORM, form=form)
        assert acqf.assumptions.source == f"{source}; fit: {MIXED}"


@pytest.mark.parametrize(("combine", "how"), [("any", "Union"), ("all", "Intersection")])
def test_families_over_counts(combine, how):
    counts = LikelihoodRegression(X, (Y.median() < Y).double(), KERNEL)
    acqf = family_ucb(counts, [KERNEL], **NORM, combine=combine)
    whole = f"{how} over a family of kernels (ours)"
    assert acqf.assumptions.source == f"{whole}, each by {ELLIPSOID}; fit: {MIXED}"


def test_an_estimated_norm_is_no_theorem():
    assumptions = MartingaleMixtureUCB(MODEL).assumptions
    assert assumptions.source == DUAL
    assert "an estimate from these data (ours, by no theorem)" in str(assumptions["norm"])


@pytest.mark.parametrize(
    ("options", "fit"),
    [
        ({}, f"{CLOSED}, {ABOVE}, {ENERGY}"),
        (MARTINGALE, f"{CLOSED}, {ABOVE}"),
        ({"fit": MartingaleMixture("mixture")}, f"{SCALES}, {ABOVE}"),
        ({"fit": predicted()}, PREDICTED),
    ],
)
def test_sketched(options, fit):
    state = NystromRegression(X, PROBLEM.Y, KERNEL, 0.1, X[:3])
    acqf = SketchedMartingaleMixtureUCB(state, **NORM, **options)
    assert acqf.assumptions.source == f"{SKETCH}; fit: {fit}"


def srinivas(theorem):
    return lambda: SrinivasUCB(MODEL, theorem=theorem)


def budgeted(**options):
    model = BKBModel(X, Y, KERNEL, alpha=0.01, qbar=1e4)
    return BKBUCB(model, **NORM, **options)


@pytest.mark.parametrize(
    ("build", "source"),
    [
        (lambda: AbbasiYadkoriUCB(MODEL, **NORM), ABBASI),
        (lambda: KernelThompsonSampling(MODEL, **GIVEN), ABBASI),
        (lambda: IGPUCB(MODEL, **NORM), "Chowdhury & Gopalan (2017), Theorem 2"),
        (lambda: WangDeFreitasUCB(MODEL, **NORM, fixed_design=True), PROPOSITION),
        (lambda: StreamingKernelUCB(MODEL, **NORM, noise_std=LIMITS), COROLLARY),
        (lambda: KernelThompsonSampling(MODEL, **NORM, noise_std=LIMITS), COROLLARY),
        (srinivas(FiniteDomain()), f"{SRINIVAS} 1"),
        (srinivas(CompactDomain()), f"{SRINIVAS} 2"),
        (srinivas(BoundedNorm(9.0)), f"{SRINIVAS} 3"),
        (budgeted, BKB),
        (lambda: budgeted(radius="theorem2"), THEOREM2),
        (
            lambda: budgeted(radius="practical"),
            "the code that Calandriello et al. (2019) released",
        ),
        (lambda: BKBBandit(X, KERNEL, **GIVEN, qbar=1e4), BKB),
    ],
)
def test_other_bounds(build, source):
    assert build().assumptions.source == source


@pytest.mark.parametrize(
    ("options", "source"),
    [
        ({}, f"{FLYNN}, Theorem 4.5; fit: {FILTERS_SOURCE}"),
        ({"fit": "martingale"}, f"{FLYNN}, Theorem 4.5; fit: {CLOSED}"),
        (
            {"fit": MartingaleMixture("mixture")},
            f"{FLYNN}, Theorem 4.5; fit: {SCALES}",
        ),
        ({"form": Grid()}, f"{FLYNN}, Eq. (12) over a grid; fit: {CLOSED}, {ENERGY}"),
        ({"form": "analytic"}, f"{FLYNN}, Corollary 4.6; fit: {CLOSED}, {ENERGY}"),
        ({"bound": "abbasi_yadkori"}, ABBASI),
        ({"bound": "igp_ucb"}, "Chowdhury & Gopalan (2017), Theorem 2"),
    ],
)
def test_bandit(options, source):
    bandit = KernelBandit(KERNEL, **GIVEN, **options)
    assert bandit.assumptions.source == source


def test_estimated_priors():
    candidates = torch.linspace(0.0, 1.0, 5).double().unsqueeze(-1)
    tasks = uniform(60, 5, seed=1)
    features = CosineFeatures(torch.tensor([[0.0, 2.0]]), torch.tensor([0.0, 0.3]))
    band = "; band: Lemma 11 and Corollary 6"
    finite = DiscreteMetaModel(tasks, candidates)
    compact = FeatureMetaModel(candidates, tasks, features.double())
    assert MetaUCB(finite).assumptions.source == f"{META}, Theorem 2{band}"
    assert MetaUCB(compact).assumptions.source == f"{META}, Theorem 4{band}"
    assert MetaPI(finite).assumptions.source == f"{META}, Theorem 2"
    assert MetaPI(compact).assumptions.source == f"{META}, Theorem 4"


def test_several_bands_name_each_source_once():
    bands = [mixture(delta=0.02), mixture(delta=0.01), IGPUCB(MODEL, **NORM, delta=0.01)]
    both = f"{DUAL}; Chowdhury & Gopalan (2017), Theorem 2"
    assert SafeSet(bands).assumptions.source == both
    assert OutcomeConstraints(bands).assumptions.source == both
    assert ScalarizedUCB(bands, [1.0] * 3).assumptions.source == both
