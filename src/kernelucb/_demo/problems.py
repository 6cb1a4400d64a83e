r"""Black boxes of known RKHS norm: sums of kernel functions near well-known functions."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import cache

import torch
from botorch.test_functions import Branin, Hartmann
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from kernelucb.regression.named import fixed_kernel

NUM_SETTINGS = 1024
_NUM_CENTRES = 400
_NOISE_FRACTION = 0.02
_EPS = torch.finfo(torch.float64).eps


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

    name: str
    bounds: Tensor  # ``2 x d`` corners of the box
    function: Expansion
    origin: str  # where the function comes from, in words

    @property
    def norm_bound(self) -> float:
        r"""The norm, rounded up to four digits."""
        rounded = Context(prec=4, rounding=ROUND_CEILING).create_decimal(self.function.norm)
        return float(rounded)

    @property
    def noise_std(self) -> float:
        r"""Two per cent of the standard deviation over the settings."""
        return _NOISE_FRACTION * float(self.function(self.settings()).std())

    def settings(self) -> Tensor:
        r"""``1024 x d`` points spread evenly over the box, the best of which is sought."""
        return sobol(self.bounds, NUM_SETTINGS, seed=12345)


def sobol(bounds: Tensor, count: int, seed: int) -> Tensor:
    r"""``count x d`` quasi-random points of a box, double precision."""
    return draw_sobol_samples(bounds, n=count, q=1, seed=seed).squeeze(-2).double()


@cache
def make_problem(name: str) -> Problem:
    r"""``"branin"``, ``"forrester"`` (2008: two valleys), ``"hartmann3"`` or ``"rkhs"``."""
    if name == "rkhs":
        return _drawn(name)
    unit = torch.tensor([[0.0], [1.0]])
    branin, hartmann = Branin(), Hartmann(dim=3)
    title, function, box, length, ridge = {
        "branin": ("Branin", branin.evaluate_true, branin.bounds, 1.0, 1e-3),
        "forrester": ("the Forrester function", _forrester, unit, 0.3, 1e-7),
        "hartmann3": ("Hartmann 3", hartmann.evaluate_true, hartmann.bounds, 0.3, 1e-7),
    }[name]
    return _near(name, title, function, torch.as_tensor(box).double(), length, ridge)


def _forrester(X: Tensor) -> Tensor:
    return ((6 * X - 2).square() * torch.sin(12 * X - 4)).squeeze(-1)


def _near(
    name: str,
    title: str,
    function: Callable[[Tensor], Tensor],
    bounds: Tensor,
    length: float,
    ridge: float,
) -> Problem:
    r"""A smooth sum of kernel functions near a function, by kernel ridge regression."""
    centres = sobol(bounds, _NUM_CENTRES, seed=99)
    values = function(centres)
    mean, variance = float(values.mean()), float(values.var())
    kernel = fixed_kernel("matern52", length * (bounds[1] - bounds[0]), variance)
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
    return Problem(name, bounds, black_box, origin)


def _drawn(name: str, norm: float = 10.0, num_centres: int = 20) -> Problem:
    r"""A random expansion of norm 10 under Matern 3/2, as Flynn & Reeb (2024) use."""
    kernel = fixed_kernel("matern32", torch.tensor([0.2]), 1.0)
    generator = torch.Generator().manual_seed(4)
    centres = torch.rand(num_centres, 1, generator=generator, dtype=torch.float64) * 2 - 1
    weights = torch.randn(num_centres, generator=generator, dtype=torch.float64)
    # A hair less than the norm asked for, which therefore bounds it despite round-off.
    weights *= norm * (1.0 - 1e-9) / Expansion(0.0, kernel, centres, weights).norm
    origin = (
        f"The black box is a random sum of {num_centres} kernel functions (Matern 3/2, "
        f"length scale 0.1 of the side of the box) of norm {norm:g}. Of a real black box "
        "nobody knows the norm: see --estimate."
    )
    bounds = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    return Problem(name, bounds, Expansion(0.0, kernel, centres, weights), origin)
