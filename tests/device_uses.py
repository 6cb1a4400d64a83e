r"""Every public use on a device, as a function of ``There`` that returns tensors.

``VALUES`` are the same numbers wherever they are computed; ``SEARCHES`` draw random numbers
or climb, and only end on the device.
"""

from copy import deepcopy
from functools import partial
from typing import Any

import torch
from botorch.acquisition import LogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import Standardize
from botorch.optim import optimize_acqf
from test_bandits import OPTIONS

from contract.bands import BANDS
from kernelucb import (
    BKBUCB,
    BKBBandit,
    CertifiedGapStopping,
    ConstrainedUCB,
    FamilyBandit,
    GuardedAcquisition,
    KernelBandit,
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    KernelThompsonSampling,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    MetaPI,
    MetaUCB,
    MixedSpace,
    NormTracker,
    NystromRegression,
    OutcomeConstraints,
    PrequentialRadius,
    ReplicateNoise,
    SafeSet,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    breakdown,
    check_consistency,
    confirmation,
    describe_norm_bound,
    information_gain,
    least_consistent_norm,
    lengthscale_family,
    optimize_acqf_safely,
    optimum_report,
    regret_certificate,
    runs_needed,
)
from kernelucb.acquisition import BoundedNorm, CompactDomain, FiniteDomain, outcome_bands
from kernelucb.models import BKBModel, DiscreteMetaModel, FeatureMetaModel
from kernelucb.optim import chunked
from kernelucb.safety import ConstraintWidth
from problems import family_ucb, frozen_kernel, generator, make_problem, normal, uniform

PROBLEM = make_problem(n=3, d=2, kernel="matern52")
TASKS, FEATURE_TASKS = uniform(40, 2, 11), uniform(40, 3, 12)
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
NORM = {"norm_bound": 3.0}
UNKNOWN = {"noise_std": UnknownNoise(0.05)}


class There:
    r"""A problem on a device."""

    def __init__(self, device):
        self.device = torch.device(device)
        self.X, self.Y = PROBLEM.X.to(device), PROBLEM.Y.to(device).reshape(-1, 1)
        self.kernel = frozen_kernel("matern52").to(device)
        self.kernels = lengthscale_family(self.kernel, 0.2, 0.4)
        self.noise = torch.full_like(self.Y, 0.1)
        self.model = SingleTaskGP(
            self.X, self.Y, self.noise**2, covar_module=self.kernel, outcome_transform=None
        ).requires_grad_(False)
        self.points = uniform(2, 2, 7).to(device)
        self.square = SQUARE.to(device)
        self.state = KernelRegression(self.X, self.Y, self.kernel, 0.1)
        self.tasks, self.feature_tasks = TASKS.to(device), FEATURE_TASKS.to(device)


def exact(there, **options):
    return MartingaleMixtureUCB(there.model, **(NORM | options))


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


def replicated(there):
    X, Y = (torch.cat([part, part]) for part in (there.X, there.Y[:, 0]))
    Y = Y + 0.1 * normal(len(Y), 5).to(there.device)
    return exact(there, noise_std=ReplicateNoise(X, Y, between=(0.01, 1.0)))


def negative(there):
    return ScalarizedPosteriorTransform(-torch.ones(1).double().to(there.device))


def family(there, **options):
    return family_ucb(there.model, there.kernels, **(NORM | options))


def meta_model(there):
    return DiscreteMetaModel(there.tasks, there.points)


def feature_model(there):
    return FeatureMetaModel(there.X, there.feature_tasks, num_features=2, progress=False)


def constraints(there):
    (band,) = outcome_bands([there.model], noise_std=0.1, **NORM)
    return OutcomeConstraints(band, -9.0)


def constrained(there):
    models = ModelListGP(there.model, there.model)
    return ConstrainedUCB.from_model(models, constraints={1: (0.0, 9.0)}, **NORM)


def guarded(there):
    return GuardedAcquisition(
        LogExpectedImprovement(there.model, there.Y.max()), exact(there)
    )


def guarded_and_constrained(there):
    improvement = qLogNoisyExpectedImprovement(there.model, there.X)
    band = ConstrainedUCB(exact(there), constraints(there))
    return GuardedAcquisition(improvement, band, ucb_every=2)


def of_the_contract(name, there):
    r"""A public band; a model's kernel moves with it, so the model is a copy."""
    band, X = BANDS[name], uniform(9, 2, 21)
    Y = band.truth.outcomes(X, generator(22))
    model = band.truth.model_of(X, Y)
    if isinstance(model, torch.nn.Module):
        return band.build(deepcopy(model).to(there.device))
    return band.build(band.truth.model_of(X.to(there.device), Y.to(there.device)))


ACQUISITIONS = {
    # The features of the contract's ``meta`` do not move with their model.
    **{name: partial(of_the_contract, name) for name in BANDS if name != "meta"},
    "fitted": fitted,
    "tracked norm": lambda t: exact(t, norm_bound=NormTracker()),
    "mixture": lambda t: exact(t, covariance_scale="mixture"),
    "grid": lambda t: exact(t, form="grid"),
    "own grid": lambda t: exact(t, form=[0.1, 1.0]),
    "several noises": lambda t: exact(t, noise_std=t.noise),
    "weighted": lambda t: exact(t, posterior_transform=negative(t)),
    "noise without limits": lambda t: exact(t, noise_std=UnknownNoise()),
    "predicted": predicted,
    "replicated": replicated,
    "Srinivas, norm": lambda t: SrinivasUCB(t.model, theorem=BoundedNorm(**NORM)),
    "Srinivas, box": lambda t: SrinivasUCB(t.model, theorem=CompactDomain()),
    "Srinivas, finite": lambda t: SrinivasUCB(t.model, theorem=FiniteDomain(40)),
    "streaming, no norm": lambda t: StreamingKernelUCB(t.state, **UNKNOWN),
    "meta": lambda t: MetaUCB(feature_model(t), delta=0.9),
    "meta PI": lambda t: MetaPI(
        feature_model(t).condition_on_observations(t.X[:2], t.Y[:2]), target=1.0
    ),
    "described by names": lambda t: MartingaleMixtureUCB.from_model(
        SingleTaskGP(t.X, t.Y), kernel="rbf", lengthscale=0.5, noise_std=0.1, **NORM
    ),
    "guarded": guarded,
    "guarded and constrained": guarded_and_constrained,
}


MANY = make_problem(n=40, d=2, kernel="matern52")


def budgeted_model(there):
    r"""One that is made there, and one that moves there."""
    X, Y = MANY.X, MANY.Y.unsqueeze(-1)
    kernel = frozen_kernel("matern52")
    made = BKBModel(X.to(there.device), Y.to(there.device), kernel, 0.04, 0.6)
    moved = deepcopy(BKBModel(X, Y, kernel, 0.04, 0.6)).to(there.device)
    moved = moved.observe(X[:1].to(there.device), Y[:1].to(there.device))
    posterior = made.posterior(there.points.unsqueeze(-2))
    sides = BKBUCB(moved, **NORM).bounds(there.points)
    return [posterior.mean, posterior.variance, moved.inducing_points, *sides]


def sketched_update(there):
    X, Y = MANY.X.to(there.device), MANY.Y.to(there.device)
    state = NystromRegression(
        X, Y, there.kernel, 0.1, X[:10], remainder_points=there.points
    )
    state, scales = state.observe(X[:1], Y[:1]), {"covariance_scale": "mixture"}
    acqf = SketchedMartingaleMixtureUCB(state, **scales, **NORM)
    return list(acqf.bounds(there.points))


def earlier_tasks(there):
    model = meta_model(there).condition_on_observations(there.points[:1], there.Y[:1])
    gp = model.to_gp(there.points, there.Y[:2], 0.1)
    values = torch.outer(there.tasks[:, 0], torch.arange(1.0, 5.0).to(there.tasks))
    values[0, 0] = torch.nan
    arms = uniform(4, 2, 8).to(there.device)
    completed = DiscreteMetaModel(values, arms)
    norms = completed.task_norms(completed.completion.values)
    parts = [gp.train_inputs[0], completed.completion.values, norms]
    return [*MetaUCB(model, delta=0.9).bounds(there.points), *parts]


FAST: Any = {"num_restarts": 1, "raw_samples": 4, "options": {"maxiter": 1}}


def numbers(there, *values):
    r"""Python numbers, as a tensor that is where the other results are."""
    return [torch.tensor([float(value) for value in values]).double().to(there.device)]


def acquisition(name, there):
    acqf = ACQUISITIONS[name](there)
    band = getattr(acqf, "band", acqf)
    assert str(band.assumptions)
    X = there.points.unsqueeze(-2).clone().requires_grad_(True)
    value = acqf(X)
    (gradient,) = torch.autograd.grad(value.sum(), X)
    found = [*band.bounds(there.points), value, gradient]
    if name != "guarded":  # BoTorch's analytic functions take no pending points
        acqf.set_X_pending(there.points.flip(-1))
        found.append(acqf(X))
    return [part.detach() for part in found]


def best_of_many(name, there):
    return [chunked.argmax(ACQUISITIONS[name](there), there.points, 1).point]


def counts(kind, there):
    outcomes = (there.Y.median() < there.Y).double()
    kernel = frozen_kernel("matern52")
    data = LikelihoodRegression(there.X, outcomes, kernel, likelihood=kind)
    mixed = LikelihoodUCB(data, norm_bound=3.0)
    described = describe_norm_bound(data, norm_bound=3.0, bounds=there.square)
    assert str(described)
    least = described.consistency.least_consistent_norm
    values = numbers(there, least, mixed.norm_bound, mixed.least_consistent_norm)
    return [*mixed.bounds(there.points), *values]


def witness(there):
    return [exact(there).witness(there.points[:1])(there.points)]


def domains(there):
    r"""What certificates take as a domain."""
    space = MixedSpace(there.square, discrete_dims={1: [0.0, 1.0]})
    return {
        "candidates": {"candidates": there.points},
        "box": {"bounds": there.square},
        "context": {"bounds": there.square, "fixed_features": {1: 0.5}},
        "mixed space": {"space": space},
    }


def certificate(build, domain, there, constrain=None):
    given: Any = domains(there)[domain]
    if constrain is not None:
        given |= {"constraints": constrain(there)}
    found = regret_certificate(build(there), **given, max_evaluations=10)
    parts = [found.recommended, *numbers(there, found.gap)]
    return parts if constrain else [found.challenger, *parts]


def stopping(there):
    rule = CertifiedGapStopping(9.0, bounds=there.square, max_evaluations=10)
    decision = rule(exact(there))
    assert decision.reason
    return [decision.certificate.recommended]


def weighted_sum(there):
    return ScalarizedUCB([exact(there), exact(there)], [1.0, -2.0])


def report(domain, there):
    given: Any = domains(there)[domain] | {"constraints": constraints(there)}
    found = optimum_report(exact(there), **given, max_evaluations=10)
    assert str(found)
    assert found.to_json()
    parts = (found.recommended, found.region)
    return [*parts, *numbers(there, found.lower, found.upper, found.share)]


def norms(there):
    assert str(describe_norm_bound(there.model, 3.0, bounds=there.square))
    assert str(describe_norm_bound(there.model, 3.0, candidates=there.points))
    assert check_consistency(there.model, 3.0).consistent
    return numbers(there, least_consistent_norm(there.model, covariance_scale="mixture"))


def gains(there):
    gain = partial(information_gain, there.model, there.points)
    return numbers(there, *(gain(method=m) for m in ("exact", "greedy", "spectral")))


def margins(there):
    found = breakdown(
        exact(there), lambda band: float(band.bounds(there.points)[1][0]) < 99
    )
    parts = confirmation(there.Y[:, 0], there.Y[:, 0] - 1.0, noise_std=0.1)
    plan = runs_needed(there.kernel, there.square, 1.0, 0.5, 3.0, max_runs=8)
    assert plan.gap == 3.0
    return numbers(there, found.norm_bound, parts.lower, *plan.gaps.values())


def noise_scales(there):
    tracker = StreamingNoiseTracker(3.0, UnknownNoise(0.01))
    return numbers(there, *tracker.observe(there.state))


def feasibility(there):
    limits = constraints(there)
    acqf = constrained(there).outcome_constraints
    parts = (limits.is_feasible, limits.may_be_feasible, acqf.possible_margin)
    return [part(there.points) for part in parts]


def safe_set(there):
    safe = SafeSet(exact(there), -2.0, safe_points=there.X[:2])
    filtered = safe.filter(torch.cat([there.points, there.X[:2]]))
    width = ConstraintWidth(safe)(there.points.unsqueeze(-2))
    return [safe.is_safe(there.points), filtered, safe.repair(there.points), width]


def safe_search(domain, there):
    safe = SafeSet(exact(there), -2.0, safe_points=there.square)
    given: Any = domains(there)[domain] | FAST
    return [optimize_acqf_safely(exact(there), safe, **given)[0]]


def search(build, there):
    return [optimize_acqf(build(there), there.square, 1, **FAST)[0]]


def thompson_sampling(noise, there):
    sampler = KernelThompsonSampling(there.state, **NORM, **noise)
    options = {"num_features": 4, "raw_samples": 4, "num_restarts": 1}
    chosen = sampler.optimize(there.square, **options)
    return [sampler(there.points, 2), chosen]


def bandit(build, there, **options):
    r"""Played, copied, and both played on."""
    own = build(there, noise_std=0.1, **options)
    for x, y in zip(there.X, there.Y, strict=True):
        own.select(there.points)
        own.observe(x, y)
    index = own.select(there.points)
    resumed = deepcopy(own)
    for each in (own, resumed):
        each.observe(there.points[index], 0.5)
    assert str(own.assumptions)
    return [*own.bounds(there.points), *resumed.bounds(there.points)]


def kernel_bandit(there, **options):
    return KernelBandit(there.kernel, **options)


def family_bandit(there, select, **options):
    return FamilyBandit(KernelFamily(there.kernels, select=select), **options)


def family_on_counts(there):
    outcomes = (there.Y > 0.0).double()
    data = LikelihoodRegression(there.X, outcomes, there.kernel)
    acqf = KernelFamilyUCB(data, there.kernels, norm_bound=3.0)
    return [*acqf.bounds(there.points), numbers(there, *acqf.least_consistent_norms)[0]]


def budgeted_bandit(there):
    r"""The kernel stays where it is, as the bandit copies it."""
    kernel = frozen_kernel("matern52")
    bandit = BKBBandit(there.points, kernel, norm_bound=3.0, noise_std=0.1, qbar=0.5)
    for _ in range(3):
        arms = bandit.batch_select(3)
        bandit.observe(arms, [0.5] * len(arms))
    return [*bandit.bounds(), *deepcopy(bandit).bounds()]


DOMAINS = ("candidates", "box", "context", "mixed space")
VALUES = {
    **{name: partial(acquisition, name) for name in ACQUISITIONS},
    **{f"best of many, {n}": partial(best_of_many, n) for n in ("analytic", "budgeted")},
    **{f"certificate, {name}": partial(certificate, exact, name) for name in DOMAINS},
    "certificate with constraints": partial(
        certificate, exact, "mixed space", constrain=constraints
    ),
    **{f"report, {n}": partial(report, n) for n in ("candidates", "mixed space")},
    "stopping": stopping,
    "certificate of a family": partial(certificate, family, "box"),
    "certificate of a sum": partial(certificate, weighted_sum, "box"),
    **{f"counts, {kind}": partial(counts, kind) for kind in ("bernoulli", "poisson")},
    "witness": witness,
    "norms": norms,
    "information gain": gains,
    "margins": margins,
    "noise scales": noise_scales,
    "outcome constraints": feasibility,
    "safe set": safe_set,
    **{
        f"bandit, {name}": partial(bandit, kernel_bandit, **(NORM | options))
        for name, options in [*OPTIONS.items(), ("estimated", {"norm_bound": None})]
    },
    **{
        f"family bandit, {select}": partial(bandit, family_bandit, select=select, **NORM)
        for select in ("alternate", "simplest")
    },
    "budgeted bandit": budgeted_bandit,
    "family on counts": family_on_counts,
    "budgeted model": budgeted_model,
    "sketch with an update": sketched_update,
    "earlier tasks": earlier_tasks,
}
# Torch's engine ends the process at the gradient of BoTorch's function of fixed features,
# on the device that pretends.
CUDA_ONLY = {"safe search, mixed space"}
SEARCHES = {
    "search": partial(search, exact),
    "constrained search": partial(search, constrained),
    "guarded search": partial(search, guarded_and_constrained),
    **{
        f"safe search, {name}": partial(safe_search, name)
        for name in ("box", "mixed space")
    },
    "Thompson sampling": partial(thompson_sampling, {}),
    "Thompson sampling, unknown noise": partial(thompson_sampling, UNKNOWN),
}
