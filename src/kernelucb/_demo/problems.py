r"""Black boxes of known norm, because they are sums of kernel functions, and one's own."""

import importlib
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import cache
from typing import cast

import torch
from botorch.test_functions import Branin, Hartmann, Rosenbrock, SyntheticTestFunction
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import MaternKernel, ScaleKernel
from torch import Tensor

NUM_SETTINGS = 1024
_NUM_CENTRES = 400
_NOISE_FRACTION = 0.02
_EPS = torch.finfo(torch.float64).eps


class BlackBoxError(Exception):
    r"""The black box cannot be found or gave no number."""


@dataclass(frozen=True, eq=False)
class Expansion:
    r"""The function ``mean + sum_i weights_i k(x, centre_i)``."""

    mean: float
    kernel: ScaleKernel  # Matern, one length scale for each input
    centres: Tensor  # ``n x d``
    weights: Tensor  # ``n``

    def __call__(self, X: Tensor) -> Tensor:
        r"""``m`` values without noise at ``m x d`` points."""
        return self.mean + self.kernel(X, self.centres).to_dense() @ self.weights

    @property
    def norm(self) -> float:
        r"""``sqrt(w^T K w)``, the RKHS norm of ``f - mean``, with round-off on top.

        The products with ``w`` are off by at most ``2 n + 8`` times ``_EPS |w|^T K |w|``.
        A kernel value carries the round-off of the squared distance in length scales, below
        ``d (6 d + 20) s^2`` for coordinates of at most ``s`` length scales, times its slope
        there, at most 3/2 for Matern 3/2 and 5/6 for Matern 5/2, and ten for the rest of
        the formula.
        """
        gram = self.kernel(self.centres, self.centres).to_dense()
        sizes, dimension = self.weights.abs(), self.centres.shape[-1]
        ends = torch.stack([self.centres.amin(0), self.centres.amax(0)])
        scaled = (ends / self.kernel.base_kernel.lengthscale).abs().max()
        entries = 10.0 + 10.0 * dimension * (dimension + 4) * float(scaled) ** 2
        round_off = (2 * len(sizes) + 8) * (sizes @ gram @ sizes)
        round_off += entries * self.kernel.outputscale * sizes.sum().square()
        return float((self.weights @ gram @ self.weights + _EPS * round_off).sqrt())


@dataclass(frozen=True, eq=False)
class Problem:
    r"""A black box on a box, and what is said of it before the first outcome."""

    name: str  # what ``--function`` takes
    bounds: Tensor  # ``2 x d`` corners of the box
    kernel: ScaleKernel
    mean: float
    origin: str  # where kernel and norm come from, in words
    function: Expansion | None = None  # None for a black box of the user's own
    call: Callable[[list[float]], float] | None = None  # the user's own

    @property
    def norm_bound(self) -> float | None:
        r"""The norm, rounded up to four digits, where it is known."""
        if self.function is None:
            return None
        rounded = Context(prec=4, rounding=ROUND_CEILING).create_decimal(self.function.norm)
        return float(rounded)

    @property
    def noise_std(self) -> float:
        r"""Two per cent of the standard deviation over the settings; NaN of one's own."""
        if self.function is None:
            return math.nan
        return _NOISE_FRACTION * float(self.function(self.settings()).std())

    def settings(self) -> Tensor:
        r"""``1024 x d`` points spread evenly over the box, among which one is sought."""
        return sobol(self.bounds, NUM_SETTINGS, seed=12345)

    def observe(self, X: Tensor, noise_std: float, generator: torch.Generator) -> Tensor:
        r"""``n x 1`` noisy outcomes at ``n x d`` points.

        Raises:
            BlackBoxError: If the user's function raises or returns no finite number.
        """
        if self.function is None:
            values = [self._call(point) for point in X.tolist()]
            return torch.tensor(values, dtype=torch.float64).unsqueeze(-1)
        noise = torch.randn(len(X), generator=generator, dtype=torch.float64)
        return (self.function(X) + noise_std * noise).unsqueeze(-1)

    def _call(self, point: list[float]) -> float:
        assert self.call is not None
        where = f"{self.name} at x = [{', '.join(f'{x:.4g}' for x in point)}]"
        try:
            value = self.call(point)
        except Exception as error:
            reason = f"{where} raised {type(error).__name__}: {error}"
            raise BlackBoxError(reason) from error
        try:
            number = float(value)
        except (TypeError, ValueError, RuntimeError) as error:
            reason = f"{where} returned a {type(value).__name__}, no number"
            raise BlackBoxError(reason) from error
        if not math.isfinite(number):
            raise BlackBoxError(f"{where} returned {number}, no finite number")
        return number


def sobol(bounds: Tensor, count: int, seed: int) -> Tensor:
    r"""``count x d`` quasi-random points of a box, double precision."""
    return draw_sobol_samples(bounds, n=count, q=1, seed=seed).squeeze(-2).double()


def _matern(smoothness: float, lengths: Tensor, variance: float) -> ScaleKernel:
    r"""A Matern kernel in double precision that nothing trains."""
    kernel = ScaleKernel(MaternKernel(nu=smoothness, ard_num_dims=len(lengths))).double()
    kernel.base_kernel.initialize(lengthscale=lengths)
    kernel.initialize(outputscale=variance)
    return kernel.requires_grad_(False)


def _near(
    name: str,
    title: str,
    function: Callable[[Tensor], Tensor],
    bounds: Tensor,
    length: float,
    ridge: float,
) -> Problem:
    r"""A smooth sum of kernel functions near a function, by kernel ridge regression."""
    bounds = bounds.double()
    centres = sobol(bounds, _NUM_CENTRES, seed=99)
    values = function(centres)
    mean, variance = float(values.mean()), float(values.var())
    kernel = _matern(2.5, length * (bounds[1] - bounds[0]), variance)
    gram = kernel(centres, centres).to_dense()
    gram.diagonal().add_(ridge * variance)
    weights = torch.linalg.solve(gram, values - mean)
    black_box = Expansion(mean, kernel, centres, weights)
    others = sobol(bounds, NUM_SETTINGS, seed=777)
    difference = float((black_box(others) - function(others)).square().mean().sqrt())
    origin = (
        f"The black box is a sum of {_NUM_CENTRES} kernel functions (Matern 5/2, length "
        f"scale {length:g} of each side of the box) and a constant, near {title}: root "
        f"mean square difference {difference:.2g}. The RKHS norm follows from the weights: "
        f"{black_box.norm:.4g}. Of a real black box nobody knows it: see --estimate."
    )
    return Problem(name, bounds, kernel, mean, origin, black_box)


def _synthetic(
    name: str, title: str, function: SyntheticTestFunction, length: float, ridge: float
) -> Problem:
    bounds = torch.as_tensor(function.bounds)
    return _near(name, title, function.evaluate_true, bounds, length, ridge)


def _forrester() -> Problem:
    r"""Forrester, Sobester & Keane (2008): two valleys on the unit interval."""
    return _near(
        "forrester",
        "the Forrester function",
        lambda X: ((6 * X - 2).square() * torch.sin(12 * X - 4)).squeeze(-1),
        torch.tensor([[0.0], [1.0]]),
        length=0.3,
        ridge=1e-7,
    )


def _drawn(norm: float = 10.0, num_centres: int = 20) -> Problem:
    r"""A random expansion of norm 10 under Matern 3/2, as Flynn & Reeb (2024) use."""
    kernel = _matern(1.5, torch.tensor([0.2]), variance=1.0)
    generator = torch.Generator().manual_seed(4)
    centres = torch.rand(num_centres, 1, generator=generator, dtype=torch.float64) * 2 - 1
    weights = torch.randn(num_centres, generator=generator, dtype=torch.float64)
    # A hair less than the norm asked for, which therefore bounds it despite round-off.
    weights *= norm * (1.0 - 1e-9) / Expansion(0.0, kernel, centres, weights).norm
    black_box = Expansion(0.0, kernel, centres, weights)
    origin = (
        f"The black box is a random sum of {num_centres} kernel functions (Matern 3/2, "
        f"length scale 0.1 of the side of the box) of norm {norm:g}. Of a real black box "
        "nobody knows the norm: see --estimate."
    )
    bounds = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    return Problem("rkhs", bounds, kernel, 0.0, origin, black_box)


@cache
def make_problem(name: str) -> Problem:
    r"""The built-in problem of that name, one of ``options.FUNCTIONS``."""
    if name == "forrester":
        return _forrester()
    if name == "rkhs":
        return _drawn()
    if name == "branin":
        return _synthetic(name, "Branin", Branin(), 1.0, 1e-3)
    if name == "rosenbrock":
        return _synthetic(name, "Rosenbrock", Rosenbrock(dim=2), 1.0, 1e-3)
    return _synthetic(name, "Hartmann 3", Hartmann(dim=3), 0.3, 1e-7)


def own_problem(
    name: str, bounds: list[list[float]], length: float, mean: float
) -> Problem:
    r"""The problem of a function ``module:name``, also of one in the current folder.

    Raises:
        BlackBoxError: If there is no such module or function, or the import fails.
    """
    module_name, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # it may raise anything
        reason = f"cannot import {module_name!r}: {type(error).__name__}: {error}"
        raise BlackBoxError(reason) from error
    call = getattr(module, attribute, None)
    if not callable(call):
        raise BlackBoxError(f"module {module_name!r} has no function {attribute!r}")
    box = torch.tensor(bounds, dtype=torch.float64)
    kernel = _matern(2.5, length * (box[1] - box[0]), 1.0)
    origin = (
        f"The band is given a Matern 5/2 kernel of variance 1 with length scale {length:g} "
        f"of each side of the box (--length-scale) and the mean {mean:g} (--mean)."
    )
    own = cast(Callable[[list[float]], float], call)
    return Problem(name, box, kernel, mean, origin, call=own)
