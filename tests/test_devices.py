r"""Every public use on a device: a GPU where there is one, else one that pretends."""

import ast
from copy import deepcopy
from functools import cached_property, partial
from pathlib import Path

import pytest
import torch
from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.mlls import VariationalELBO
from torch import Tensor

import kernelucb as k
from contract import bands
from devices import AVAILABLE, CUDA, device
from kernelucb.models import DiscreteMetaModel, FeatureMetaModel
from kernelucb.optim import chunked
from kernelucb.safety import ConstraintWidth
from problems import (
    OwnGP,
    constant_mean,
    frozen_kernel,
    generator,
    make_problem,
    normal,
    uniform,
)

PROBLEM = make_problem(n=3, d=2, kernel="matern52")
NORM, NOISE = {"norm_bound": 3.0}, {"noise_std": 0.1}
FAST = {"num_restarts": 1, "raw_samples": 4}
ONCE = FAST | {"options": {"maxiter": 1}}


class Problem:
    r"""A problem on a device; what few uses ask for is made when it is asked for."""

    def __init__(self, where):
        self.where = where
        self.square, self.points = bands.CUBE.to(where), uniform(2, 2, 7).to(where)
        self.X, self.Y = PROBLEM.X.to(where), PROBLEM.Y.to(where).unsqueeze(-1)
        self.kernel = frozen_kernel("matern52").to(where)
        self.noise = torch.full_like(self.Y, 0.1)
        gp = partial(SingleTaskGP, covar_module=self.kernel, outcome_transform=None)
        self.model = gp(self.X, self.Y, self.noise**2).requires_grad_(False)
        self.mixture = partial(k.MartingaleMixtureUCB, self.model, **NORM)

    @cached_property
    def state(self):
        return k.KernelRegression(self.X, self.Y, self.kernel, 0.1)

    @cached_property
    def kernels(self):
        return k.lengthscale_family(self.kernel, 0.2, 0.4)

    @cached_property
    def band(self):
        return self.mixture()

    @cached_property
    def limits(self):
        return k.OutcomeConstraints(self.band, -9.0)

    @cached_property
    def space(self):
        return k.MixedSpace(self.square, discrete_dims={1: [0.0, 1.0]})

    @cached_property
    def tasks(self):
        return uniform(4, 40, 12).mT.to(self.where)

    @cached_property
    def arms(self):
        return uniform(4, 2, 8).to(self.where)

    @cached_property
    def safe(self):
        return k.SafeSet(self.band, -2.0, safe_points=self.square)

    @cached_property
    def features(self):
        return FeatureMetaModel(self.arms, self.tasks, num_features=2, progress=False)


def of_the_contract(name, t):
    r"""A model's kernel moves with it, so the model is a copy."""
    band, X = bands.BANDS[name], uniform(9, 2, 21)
    Y = band.truth.outcomes(X, generator(22))
    model = band.truth.model_of(X, Y)
    if isinstance(model, torch.nn.Module):
        return band.build(deepcopy(model).to(t.X.device))
    return band.build(band.truth.model_of(X.to(t.X.device), Y.to(t.X.device)))


def predicted(t):
    radius, early = k.PrequentialRadius(), deepcopy(t.model)
    radius.observe(early, t.X, t.Y, t.noise)
    radius.observe(early, t.X[:2], t.Y[:2], 0.1)
    X, Y = (torch.cat([part, part[:2]]) for part in (t.X, t.Y))
    state = k.KernelRegression(X, Y, t.kernel, 0.1)
    return k.MartingaleMixtureUCB(state, fit=radius, **NORM)


def replicated(t):
    X, Y = (torch.cat([part, part]) for part in (t.X, t.Y[:, 0]))
    Y = Y + 0.1 * normal(len(Y), 5).to(Y)
    return t.mixture(noise_std=k.ReplicateNoise(X, Y, between=(0.01, 1.0)))


def guarded(t):
    search = qLogNoisyExpectedImprovement(t.model, t.X)
    band = k.ConstrainedUCB(t.band, t.limits)
    return k.GuardedAcquisition(search, band, ucb_every=2)


def improvement(t):
    return k.MetaPI(t.features.condition_on_observations(t.X, t.Y), target=1.0)


ACQUISITIONS = {
    # The features of the contract's ``meta`` do not move with their model.
    **{name: partial(of_the_contract, name) for name in bands.BANDS if name != "meta"},
    **{make.__name__: make for make in (predicted, replicated, guarded, improvement)},
    "tracked norm": lambda t: t.mixture(norm_bound=k.NormTracker()),
    "ambiguity": lambda t: k.LevelSetAmbiguity(t.band, 0.1),
    "several noises": lambda t: t.mixture(noise_std=t.noise),
    "earlier tasks": lambda t: k.MetaUCB(t.features, delta=0.9),
}


def acquisition(make, t):
    acqf, X = make(t), t.points.unsqueeze(-2).clone().requires_grad_(True)
    band, value = getattr(acqf, "band", acqf), acqf(X)
    (gradient,) = torch.autograd.grad(value.sum(), X)
    acqf.set_X_pending(t.points.flip(-1))
    return [*band.bounds(t.points), value, gradient, acqf(X)]


def played(make, t):
    r"""Played, copied, and both played on."""
    bandit = make(t, noise_std=0.1)
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
    return bandit.bounds()


def on_candidates(t):
    tasks = torch.outer(t.tasks[:, 0], torch.arange(1.0, 5.0).to(t.tasks))
    tasks[0, 0] = torch.nan
    gaps, model = DiscreteMetaModel(tasks, t.arms), DiscreteMetaModel(t.tasks, t.arms)
    model = model.condition_on_observations(t.arms[:1], t.Y[:1])
    found = [*k.MetaUCB(model, delta=0.9).bounds(t.arms), gaps.completion.values]
    return [*found, model.to_gp(t.arms[:3], t.Y, 0.1).train_inputs[0]]


def inducing(t):
    r"""A GP with BKB's strategy: its bound trained, its posterior, and the allocator."""
    likelihood = GaussianLikelihood().double().to(t.X.device)
    gp = OwnGP(t.X, t.Y, deepcopy(t.kernel), constant_mean(0.0), likelihood)
    gp = gp.to(t.X.device).train()
    bound = VariationalELBO(likelihood, gp, num_data=3)(gp(t.X), t.Y[:, 0])
    bound.backward()
    allocate = k.BKBInducingPointAllocator(0.1).allocate_inducing_points
    drawn = allocate(t.X, t.kernel, 2, torch.Size())
    given = [bound, likelihood.raw_noise.grad, gp.eval()(t.points).covariance_matrix]
    gp.variational_strategy.observe(t.points, t.Y[:2])
    assert isinstance(gp.variational_strategy, k.BKBVariationalStrategy)
    return [*given, *k.BKBUCB(gp, **NORM).bounds(t.points), drawn]


def margins(t):
    found = k.breakdown(t.band, lambda band: float(band.bounds(t.points)[1][0]) < 99)
    parts = k.confirmation(t.Y[:, 0], t.Y[:, 0] - 1.0, **NOISE)
    plan = k.runs_needed(t.kernel, t.square, 1.0, 0.5, 3.0, max_runs=8)
    pairs = k.confirm({"a": t.Y[:, 0].tolist(), "b": (2.0 * t.Y[:, 0]).tolist()}).parts
    return [found.norm_bound, parts.lower, *plan.gaps.values(), pairs[0].estimate]


def norms(t):
    k.describe_norm_bound(t.model, 3.0, candidates=t.points)
    gain = partial(k.information_gain, t.model, t.points)
    consistent = k.check_consistency(t.model, 3.0).least_consistent_norm
    values, near = t.points.sum(-1), {"model_error": 0.3}
    tasks = k.norm_from_tasks([(t.points, values)], t.kernel, **near)
    drawn = k.norm_from_simulator(lambda i: (i + 1) * values, t.points, t.kernel, 2, **near)
    assert isinstance(drawn, k.NormFromTasks)
    least = [consistent, k.least_consistent_norm(t.model), *tasks.norms, *drawn.norms]
    return [*least, gain(), gain(method="exact")]


def certificate(t, band=None, **domain):
    given = {"max_evaluations": 9, **domain}
    found = k.regret_certificate(t.band if band is None else band, **given)
    return [found.recommended, found.gap]


def report(t):
    given = {"constraints": t.limits, "max_evaluations": 9, "space": t.space}
    found = k.optimum_report(t.band, **given)
    return [found.recommended, found.lower, found.upper, found.share]


def stopping(t):
    rule = k.CertifiedGapStopping(9.0, bounds=t.square, max_evaluations=9)
    return rule(t.band).certificate.recommended


def of_theorems(t):
    theorems = k.FiniteDomain(), k.CompactDomain(), k.BoundedNorm(3.0)
    bounds = [k.SrinivasUCB(t.model, theorem=each).bounds(t.points) for each in theorems]
    guess = k.MartingaleMixtureUCB(t.model, norm_bound=k.Estimate(3.0))
    pair = k.outcome_bands([t.model, t.model], **NORM)
    return [bounds, guess.bounds(t.points), [each.bounds(t.points) for each in pair]]


def sums(t):
    return certificate(t, k.ScalarizedUCB([t.band] * 2, [1.0, -2.0]), bounds=t.square)


def over_the_best(t):
    search = LogExpectedImprovement(t.model, t.Y.max())
    return k.GuardedAcquisition(search, t.band)(t.points.unsqueeze(-2))


def level(t):
    boxes = k.level_set(t.band, 0.1, bounds=t.square, max_evaluations=9)
    share = k.failure_probability(t.band, 0.1, t.points)
    return [boxes.status, boxes.shares, boxes.lower, share.lower, share.upper]


def front(t):
    found = k.pareto_set([t.band] * 2, t.points, 0.1, constraints=t.limits)
    width = k.ParetoWidth([t.band] * 2, found.epsilon)(t.points.unsqueeze(-2))
    return [found.optimal, found.dominated, found.open, width, found.hypervolume([-9] * 2)]


def thompson(t):
    sampler = k.KernelThompsonSampling(t.state, noise_std=k.UnknownNoise(0.05), **NORM)
    return [sampler(t.points, 2), sampler.optimize(t.square, num_features=4, **FAST)]


VALUES = {
    **{name: partial(acquisition, make) for name, make in ACQUISITIONS.items()},
    "bandit": partial(played, lambda t, **given: k.KernelBandit(t.kernel, **given)),
    "family": partial(played, lambda t, **given: k.FamilyBandit(t.kernels, **given | NORM)),
    **{f.__name__: f for f in (batches, on_candidates, margins, norms, report, stopping)},
    **{f.__name__: f for f in (sums, over_the_best, level, front, of_theorems, inducing)},
    "sum": lambda t: certificate(
        t, k.ScalarizedUCB([t.band] * 2, [1.0, -2.0]), bounds=t.square
    ),
    "candidates": lambda t: certificate(t, candidates=t.points),
    "context": lambda t: certificate(t, bounds=t.square, fixed_features={1: 0.5}),
    "space": lambda t: certificate(t, space=t.space, constraints=t.limits),
    "best of many": lambda t: chunked.argmax(t.band, t.points, 1).point,
    "witness": lambda t: t.band.witness(t.points[:1])(t.points),
    "noise": lambda t: k.StreamingNoiseTracker(3.0, k.UnknownNoise(0.01)).observe(t.state),
    "constraints": lambda t: [t.limits.is_feasible(t.points), t.limits.margins(t.points)],
    "safe set": lambda t: [t.safe.filter(t.square), t.safe.repair(t.points)],
    "width": lambda t: ConstraintWidth(t.safe)(t.points.unsqueeze(-2)),
}
# They draw random numbers or climb, and only end on the device.
SEARCHES = {
    "search": lambda t: optimize_acqf(t.band, t.square, 1, **ONCE)[0],
    "guarded search": lambda t: optimize_acqf(guarded(t), t.square, 1, **ONCE)[0],
    "safe search": lambda t: k.optimize_acqf_safely(t.band, t.safe, t.square, **ONCE)[0],
    "Thompson sampling": thompson,
}


def tensors(found):
    r"""The tensors in a nest, and its numbers as tensors on the CPU."""
    if isinstance(found, Tensor):
        return [found.detach()]
    if isinstance(found, (list, tuple)):
        return [part for each in found for part in tensors(each)]
    return [torch.tensor(float(found))]


# A value, a bandit and a choice of points by default, up to a second each: a device
# that pretends looks at every call. All others with the slow tests.
BY_DEFAULT = {"filters", "bandit", "safe set"}
EVERY = [
    name if name in BY_DEFAULT else pytest.param(name, marks=pytest.mark.slow)
    for name in VALUES | SEARCHES
]


@pytest.mark.skipif(not AVAILABLE, reason="needs a newer torch")
@pytest.mark.parametrize("name", EVERY)
def test_on_a_device(name):
    use = (VALUES | SEARCHES)[name]
    torch.manual_seed(0)
    expected = tensors(use(Problem("cpu"))) if name in VALUES else []
    with device() as where:
        torch.manual_seed(0)
        found = tensors(use(Problem(where)))
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
        ast.parse(Path(file).read_text("utf-8")) for file in (__file__, bands.__file__)
    ]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    used = {getattr(node, "attr", getattr(node, "id", "")) for node in nodes}
    apart = {"Band", "BandUCB", "SequentialComparison", "plot_replicates"}
    assert set(k.__all__) - used <= apart
