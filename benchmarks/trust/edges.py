r"""What is called certified at the edges of the interface, where a user may slip."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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

OBSERVATIONS, LENGTHSCALE, NORM, NOISE_STD, DELTA = 40, 0.3, 5.0, 0.1, 0.05
GAP, WIDTH, FEW, WIDER = 2.0, 2.0, 10, 3.0
_SLACK = 0.01  # what a maximum over the grid may be short of the true one
_UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
_SIDE = torch.linspace(0.0, 1.0, 101, dtype=torch.float64)
_GRID = torch.cartesian_prod(_SIDE, _SIDE)
_SPOT = torch.tensor([[0.37, 0.61]], dtype=torch.float64)


class _Domain(NamedTuple):
    r"""Part of the unit square: as the library is told of it, and points of it."""

    given: dict[str, Any]
    points: Tensor


_HALF = _GRID[_GRID[:, 1] <= 0.5]
_BELOW = [(torch.tensor([1]), torch.tensor([-1.0]), -0.5)]
_DOMAINS = {
    "bounds": _Domain({"bounds": _UNIT * torch.tensor([1.0, 0.5])}, _HALF),
    "candidates": _Domain({"candidates": _HALF[::7]}, _HALF[::7]),
    "linear constraints": _Domain(
        {"space": MixedSpace(_UNIT, inequality_constraints=_BELOW)}, _HALF
    ),
    "context": _Domain({"bounds": _UNIT, "fixed_features": {1: 0.0}}, _GRID[::101]),
}


@dataclass(frozen=True)
class Run:
    r"""What was said.

    Attributes:
        said: ``"certified"``, ``"less"`` (heuristic, or no guarantee), ``"nothing"``, or
            the name of the error.
        true: Whether it holds for the function; true where nothing was said.
    """

    said: str
    true: bool = True


class _Game(NamedTuple):
    r"""A hill in the unit square of norm ``NORM``, and observations of it."""

    seed: int
    kernel: Kernel
    X: Tensor
    Y: Tensor
    values: Callable[[Tensor], Tensor]

    @classmethod
    @torch.no_grad()
    def of(cls, seed: int, kernel: Kernel) -> "_Game":
        random = stream(seed, "edges")
        centre, X = (torch.from_numpy(random.random((n, 2))) for n in (1, OBSERVATIONS))
        height = NORM / rkhs_norm(kernel, centre, X.new_ones(1))

        def values(points: Tensor) -> Tensor:
            return height * kernel(points, centre).to_dense().squeeze(-1)

        noise = NOISE_STD * torch.from_numpy(random.standard_normal(OBSERVATIONS))
        return cls(seed, kernel, X, values(X) + noise, values)

    def state(
        self, X: Any = None, Y: Any = None, kernel: Any = None, noise: Any = NOISE_STD
    ):
        X, Y = (own if part is None else part for own, part in ((self.X, X), (self.Y, Y)))
        return KernelRegression(X, Y, kernel or self.kernel, noise)

    def band(self, model: Any = None, norm_bound: Any = NORM, **options: Any) -> Any:
        model = model or self.state()
        return MartingaleMixtureUCB(model, norm_bound=norm_bound, delta=DELTA, **options)

    def fitted(self, kernel: Kernel | None = None) -> SingleTaskGP:
        model = _model(self.X, self.Y, covar_module=kernel)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        return model

    def covered(self, band: Any, scale: float = 1.0) -> Run:
        lower, upper = band.bounds(scale * _GRID)
        values = self.values(_GRID)
        inside = bool(((values >= lower - 1e-6) & (values <= upper + 1e-6)).all())
        return _said(band.assumptions.certified, inside)

    def optimum(self, report: Any, points: Tensor = _GRID) -> Run:
        best = float(self.values(points).max())
        inside = report.lower - _SLACK <= best <= report.upper + _SLACK
        return _said(report.certified, inside and self.gap(report.certificate, points).true)

    def gap(self, certificate: Any, points: Tensor = _GRID) -> Run:
        regret = self.values(points).max() - self.values(certificate.recommended[None])
        return _said(certificate.certified, float(regret) <= certificate.gap + _SLACK)


def _said(certified: bool, true: bool) -> Run:
    return Run("certified" if certified else "less", true)


def _model(X: Tensor, Y: Tensor, noise: Tensor | None = None, **parts: Any) -> SingleTaskGP:
    return SingleTaskGP(X, Y[:, None], noise, outcome_transform=None, **parts)


def _stopped(game: _Game) -> Run:
    decision = CertifiedGapStopping(GAP, _UNIT)(game.band())
    return game.gap(decision.certificate) if decision.stop else Run("nothing")


def _outside(name: str, game: _Game) -> Run:
    given, points = _DOMAINS[name]
    other = game.X[game.X[:, 1] > 0.5]
    recommended = other[game.values(other).argmax()]
    report = optimum_report(game.band(), recommended=recommended, **given)
    return game.optimum(report, points)


def _tracked(game: _Game) -> float:
    tracker = NormTracker()
    game.band(norm_bound=tracker)
    return tracker.norm_bound


def _handed_back(name: str, game: _Game) -> Run:
    norm_bounds = {
        "norm bound of an estimated band": lambda: game.band(norm_bound=None).norm_bound,
        "norm bound of a tracker": lambda: _tracked(game),
        "norm bound 1.2 times the least norm": lambda: (
            1.2 * least_consistent_norm(game.state())
        ),
        "norm bound of a contradicted band": lambda: game.band(norm_bound=0.1).norm_bound,
    }
    if name in norm_bounds:
        return game.covered(game.band(norm_bound=norm_bounds[name]()))
    if name == "kernel of a fitted model":
        kernel = game.band(game.fitted()).regression.prior.covar_module
        return game.covered(game.band(game.state(kernel=kernel)))
    if name == "noise scale of a fitted model":
        noise = game.band(game.fitted(game.kernel)).regression.noise_std
        return game.covered(game.band(game.state(noise=noise)))
    interval = game.band(noise_std=UnknownNoise()).noise_interval
    return game.covered(game.band(noise_std=interval[1]))


def _guarded(name: str, game: _Game) -> Run:
    given, points = _DOMAINS[name]
    search = PosteriorMean(_model(game.X, game.Y, covar_module=game.kernel))
    guard: Any = partial(GuardedAcquisition, search, game.band(), temperature=0.0)
    try:
        guard = guard(**given)
    except TypeError:  # no such arguments: as well as one can
        guard = guard()
    best = points[game.values(points).argmax()][None]
    return _said(guard.assumptions.certified, float(guard.excess(best)) >= -_SLACK)


def _raw_inputs(game: _Game) -> Run:
    X, seen = WIDTH * game.X, OBSERVATIONS // 2
    unit = Normalize(2, bounds=WIDTH * _UNIT)
    parts = {"covar_module": game.kernel, "input_transform": unit}
    model = _model(X[:seen], game.Y[:seen], **parts)
    model.mean_module.requires_grad_(False)
    model.eval()
    model.set_train_data(X, game.Y, strict=False)
    return game.covered(game.band(model, WIDER * NORM, noise_std=NOISE_STD), WIDTH)


def _permuted(game: _Game) -> Run:
    X, Y, radius = game.X[:FEW], game.Y[:FEW], PrequentialRadius(DELTA)
    seen_X, seen_Y = torch.full_like(X[:1], 9.0), torch.zeros_like(Y[:1])  # far away
    for x, y in zip(X.split(1), Y.split(1), strict=True):
        noise = torch.full_like(seen_Y, NOISE_STD**2)[:, None]
        model = _model(seen_X, seen_Y, noise, covar_module=game.kernel)
        radius.observe(model, x, y, NOISE_STD)
        seen_X, seen_Y = torch.cat([seen_X, x]), torch.cat([seen_Y, y])
    return game.covered(game.band(game.state(X.flip(0), Y), WIDER * NORM, fit=radius))


def _family(change: Callable[[Any], Any], lengthscale: float, game: _Game) -> Run:
    game = _Game.of(game.seed, fixed_kernel("rbf", lengthscale))
    kernels = lengthscale_family(game.kernel, 0.1, 0.8)
    try:
        change(kernels)
    except (AttributeError, TypeError) as error:  # it is immutable
        return Run(type(error).__name__)
    band = KernelFamilyUCB(game.state(), kernels, norm_bound=NORM, delta=DELTA)
    return game.covered(band)


class _Resonance(ScaleKernel):
    r"""An output scale that is large near one spot, as users write it."""

    def _scale(self, X: Tensor) -> Tensor:
        far = (X - _SPOT).square().sum(-1)
        return 1.0 + 30.0 * (-0.5 * far / 0.004**2).exp()

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Any:
        base = super().forward(x1, x2, diag=diag, **params)
        left, right = self._scale(x1), self._scale(x2)
        if diag:
            return base * left * right
        return base.to_dense() * left.unsqueeze(-1) * right.unsqueeze(-2)


def _resonant(game: _Game) -> Run:
    kernel = _Resonance(game.kernel).double()
    kernel.outputscale = torch.tensor(1.0, dtype=torch.float64)
    game = _Game.of(game.seed, kernel.requires_grad_(False))
    report = optimum_report(game.band(), bounds=_UNIT)
    return game.optimum(report, torch.cat([_GRID, _SPOT]))


_BOX, _HANDED_BACK = (
    "box by position",
    (
        "norm bound of an estimated band",
        "norm bound of a tracker",
        "norm bound 1.2 times the least norm",
        "norm bound of a contradicted band",
        "noise scale of a fitted model",
        "noise scale from a noise interval",
        "kernel of a fitted model",
    ),
)
EDGES: dict[str, Callable[[_Game], Run]] = {
    f"{_BOX}, regret_certificate": lambda g: g.gap(regret_certificate(g.band(), _UNIT)),
    f"{_BOX}, optimum_report": lambda g: g.optimum(optimum_report(g.band(), _UNIT)),
    f"{_BOX}, CertifiedGapStopping": _stopped,
    **{f"recommended point outside the {at}": partial(_outside, at) for at in _DOMAINS},
    **{name: partial(_handed_back, name) for name in _HANDED_BACK},
    **{f"guard within the {at}": partial(_guarded, at) for at in ("context", "bounds")},
    "set_train_data in eval mode": _raw_inputs,
    "PrequentialRadius and inputs permuted": _permuted,
    "LengthscaleFamily reversed": partial(_family, lambda k: k.reverse(), 0.15),
    "LengthscaleFamily with a kernel replaced": partial(
        _family, lambda k: k.__setitem__(-1, k[0]), 0.1
    ),
    "subclass of ScaleKernel": _resonant,
}


def play_edge(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Ask for one statement and compare it with the function."""
    torch.manual_seed(settings["seed"])
    game = _Game.of(settings["seed"], fixed_kernel("matern52", LENGTHSCALE))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            run = EDGES[settings["edge"]](game)
        except (ValueError, BotorchError) as error:
            run = Run(type(error).__name__)
    return {"said": run.said, "true": run.true}
