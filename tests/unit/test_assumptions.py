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
from gpytorch.kernels import LinearKernel, RBFKernel

from kernelucb import (
    BKBUCB,
    IGPUCB,
    AbbasiYadkoriUCB,
    BKBBandit,
    CertifiedGapStopping,
    KernelBandit,
    KernelRegression,
    MartingaleMixtureUCB,
    MetaPI,
    MetaUCB,
    NormTracker,
    NystromRegression,
    PrequentialRadius,
    SafeSet,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    WangDeFreitasUCB,
    regret_certificate,
)
from kernelucb.confidence.assumptions import Status
from kernelucb.exceptions import UncertifiedError
from kernelucb.models import BKBModel, DiscreteMetaModel
from kernelucb.papers import BoundedNorm, CompactDomain, FiniteDomain
from problems import frozen_model, make_problem, uniform

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


SEVERAL = torch.tensor([0.2, 0.1, 0.1, 0.1, 0.1, 0.1], dtype=torch.float64)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: MODEL, (G, G, G, G)),
        (lambda: trainable("covar_module"), (E, G, G, G)),
        (lambda: trainable("likelihood"), (G, G, E, G)),
        (lambda: frozen(0.1, mean=0.5), (G, G, G, G)),
        (lambda: trainable("mean_module", mean=0.5), (G, E, G, G)),
        (lambda: frozen(SEVERAL), (G, G, G, G)),
    ],
)
def test_trainable_parts_are_estimated(build, expected):
    assert statuses(build()) == expected
    given = statuses(build(), noise_std=0.1)
    assert given == (*expected[:2], G, G)


def test_first_words():
    given = MartingaleMixtureUCB(MODEL, norm_bound=3.0).assumptions
    assert (given.summary, given.anytime) == ("certified", True)
    assert str(given).startswith("certified, if what was given is true: holds for")
    default = MartingaleMixtureUCB(SingleTaskGP(X, Y)).assumptions
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
    parameters = model.input_transform.parameters(), transform.parameters()
    for each, original in zip(*parameters, strict=True):
        each.requires_grad_(original.requires_grad)
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


CUBE = CompactDomain(length=1.0, lipschitz_a=1.0, lipschitz_b=2.0)


def test_wang_de_freitas_needs_fixed_inputs():
    assumptions = WangDeFreitasUCB(MODEL, norm_bound=3.0).assumptions
    assert assumptions.summary == "no guarantee: design violated"
    fixed = WangDeFreitasUCB(MODEL, norm_bound=3.0, fixed_design=True).assumptions
    assert (fixed.certified, fixed.anytime) == (True, False)


@pytest.mark.parametrize("theorem", [None, FiniteDomain(10), CUBE])
def test_a_maximum_over_points_needs_all_of_them(theorem):
    acqf = AbbasiYadkoriUCB(MODEL, norm_bound=3.0)
    if theorem is not None:
        acqf = SrinivasUCB(MODEL, theorem=theorem)
    certificate = regret_certificate(acqf, PROBLEM.test_X)
    assert acqf.assumptions.all_points is certificate.certified is (theorem is None)
    if theorem is not None:
        assert not CertifiedGapStopping(1e9, PROBLEM.test_X)(acqf).stop


def test_theorems_of_srinivas():
    scaled = SrinivasUCB(MODEL, scale=0.2).assumptions
    assert scaled.summary == "no guarantee: theorem violated"
    assert SrinivasUCB(MODEL, scale=2.0, theorem=FiniteDomain(9)).assumptions.certified
    for theorem in FiniteDomain(), CompactDomain(), CompactDomain(lipschitz_a=2.0):
        assumptions = SrinivasUCB(MODEL, theorem=theorem).assumptions
        assert assumptions.summary == "heuristic: domain estimated"
        assert "sample of the GP" in assumptions["prior"].statement
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
def test_a_norm_that_the_data_contradict(build):
    assert build(norm_bound=3.0).assumptions.certified
    assumptions = build(norm_bound=1e-3).assumptions
    assert str(assumptions).startswith("no guarantee: norm violated\n")
    assert "least consistent norm" in assumptions["norm"].statement
    with pytest.raises(UncertifiedError, match="norm violated"):
        SafeSet(build(norm_bound=1e-3), allow_estimated=True)


def test_several_bands_keep_the_narrowest_scope():
    bands = [IGPUCB(MODEL, norm_bound=3.0, horizon=h, delta=0.01) for h in (9, 7)]
    assert "every round up to 7 at once" in SafeSet(bands).assumptions.guarantee
    domain = SrinivasUCB(MODEL, theorem=FiniteDomain(9))
    summed = ScalarizedUCB([domain, bands[0]], [1.0, 1.0]).assumptions
    assert "at single points only" in summed.guarantee
    loose = SafeSet(domain, allow_estimated=True).assumptions
    assert loose.summary == "no guarantee: theorem violated"
    with pytest.raises(UncertifiedError, match="all points and all rounds at once"):
        SafeSet(domain)


def test_failure_probabilities_that_add_up_to_one():
    bands = [MartingaleMixtureUCB(MODEL, norm_bound=3.0, delta=0.4) for _ in range(3)]
    assumptions = SafeSet(bands).assumptions
    assert assumptions.summary == "no guarantee: delta violated"
    assert assumptions.delta == pytest.approx(1.2)


NORM, GIVEN = {"norm_bound": 9.0}, {"norm_bound": 9.0, "noise_std": 0.1}
EXACT = "Flynn & Reeb (2024), Theorem 4.5; fit: "
SCALES = {"fit": "martingale", "covariance_scale": [0.5, 1.0]}


def predicted():
    radius = PrequentialRadius()
    radius.observe_predictions(torch.zeros(6), torch.ones(6), PROBLEM.Y, 0.1, X)
    return radius


def mixture(**options):
    return MartingaleMixtureUCB(STATE, **(NORM | options))


def srinivas(theorem):
    return SrinivasUCB(MODEL, theorem=theorem)


def budgeted(radius):
    return BKBUCB(budgeted_model(), **NORM, radius=radius)


def meta(bound):
    candidates = torch.linspace(0.0, 1.0, 5).double().unsqueeze(-1)
    return bound(DiscreteMetaModel(uniform(60, 5, seed=1), candidates))


def both():
    r"""Several bands name each source once."""
    return SafeSet([mixture(), mixture(), IGPUCB(MODEL, **NORM)])


# Other theorems stand in ``tests/golden.json``, by band, bandit and sampler.
SOURCES = [
    (partial(mixture, form="grid"), "Flynn & Reeb (2024), Eq. (12) over a grid; fit: Mix"),
    (partial(mixture, **SCALES), EXACT + "Flynn & Reeb (2024), Theorem 4.1, for a mix"),
    (lambda: mixture(fit=predicted()), EXACT + "Flynn & Reeb (2024), Theorem 4.1, for pre"),
    (partial(srinivas, CompactDomain()), "Srinivas et al. (2010), Theorem 2"),
    (partial(srinivas, BoundedNorm(9.0)), "Srinivas et al. (2010), Theorem 3"),
    (partial(budgeted, "theorem2"), "Calandriello et al. (2019), Theorem 2, its logarithm"),
    (partial(budgeted, "practical"), "the code that Calandriello et al. (2019) released"),
    (partial(meta, MetaUCB), "Wang, Kim & Kaelbling (2018), Theorem 2; band: Lemma 11"),
    (partial(meta, MetaPI), "Wang, Kim & Kaelbling (2018), Theorem 2"),
    (both, EXACT + "Mixture of filters (ours; docs/mathematics.md); Chowdhury & Gopalan"),
]


@pytest.mark.parametrize(("build", "source"), SOURCES)
def test_the_source_is_the_theorem_whose_statement_is_used(build, source):
    assert build().assumptions.source.startswith(source)


def test_an_estimated_norm_is_no_theorem_and_a_safe_set_needs_consent():
    acqf = MartingaleMixtureUCB(MODEL)
    assert "estimate from these data (ours, by no theorem)" in str(acqf.assumptions["norm"])
    larger = MartingaleMixtureUCB(MODEL, norm_bound=NormTracker(inflation=1.5, floor=4.0))
    assert larger.band.norm_bounds[0] > acqf.band.norm_bounds[0]
    with pytest.raises(UncertifiedError, match=r"(?s)norm estimated.*norm: pass norm_b"):
        SafeSet(acqf)
    allowed = SafeSet(acqf, allow_estimated=True)
    assert allowed.assumptions.estimated == ("constraint 1: norm",)


LENGTHS = {"kernel": "matern52", "lengthscale": [0.4, 2.0]}
INPUTS, OUTCOMES = uniform(8, 2, seed=0), uniform(8, 1, seed=1)
LONGER = (RBFKernel() + LinearKernel()) * RBFKernel()


@pytest.mark.parametrize(
    ("model", "options", "kernel", "mean"),
    [
        (
            SingleTaskGP(
                INPUTS, OUTCOMES, input_transform=Normalize(2, bounds=UNIT.expand(2, 2))
            ),
            LENGTHS | {"outputscale": 4.0, "mean": 50.0},
            "Matern 5/2, length scale (0.4, 2) after Normalize, standard deviation 2",
            "50",
        ),
        (
            frozen_model(INPUTS, OUTCOMES[:, 0], LONGER, 0.1),
            {},
            "(RBF, length scale 0.6931 plus LinearKernel) times RBF, length scale 0.6931",
            "0",
        ),
    ],
)
def test_what_was_given_is_said(model, options, kernel, mean):
    options = {"norm_bound": 200.0, "noise_std": 0.1, **options}
    items = MartingaleMixtureUCB.from_model(model, **options).assumptions
    assert str(items["kernel"]) == f"[given] the kernel was fixed before the data: {kernel}"
    assert str(items["mean"]) == f"[given] the prior mean was fixed before the data: {mean}"


def test_length_scales_by_name_are_refused():
    options = LENGTHS | {"lengthscale": {"T": 40.0, "t": 9.5}}
    model = SingleTaskGP(INPUTS, OUTCOMES)
    with pytest.raises(ValueError, match="lengthscale must be numbers, got"):
        MartingaleMixtureUCB.from_model(model, norm_bound=2.0, noise_std=0.1, **options)
