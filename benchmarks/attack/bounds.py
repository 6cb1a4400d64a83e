r"""Every bound of the library around a random problem, and when it must hold the truth."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

import kernelucb
from benchmarks.attack.problems import DELTA, Problem
from kernelucb.acquisition import BoundedNorm
from kernelucb.confidence.combined import CombinedSet, WeightedSum
from kernelucb.confidence.martingale_mixture.dual import ExactSet, GridSet
from kernelucb.models import BKBModel

_MIXTURE = kernelucb.MartingaleMixtureUCB
# The bounds of a bandit: its names, the stateless classes, and what both are given.
BOUNDS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "exact": ("martingale_mixture", _MIXTURE, {}),
    "grid": ("martingale_mixture", _MIXTURE, {"form": kernelucb.Grid()}),
    "analytic": ("martingale_mixture", _MIXTURE, {"form": "analytic"}),
    "abbasi_yadkori": ("abbasi_yadkori", kernelucb.AbbasiYadkoriUCB, {}),
    "igp": ("igp_ucb", kernelucb.IGPUCB, {}),
}
Covers = Literal["noise", "exact", "never"]
Bounds = Callable[[Tensor], tuple[Tensor, Tensor]]
# So many inducing points that every observation is one.
_ALL = 1e12
SCALES = (None, 0.01, 100.0, (0.1, 1.0, 10.0), "mixture")


class Attacked(NamedTuple):
    r"""A band around a problem.

    Attributes:
        bounds: Lower and upper bound at ``b x d`` points.
        forward: The acquisition function, where there is one.
        factor: The truth of the band is ``factor`` times that of the problem.
        like: The stateless function with the same band, where there is no ``forward``.
    """

    bounds: Bounds
    forward: Any = None
    factor: float = 1.0
    like: Any = None


def width_of(attacked: Attacked) -> float:
    r"""What a band multiplies deviations by; 0 where the norm bound limits that."""
    function = attacked.like if attacked.forward is None else attacked.forward
    return _width(getattr(function, "confidence_set", None))


def _width(band: Any) -> float:
    if isinstance(band, CombinedSet) and isinstance(band.rule, WeightedSum):
        pairs = zip(band.rule.weights, band.parts, strict=True)
        return sum(abs(weight) * _width(part) for weight, part in pairs)
    if isinstance(band, GridSet) and not isinstance(band, ExactSet):
        return float(band.squared_widths.max().sqrt())
    return getattr(band, "width", 0.0)


class Kind(NamedTuple):
    r"""A bound and how often it is tried.

    Attributes:
        build: From a problem, a norm bound and a stream.
        covers: ``"noise"``: the truth is inside for noise of length ``FREE_RADIUS``;
            ``"exact"``: without noise; ``"never"``: it is for other functions.
        weight: Relative frequency.
        largest: Largest number of observations.
        plain: Whether it takes no transforms and one noise scale.
    """

    build: Callable[[Problem, float, np.random.Generator], Attacked]
    covers: Covers = "noise"
    weight: float = 1.0
    largest: int = 200
    plain: bool = False


def base(problem: Problem, random: np.random.Generator) -> tuple[Any, Any]:
    r"""The model or state of a problem, and what to give as ``noise_std``."""
    noise = problem.noise_std if problem.several else float(problem.noise_std[0])
    if problem.form == "state":
        return state(problem, noise), None
    return problem.model(), noise if problem.single or random.random() < 0.5 else None


def state(problem: Problem, noise: Any) -> kernelucb.KernelRegression:
    return kernelucb.KernelRegression(
        problem.X.double(), problem.Y, problem.kernel, noise, problem.mean_module
    )


def _acqf(bound: Any, **options: Any) -> Callable[..., Attacked]:
    def build(problem: Problem, norm: float, random: np.random.Generator) -> Attacked:
        model, noise = base(problem, random)
        given = {"norm_bound": norm, "noise_std": noise} | {
            name: value(problem, random) if callable(value) else value
            for name, value in options.items()
        }
        acqf = bound(model, delta=DELTA, **given)
        return Attacked(acqf.bounds, acqf)

    return build


def _srinivas(model: Any, norm_bound: float, **given: Any) -> kernelucb.SrinivasUCB:
    return kernelucb.SrinivasUCB(model, theorem=BoundedNorm(norm_bound), **given)


def _within_limits(problem: Problem, random: np.random.Generator) -> kernelucb.UnknownNoise:
    level = float(problem.noise_std.max())
    limits = (0.3 * level, 10.0 * level) if random.random() < 0.7 else ()
    return kernelucb.UnknownNoise(*limits)


def _from_below(problem: Problem, random: np.random.Generator) -> kernelucb.UnknownNoise:
    level = float(problem.noise_std.max())
    return kernelucb.UnknownNoise(level, None if random.random() < 0.3 else 10.0 * level)


def _sketched(problem: Problem, norm: float, random: np.random.Generator) -> Attacked:
    X = problem.X.double()
    size = int(random.integers(1, len(X) + 1))
    inducing = X[torch.from_numpy(random.choice(len(X), size, replace=False))]
    if random.random() < 0.2:
        inducing = problem.queries[-size:]
    further = problem.queries if random.random() < 0.5 else None
    noise = problem.noise_std if problem.several else float(problem.noise_std[0])
    if problem.form == "state":
        regression = kernelucb.NystromRegression(
            X, problem.Y, problem.kernel, noise, inducing, problem.mean_module,
            remainder_points=further,
        )  # fmt: skip
    else:
        regression = kernelucb.NystromRegression.from_model(
            problem.model(), inducing, noise, remainder_points=further
        )
    acqf = kernelucb.SketchedMartingaleMixtureUCB(regression, norm_bound=norm, delta=DELTA)
    return Attacked(acqf.bounds, acqf)


def _bkb(problem: Problem, norm: float, random: np.random.Generator) -> Attacked:
    level = float(problem.noise_std.max())
    model = BKBModel(
        problem.X.double(), problem.Y.unsqueeze(-1), problem.kernel, level**2,
        qbar=_ALL, mean_module=problem.mean_module,
    )  # fmt: skip
    acqf = kernelucb.BKBUCB(model, norm_bound=norm, noise_std=level, delta=DELTA)
    return Attacked(acqf.bounds, acqf)


def _bkb_bandit(problem: Problem, norm: float, random: np.random.Generator) -> Attacked:
    X = problem.X.double()
    arms = torch.cat([X, problem.queries])
    bandit = kernelucb.BKBBandit(
        arms, problem.kernel, norm_bound=norm, noise_std=float(problem.noise_std.max()),
        qbar=_ALL, delta=DELTA, mean_module=problem.mean_module,
    )  # fmt: skip
    half = max(1, len(X) // 2)
    for part in (range(half), range(half, len(X))):
        if len(part):
            bandit.observe(list(part), problem.Y[list(part)].double())

    def bounds(points: Tensor) -> tuple[Tensor, Tensor]:
        index = [int((arms == point).all(-1).nonzero()[0]) for point in points]
        lower, upper = bandit.bounds()
        return lower[index], upper[index]

    return Attacked(bounds)


def bandit_of(
    name: str, problem: Problem, norm: float, **options: Any
) -> kernelucb.KernelBandit:
    r"""A bandit that has played the inputs of a problem one after the other."""
    bound, _, given = BOUNDS[name]
    bandit = kernelucb.KernelBandit(
        problem.kernel, norm_bound=norm, noise_std=float(problem.noise_std.max()),
        delta=DELTA, mean_module=problem.mean_module, bound=bound, **given, **options,
    )  # fmt: skip
    for i, (x, y) in enumerate(zip(problem.X.double(), problem.Y, strict=True)):
        if i % 3 == 0:
            bandit.select(torch.cat([x.unsqueeze(0), problem.queries]))
        bandit.observe(x, float(y))
    return bandit


def _bandit(name: str) -> Callable[..., Attacked]:
    _, bound, _ = BOUNDS[name]

    def build(problem: Problem, norm: float, random: np.random.Generator) -> Attacked:
        if bound is _MIXTURE:
            scale = SCALES[random.integers(len(SCALES))]
            options = {} if scale is None else {"fit": kernelucb.Filters(scale)}
            return Attacked(bandit_of(name, problem, norm, **options).bounds)
        bandit = bandit_of(name, problem, norm)
        data = bandit.observations.regression()
        like = bound(data, norm_bound=norm, delta=DELTA)
        return Attacked(bandit.bounds, like=like)

    return build


def _scalarized(problem: Problem, norm: float, random: np.random.Generator) -> Attacked:
    model, noise = base(problem, random)
    parts = [
        bound(model, norm_bound=norm, noise_std=noise, delta=DELTA)
        for bound in (kernelucb.MartingaleMixtureUCB, kernelucb.AbbasiYadkoriUCB)
    ]
    weights = random.uniform(-2, 2, 2).tolist()
    acqf = kernelucb.ScalarizedUCB(parts, weights)
    return Attacked(acqf.bounds, acqf, sum(weights))


def _fit_of(_: Problem, random: np.random.Generator) -> kernelucb.Filters:
    return kernelucb.Filters(SCALES[random.integers(len(SCALES))])


KINDS: dict[str, Kind] = {
    "dual": Kind(_acqf(_MIXTURE, fit=_fit_of), weight=4),
    "grid": Kind(_acqf(_MIXTURE, form=kernelucb.Grid(), fit=_fit_of), weight=2),
    "analytic": Kind(_acqf(_MIXTURE, form="analytic", fit=_fit_of), weight=2),
    "convex": Kind(_acqf(_MIXTURE, form="convex"), weight=0.05, largest=8),
    "unknown noise": Kind(_acqf(_MIXTURE, noise_std=_within_limits), "exact", 1.5),
    "abbasi_yadkori": Kind(_acqf(kernelucb.AbbasiYadkoriUCB)),
    "igp": Kind(_acqf(kernelucb.IGPUCB)),
    "srinivas": Kind(_acqf(_srinivas), "exact"),
    "wang_de_freitas": Kind(_acqf(kernelucb.WangDeFreitasUCB), "exact"),
    "streaming": Kind(
        _acqf(kernelucb.StreamingKernelUCB, noise_std=_from_below), "exact", 1.5
    ),
    "sketched": Kind(_sketched, weight=3),
    "bkb": Kind(_bkb, "exact", plain=True),
    "bkb bandit": Kind(_bkb_bandit, "exact", largest=40, plain=True),
    "scalarized": Kind(_scalarized),
    **{f"bandit {name}": Kind(_bandit(name), largest=40, plain=True) for name in BOUNDS},
}
