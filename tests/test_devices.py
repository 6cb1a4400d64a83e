r"""Every public use on a device: a GPU where there is one, else one that pretends."""

import ast
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from torch import Tensor

import kernelucb as k
from contract import bands
from devices import AVAILABLE, CUDA, device
from kernelucb.acquisition import BoundedNorm, CompactDomain, FiniteDomain
from kernelucb.models import BKBModel, DiscreteMetaModel, FeatureMetaModel
from kernelucb.optim import chunked
from kernelucb.safety import ConstraintWidth
from problems import frozen_kernel, generator, make_problem, normal, uniform

PROBLEM, MANY = make_problem(n=3, d=2, kernel="matern52"), make_problem(n=40, d=2)
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
NORM, NOISE = {"norm_bound": 3.0}, {"noise_std": 0.1}
UNKNOWN = {"noise_std": k.UnknownNoise(0.05)}
BANDITS = {}, {"fit": "martingale"}, {"form": "analytic"}, {"norm_bound": None}
FAST = {"num_restarts": 1, "raw_samples": 4, "options": {"maxiter": 1}}


def problem_on(where):
    t = SimpleNamespace(square=SQUARE.to(where), points=uniform(2, 2, 7).to(where))
    t.X, t.Y = PROBLEM.X.to(where), PROBLEM.Y.to(where).unsqueeze(-1)
    t.kernel, t.noise = frozen_kernel("matern52").to(where), torch.full_like(t.Y, 0.1)
    t.gp = partial(SingleTaskGP, t.X, t.Y, covar_module=t.kernel, outcome_transform=None)
    t.model = t.gp(t.noise**2).requires_grad_(False)
    t.state = k.KernelRegression(t.X, t.Y, t.kernel, 0.1)
    t.kernels = k.lengthscale_family(t.kernel, 0.2, 0.4)
    t.band = k.MartingaleMixtureUCB(t.model, **NORM)
    t.limits = k.OutcomeConstraints(t.band, -9.0)
    t.space = k.MixedSpace(t.square, discrete_dims={1: [0.0, 1.0]})
    t.many = MANY.X.to(where), MANY.Y.to(where).unsqueeze(-1)
    t.tasks, t.arms = uniform(4, 40, 12).mT.to(where), uniform(4, 2, 8).to(where)
    t.safe = k.SafeSet(t.band, -2.0, safe_points=t.square)
    t.features = FeatureMetaModel(t.arms, t.tasks, num_features=2, progress=False)
    return t


def of_the_contract(name, t):
    r"""A model's kernel moves with it, so the model is a copy."""
    band, X = bands.BANDS[name], uniform(9, 2, 21)
    Y = band.truth.outcomes(X, generator(22))
    model = band.truth.model_of(X, Y)
    if isinstance(model, torch.nn.Module):
        return band.build(deepcopy(model).to(t.X.device))
    return band.build(band.truth.model_of(X.to(t.X.device), Y.to(t.X.device)))


def fitted(t):
    transforms = {"outcome_transform": Standardize(1), "input_transform": Normalize(2)}
    return k.MartingaleMixtureUCB(SingleTaskGP(t.X, t.Y, **transforms).to(t.X.device))


def predicted(t):
    radius, early = k.PrequentialRadius(), t.gp()
    radius.observe(early, t.X, t.Y, t.noise)
    radius.observe(early, t.X[:2], t.Y[:2], 0.1)
    X, Y = (torch.cat([part, part[:2]]) for part in (t.X, t.Y))
    state = k.KernelRegression(X, Y, t.kernel, 0.1)
    return k.MartingaleMixtureUCB(state, fit=radius, **NORM)


def replicated(t):
    X, Y = (torch.cat([part, part]) for part in (t.X, t.Y[:, 0]))
    Y = Y + 0.1 * normal(len(Y), 5).to(Y)
    noise = k.ReplicateNoise(X, Y, between=(0.01, 1.0))
    return k.MartingaleMixtureUCB(t.model, noise_std=noise, **NORM)


def guarded(t):
    search = qLogNoisyExpectedImprovement(t.model, t.X)
    band = k.ConstrainedUCB(t.band, t.limits)
    return k.GuardedAcquisition(search, band, ucb_every=2)


def weighted(t):
    transform = ScalarizedPosteriorTransform(-torch.ones(1).double().to(t.X.device))
    return k.MartingaleMixtureUCB(t.model, posterior_transform=transform, **NORM)


def budgeted(t):
    r"""A model that moves there."""
    X, Y = MANY.X, MANY.Y.unsqueeze(-1)
    moved = deepcopy(BKBModel(X, Y, frozen_kernel("matern52"), 0.04, 0.6)).to(t.X.device)
    return k.BKBUCB(moved.observe(t.X, t.Y), **NORM)


def sketched(t):
    inducing = {"inducing_points": t.many[0][:9], "remainder_points": t.points}
    data = k.NystromRegression(*t.many, t.kernel, 0.1, **inducing)
    return k.SketchedMartingaleMixtureUCB(data.observe(t.X, t.Y), **NORM)


ACQUISITIONS = {
    # The features of the contract's ``meta`` do not move with their model.
    **{name: partial(of_the_contract, name) for name in bands.BANDS if name != "meta"},
    "tracked norm": lambda t: k.MartingaleMixtureUCB(t.model, norm_bound=k.NormTracker()),
    "several noises": lambda t: k.MartingaleMixtureUCB(t.model, noise_std=t.noise, **NORM),
    "no limits": lambda t: k.MartingaleMixtureUCB(
        t.model, noise_std=k.UnknownNoise(), **NORM
    ),
    "norm": lambda t: k.SrinivasUCB(t.model, theorem=BoundedNorm(**NORM)),
    "box": lambda t: k.SrinivasUCB(t.model, theorem=CompactDomain()),
    "finite": lambda t: k.SrinivasUCB(t.model, theorem=FiniteDomain(40)),
    "streaming, no norm": lambda t: k.StreamingKernelUCB(t.state, **UNKNOWN),
    "earlier tasks": lambda t: k.MetaUCB(t.features, delta=0.9),
    "improvement": lambda t: k.MetaPI(
        t.features.condition_on_observations(t.X, t.Y), target=1.0
    ),
    **{make.__name__: make for make in (fitted, predicted, replicated, guarded)},
    **{make.__name__: make for make in (weighted, budgeted, sketched)},
}


def acquisition(make, t):
    acqf, X = make(t), t.points.unsqueeze(-2).clone().requires_grad_(True)
    band, value = getattr(acqf, "band", acqf), acqf(X)
    (gradient,) = torch.autograd.grad(value.sum(), X)
    found = [*band.bounds(t.points), value, gradient, str(band.assumptions)]
    acqf.set_X_pending(t.points.flip(-1))
    return [*found, acqf(X)]


def played(bandit, t):
    r"""Played, copied, and both played on."""
    for x, y in zip(t.X, t.Y, strict=True):
        bandit.select(t.points)
        bandit.observe(x, y)
    found = [bandit.bounds(t.points)]
    for each in (bandit, deepcopy(bandit)):
        each.observe(t.points[each.select(t.points)], 0.5)
        found.append(each.bounds(t.points))
    return found


def batches(t):
    r"""The kernel stays where it is, as the bandit copies it."""
    kernel = frozen_kernel("matern52")
    bandit = k.BKBBandit(t.points, kernel, qbar=0.5, **NORM, **NOISE)
    for _ in range(3):
        arms = bandit.batch_select(3)
        bandit.observe(arms, [0.5] * len(arms))
    return [*bandit.bounds(), *deepcopy(bandit).bounds()]


def on_candidates(t):
    tasks = torch.outer(t.tasks[:, 0], torch.arange(1.0, 5.0).to(t.tasks))
    tasks[0, 0] = torch.nan
    model = DiscreteMetaModel(tasks, t.arms)
    known = DiscreteMetaModel(t.tasks, t.arms).condition_on_observations(
        t.arms[:1], t.Y[:1]
    )
    gp = known.to_gp(t.arms[:3], t.Y, 0.1)
    found = [*k.MetaUCB(known, delta=0.9).bounds(t.arms), gp.train_inputs[0]]
    return [*found, model.completion.values, model.task_norms(model.completion.values)]


def counts(likelihood, t):
    outcomes = (t.Y.median() < t.Y).double()
    data = k.LikelihoodRegression(t.X, outcomes, t.kernel, likelihood=likelihood)
    band = k.LikelihoodUCB(data, **NORM)
    family = k.KernelFamilyUCB(data, t.kernels, **NORM)
    text = k.describe_norm_bound(data, **NORM, bounds=t.square)
    return [band.bounds(t.points), family.bounds(t.points), str(text)]


def margins(t):
    found = k.breakdown(t.band, lambda band: float(band.bounds(t.points)[1][0]) < 99)
    parts = k.confirmation(t.Y[:, 0], t.Y[:, 0] - 1.0, **NOISE)
    plan = k.runs_needed(t.kernel, t.square, 1.0, 0.5, 3.0, max_runs=8)
    return [found.norm_bound, parts.lower, *plan.gaps.values()]


def certificate(t, band=None, **domain):
    found = k.regret_certificate(
        t.band if band is None else band, max_evaluations=9, **domain
    )
    return [found.recommended, found.gap]


def report(t, **domain):
    found = k.optimum_report(t.band, constraints=t.limits, max_evaluations=9, **domain)
    return [found.recommended, found.lower, found.upper, found.share, found.to_json()]


def stopping(t):
    rule = k.CertifiedGapStopping(9.0, bounds=t.square, max_evaluations=9)
    return rule(t.band).certificate.recommended


def sums(t):
    return certificate(t, k.ScalarizedUCB([t.band, t.band], [1.0, -2.0]), bounds=t.square)


def thompson(t, **options):
    sampler = k.KernelThompsonSampling(t.state, **NORM, **options)
    small = {"num_features": 4, "raw_samples": 4, "num_restarts": 1}
    return [sampler(t.points, 2), sampler.optimize(t.square, **small)]


VALUES = {
    **{name: partial(acquisition, make) for name, make in ACQUISITIONS.items()},
    **{
        f"bandit {options}": lambda t, options=options: played(
            k.KernelBandit(t.kernel, **NORM | NOISE | options), t
        )
        for options in BANDITS
    },
    "bandit of a family": lambda t: played(k.FamilyBandit(t.kernels, **NORM, **NOISE), t),
    **{f"counts, {kind}": partial(counts, kind) for kind in ("bernoulli", "poisson")},
    **{f.__name__: f for f in (batches, on_candidates, margins, stopping, sums)},
    "candidates": lambda t: certificate(t, candidates=t.points),
    "context": lambda t: certificate(t, bounds=t.square, fixed_features={1: 0.5}),
    "space": lambda t: certificate(t, space=t.space, constraints=t.limits),
    "report": lambda t: report(t, candidates=t.points),
    "report on a space": lambda t: report(t, space=t.space),
    "best of many": lambda t: chunked.argmax(t.band, t.points, 1).point,
    "witness": lambda t: t.band.witness(t.points[:1])(t.points),
    "norms": lambda t: [
        str(k.describe_norm_bound(t.model, 3.0, candidates=t.points)),
        k.check_consistency(t.model, 3.0).least_consistent_norm,
        k.least_consistent_norm(t.model),
    ],
    "gains": lambda t: [
        k.information_gain(t.model, t.points, method=m) for m in ("exact", "upper_bound")
    ],
    "noise": lambda t: k.StreamingNoiseTracker(3.0, k.UnknownNoise(0.01)).observe(t.state),
    "constraints": lambda t: [t.limits.is_feasible(t.points), t.limits.margins(t.points)],
    "safe set": lambda t: [t.safe.filter(t.square), t.safe.repair(t.points)],
    "width": lambda t: ConstraintWidth(t.safe)(t.points.unsqueeze(-2)),
    "improvement over the best": lambda t: k.GuardedAcquisition(
        LogExpectedImprovement(t.model, t.Y.max()), t.band
    )(t.points.unsqueeze(-2)),
}
# They draw random numbers or climb, and only end on the device.
SEARCHES = {
    "search": lambda t: optimize_acqf(t.band, t.square, 1, **FAST)[0],
    "guarded search": lambda t: optimize_acqf(guarded(t), t.square, 1, **FAST)[0],
    "safe search": lambda t: k.optimize_acqf_safely(t.band, t.safe, t.square, **FAST)[0],
    "safe search of a space": lambda t: k.optimize_acqf_safely(
        t.band, t.safe, space=t.space, **FAST
    )[0],
    "Thompson sampling": thompson,
    "Thompson sampling, unknown noise": partial(thompson, **UNKNOWN),
}


def tensors(found):
    r"""The tensors in a nest, and its numbers as tensors on the CPU."""
    if isinstance(found, Tensor):
        return [found.detach()]
    if isinstance(found, (list, tuple)):
        return [part for each in found for part in tensors(each)]
    return [] if isinstance(found, str) else [torch.tensor(float(found))]


@pytest.mark.skipif(not AVAILABLE, reason="needs a newer torch")
@pytest.mark.parametrize(
    "name",
    # A report is a certificate and claims, which others ask for on their own.
    [
        pytest.param(n, marks=[pytest.mark.slow] * ("report" in n))
        for n in VALUES | SEARCHES
    ],
)
def test_on_a_device(name):
    use = (VALUES | SEARCHES)[name]
    if name == "safe search of a space" and not CUDA:
        pytest.skip("torch ends the process at the gradient of a fixed column")
    torch.manual_seed(0)
    expected = tensors(use(problem_on("cpu"))) if name in VALUES else []
    with device() as where:
        torch.manual_seed(0)
        found = tensors(use(problem_on(where)))
        assert all(part.device == where for part in found if part.dim() > 0)
        found = [part.cpu() for part in found]
    rtol, atol = (1e-5, 1e-6) if CUDA else (1e-6, 1e-8)
    if name in VALUES:
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)


@pytest.mark.skipif(CUDA or not AVAILABLE, reason="a GPU does not pretend")
def test_pretends_well_enough():
    with device() as where:
        X = PROBLEM.X.to(where)
        with pytest.raises(RuntimeError, match="mixes a tensor"):
            X @ torch.ones(2, 2, dtype=torch.float64)
        with pytest.raises(RuntimeError, match="generator of the CPU"):
            torch.rand(2, device=where, generator=torch.Generator())
        assert torch.equal((X @ X.mT).cpu(), PROBLEM.X @ PROBLEM.X.mT)


def test_every_public_name_is_used():
    trees = [
        ast.parse(Path(path).read_text("utf-8")) for path in (__file__, bands.__file__)
    ]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    used = {getattr(node, "attr", getattr(node, "id", "")) for node in nodes}
    assert set(k.__all__) - used <= {"Band", "BandUCB"}  # their classes are
