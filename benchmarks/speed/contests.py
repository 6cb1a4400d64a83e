r"""Acquisition functions in turn on the same data: processor seconds of each.

One process with one thread, the first of a pair the second in the next, so that other work
on the machine disturbs little and hits all alike.
"""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.test_functions import Branin, Hartmann
from botorch.utils.transforms import unnormalize
from gpytorch.kernels import RBFKernel

from benchmarks.runner import KnownFunction, fixed_kernel, quiet, stream, unit_cube
from kernelucb import (
    GuardedAcquisition,
    KernelBandit,
    KernelFamilyUCB,
    KernelRegression,
    LikelihoodRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    lengthscale_family,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning

# Function, noise, length scale, norm bound.
PROBLEMS = {
    "branin": (Branin(negate=True), 5.0, 0.3, 2000.0),
    "hartmann6": (Hartmann(6, negate=True), 0.05, 0.5, 10.0),
}
REPEATS = 3  # constructions and gradients are short: the mean of so many
NORM, NORM_BOUND = 3.0, 3.5
FAMILY_NORM, FAMILY_NOISE = 5.0, 0.1
RATIO = 2.0**0.5  # of neighbours: eight from the longest to a twelfth of it
_warm: set[tuple] = set()


class Contest(NamedTuple):
    r"""What builds each function, on ``[0, 1]^dimension``, and what else is told."""

    builders: dict[str, Callable[[], Any]]
    dimension: int
    told: dict[str, float] | None = None


def make_model(problem: str, n: int) -> SingleTaskGP:
    r"""Of new data, from the current random state; its caches are filled."""
    function, noise_std, lengthscale, _ = PROBLEMS[problem]
    X = torch.rand(n, function.dim, dtype=torch.float64)
    Y = function(unnormalize(X, function.bounds.to(X))).unsqueeze(-1)
    model = SingleTaskGP(X, Y + noise_std * torch.randn_like(Y))
    model.covar_module.lengthscale = lengthscale
    model.likelihood.noise = 1e-2
    model.eval()
    model.posterior(X[:1])
    return model


def bounds_alone(task: SimpleNamespace) -> Contest:
    r"""The exact bound and UCB, each with the model's first factorisation."""
    model, norm_bound = make_model(task.problem, task.n), PROBLEMS[task.problem][-1]

    def fresh(build: Callable) -> Any:
        model.train()
        return build(model.eval())  # without the caches of the last construction

    def ours(model: SingleTaskGP) -> MartingaleMixtureUCB:
        return MartingaleMixtureUCB(model, norm_bound=norm_bound, fit="martingale")

    builders = {
        "exact": lambda: fresh(ours),
        "ucb": lambda: fresh(lambda model: UpperConfidenceBound(model, beta=4.0)),
    }
    return Contest(builders, PROBLEMS[task.problem][0].dim)


def searches(task: SimpleNamespace) -> Contest:
    r"""Bounds and a guarded function, and BoTorch's own."""
    model, norm_bound = make_model(task.problem, task.n), PROBLEMS[task.problem][-1]

    def improvement() -> qLogNoisyExpectedImprovement:
        X = model.train_inputs[0]
        return qLogNoisyExpectedImprovement(model, X, prune_baseline=True)

    builders = {
        "given": lambda: MartingaleMixtureUCB(model, norm_bound=norm_bound),
        "estimated": lambda: MartingaleMixtureUCB(model),
        "ucb beta 4": lambda: UpperConfidenceBound(model, beta=4.0),
        "ucb beta 2": lambda: UpperConfidenceBound(model, beta=2.0),
        "guarded": lambda: GuardedAcquisition(improvement(), MartingaleMixtureUCB(model)),
        "qLogNEI": improvement,
    }
    return Contest(builders, PROBLEMS[task.problem][0].dim)


def fits(task: SimpleNamespace) -> Contest:
    r"""The mixture of filters and the paper's set."""
    model, norm_bound = make_model(task.problem, task.n), PROBLEMS[task.problem][-1]

    def build(fit: Any) -> Callable[[], MartingaleMixtureUCB]:
        return lambda: MartingaleMixtureUCB(model, norm_bound=norm_bound, fit=fit)

    builders = {fit: build(fit) for fit in ("filters", "martingale")}
    return Contest(builders, PROBLEMS[task.problem][0].dim)


def outcomes(task: SimpleNamespace) -> Contest:
    r"""Successes or counts of a function, and noisy values of it."""
    kernel, random = fixed_kernel(task.kernel, 0.3), stream(task.seed, "speed")
    truth = KnownFunction.draw(random, kernel, NORM, 2, 12)
    X = torch.from_numpy(random.random((task.n, 2)))
    latent, noise_std = truth(X), 0.5
    poisson = task.likelihood == "poisson"
    counts = torch.poisson(latent.exp()) if poisson else torch.bernoulli(latent.sigmoid())
    values = (latent + noise_std * torch.randn_like(latent)).unsqueeze(-1)
    noise = torch.full_like(values, noise_std**2)
    model = SingleTaskGP(X, values, noise, covar_module=kernel, outcome_transform=None)

    def ours() -> LikelihoodUCB:
        state = LikelihoodRegression(X, counts, kernel, likelihood=task.likelihood)
        return LikelihoodUCB(state, norm_bound=NORM_BOUND, form=task.form)

    def theirs() -> MartingaleMixtureUCB:
        return MartingaleMixtureUCB(model, norm_bound=NORM_BOUND, noise_std=noise_std)

    return Contest({"counts": ours, "values": theirs}, 2)


def families(task: SimpleNamespace) -> Contest:
    r"""Eight kernels, and the third longest of them, which the function has."""
    longest = 0.8 * (task.d / 2) ** 0.5
    kernels = lengthscale_family(RBFKernel(), longest / RATIO**7, longest, RATIO * 1.0001)
    kernel, random = fixed_kernel("rbf", longest / RATIO**2), stream(task.seed, "speed")
    truth = KnownFunction.draw(random, kernel, FAMILY_NORM, task.d, 20)
    X = torch.from_numpy(random.random((task.n, task.d)))
    Y = truth(X) + FAMILY_NOISE * torch.from_numpy(random.standard_normal(task.n))
    norm_bound = 1.25 * FAMILY_NORM

    def several() -> KernelFamilyUCB:
        state = KernelRegression(X, Y, kernel, FAMILY_NOISE)
        every = {"simplest": None, "widest": 1}[task.select]
        options = {"norm_bound": norm_bound, "widest_every": every}
        return KernelFamilyUCB(state, kernels, **options)

    def one() -> MartingaleMixtureUCB:
        state = KernelRegression(X, Y, kernels[2], FAMILY_NOISE)
        return MartingaleMixtureUCB(state, norm_bound=norm_bound)

    told = {"contradicted": several().consistent.count(False)}
    return Contest({"several": several, "one": one}, task.d, told)


_ALL = (bounds_alone, searches, fits, outcomes, families)
CONTESTS = {each.__name__: each for each in _ALL}


@quiet()  # the optimiser warns, and norms that are too small do
def play_contest(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Seconds of each measure for each function, by name."""
    task = SimpleNamespace(**settings)
    torch.manual_seed(task.seed)
    contest = CONTESTS[task.contest](task)
    named = list(contest.builders.items())
    turn = task.seed % len(named)
    rounds = [named[turn:] + named[:turn]]
    alike = tuple(value for name, value in settings.items() if name != "seed")
    if alike not in _warm:
        _warm.add(alike)
        rounds *= 2  # the first of a kind warms up
    for order in rounds:
        seconds = {
            name: _measure(build, contest.dimension, task.seed) for name, build in order
        }
    return {"seconds": seconds, **(contest.told or {})}


def _measure(build: Callable[[], Any], dimension: int, seed: int) -> dict[str, float]:
    r"""Seconds of each measure, and the number of ``evaluations`` in a call."""
    cube = unit_cube(dimension)
    torch.manual_seed(seed)
    few = torch.rand(8, 1, dimension, dtype=torch.float64, requires_grad=True)
    many = torch.rand(256, 1, dimension, dtype=torch.float64)
    found = {"construction": _seconds(build, REPEATS)}
    with torch.no_grad():
        found["build"] = _seconds(lambda: build()(many[:1]))
        acqf, calls = build(), []
        acqf(many[:1])
        found["batch"] = _seconds(lambda: acqf(many))
    found["gradient"] = _seconds(lambda: torch.autograd.grad(acqf(few).sum(), few), REPEATS)
    evaluate = acqf.forward
    acqf.forward = lambda X: calls.append(len(X)) or evaluate(X)
    search = {"q": 1, "num_restarts": 8, "raw_samples": 256}
    found["call"] = _seconds(lambda: optimize_acqf(acqf, cube, **search))
    found["round"] = found["construction"] + found["call"]
    return found | {"evaluations": len(calls), "evaluation": found["call"] / len(calls)}


def _seconds(action: Callable[[], object], repeats: int = 1) -> float:
    start = time.process_time()
    for _ in range(repeats):
        action()
    return (time.process_time() - start) / repeats


FACTORS = {"ordinary": 1.0, "contradicted": 0.2}  # of the function's norm
_ARMS, _DIMENSION, _NORM, _NOISE_STD = 100, 3, 5.0, 0.1


@torch.no_grad()
@quiet(InconsistentConfidenceSetWarning)
def play_rounds(settings: dict[str, Any]) -> dict[str, float]:
    r"""Each round scores fresh arms and takes one outcome.

    From one eigenbasis to the next, so that its share is in the mean; processor seconds.
    """
    task = SimpleNamespace(**settings)
    random, kernel = stream(0, "bandit"), fixed_kernel("matern52", 0.3)
    truth = KnownFunction.draw(random, kernel, _NORM, _DIMENSION, 12)

    def points(count: int) -> torch.Tensor:
        return torch.from_numpy(random.random((count, _DIMENSION)))

    def outcomes(X: torch.Tensor) -> torch.Tensor:
        return truth(X) + _NOISE_STD * torch.from_numpy(random.standard_normal(len(X)))

    norm_bound, rounds = FACTORS[task.setting] * _NORM, max(task.n // 16, 1)
    bandit = KernelBandit(kernel, norm_bound=norm_bound, noise_std=_NOISE_STD, fit=task.fit)
    X = points(task.n)
    for x, y in zip(X, outcomes(X), strict=True):
        bandit.observe(x, y)
    bandit.select(points(_ARMS))
    start = time.process_time()
    for _ in range(rounds):
        arms = points(_ARMS)
        x = arms[bandit.select(arms)].unsqueeze(0)
        bandit.observe(x, float(outcomes(x)))
    return {"rounds": rounds, "seconds": (time.process_time() - start) / rounds}
