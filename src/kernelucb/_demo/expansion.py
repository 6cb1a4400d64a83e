r"""Black boxes whose RKHS norm is known, because they are sums of kernel functions."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from botorch.generation import gen_candidates_scipy
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import MaternKernel, ScaleKernel
from torch import Tensor

_EPS = torch.finfo(torch.float64).eps
_NUM_CENTRES = 1200
_RIDGE = 1e-7  # of the prior variance; without it the weights would be wild
_SCAN = 4096
_STARTS = 16


@dataclass(frozen=True, eq=False)
class Expansion:
    r"""The function ``mean + sum_i weights_i k(x, centre_i)`` on a box."""

    mean: float
    kernel: ScaleKernel  # Matern, on inputs scaled to the unit cube
    centres: Tensor  # ``n x d``, in the unit cube
    weights: Tensor  # ``n``
    bounds: Tensor  # ``2 x d`` corners of the box

    @property
    def base(self) -> MaternKernel:
        r"""The kernel without its output scale."""
        return cast(MaternKernel, self.kernel.base_kernel)

    def __call__(self, X: Tensor) -> Tensor:
        r"""``n`` values without noise at ``n x d`` points of the box."""
        low, high = self.bounds
        inputs = (X - low) / (high - low)
        return self.mean + self.kernel(inputs, self.centres).to_dense() @ self.weights

    @cached_property
    def norm(self) -> float:
        r"""``sqrt(w^T K w)``, the RKHS norm of ``f - mean``, with round-off on top.

        Numbers are off by at most ``_EPS`` relative in every operation. The two products
        with ``w`` add at most ``2 n + 8`` of these to ``|w|^T K |w|``. A kernel value
        carries those of the squared distance ``r^2 = |a|^2 + |b|^2 - 2 a.b`` in units of
        the length scale, with coordinates of at most ``1 / length``: below
        ``d (6 d + 20) / length^2``, times the slope in ``r^2``, at most 3/2 for Matern
        3/2 and 5/6 for Matern 5/2, and ten for the rest of the formula.
        """
        dimension, length = self.bounds.shape[1], float(self.base.lengthscale)
        gram = self.kernel(self.centres, self.centres).to_dense()
        sizes = self.weights.abs()
        entries = 10 + 10 * dimension * (dimension + 4) / length**2
        round_off = (2 * len(sizes) + 8) * (sizes @ gram @ sizes)
        round_off += entries * self.kernel.outputscale * sizes.sum().square()
        return float((self.weights @ gram @ self.weights + _EPS * round_off).sqrt())

    @cached_property
    def minimum(self) -> float:
        r"""The smallest value found: by L-BFGS-B from the best of a dense Sobol set."""
        scan = sobol(self.bounds, _SCAN, seed=54321)
        values = self(scan)
        low, high = self.bounds
        starts = scan[values.topk(_STARTS, largest=False).indices].unsqueeze(1)
        # It warns where round-off hides any further descent, whatever the filters.
        with warnings.catch_warnings(record=True):
            value = cast(Any, lambda X: -self(X.squeeze(1)))
            _, polished = gen_candidates_scipy(starts, value, low, high)
        return float(torch.minimum(values.min(), -polished.max()))


def matern(smoothness: float, length: float, variance: float) -> ScaleKernel:
    r"""A Matern kernel in double precision that nothing trains."""
    kernel = ScaleKernel(MaternKernel(nu=smoothness)).double()
    kernel.base_kernel.initialize(lengthscale=length)
    kernel.initialize(outputscale=variance)
    return kernel.requires_grad_(False)


def interpolate(
    function: Callable[[Tensor], Tensor], bounds: Tensor, minimisers: Tensor, length: float
) -> Expansion:
    r"""An expansion under Matern 5/2 that goes through a function at 1,200 points.

    And through its ``m x d`` minimisers; ``length`` is the length scale, in sides of the
    box with corners ``bounds`` (``2 x d``).
    """
    low, side = bounds[0], bounds[1] - bounds[0]
    centres = (sobol(bounds, _NUM_CENTRES, seed=99) - low) / side
    if len(low) <= 3:
        # Halfway to the Chebyshev density: a box has its largest errors at its faces.
        centres = (centres + (1.0 - torch.cos(math.pi * centres)) / 2.0) / 2.0
    centres = torch.cat([centres, (minimisers - low) / side])
    values = function(low + centres * side)
    mean, variance = float(values.mean()), float(values.var())
    kernel = matern(2.5, length, variance)
    gram = kernel(centres, centres).to_dense()
    gram.diagonal().add_(_RIDGE * variance)
    factor = torch.linalg.cholesky(gram)
    weights = torch.cholesky_solve((values - mean).unsqueeze(-1), factor).squeeze(-1)
    return Expansion(mean, kernel, centres, weights, bounds)


def sobol(bounds: Tensor, count: int, seed: int) -> Tensor:
    r"""``count x d`` quasi-random points of a box, double precision."""
    return draw_sobol_samples(bounds, n=count, q=1, seed=seed).squeeze(-2).double()
