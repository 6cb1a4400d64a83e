r"""Nothing is made on the CPU for inputs that are elsewhere, on a device that pretends."""

from typing import Any

import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import Standardize
from botorch.optim import optimize_acqf
from test_bandit import BOUNDS, OPTIONS

from benchmarks.attack.pretended_device import AVAILABLE, pretended_device
from kernelucb import (
    BKBUCB,
    IGPUCB,
    AbbasiYadkoriUCB,
    BKBBandit,
    BoundedNorm,
    CertifiedGapStopping,
    CompactDomain,
    ConstraintWidth,
    FamilyBandit,
    FamilyTracker,
    KernelBandit,
    KernelFamilyUCB,
    KernelRegression,
    KernelThompsonSampling,
    MartingaleMixtureUCB,
    MetaPI,
    MetaUCB,
    NystromRegression,
    PrequentialRadius,
    SafeSet,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    WangDeFreitasUCB,
    check_consistency,
    describe_norm_bound,
    information_gain,
    least_consistent_norm,
    optimize_acqf_safely,
    regret_certificate,
)
from kernelucb.models.bkb import BKBModel
from kernelucb.models.fixed import FixedPriorGP
from kernelucb.models.meta import DiscreteMetaModel, FeatureMetaModel
from kernelucb.optim import chunked
from problems import frozen_kernel, make_problem, uniform

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="needs a newer torch")

PROBLEM = make_problem(n=3, d=2, kernel="matern52")
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
NORM = {"norm_bound": 3.0}
UNKNOWN = {"noise_std": UnknownNoise(0.05)}


class There:
    r"""A problem on a device."""

    def __init__(self, device):
        self.device = device
        self.X, self.Y = PROBLEM.X.to(device), PROBLEM.Y.to(device).reshape(-1, 1)
        self.kernel = frozen_kernel("matern52").to(device)
        self.noise = torch.full_like(self.Y, 0.1)
        self.model = SingleTaskGP(
            self.X, self.Y, self.noise**2, covar_module=self.kernel, outcome_transform=None
        ).requires_grad_(False)
        self.points = uniform(2, 2, 7).to(device)
        self.square = SQUARE.to(device)
        self.state = KernelRegression(self.X, self.Y, self.kernel, 0.1)


def exact(there):
    return MartingaleMixtureUCB(there.model, **NORM)


def fitted(there):
    model = SingleTaskGP(
        there.X,
        there.Y,
        outcome_transform=Standardize(1),
        input_transform=Normalize(2),
    )
    return MartingaleMixtureUCB(model.to(there.device))


def predicted(there):
    radius = PrequentialRadius()
    early = SingleTaskGP(
        there.X[:2], there.Y[:2], covar_module=there.kernel, outcome_transform=None
    )
    radius.observe(early, there.X, there.Y, there.noise)
    radius.observe(early, there.X[:2], there.Y[:2], 0.1)
    X, Y = (torch.cat([part, part[:2]]) for part in (there.X, there.Y))
    state = KernelRegression(X, Y, there.kernel, 0.1)
    return MartingaleMixtureUCB(state, fit=radius, **NORM)


def bkb_model(there):
    return BKBModel(there.X, there.Y, there.kernel, 0.01)


def meta_model(there):
    return DiscreteMetaModel(torch.rand(40, 2).double().to(there.device), there.points)


def feature_model(there):
    values = torch.rand(40, 3).double().to(there.device)
    return FeatureMetaModel(there.X, values, num_features=2, progress=False)


ACQUISITIONS = {
    "exact": exact,
    "fitted": fitted,
    "cautious": lambda t: MartingaleMixtureUCB(t.model, norm_bound="cautious"),
    "mixture": lambda t: MartingaleMixtureUCB(t.model, covariance_scale="mixture", **NORM),
    "analytic": lambda t: MartingaleMixtureUCB(t.model, form="analytic", **NORM),
    "grid": lambda t: MartingaleMixtureUCB(t.model, alphas="paper", **NORM),
    "own grid": lambda t: MartingaleMixtureUCB(t.model, alphas=[0.1, 1.0], **NORM),
    "several noises": lambda t: MartingaleMixtureUCB(t.model, noise_std=t.noise, **NORM),
    "unknown noise": lambda t: MartingaleMixtureUCB(
        t.state, noise_std=UnknownNoise(), **NORM
    ),
    "noise between": lambda t: MartingaleMixtureUCB(
        t.state, noise_std=UnknownNoise(0.01, 1.0), **NORM
    ),
    "predicted": predicted,
    "weighted": lambda t: MartingaleMixtureUCB(
        t.model,
        posterior_transform=ScalarizedPosteriorTransform(-torch.ones(1).double()),
        **NORM,
    ),
    "AY": lambda t: AbbasiYadkoriUCB(t.model, **NORM),
    "IGP": lambda t: IGPUCB(t.model, **NORM),
    "WdF": lambda t: WangDeFreitasUCB(t.model, **NORM),
    "Srinivas": lambda t: SrinivasUCB(t.model, theorem=BoundedNorm(**NORM)),
    "Srinivas 2": lambda t: SrinivasUCB(t.model, theorem=CompactDomain()),
    "streaming": lambda t: StreamingKernelUCB(
        t.state, noise_std=UnknownNoise(0.05), **NORM
    ),
    "streaming, no norm": lambda t: StreamingKernelUCB(
        t.state, noise_std=UnknownNoise(0.05)
    ),
    "scalarized": lambda t: ScalarizedUCB(
        [ACQUISITIONS[name](t) for name in ("AY", "IGP")], [1.0, -2.0]
    ),
    "sketched": lambda t: SketchedMartingaleMixtureUCB(
        NystromRegression(t.X, t.Y, t.kernel, 0.1, t.X[:2]), **NORM
    ),
    "sketched from model": lambda t: SketchedMartingaleMixtureUCB(
        NystromRegression.from_model(t.model, t.X[:2], remainder_points=t.points).observe(
            t.points, t.Y[:2]
        ),
        covariance_scale="mixture",
        **NORM,
    ),
    "BKB": lambda t: BKBUCB(bkb_model(t).observe(t.points, t.Y[:2]), **NORM),
    "meta": lambda t: MetaUCB(feature_model(t), delta=0.9),
    "meta PI": lambda t: MetaPI(
        feature_model(t).condition_on_observations(t.X[:2], t.Y[:2]), target=1.0
    ),
    "described by names": lambda t: MartingaleMixtureUCB(
        FixedPriorGP(t.X, t.Y, kernel="rbf", lengthscale=0.5, noise_std=0.1), **NORM
    ),
}


@pytest.fixture
def there():
    with pretended_device() as device:
        yield There(device)


@pytest.mark.parametrize("name", ACQUISITIONS)
def test_acquisition_functions(there, name):
    acqf = ACQUISITIONS[name](there)
    lower, upper = acqf.bounds(there.points)
    assert lower.device == upper.device == there.device
    X = there.points.unsqueeze(-2).clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(acqf(X).sum(), X)
    assert gradient.device == there.device
    assert str(acqf.assumptions)
    acqf.set_X_pending(there.points[:2])
    assert acqf(X.detach()).device == there.device


@pytest.mark.parametrize("name", ["analytic", "BKB"])
def test_the_best_of_many(there, name):
    acqf = ACQUISITIONS[name](there)
    assert chunked.argmax(acqf, there.points, 1).point.device == there.device


def test_pretends_well_enough(there):
    with pytest.raises(RuntimeError, match="mixes a tensor"):
        there.X @ torch.ones(2, 2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="generator of the CPU"):
        torch.rand(2, device=there.device, generator=torch.Generator())
    assert torch.equal((there.X @ there.X.mT).cpu(), PROBLEM.X @ PROBLEM.X.mT)


@pytest.mark.parametrize("options", [{"candidates": 0}, {"bounds": 0}])
def test_certificates_and_descriptions(there, options):
    (given,) = options
    domain = {given: there.points if given == "candidates" else there.square}
    certificate = regret_certificate(exact(there), **domain, max_evaluations=50)
    assert certificate.challenger.device == there.device
    rule = CertifiedGapStopping(1.0, **domain, max_evaluations=50)
    assert rule(exact(there)).reason
    assert str(describe_norm_bound(there.model, 3.0, **domain))


def test_numbers(there):
    assert check_consistency(there.model, 3.0).consistent
    assert least_consistent_norm(there.model, covariance_scale="mixture") > 0.0
    for method in ("exact", "greedy", "spectral"):
        assert information_gain(there.model, there.points, method=method) > 0.0
    assert StreamingNoiseTracker(3.0, UnknownNoise(0.01)).observe(there.state)[0] >= 0.01


def test_witness(there):
    witness = exact(there).witness(there.points[:1])
    assert witness(there.points).device == there.device


def test_safe_sets(there):
    safe_set = SafeSet(exact(there), -2.0, safe_points=there.X[:2])
    assert safe_set.is_safe(there.points).device == there.device
    assert len(safe_set.filter(torch.cat([there.points, there.X[:2]]))) > 0
    assert safe_set.repair(there.points).device == there.device
    width = ConstraintWidth(safe_set)
    assert width(there.points.unsqueeze(-2)).device == there.device
    options = {"num_restarts": 1, "raw_samples": 4, "options": {"maxiter": 1}}
    point, _ = optimize_acqf_safely(exact(there), safe_set, there.square, **options)
    assert point.device == there.device


def test_is_optimised_by_botorch(there):
    point, _ = optimize_acqf(exact(there), there.square, 1, num_restarts=1, raw_samples=4)
    assert point.device == there.device


@pytest.mark.parametrize("noise", [{}, UNKNOWN])
def test_thompson_sampling(there, noise):
    sampler = KernelThompsonSampling(there.state, **NORM, **noise)
    assert sampler(there.points, 2).device == there.device
    options = {"num_features": 4, "raw_samples": 4, "num_restarts": 1}
    assert sampler.optimize(there.square, **options).device == there.device


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("norm_bound", [3.0, None])
def test_kernel_bandits(there, bound, norm_bound):
    options: Any = {"norm_bound": norm_bound, "noise_std": 0.1, **OPTIONS[bound]}
    bandit = KernelBandit(there.kernel, **options)
    for x, y in zip(there.X, there.Y, strict=True):
        bandit.select(there.points)
        bandit.observe(x, y)
    assert bandit.bounds(there.points)[0].device == there.device
    resumed = KernelBandit(there.kernel, **options)
    resumed.load_state_dict(bandit.state_dict())
    assert resumed.bounds(there.points)[0].device == there.device
    assert str(bandit.assumptions)


@pytest.mark.parametrize("select", ["alternate", "balancing"])
def test_family_bandits(there, select):
    kernels = [there.kernel, frozen_kernel("rbf").to(there.device)]
    options: Any = {"norm_bound": 3.0, "noise_std": 0.1, "select": select}
    bandit, resumed = FamilyBandit(kernels, **options), FamilyBandit(kernels, **options)
    for x, y in zip(there.X, there.Y, strict=True):
        bandit.select(there.points)
        bandit.observe(x, y)
    index = bandit.select(there.points)
    resumed.load_state_dict(bandit.state_dict())
    for each in (bandit, resumed):
        each.observe(there.points[index], 0.5)
        assert each.bounds(there.points)[0].device == there.device
    assert "certified" in bandit.report()


@pytest.mark.parametrize("noise", [0.1, None])
def test_families_that_remember(there, noise):
    tracker = FamilyTracker()
    for _ in range(2):
        acqf = KernelFamilyUCB(
            there.model, [there.kernel], noise_std=noise, tracker=tracker, **NORM
        )
        assert acqf.bounds(there.points)[0].device == there.device
    tracker.load_state_dict(tracker.state_dict())
    assert tracker.num_observations == 3


def test_budgeted_bandits(there):
    bandit = BKBBandit(there.points, there.kernel, norm_bound=3.0, noise_std=0.1)
    for _ in range(3):
        arms = bandit.batch_select(3)
        bandit.observe(arms, [0.5] * len(arms))
    assert bandit.bounds()[0].device == there.device
    bandit.load_state_dict(bandit.state_dict())
    assert bandit.bounds()[0].device == there.device


def test_priors_from_earlier_tasks(there):
    model = meta_model(there).condition_on_observations(there.points[:1], there.Y[:1])
    acqf = MetaUCB(model, delta=0.9)
    assert acqf.bounds(there.points)[0].device == there.device
    gp = model.to_gp(there.points, there.Y[:2], 0.1)
    assert gp.train_inputs[0].device == there.device
    values = torch.outer(torch.rand(40), torch.arange(1.0, 5.0)).double()
    values[0, 0] = torch.nan
    completed = DiscreteMetaModel(
        values.to(there.device), uniform(4, 2, 8).to(there.device)
    )
    assert completed.completion.values.device == there.device
    assert completed.task_norms(completed.completion.values).device == there.device
