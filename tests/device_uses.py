r"""Every public use on a device, as a function of ``There`` that returns tensors.

``VALUES`` are the same numbers wherever they are computed; ``SEARCHES`` draw random numbers
or climb, and only end on the device.
"""

from functools import partial
from typing import Any

import torch
from botorch.optim import optimize_acqf
from test_bandit import BOUNDS, OPTIONS

from device_acquisitions import (
    ACQUISITIONS,
    NORM,
    UNKNOWN,
    constrained,
    constraints,
    exact,
    family,
    guarded_and_constrained,
)
from device_models import budgeted_model, earlier_tasks, sketched_update
from kernelucb import (
    BKBBandit,
    CertifiedGapStopping,
    FamilyBandit,
    FamilyTracker,
    Filters,
    KernelBandit,
    KernelFamily,
    KernelFamilyUCB,
    KernelThompsonSampling,
    LikelihoodRegression,
    LikelihoodUCB,
    MixedSpace,
    SafeSet,
    ScalarizedUCB,
    StreamingNoiseTracker,
    UnknownNoise,
    check_consistency,
    describe_norm_bound,
    information_gain,
    least_consistent_norm,
    optimize_acqf_safely,
    optimum_report,
    regret_certificate,
)
from kernelucb.optim import chunked
from kernelucb.safety import ConstraintWidth
from problems import frozen_kernel

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


def certificate(domain, there):
    found = regret_certificate(exact(there), **domains(there)[domain], max_evaluations=10)
    return [found.recommended, found.challenger, *numbers(there, found.gap)]


def stopping(there):
    rule = CertifiedGapStopping(9.0, bounds=there.square, max_evaluations=10)
    decision = rule(exact(there))
    assert decision.reason
    return [decision.certificate.recommended]


def constrained_certificate(domain, there):
    given: Any = domains(there)[domain] | {"constraints": constraints(there)}
    found = regret_certificate(exact(there), **given, max_evaluations=10)
    return [found.recommended, *numbers(there, found.gap)]


def certificate_of(acqf, there):
    found = regret_certificate(acqf(there), bounds=there.square, max_evaluations=10)
    return [found.challenger, *numbers(there, found.gap)]


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
    return numbers(there, least_consistent_norm(there.model, fit=Filters("mixture")))


def gains(there):
    gain = partial(information_gain, there.model, there.points)
    return numbers(there, *(gain(method=m) for m in ("exact", "greedy", "spectral")))


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


def kernel_bandit(bound, norm_bound, there):
    options: Any = {"norm_bound": norm_bound, "noise_std": 0.1, **OPTIONS[bound]}
    bandit = KernelBandit(there.kernel, **options)
    resumed = KernelBandit(there.kernel, **options)
    for x, y in zip(there.X, there.Y, strict=True):
        bandit.select(there.points)
        bandit.observe(x, y)
    resumed.load_state_dict(bandit.state_dict())
    assert str(bandit.assumptions)
    return [*bandit.bounds(there.points), *resumed.bounds(there.points)]


def family_on_counts(combine, there):
    outcomes = (there.Y > 0.0).double()
    data = LikelihoodRegression(there.X, outcomes, there.kernel)
    tracker = FamilyTracker() if combine == "any" else None
    family = KernelFamily(there.kernels, combine=combine, tracker=tracker)
    acqf = KernelFamilyUCB(data, family, norm_bound=3.0)
    return [*acqf.bounds(there.points), numbers(there, *acqf.least_consistent_norms)[0]]


def family_bandit(select, there):
    options: Any = {"norm_bound": 3.0, "noise_std": 0.1}
    family = KernelFamily(there.kernels, select=select)
    bandit, resumed = (FamilyBandit(family, **options) for _ in range(2))
    for x, y in zip(there.X, there.Y, strict=True):
        bandit.select(there.points)
        bandit.observe(x, y)
    index = bandit.select(there.points)
    resumed.load_state_dict(bandit.state_dict())
    for each in (bandit, resumed):
        each.observe(there.points[index], 0.5)
    assert "certified" in bandit.report()
    return [*bandit.bounds(there.points), *resumed.bounds(there.points)]


def remembered_family(noise, there):
    tracker, bands = FamilyTracker(), []
    for _ in range(2):
        family = KernelFamily(there.kernels, tracker=tracker)
        acqf = KernelFamilyUCB(there.model, family, noise_std=noise, **NORM)
        bands += acqf.bounds(there.points)
    tracker.load_state_dict(tracker.state_dict())
    assert tracker.num_observations == 3
    return bands


def budgeted_bandit(there):
    r"""The kernel stays where it is, as the bandit copies it."""
    kernel = frozen_kernel("matern52")
    bandit = BKBBandit(there.points, kernel, norm_bound=3.0, noise_std=0.1, qbar=0.5)
    for _ in range(3):
        arms = bandit.batch_select(3)
        bandit.observe(arms, [0.5] * len(arms))
    before = bandit.bounds()
    bandit.load_state_dict(bandit.state_dict())
    return [*before, *bandit.bounds()]


DOMAINS = ("candidates", "box", "context", "mixed space")
VALUES = {
    **{name: partial(acquisition, name) for name in ACQUISITIONS},
    **{f"best of many, {n}": partial(best_of_many, n) for n in ("analytic", "BKB")},
    **{f"certificate, {name}": partial(certificate, name) for name in DOMAINS},
    "certificate with constraints": partial(constrained_certificate, "mixed space"),
    **{f"report, {n}": partial(report, n) for n in ("candidates", "mixed space")},
    "stopping": stopping,
    "certificate of a family": partial(certificate_of, family),
    "certificate of a sum": partial(certificate_of, weighted_sum),
    **{f"counts, {kind}": partial(counts, kind) for kind in ("bernoulli", "poisson")},
    "witness": witness,
    "norms": norms,
    "information gain": gains,
    "noise scales": noise_scales,
    "outcome constraints": feasibility,
    "safe set": safe_set,
    **{
        f"bandit, {name}, norm {norm}": partial(kernel_bandit, name, norm)
        for name in BOUNDS
        for norm in (3.0, None)
    },
    **{
        f"family bandit, {select}": partial(family_bandit, select)
        for select in ("alternate", "simplest")
    },
    **{f"remembered, noise {n}": partial(remembered_family, n) for n in (0.1, None)},
    "budgeted bandit": budgeted_bandit,
    **{f"family on counts, {c}": partial(family_on_counts, c) for c in ("any", "all")},
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
