r"""What a guarantee rests on (given, estimated, violated), its scope, and its source."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputStandardize,
    InputTransform,
    Normalize,
    Warp,
)
from botorch.models.transforms.outcome import Standardize
from gpytorch.kernels import RBFKernel

from kernelucb import (
    BKBUCB,
    IGPUCB,
    AbbasiYadkoriUCB,
    BKBBandit,
    CertifiedGapStopping,
    KernelBandit,
    KernelRegression,
    KernelThompsonSampling,
    MartingaleMixtureUCB,
    MetaPI,
    MetaUCB,
    NearNormBall,
    NormTracker,
    NystromRegression,
    PrequentialRadius,
    SafeSet,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
    regret_certificate,
)
from kernelucb.acquisition import BoundedNorm, CompactDomain, FiniteDomain
from kernelucb.confidence.assumptions import Status
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError
from kernelucb.models import BKBModel, CosineFeatures, DiscreteMetaModel, FeatureMetaModel
from problems import family_ucb, frozen_model, likelihood_ucb, make_problem, uniform

PROBLEM = make_problem(n=6)
MODEL, STATE, X, KERNEL = PROBLEM.model, PROBLEM.state, PROBLEM.X, PROBLEM.kernel
Y = PROBLEM.Y.unsqueeze(-1)
G, E = Status.GIVEN, Status.ESTIMATED
UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
frozen = partial(frozen_model, X, PROBLEM.Y, KERNEL)


def statuses(model, **options):
    acqf = MartingaleMixtureUCB(model, norm_bound=50.0, **options)
    names = ("kernel", "mean", "noise", "norm")
    return tuple(acqf.assumptions[name].status for name in names)


def trainable(part, **options):
    model = frozen(0.1, **options)
    getattr(model, part).requires_grad_(True)
    return model


def test_everything_given():
    assumptions = MartingaleMixtureUCB(MODEL, norm_bound=3.0).assumptions
    assert statuses(MODEL) == (G, G, G, G)
    assert assumptions.certified
    assert assumptions.anytime
    assert assumptions.summary == "certified"
    assert str(assumptions).startswith("certified, if what was given is true: holds for")


def test_trainable_parts_are_estimated():
    assert statuses(trainable("covar_module")) == (E, G, G, G)
    assert statuses(trainable("likelihood")) == (G, G, E, G)
    assert statuses(trainable("likelihood"), noise_std=0.1) == (G, G, G, G)
    assert statuses(frozen(0.1, mean=0.5)) == (G, G, G, G)
    assert statuses(trainable("mean_module", mean=0.5)) == (G, E, G, G)
    noise = torch.full_like(PROBLEM.Y, 0.1)
    noise[0] = 0.2
    several = MartingaleMixtureUCB(frozen(noise), norm_bound=50.0).assumptions
    assert several["noise"].status is G
    expected = "0.1 to 0.2", "one for each observation, fixed before its outcome"
    assert all(words in several["noise"].statement for words in expected)
    default = MartingaleMixtureUCB(SingleTaskGP(X, Y)).assumptions
    assert default.estimated == ("kernel", "mean", "noise", "norm")
    first, second = str(default).splitlines()[:2]
    assert first == "heuristic: kernel, mean, noise, norm estimated"
    assert second.startswith("  If the estimates were true: holds for every point")


def test_standardize_estimates_the_mean_even_where_it_changes_nothing():
    data = X[:3], torch.tensor([-1.0, 1.0, 0.0], dtype=torch.float64), KERNEL, 0.1
    model = frozen_model(*data, outcome_transform=Standardize(m=1))
    assert statuses(model) == (G, E, G, G)
    model.outcome_transform.means.fill_(0.0)
    model.outcome_transform.stdvs.fill_(1.0)
    assert statuses(model) == (G, E, G, G)


class Shifted(InputTransform):
    r"""Somebody's own transform, which takes its offset from the data in training mode."""

    transform_on_train = transform_on_eval = transform_on_fantasize = True
    is_one_to_many = False

    def __init__(self):
        super().__init__()
        self.register_buffer("offset", torch.zeros(1, dtype=torch.float64))

    def transform(self, X):
        if self.training:
            self.offset = X.mean(dim=-2)
        return X - self.offset


@pytest.mark.parametrize(
    ("transform", "status"),
    [
        (Normalize(d=1), E),
        (Normalize(d=1, bounds=UNIT), G),
        (Normalize(d=1, bounds=UNIT, learn_bounds=True), E),
        (InputStandardize(d=1), E),
        (Warp(d=1, indices=[0], bounds=UNIT), E),
        (Warp(d=1, indices=[0]).requires_grad_(False), E),
        (Warp(d=1, indices=[0], bounds=UNIT).requires_grad_(False), G),
        (ChainedInputTransform(a=Normalize(d=1, bounds=UNIT), b=Normalize(d=1)), E),
        (Shifted(), E),
    ],
)
def test_a_transform_that_learns_from_the_data_is_an_estimate(transform, status):
    model = frozen(0.1, input_transform=deepcopy(transform))
    for each, own in zip(
        model.input_transform.parameters(), transform.parameters(), strict=True
    ):
        each.requires_grad_(own.requires_grad)
    before = deepcopy(model.input_transform.state_dict())
    assert statuses(model) == (status, G, G, G)
    after = model.input_transform.state_dict()  # being asked leaves no trace
    assert all(torch.equal(before[name], after[name]) for name in before)


def budgeted_model(kernel=KERNEL, **options):
    return BKBModel(X, Y, kernel, alpha=0.01, qbar=1e4, **options)


def test_trainable_kernels_are_estimates_wherever_they_are_passed():
    kernel, norm = RBFKernel().double(), {"norm_bound": 9.0}
    given = {**norm, "noise_std": 0.1}
    state = KernelRegression(X, PROBLEM.Y, kernel, 0.1)
    sketch = NystromRegression(X, PROBLEM.Y, kernel, 0.1, X)
    for band in (
        MartingaleMixtureUCB(state, **norm),
        SketchedMartingaleMixtureUCB(sketch, **norm),
        BKBUCB(budgeted_model(kernel), **norm),
        BKBUCB(budgeted_model(input_transform=Normalize(d=1)), **norm),
        BKBUCB(budgeted_model(input_transform=InputStandardize(d=1)), **norm),
        KernelBandit(kernel, **given),
        BKBBandit(X, kernel, **given, qbar=1e4),
    ):
        assert band.assumptions.estimated == ("kernel",)


def test_outcomes_must_be_reported_whatever_their_noise():
    for acqf in MartingaleMixtureUCB(MODEL, norm_bound=3.0), SrinivasUCB(MODEL):
        statement = acqf.assumptions["outcomes"].statement
        assert "does not depend on its noise" in statement
        assert "not changed, averaged or merged" in statement


CUBE = CompactDomain(length=1.0, lipschitz_a=1.0, lipschitz_b=2.0)


class TestScope:
    def test_wang_de_freitas_needs_fixed_inputs(self):
        assumptions = WangDeFreitasUCB(MODEL, norm_bound=3.0).assumptions
        assert assumptions.summary == "no guarantee: design violated"
        assert "fixed_design=True" in assumptions["design"].statement
        fixed = WangDeFreitasUCB(MODEL, norm_bound=3.0, fixed_design=True).assumptions
        assert fixed.certified
        assert not fixed.anytime
        assert "fixed before any outcome" in fixed["design"].statement

    @pytest.mark.parametrize("theorem", [None, FiniteDomain(10), CUBE])
    def test_a_maximum_over_points_needs_all_of_them(self, theorem):
        acqf = AbbasiYadkoriUCB(MODEL, norm_bound=3.0)
        if theorem is not None:
            acqf = SrinivasUCB(MODEL, theorem=theorem)
        certificate = regret_certificate(acqf, PROBLEM.test_X)
        assert acqf.assumptions.all_points is certificate.certified is (theorem is None)
        if theorem is not None:
            first = str(certificate).splitlines()[0]
            assert "does not hold at all points at once" in first
            assert not CertifiedGapStopping(1e9, PROBLEM.test_X)(acqf).stop

    def test_theorems_of_srinivas(self):
        scaled = SrinivasUCB(MODEL, scale=0.2).assumptions
        assert scaled.guarantee.startswith("heuristic, no guarantee")
        assert scaled["theorem"].status is Status.VIOLATED
        wide = SrinivasUCB(MODEL, scale=2.0, theorem=FiniteDomain(9)).assumptions
        assert wide.certified
        for theorem in FiniteDomain(), CompactDomain(), CompactDomain(lipschitz_a=2.0):
            assumptions = SrinivasUCB(MODEL, theorem=theorem).assumptions
            assert assumptions.summary == "heuristic: domain estimated"
            assert "sample of the GP" in assumptions["prior"].statement
            assert "norm" not in [item.name for item in assumptions.items]
        assert SrinivasUCB(MODEL, theorem=CUBE).assumptions.certified

    @pytest.mark.parametrize(
        "build",
        [
            partial(AbbasiYadkoriUCB, MODEL),
            partial(IGPUCB, MODEL),
            partial(WangDeFreitasUCB, MODEL, fixed_design=True),
            lambda norm_bound: SrinivasUCB(
                MODEL, theorem=BoundedNorm(norm_bound, information_gain=99.0)
            ),
        ],
    )
    def test_a_norm_that_the_data_contradict(self, build):
        assert build(norm_bound=3.0).assumptions.certified
        assumptions = build(norm_bound=1e-3).assumptions
        assert str(assumptions).startswith("no guarantee: norm violated\n")
        assert "least consistent norm" in assumptions["norm"].statement
        with pytest.raises(UncertifiedError, match="norm violated"):
            SafeSet(build(norm_bound=1e-3), allow_estimated=True)
        with pytest.warns(InconsistentConfidenceSetWarning):
            acqf = MartingaleMixtureUCB(MODEL, norm_bound=1e-3)
        assert str(acqf.assumptions).startswith("no guarantee: norm violated\n")

    def test_several_bands_keep_the_narrowest_scope(self):
        bands = [IGPUCB(MODEL, norm_bound=3.0, horizon=h, delta=0.01) for h in (9, 7)]
        assert "every round up to 7 at once" in SafeSet(bands).assumptions.guarantee
        domain = SrinivasUCB(MODEL, theorem=FiniteDomain(9))
        summed = ScalarizedUCB([domain, bands[0]], [1.0, 1.0]).assumptions
        assert "at single points only" in summed.guarantee
        loose = SafeSet(domain, allow_estimated=True).assumptions
        assert loose.summary == "no guarantee: theorem violated"
        with pytest.raises(UncertifiedError, match="all points and all rounds at once"):
            SafeSet(domain)

    def test_failure_probabilities_that_add_up_to_one(self):
        bands = [MartingaleMixtureUCB(MODEL, norm_bound=3.0, delta=0.4) for _ in range(3)]
        assumptions = SafeSet(bands).assumptions
        assert assumptions.summary == "no guarantee: delta violated"
        assert "add up to 1.2" in assumptions["delta"].statement


FLYNN, DURAND = "Flynn & Reeb (2024)", "Durand, Maillard & Pineau (2018)"
ENERGY = "with the energy of the noise (ours)"
FILTERS = "Mixture of filters (ours; docs/mathematics.md)"
CLOSED = f"{FLYNN}, Eq. (8)"
SCALES = f"{FLYNN}, Theorem 4.1, for a mixture over scales (ours)"
PREDICTED = f"{FLYNN}, Theorem 4.1, for predictions one step ahead, {ENERGY}"
UNKNOWN = "Ville's inequality for a mixture over noise scales (ours)"
NEAR, ABOVE = "with a model error (ours)", "bounded from above (ours)"
SKETCH = f"weak duality of {FLYNN}, Theorem 4.5, in the span of a few features (ours)"
DUAL = f"{FLYNN}, Theorem 4.5; fit: {FILTERS}"
ABBASI = f"Abbasi-Yadkori (2012), Theorem 3.11 ({DURAND}, Theorem 1)"
IGP = "Chowdhury & Gopalan (2017), Theorem 2"
BKB = "Abbasi-Yadkori (2012), Theorem 3.11, for any inducing points (ours)"
COROLLARY = (
    f"{DURAND}, Corollary 1, the noise bounds of Theorem 3 as its proof gives them (ours)"
)
CUTS = "Tangents of the losses (ours)"
RATIO = "Likelihood ratio with a mixture (Emmenegger et al. 2023), evidence bounded (ours)"
META, SRINIVAS = "Wang, Kim & Kaelbling (2018)", "Srinivas et al. (2010), Theorem"
NORM, GIVEN = {"norm_bound": 9.0}, {"norm_bound": 9.0, "noise_std": 0.1}
NEARBY, LIMITS = {"norm_bound": NearNormBall(9.0, 0.1)}, UnknownNoise(0.01, 1.0)
MARTINGALE = {"fit": "martingale"}
SUCCESSES = (Y.median() < Y).double()


def predicted():
    radius = PrequentialRadius()
    radius.observe_predictions(torch.zeros(6), torch.ones(6), PROBLEM.Y, 0.1, X)
    return {"fit": radius}


def mixture(**options):
    return MartingaleMixtureUCB(STATE, **(NORM | options))


def family(state=STATE, **options):
    return family_ucb(state, [KERNEL], **(NORM | options))


def sketched(**options):
    state = NystromRegression(X, PROBLEM.Y, KERNEL, 0.1, X[:3])
    return SketchedMartingaleMixtureUCB(state, **NORM, **options)


def bandit(**options):
    return KernelBandit(KERNEL, **GIVEN, **options)


def tasks_at_candidates():
    candidates = torch.linspace(0.0, 1.0, 5).double().unsqueeze(-1)
    return uniform(60, 5, seed=1), candidates


def features():
    tasks, candidates = tasks_at_candidates()
    maps = CosineFeatures(torch.tensor([[0.0, 2.0]]), torch.tensor([0.0, 0.3]))
    return FeatureMetaModel(candidates, tasks, maps.double())


UNION = "Union over a family of kernels (ours)"
LEMMA = "; band: Lemma 11 and Corollary 6"
SOURCES = [
    (mixture, DUAL),
    (partial(mixture, form="convex"), f"{FLYNN}, Theorem 4.4; fit: {FILTERS}"),
    (partial(mixture, form="analytic"), f"{FLYNN}, Corollary 4.6; fit: {FILTERS}"),
    (partial(mixture, form="grid"), f"{FLYNN}, Eq. (12) over a grid; fit: {FILTERS}"),
    (partial(mixture, **MARTINGALE), f"{FLYNN}, Theorem 4.5; fit: {CLOSED}"),
    (
        partial(mixture, fit="martingale", covariance_scale=[0.5, 1.0]),
        f"{FLYNN}, Theorem 4.5; fit: {SCALES}",
    ),
    (lambda: mixture(**predicted()), f"{FLYNN}, Theorem 4.5; fit: {PREDICTED}"),
    (partial(mixture, **NEARBY), f"{DUAL}, {NEAR}"),
    (partial(mixture, noise_std=UnknownNoise()), f"{FLYNN}, Theorem 4.5; fit: {UNKNOWN}"),
    (family, f"{UNION}, each by {DUAL}"),
    (lambda: likelihood_ucb(X, SUCCESSES, KERNEL, **NORM), f"{CUTS}; fit: {RATIO}"),
    (
        lambda: likelihood_ucb(X, SUCCESSES, KERNEL, **NORM, form="tangent"),
        f"Tangents of the losses (ours); fit: {RATIO}",
    ),
    (sketched, f"{SKETCH}; fit: {CLOSED}, {ABOVE}, {ENERGY}"),
    (partial(sketched, **MARTINGALE), f"{SKETCH}; fit: {CLOSED}, {ABOVE}"),
    (lambda: AbbasiYadkoriUCB(MODEL, **NORM), ABBASI),
    (lambda: KernelThompsonSampling(MODEL, **GIVEN), ABBASI),
    (lambda: KernelThompsonSampling(MODEL, **NORM, noise_std=LIMITS), COROLLARY),
    (lambda: IGPUCB(MODEL, **NORM), IGP),
    (
        lambda: WangDeFreitasUCB(MODEL, **NORM, fixed_design=True),
        f"Wang & de Freitas (2014), Proposition 1 ({DURAND}, Lemma 3), its last term in "
        "noise units (ours)",
    ),
    (lambda: StreamingKernelUCB(MODEL, **NORM, noise_std=LIMITS), COROLLARY),
    (lambda: SrinivasUCB(MODEL, theorem=FiniteDomain()), f"{SRINIVAS} 1"),
    (lambda: SrinivasUCB(MODEL, theorem=CompactDomain()), f"{SRINIVAS} 2"),
    (lambda: SrinivasUCB(MODEL, theorem=BoundedNorm(9.0)), f"{SRINIVAS} 3"),
    (lambda: BKBUCB(budgeted_model(), **NORM), BKB),
    (
        lambda: BKBUCB(budgeted_model(), **NORM, radius="theorem2"),
        "Calandriello et al. (2019), Theorem 2, its logarithm as the proof gives it (ours)",
    ),
    (
        lambda: BKBUCB(budgeted_model(), **NORM, radius="practical"),
        "the code that Calandriello et al. (2019) released",
    ),
    (lambda: BKBBandit(X, KERNEL, **GIVEN, qbar=1e4), BKB),
    (bandit, f"{FLYNN}, Eq. (12) over a grid; fit: {CLOSED}, {ENERGY}"),
    (partial(bandit, bound="abbasi_yadkori"), ABBASI),
    (partial(bandit, bound="igp_ucb"), IGP),
    (
        lambda: MetaUCB(DiscreteMetaModel(*tasks_at_candidates())),
        f"{META}, Theorem 2{LEMMA}",
    ),
    (lambda: MetaPI(DiscreteMetaModel(*tasks_at_candidates())), f"{META}, Theorem 2"),
    (lambda: MetaUCB(features()), f"{META}, Theorem 4{LEMMA}"),
    (lambda: MetaPI(features()), f"{META}, Theorem 4"),
    # Several bands name each source once.
    (lambda: SafeSet([mixture(), mixture(), IGPUCB(MODEL, **NORM)]), f"{DUAL}; {IGP}"),
    (lambda: ScalarizedUCB([mixture(), IGPUCB(MODEL, **NORM)], [1, 1]), f"{DUAL}; {IGP}"),
]


@pytest.mark.parametrize(("build", "source"), SOURCES)
def test_the_source_is_the_theorem_whose_statement_is_used(build, source):
    assumptions = build().assumptions
    assert assumptions.source == source
    assert source.partition(";")[0] in str(assumptions)


def test_an_estimated_norm_is_no_theorem_and_a_safe_set_needs_consent():
    acqf = MartingaleMixtureUCB(MODEL)
    assert "estimate from these data (ours, by no theorem)" in str(acqf.assumptions["norm"])
    ways = (
        MartingaleMixtureUCB(MODEL, norm_bound=b)
        for b in ("cautious", NormTracker.cautious())
    )
    first, second = (each.band.norm_bounds[0] for each in ways)
    assert first == second > acqf.band.norm_bounds[0]
    with pytest.raises(UncertifiedError, match=r"(?s)norm estimated.*norm: pass norm_b"):
        SafeSet(acqf)
    allowed = SafeSet(acqf, allow_estimated=True)
    assert allowed.assumptions.estimated == ("constraint 1: norm",)
