r"""One run: settings are chosen by a search, and claims are checked against the truth."""

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.sampling import SobolQMCNormalSampler
from botorch.test_functions import Branin, Hartmann, Rosenbrock, SixHumpCamel
from scipy.stats import qmc
from torch import Tensor

from benchmarks.runner import quiet
from benchmarks.runner.files import table_of
from benchmarks.runner.simulators import SIMULATORS
from kernelucb import KernelRegression, MartingaleMixtureUCB
from kernelucb.certificates.measured import WINDOW, by_deviations
from kernelucb.regression.from_model import fitted_default
from kernelucb.regression.named import fixed_kernel

COUNTS = (15, 20, 50, 100)
MARGINS = (1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0)
MULTIPLES = (1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0)  # of the posterior standard deviation
NOISE = 0.02  # of the range of the function
_POOL, _NEAR, _START, _REFIT = 1024, 256, 10, 5
LENGTHSCALE = 0.5  # the guide's: outcomes change over half of the box
FUNCTIONS = {
    "Branin": Branin(negate=True),
    "Hartmann 3": Hartmann(3, negate=True),
    "Hartmann 6": Hartmann(6, negate=True),
    "Rosenbrock 3": Rosenbrock(3, negate=True),
    "six-hump camel": SixHumpCamel(negate=True),
}


class Problem(NamedTuple):
    r"""A function over a pool of settings.

    Attributes:
        pool: ``N x d`` settings in the unit cube.
        values: ``N`` values of the function.
        function: For settings near the best; None for a table, whose pool is all there is.
    """

    pool: Tensor
    values: Tensor
    function: Callable[[Tensor], Tensor] | None

    @property
    def spread(self) -> float:
        return float(self.values.max() - self.values.min())


def problem_of(name: str, seed: int) -> Problem:
    r"""A simulator, a function of BoTorch, or a table of a laboratory, by name."""
    if name in SIMULATORS:
        own, dimension = SIMULATORS[name], SIMULATORS[name].dimension

        def function(X: Tensor) -> Tensor:
            return torch.from_numpy(own(X.numpy())).double()
    elif name in FUNCTIONS:
        test: Any = FUNCTIONS[name]
        dimension, bounds = test.dim, test.bounds.double()

        def function(X: Tensor) -> Tensor:
            return test(bounds[0] + (bounds[1] - bounds[0]) * X).double()
    else:
        X, values = table_of(name)
        return Problem(X, -values if name == "agnp" else values, None)  # agnp is a loss
    draws = qmc.Sobol(dimension, seed=seed).random(_POOL)
    pool = torch.from_numpy(draws).double()
    return Problem(pool, function(pool), function)


def chosen_by(problem: Problem, design: str, seed: int, outcome: Any) -> Iterator[int]:
    r"""Positions in the pool, one after the other, as a search chooses them."""
    random = np.random.default_rng(seed)
    order = random.permutation(len(problem.pool))
    taken: list[int] = []
    model: Any = None
    while True:
        if design == "random" or len(taken) < _START:
            chosen = int(next(i for i in order if i not in taken))
        else:
            like = model if len(taken) % _REFIT else None
            model = fitted_default(problem.pool[taken], outcome(taken), like=like)
            chosen = next_of(problem, design, taken, model)
        taken.append(chosen)
        yield chosen


@torch.no_grad()
def next_of(problem: Problem, design: str, taken: list[int], model: Any) -> int:
    open_pool = torch.ones(len(problem.pool), dtype=torch.bool)
    open_pool[taken] = False
    if design == "guard":  # within the possible maximisers of a band of margin 1.5
        band = _band(KernelRegression.of(model))
        own = band.relaxed(1.5 * band.relaxed().least_norm_factor)
        lower, upper = own.bounds(problem.pool)
        possible = open_pool & (upper >= lower.max())
        open_pool = possible if bool(possible.any()) else open_pool
    positions = open_pool.nonzero().flatten()
    sampler = SobolQMCNormalSampler(torch.Size([32]), seed=0)
    search = qLogNoisyExpectedImprovement(
        model, problem.pool[taken], sampler=sampler, prune_baseline=True
    )
    parts = problem.pool[positions].unsqueeze(1).split(256)
    scores = torch.cat([search(part) for part in parts])
    return int(positions[scores.argmax()])


def _band(state: KernelRegression) -> MartingaleMixtureUCB:
    r"""The band at its least consistent norm, which is what ``relaxed`` multiplies."""
    return MartingaleMixtureUCB(state, norm_bound=state.prior_std)


@quiet()  # norms below the least are tried
def play(settings: dict[str, Any]) -> dict[str, Any]:
    r"""False claims and their sizes, for each number of runs, kernel and method."""
    problem = problem_of(settings["problem"], settings["seed"])
    torch.manual_seed(settings["seed"])
    noise_std = NOISE * problem.spread
    random = torch.Generator().manual_seed(1000 + settings["seed"])
    noise = noise_std * torch.randn(max(COUNTS), generator=random).double()

    def outcomes(taken: list[int]) -> Tensor:
        return problem.values[taken] + noise[: len(taken)]

    taken: list[int] = []
    rows: list[dict[str, Any]] = []
    search = chosen_by(problem, settings["design"], settings["seed"], outcomes)
    for chosen in islice(search, max(COUNTS)):
        taken.append(chosen)
        if len(taken) in COUNTS:
            rows += _checked(problem, taken, outcomes(taken), noise_std, random)
    return {"rows": rows}


@torch.no_grad()
def _checked(
    problem: Problem, taken: list[int], Y: Tensor, noise_std: float, random: torch.Generator
) -> list[dict[str, Any]]:
    X = problem.pool[taken]
    scale = float(Y.std())
    Z = (Y - Y.mean()) / scale
    with torch.enable_grad():
        model = fitted_default(X, Y)
    fitted = KernelRegression.of(model, noise_std)
    best = int(fitted.mean(X).argmax())
    recommended = X[best : best + 1]
    points, values = problem.pool, problem.values
    if problem.function is not None:
        draws = torch.rand(_NEAR, X.shape[1], generator=random).double()
        room = WINDOW * (2.0 * draws - 1.0)
        near = (recommended + room).clamp(0.0, 1.0)
        points = torch.cat([points, near])
        values = torch.cat([values, problem.function(near)])
    window = ((points - recommended).abs() <= WINDOW + 1e-12).all(-1)
    own = float(problem.values[taken[best]])
    truth = {
        "value": own,
        "window gain": float(values[window].max()) - own,
        "window floor": float(values[window].min()),
        "gap": float(values.max()) - own,
    }
    kernels = {name: fixed_kernel(name, LENGTHSCALE, 1.0) for name in ("matern52", "rbf")}
    states = {n: KernelRegression(X, Z, k, noise_std / scale) for n, k in kernels.items()}
    rows, given, where = [], {"count": len(taken)}, (points, recommended, window)

    def row(method: str, level: float, claims: dict[str, tuple[float, float]]) -> None:
        for kind, (lower, upper) in claims.items():
            false = not lower <= truth[kind] <= upper
            wide = {"value": upper - lower, "window floor": own - lower}.get(kind, upper)
            rows.append(
                given
                | {"method": method, "level": level, "kind": kind, "false": false}
                | {"width": wide / problem.spread}
            )

    for name, state in (states | {"fitted": fitted}).items():
        unit, shift = (1.0, 0.0) if name == "fitted" else (scale, float(Y.mean()))
        band = _band(state)
        least = max(band.relaxed().least_norm_factor, 1e-3)
        for margin in MARGINS:
            own_band = band.relaxed(margin * least)
            gains = own_band.max_gain_over(points, recommended)
            claims = _claims(own_band, gains, *where)
            row(f"margin, {name}", margin, _in_units(claims, unit, shift))
    factor = _left_out(fitted)
    for multiple in MULTIPLES:
        for method, by in (("deviations", 1.0), ("left out", max(factor, 1.0))):
            sides = by_deviations(fitted, recommended, 1, by * multiple)
            claims = _claims(sides, sides.gain(points), *where)
            row(method, multiple, claims)
    return rows


def _claims(
    sides: Any, gains: Tensor, points: Tensor, recommended: Tensor, window: Tensor
) -> dict[str, Any]:
    r"""Claims from a band at the recommended point and near it, and gains of all points."""
    lower, upper = sides.bounds(torch.cat([recommended, points[window]]))
    return {
        "value": (float(lower[0]), float(upper[0])),
        "window gain": (-math.inf, max(float(gains[window].max()), 0.0)),
        "window floor": (float(lower.min()), math.inf),
        "gap": (-math.inf, max(float(gains.max()), 0.0)),
    }


def _in_units(claims: dict[str, Any], unit: float, shift: float) -> dict[str, Any]:
    shifts = {"value": shift, "window floor": shift}
    return {
        kind: tuple(unit * end + shifts.get(kind, 0.0) for end in ends)
        for kind, ends in claims.items()
    }


def _left_out(state: KernelRegression) -> float:
    r"""Root mean square of the residuals of left-out outcomes, in their deviations."""
    X, noise = state.train_inputs, state.noise_scales
    K = state.prior.covariance(X, X) + torch.diag(noise**2)
    inverse = torch.linalg.inv(K)
    residuals = inverse @ (state.train_targets - state.prior.mean(X))
    return float((residuals / inverse.diagonal().sqrt()).square().mean().sqrt())
