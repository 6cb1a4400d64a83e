r"""What the guarantee rests on: given, estimated or violated."""

from copy import deepcopy

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
    MartingaleMixtureUCB,
    NystromRegression,
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
from kernelucb.models import BKBModel
from problems import frozen_model, make_problem

PROBLEM = make_problem(n=6)
G, E = Status.GIVEN, Status.ESTIMATED
CUBE = CompactDomain(length=1.0, lipschitz_a=1.0, lipschitz_b=2.0)
UNIT = torch.tensor([[0.0], [1.0]], dtype=torch.float64)


def statuses(model, **options):
    acqf = MartingaleMixtureUCB(model, norm_bound=50.0, **options)
    names = ("kernel", "mean", "noise", "norm")
    return tuple(acqf.assumptions[name].status for name in names)


def trainable(part):
    model = PROBLEM.model
    getattr(model, part).requires_grad_(True)
    return model


def test_everything_given():
    assumptions = MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0).assumptions
    assert statuses(PROBLEM.model) == (G, G, G, G)
    assert assumptions.certified
    assert assumptions.anytime
    assert assumptions.summary == "certified"
    assert str(assumptions).startswith("certified, if what was given is true: holds for")


def test_trainable_parts_are_estimated():
    assert statuses(trainable("covar_module")) == (E, G, G, G)
    assert statuses(trainable("likelihood")) == (G, G, E, G)
    mean = frozen_model(PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, 0.1, mean=0.5)
    assert statuses(mean) == (G, G, G, G)
    mean.mean_module.requires_grad_(True)
    assert statuses(mean) == (G, E, G, G)


def test_default_botorch_model_is_estimated_throughout_but_the_norm():
    model = SingleTaskGP(PROBLEM.X, PROBLEM.Y.unsqueeze(-1))
    assert statuses(model) == (E, E, E, G)
    assumptions = MartingaleMixtureUCB(model).assumptions
    assert not assumptions.certified
    assert assumptions.estimated == ("kernel", "mean", "noise", "norm")
    first, second = str(assumptions).splitlines()[:2]
    assert first == "heuristic: kernel, mean, noise, norm estimated"
    assert second.startswith("  If the estimates were true: holds for every point")


def test_given_noise_std_is_given():
    assert statuses(trainable("likelihood"), noise_std=0.1) == (G, G, G, G)


def test_known_noise_of_each_observation_is_given():
    noise = torch.full_like(PROBLEM.Y, 0.1)
    noise[0] = 0.2
    model = frozen_model(PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, noise)
    assert statuses(model) == (G, G, G, G)
    assumptions = MartingaleMixtureUCB(model, norm_bound=50.0).assumptions
    assert "0.1 to 0.2" in assumptions["noise"].statement


def test_standardize_estimates_the_mean():
    model = frozen_model(
        PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, 0.1, outcome_transform=Standardize(m=1)
    )
    assert statuses(model) == (G, E, G, G)


def test_trainable_input_warping_is_part_of_the_kernel():
    transform = Warp(d=1, indices=[0], bounds=UNIT)
    model = frozen_model(
        PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, 0.1, input_transform=transform
    )
    assert statuses(model) == (G, G, G, G)
    model.input_transform.requires_grad_(True)
    assert statuses(model) == (E, G, G, G)


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
        (Warp(d=1, indices=[0]).requires_grad_(False), E),
        (Warp(d=1, indices=[0], bounds=UNIT).requires_grad_(False), G),
        (ChainedInputTransform(a=Normalize(d=1, bounds=UNIT), b=Normalize(d=1)), E),
        (Shifted(), E),
    ],
)
def test_a_transform_that_learns_from_the_data_is_an_estimate(transform, status):
    transform = deepcopy(transform)
    model = frozen_model(
        PROBLEM.X, PROBLEM.Y, PROBLEM.kernel, 0.1, input_transform=transform
    )
    before = deepcopy(transform.state_dict())
    assert statuses(model) == (status, G, G, G)
    after = model.input_transform.state_dict()  # being asked leaves no trace
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_standardize_that_changes_nothing_was_learned_all_the_same():
    Y = torch.tensor([-1.0, 1.0, 0.0], dtype=torch.float64)
    model = frozen_model(
        PROBLEM.X[:3], Y, PROBLEM.kernel, 0.1, outcome_transform=Standardize(m=1)
    )
    model.outcome_transform.means.fill_(0.0)
    model.outcome_transform.stdvs.fill_(1.0)
    assert statuses(model) == (G, E, G, G)


def test_outcomes_must_be_reported_whatever_their_noise():
    for acqf in (
        MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0),
        IGPUCB(PROBLEM.model, norm_bound=3.0),
        SrinivasUCB(PROBLEM.model),
    ):
        statement = acqf.assumptions["outcomes"].statement
        assert "does not depend on its noise" in statement
        assert "not changed, averaged or merged" in statement


def test_noise_scales_of_their_own_must_be_fixed_before_their_outcomes():
    noise_std = torch.linspace(0.1, 0.2, len(PROBLEM.X), dtype=torch.float64)
    several = MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0, noise_std=noise_std)
    expected = "one for each observation, fixed before its outcome"
    assert expected in several.assumptions["noise"].statement
    one = MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0)
    assert "one for each" not in one.assumptions["noise"].statement


def test_wang_de_freitas_needs_fixed_inputs():
    assumptions = WangDeFreitasUCB(PROBLEM.model, norm_bound=3.0).assumptions
    assert assumptions.summary == "no guarantee: design violated"
    assert "fixed_design=True" in assumptions["design"].statement
    fixed = WangDeFreitasUCB(PROBLEM.model, norm_bound=3.0, fixed_design=True).assumptions
    assert fixed.certified
    assert "fixed before any outcome" in fixed["design"].statement


def test_a_violation_is_the_first_word():
    with pytest.warns(InconsistentConfidenceSetWarning):
        acqf = MartingaleMixtureUCB(PROBLEM.model, norm_bound=1e-3)
    assert str(acqf.assumptions).startswith("no guarantee: norm violated\n")


@pytest.mark.parametrize(
    ("acqf", "all_points"),
    [
        (MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0), True),
        (AbbasiYadkoriUCB(PROBLEM.model, norm_bound=3.0), True),
        (SrinivasUCB(PROBLEM.model, theorem=FiniteDomain(10)), False),
        (SrinivasUCB(PROBLEM.model, theorem=CUBE), False),
    ],
)
def test_a_maximum_over_points_needs_all_of_them(acqf, all_points):
    certificate = regret_certificate(acqf, PROBLEM.test_X)
    assert acqf.assumptions.all_points is all_points
    assert certificate.certified is all_points
    if not all_points:
        assert "does not hold at all points at once" in str(certificate).splitlines()[0]
        decision = CertifiedGapStopping(1e9, PROBLEM.test_X)(acqf)
        assert not decision.stop


@pytest.mark.parametrize(
    ("acqf", "anytime", "source"),
    [
        (MartingaleMixtureUCB(PROBLEM.model, norm_bound=3.0), True, "Flynn & Reeb"),
        (AbbasiYadkoriUCB(PROBLEM.model, norm_bound=3.0), True, "Abbasi-Yadkori"),
        (IGPUCB(PROBLEM.model, norm_bound=3.0), True, "Chowdhury & Gopalan"),
        (
            WangDeFreitasUCB(PROBLEM.model, norm_bound=3.0, fixed_design=True),
            False,
            "Wang & de Freitas",
        ),
        (
            StreamingKernelUCB(PROBLEM.model, norm_bound=3.0, noise_std=UnknownNoise(0.05)),
            True,
            "Durand, Maillard & Pineau (2018), Corollary 1",
        ),
        (SrinivasUCB(PROBLEM.model), True, "Theorem 1"),
        (SrinivasUCB(PROBLEM.model, theorem=CompactDomain()), True, "Theorem 2"),
        (SrinivasUCB(PROBLEM.model, theorem=BoundedNorm(3.0)), True, "Theorem 3"),
    ],
)
def test_source_and_rounds(acqf, anytime, source):
    assert acqf.assumptions.anytime is anytime
    assert source in str(acqf.assumptions)
    assert "probability 0.95" in acqf.assumptions.guarantee


def test_horizon_is_part_of_the_guarantee():
    acqf = IGPUCB(PROBLEM.model, norm_bound=3.0, horizon=77)
    assert "every round up to 77" in acqf.assumptions.guarantee


def test_scaled_srinivas_has_no_guarantee():
    assumptions = SrinivasUCB(PROBLEM.model, scale=0.2).assumptions
    assert assumptions.guarantee.startswith("heuristic, no guarantee")
    assert assumptions["theorem"].status is Status.VIOLATED
    assert not assumptions.certified
    assert SrinivasUCB(
        PROBLEM.model, scale=2.0, theorem=FiniteDomain(9)
    ).assumptions.certified


@pytest.mark.parametrize(
    "theorem", [FiniteDomain(), CompactDomain(), CompactDomain(lipschitz_a=2.0)]
)
def test_a_default_domain_is_an_estimate(theorem):
    assumptions = SrinivasUCB(PROBLEM.model, theorem=theorem).assumptions
    assert assumptions.summary == "heuristic: domain estimated"
    assert SrinivasUCB(PROBLEM.model, theorem=CUBE).assumptions.certified


@pytest.mark.parametrize(
    "build",
    [
        lambda **norm: AbbasiYadkoriUCB(PROBLEM.model, **norm),
        lambda **norm: IGPUCB(PROBLEM.model, **norm),
        lambda **norm: WangDeFreitasUCB(PROBLEM.model, fixed_design=True, **norm),
        lambda **norm: SrinivasUCB(
            PROBLEM.model, theorem=BoundedNorm(information_gain=99.0, **norm)
        ),
    ],
)
def test_a_norm_that_the_data_contradict(build):
    assert build(norm_bound=3.0).assumptions.certified
    assumptions = build(norm_bound=1e-3).assumptions
    assert assumptions.summary == "no guarantee: norm violated"
    assert "least consistent norm" in assumptions["norm"].statement
    with pytest.raises(UncertifiedError, match="norm violated"):
        SafeSet(build(norm_bound=1e-3), allow_estimated=True)


def test_trainable_kernels_are_estimates_wherever_they_are_passed():
    X, Y, kernel = PROBLEM.X, PROBLEM.Y, RBFKernel().double()
    state = KernelRegression(X, Y, kernel, 0.1)
    sketch = NystromRegression(X, Y, kernel, 0.1, X)
    budgeted = BKBModel(X, Y.unsqueeze(-1), kernel, alpha=0.01, qbar=1e4)
    for assumptions in (
        MartingaleMixtureUCB(state, norm_bound=9.0).assumptions,
        SketchedMartingaleMixtureUCB(sketch, norm_bound=9.0).assumptions,
        BKBUCB(budgeted, norm_bound=9.0).assumptions,
        KernelBandit(kernel, norm_bound=9.0, noise_std=0.1).assumptions,
        BKBBandit(X, kernel, norm_bound=9.0, noise_std=0.1, qbar=1e4).assumptions,
    ):
        assert assumptions.estimated == ("kernel",)


@pytest.mark.parametrize("transform", [Normalize(d=1), InputStandardize(d=1)])
def test_a_budgeted_model_with_a_transform_that_learns(transform):
    model = BKBModel(
        PROBLEM.X,
        PROBLEM.Y.unsqueeze(-1),
        PROBLEM.kernel,
        alpha=0.01,
        qbar=1e4,
        input_transform=transform,
    )
    assert BKBUCB(model, norm_bound=9.0).assumptions.estimated == ("kernel",)


def test_several_bands_keep_the_narrowest_scope():
    bands = [IGPUCB(PROBLEM.model, norm_bound=3.0, horizon=h, delta=0.01) for h in (9, 7)]
    assert "every round up to 7 at once" in SafeSet(bands).assumptions.guarantee
    domain = SrinivasUCB(PROBLEM.model, theorem=FiniteDomain(9))
    summed = ScalarizedUCB([domain, bands[0]], [1.0, 1.0]).assumptions
    assert "at single points only" in summed.guarantee
    loose = SafeSet(domain, allow_estimated=True).assumptions
    assert loose.summary == "no guarantee: theorem violated"
    with pytest.raises(UncertifiedError, match="all points and all rounds at once"):
        SafeSet(domain)


def test_failure_probabilities_that_add_up_to_one():
    options = {"norm_bound": 3.0, "delta": 0.4}
    bands = [MartingaleMixtureUCB(PROBLEM.model, **options) for _ in range(3)]
    assumptions = SafeSet(bands).assumptions
    assert assumptions.summary == "no guarantee: delta violated"
    assert "add up to 1.2" in assumptions["delta"].statement


def test_bayesian_bounds_assume_a_sample_not_a_norm():
    assumptions = SrinivasUCB(PROBLEM.model).assumptions
    assert "sample of the GP" in assumptions["prior"].statement
    with pytest.raises(KeyError):
        assumptions["norm"]
