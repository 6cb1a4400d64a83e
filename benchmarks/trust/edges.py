r"""What is called certified at the edges of the interface, where a user may slip."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any, NamedTuple

import torch
from botorch.acquisition import PosteriorMean
from botorch.exceptions import BotorchError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from gpytorch.kernels import Kernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from benchmarks import runner
from benchmarks.runner import fixed_kernel, rkhs_norm, stream
from kernelucb import (
    CertifiedGapStopping,
    GuardedAcquisition,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    MixedSpace,
    NormTracker,
    PrequentialRadius,
    UnknownNoise,
    least_consistent_norm,
    lengthscale_family,
    optimum_report,
    regret_certificate,
)

OBSERVATIONS, LENGTHSCALE, NORM, NOISE_STD = 40, 0.3, 5.0, 0.1
DELTA, GAP, WIDTH, FEW, WIDER = 0.05, 2.0, 2.0, 10, 3.0
_GRID = 101  # points a side: a maximum on them is short of the true one by less than:
_SLACK = 0.01
_UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
_SIDE = torch.linspace(0.0, 1.0, _GRID, dtype=torch.float64)
_POINTS = torch.cartesian_prod(_SIDE, _SIDE)
_CONTEXT = {1: 0.0}


@dataclass(frozen=True)
class Task(runner.Task):
    r"""One statement that a user asks for.

    Attributes:
        edge: One of ``EDGES``.
        seed: Of function, inputs and noise.
    """

    edge: str
    seed: int

    @property
    def location(self) -> PurePath:
        r"""One folder for each edge."""
        folder = self.edge.replace(", ", "-").replace(" ", "-")
        return PurePath("edges", folder, f"seed-{self.seed:03d}.json")


@dataclass(frozen=True)
class Run:
    r"""What was said.

    Attributes:
        said: ``"certified"``, ``"nothing"`` (asked to stop, it went on), ``"less"``
            (heuristic, or no guarantee), or the name of the error.
        true: Whether what is said holds for the function; true where nothing was.
    """

    said: str
    true: bool = True

    @property
    def certified(self) -> bool:
        r"""Whether it is called certified."""
        return self.said == "certified"

    @property
    def wrong(self) -> bool:
        r"""Whether something false is called certified."""
        return self.certified and not self.true

    @property
    def refused(self) -> bool:
        r"""Whether it was refused with an error."""
        return self.said not in ("certified", "nothing", "less")


class _Resonance(ScaleKernel):
    r"""An output scale that is large in a small region, as users write it."""

    def _scale(self, X: Tensor) -> Tensor:
        far = (X - X.new_tensor([0.37, 0.61])).square().sum(-1)
        return 1.0 + 30.0 * (-0.5 * far / 0.004**2).exp()

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Any:
        base = super().forward(x1, x2, diag=diag, **params)
        left, right = self._scale(x1), self._scale(x2)
        if diag:
            return base * left * right
        return base.to_dense() * left.unsqueeze(-1) * right.unsqueeze(-2)


class _Game(NamedTuple):
    r"""A function of the unit square of norm ``NORM``, and observations of it."""

    kernel: Kernel
    X: Tensor
    Y: Tensor
    values: Callable[[Tensor], Tensor]

    @classmethod
    @torch.no_grad()
    def of(cls, seed: int, kernel: Kernel) -> "_Game":
        random = stream(seed, "edges")
        centre, X = (torch.from_numpy(random.random((n, 2))) for n in (1, OBSERVATIONS))
        weight = NORM / rkhs_norm(kernel, centre, X.new_ones(1))

        def values(points: Tensor) -> Tensor:
            return weight * kernel(points, centre).to_dense().squeeze(-1)

        noise = NOISE_STD * torch.from_numpy(random.standard_normal(OBSERVATIONS))
        return cls(kernel, X, values(X) + noise, values)

    def state(self, **changed: Any) -> KernelRegression:
        given = dict(
            train_X=self.X, train_Y=self.Y, kernel=self.kernel, noise_std=NOISE_STD
        )
        return KernelRegression(*(given | changed).values())

    def band(self, **changed: Any) -> Any:
        given = dict(model=self.state(), norm_bound=NORM, delta=DELTA)
        return MartingaleMixtureUCB(**(given | changed))

    def fitted(self, kernel: Kernel | None = None) -> SingleTaskGP:
        model = SingleTaskGP(
            self.X, self.Y[:, None], covar_module=kernel, outcome_transform=None
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        return model

    def best_observed(self, allowed: Callable[[Tensor], Tensor]) -> Tensor:
        points = self.X[allowed(self.X)]
        return points[self.values(points).argmax()]

    def covered(self, band: Any, scale: float = 1.0) -> Run:
        lower, upper = band.bounds(scale * _POINTS)
        values = self.values(_POINTS)
        inside = bool(((values >= lower - 1e-6) & (values <= upper + 1e-6)).all())
        return _said(band.assumptions.certified, inside)

    def optimum(self, report: Any, domain: Tensor = _POINTS) -> Run:
        best = float(self.values(domain).max())
        inside = report.lower - _SLACK <= best <= report.upper + _SLACK
        gap = self.gap(report.certificate, domain)
        return _said(report.certified, inside and gap.true)

    def gap(self, certificate: Any, domain: Tensor = _POINTS) -> Run:
        regret = self.values(domain).max() - self.values(certificate.recommended[None])
        return _said(certificate.certified, float(regret) <= certificate.gap + _SLACK)


def _said(certified: bool, true: bool) -> Run:
    return Run("certified" if certified else "less", true)


# A box where candidates are expected.


def _stopped(game: _Game) -> Run:
    decision = CertifiedGapStopping(GAP, _UNIT)(game.band())
    if not decision.stop:
        return Run("nothing")
    run = game.gap(decision.certificate)
    return _said(True, run.true)


# A recommended point outside the domain.

_HALF = _POINTS[_POINTS[:, 1] <= 0.5]
_HALVES: dict[str, Any] = {
    "bounds": {"bounds": torch.tensor([[0.0, 0.0], [1.0, 0.5]], dtype=torch.float64)},
    "candidates": {"candidates": _HALF[::7]},
    "linear constraints": {
        "space": MixedSpace(
            _UNIT, inequality_constraints=[(torch.tensor([1]), torch.tensor([-1.0]), -0.5)]
        )
    },
    "context": {"bounds": _UNIT, "fixed_features": _CONTEXT},
}


def _outside(name: str, game: _Game) -> Run:
    domain = {"candidates": _HALF[::7], "context": _POINTS[_POINTS[:, 1] == 0.0]}
    recommended = game.best_observed(lambda X: X[:, 1] > 0.5)
    report = optimum_report(game.band(), recommended=recommended, **_HALVES[name])
    return game.optimum(report, domain.get(name, _HALF))


# Estimates handed back as given.


def _norm_of(game: _Game, norm_bound: Any) -> float:
    return game.band(norm_bound=norm_bound).norm_bound


def _tracked(game: _Game) -> float:
    tracker = NormTracker()
    game.band(norm_bound=tracker)
    return tracker.norm_bound


def _fitted_noise(game: _Game) -> Run:
    noise = game.band(model=game.fitted(game.kernel)).regression.noise_std
    return game.covered(game.band(model=game.state(noise_std=noise)))


def _unknown_noise(game: _Game) -> Run:
    interval = game.band(noise_std=UnknownNoise()).noise_interval
    return game.covered(game.band(noise_std=interval[1]))


def _fitted_kernel(game: _Game) -> Run:
    kernel = game.band(model=game.fitted()).regression.prior.covar_module
    return game.covered(game.band(model=game.state(kernel=kernel)))


# A guard in a context.


def _guarded(game: _Game) -> Run:
    model = SingleTaskGP(game.X, game.Y[:, None], covar_module=game.kernel)
    guard: Any = partial(
        GuardedAcquisition, PosteriorMean(model), game.band(), temperature=0.0
    )
    try:
        guard = guard(fixed_features=_CONTEXT)
    except TypeError:  # no such argument: as well as one can
        guard = guard()
    line = _POINTS[_POINTS[:, 1] == 0.0]
    best = line[game.values(line).argmax()]
    return _said(guard.assumptions.certified, float(guard.excess(best[None])) >= -_SLACK)


# Other data for a model in eval mode, before its input transform.


def _raw_inputs(game: _Game) -> Run:
    X, Y, seen = WIDTH * game.X, game.Y[:, None], OBSERVATIONS // 2
    model = SingleTaskGP(
        X[:seen],
        Y[:seen],
        covar_module=game.kernel,
        outcome_transform=None,
        input_transform=Normalize(2, bounds=WIDTH * _UNIT),
    )
    model.mean_module.requires_grad_(False)
    model.eval()
    model.set_train_data(X, game.Y, strict=False)
    band = game.band(model=model, norm_bound=WIDER * NORM, noise_std=NOISE_STD)
    return game.covered(band, WIDTH)


# Families that are changed, kernels of one's own, and inputs in another order.


def _family(change: Callable[[Any], Any], seed: int, lengthscale: float) -> Run:
    game = _Game.of(seed, fixed_kernel("rbf", lengthscale))
    kernels = lengthscale_family(fixed_kernel("rbf", LENGTHSCALE), 0.1, 0.8)
    change(kernels)
    return game.covered(
        KernelFamilyUCB(game.state(), kernels, norm_bound=NORM, delta=DELTA)
    )


def _replaced(kernels: Any) -> None:
    kernels[-1] = kernels[0]


def _resonance(seed: int) -> Run:
    kernel = _Resonance(fixed_kernel("matern52", LENGTHSCALE)).double()
    kernel.outputscale = torch.tensor(1.0, dtype=torch.float64)
    game = _Game.of(seed, kernel.requires_grad_(False))
    near = torch.tensor([[0.37, 0.61]], dtype=torch.float64)
    return game.optimum(
        optimum_report(game.band(), bounds=_UNIT), torch.cat([_POINTS, near])
    )


def _permuted(game: _Game) -> Run:
    X, Y, radius = game.X[:FEW], game.Y[:FEW], PrequentialRadius(DELTA)
    radius.observe_predictions(0.0, 1.0, Y[0], NOISE_STD)
    for count in range(1, FEW):
        seen = game.state(train_X=X[:count], train_Y=Y[:count])
        at = X[count : count + 1]
        radius.observe_predictions(seen.mean(at), seen.variance(at), Y[count], NOISE_STD)
    state = game.state(train_X=X.flip(0), train_Y=Y)
    return game.covered(game.band(model=state, norm_bound=WIDER * NORM, fit=radius))


_Edge = Callable[[_Game], Run]
_PLAIN: dict[str, _Edge] = {
    "box by position, regret_certificate": lambda g: g.gap(
        regret_certificate(g.band(), _UNIT)
    ),
    "box by position, optimum_report": lambda g: g.optimum(optimum_report(g.band(), _UNIT)),
    "box by position, CertifiedGapStopping": _stopped,
    **{
        f"recommended point outside the {name}": partial(_outside, name) for name in _HALVES
    },
    "norm bound of an estimated band": lambda g: g.covered(
        g.band(norm_bound=_norm_of(g, None))
    ),
    "norm bound of a tracker": lambda g: g.covered(g.band(norm_bound=_tracked(g))),
    "norm bound 1.2 times the least norm": lambda g: g.covered(
        g.band(norm_bound=1.2 * least_consistent_norm(g.state()))
    ),
    "norm bound of a contradicted band": lambda g: g.covered(
        g.band(norm_bound=_norm_of(g, 0.1))
    ),
    "noise scale of a fitted model": _fitted_noise,
    "noise scale from a noise interval": _unknown_noise,
    "kernel of a fitted model": _fitted_kernel,
    "guard in a context": _guarded,
    "set_train_data in eval mode": _raw_inputs,
    "PrequentialRadius and inputs permuted": _permuted,
}
_SEEDED: dict[str, Callable[[int], Run]] = {
    "LengthscaleFamily reversed": lambda seed: _family(lambda k: k.reverse(), seed, 0.15),
    "LengthscaleFamily with a kernel replaced": lambda seed: _family(_replaced, seed, 0.1),
    "subclass of ScaleKernel": _resonance,
}
EDGES = (*_PLAIN, *_SEEDED)


def play(task: Task) -> Run:
    r"""Ask for one statement and compare it with the function."""
    torch.manual_seed(task.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if task.edge in _SEEDED:
                return _SEEDED[task.edge](task.seed)
            return _PLAIN[task.edge](
                _Game.of(task.seed, fixed_kernel("matern52", LENGTHSCALE))
            )
        except (ValueError, BotorchError, AttributeError, TypeError) as error:
            return Run(type(error).__name__)
