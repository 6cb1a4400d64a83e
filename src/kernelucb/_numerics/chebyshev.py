r"""Interpolation of analytic functions from their values at Chebyshev nodes."""

import math

import torch
from torch import Tensor

# Of functions of ln(tau) from sums of 1 / (lam + tau), with lam at least zero: their
# distance from the real axis.
SINGULARITY = math.pi


class ChebyshevInterval:
    r"""Interpolation on ``[lower, upper]``, with what depends on the nodes computed once.

    The error falls as ``rho^-count``, where ``rho`` is the parameter of the largest
    Bernstein ellipse around the interval in which the functions are analytic.

    Args:
        lower: Left end.
        upper: Right end.
        count: Number of nodes.
        refinement: Points of the evaluation grid for each node.
        like: Gives dtype and device.

    Attributes:
        nodes: ``count`` arguments, ascending.
        grid: Equidistant arguments from end to end.
    """

    def __init__(
        self, lower: float, upper: float, count: int, refinement: int, like: Tensor
    ) -> None:
        self.lower, self.upper, self.count = lower, upper, count
        self.centre, self.half_width = 0.5 * (lower + upper), 0.5 * (upper - lower)
        self.degrees = torch.arange(count).to(like)
        angles = math.pi * (self.degrees.flip(0) + 0.5) / count
        self.nodes = self.centre + self.half_width * angles.cos()
        self._transform = torch.outer(angles, self.degrees).cos() * (2.0 / count)
        self._transform[:, 0] *= 0.5
        self._derivative = _derivative_matrix(self.degrees) / self.half_width
        self.grid = torch.linspace(
            lower, upper, refinement * count, dtype=like.dtype, device=like.device
        )
        self._grid_polynomials = self.polynomials(self.grid).mT

    def coefficients(self, values: Tensor) -> Tensor:
        r"""Chebyshev coefficients of functions and of their first two derivatives.

        From ``b x count`` values at the nodes, ``b x 3 x count``.
        """
        zeroth = values @ self._transform
        first = zeroth @ self._derivative
        return torch.stack([zeroth, first, first @ self._derivative], dim=-2)

    def interpolation(self, arguments: Tensor) -> Tensor:
        r"""``b x count`` weights of the values at the nodes, at ``b`` arguments inside."""
        return self.polynomials(arguments) @ self._transform.mT

    def on_grid(self, coefficients: Tensor) -> Tensor:
        r"""Values on the grid for ``b x count`` coefficients."""
        return coefficients @ self._grid_polynomials

    def polynomials(self, arguments: Tensor) -> Tensor:
        r"""Chebyshev polynomials, ``b x count``, at ``b`` arguments inside the interval."""
        position = ((arguments - self.centre) / self.half_width).clamp(-1.0, 1.0)
        return (position.arccos().unsqueeze(-1) * self.degrees).cos()


def node_count(half_width: float, singularity: float, tolerance: float) -> int:
    r"""Number of nodes that brings the error to ``tolerance``.

    ``singularity`` is the distance of the nearest singularities from the real axis, the
    tolerance is relative to the functions' size on the ellipse.
    """
    ratio = singularity / half_width
    rho = ratio + math.sqrt(ratio**2 + 1.0)
    return math.ceil(-math.log(tolerance) / math.log(rho)) + 1


def _derivative_matrix(degrees: Tensor) -> Tensor:
    r"""Maps coefficients (rows) to those of the derivative on ``[-1, 1]``.

    ``T_n' = 2 n (T_{n-1} + T_{n-3} + ...)``, with half the weight for ``T_0``.
    """
    of, into = degrees.unsqueeze(-1), degrees.unsqueeze(0)
    matrix = torch.where((into < of) & ((of - into) % 2 == 1), 2.0 * of, 0.0)
    matrix[:, 0] *= 0.5
    return matrix
