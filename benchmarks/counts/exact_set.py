r"""The convex set itself: functions in the norm ball whose loss is below a limit.

``{ f : ||f - mean|| <= B, sum_s l_s(f(x_s)) <= limit }``, largest and smallest value at a
point by a barrier method. It shares nothing with the library's bounds but the limit.
"""

from dataclasses import dataclass

import numpy as np
import torch
from gpytorch.kernels import Kernel
from scipy.linalg import cho_factor, cho_solve
from torch import Tensor

Array = np.ndarray
_CUTOFF = 1e-13  # of the largest eigenvalue; the others are below the solver's accuracy
_CENTRING, _CONVERGED = 1e-8, 1e-12  # half a squared Newton decrement
_STEPS, _HALVINGS = 60, 40
_FACTOR = 12.0


@dataclass(frozen=True)
class Losses:
    r"""Negative log likelihoods without the terms that do not depend on the function.

    Attributes:
        outcomes: Successes, or counts.
        sizes: Numbers of trials, or exposures.
    """

    likelihood: str
    outcomes: Array
    sizes: Array

    def __call__(self, f: Array) -> tuple[Array, Array, Array]:
        r"""Losses with first and second derivatives."""
        if self.likelihood == "poisson":
            rate = self.sizes * np.exp(np.minimum(f, 300.0))
            return rate - self.outcomes * f, rate - self.outcomes, rate
        p = 1.0 / (1.0 + np.exp(-np.clip(f, -300.0, 300.0)))
        loss = self.sizes * np.logaddexp(0.0, f) - self.outcomes * f
        return loss, self.sizes * p - self.outcomes, self.sizes * p * (1.0 - p)

    def part(self, which: slice) -> "Losses":
        r"""Of some of the outcomes."""
        return Losses(self.likelihood, self.outcomes[which], self.sizes[which])


class Basis:
    r"""Functions by coordinates whose Euclidean norm is that in the RKHS.

    Attributes:
        rows: ``n x r``, values at the inputs, by coordinates.
        queries: ``q x r``, the same at the query points.
    """

    def __init__(self, kernel: Kernel, X: Tensor, queries: Tensor) -> None:
        points, inverse = torch.cat([X, queries]).unique(dim=0, return_inverse=True)
        values, vectors = np.linalg.eigh(kernel(points).to_dense().numpy())
        kept = values > _CUTOFF * values[-1]
        factor = (vectors[:, kept] * np.sqrt(values[kept]))[inverse.numpy()]
        self.rows, self.queries = factor[: len(X)], factor[len(X) :]


def penalised(basis: Array, losses: Losses, mean: float, penalty: float, start=None):
    r"""Coordinates that minimise ``sum of losses + penalty / 2 ||z||^2``."""
    z = np.zeros(basis.shape[1]) if start is None else start

    def objective(z: Array) -> float:
        return losses(mean + basis @ z)[0].sum() + 0.5 * penalty * (z @ z)

    for _ in range(_STEPS):
        _, slope, bend = losses(mean + basis @ z)
        gradient = basis.T @ slope + penalty * z
        hessian = (basis.T * bend) @ basis + penalty * np.eye(len(z))
        step = -cho_solve(cho_factor(hessian), gradient)
        if -0.5 * gradient @ step < _CONVERGED:
            return z
        z = _searched(objective, z, step, gradient)
    return z


def _searched(objective, z: Array, step: Array, gradient: Array) -> Array:
    r"""Backtracking until the objective falls by a tenth of what the slope promises."""
    before, slope, length = objective(z), gradient @ step, 1.0
    for _ in range(_HALVINGS):
        if objective(z + length * step) <= before + 0.1 * length * slope:
            break
        length *= 0.5
    return z + length * step


class ExactSet:
    r"""Largest and smallest values in the convex set.

    Args:
        basis: Of data and query points.
        losses: Of the data.
        mean: What ``f`` is where its coordinates are zero.
        norm_bound: Radius of the ball.
        limit: Largest sum of losses.
        gap: Accuracy; the values are at most so far inside.

    Raises:
        ValueError: If no function of the ball has a loss below the limit.
    """

    def __init__(
        self,
        basis: Basis,
        losses: Losses,
        mean: float,
        norm_bound: float,
        limit: float,
        gap: float = 1e-4,
    ) -> None:
        self.basis, self.losses, self.mean = basis, losses, mean
        self.squared_norm, self.limit, self.gap = norm_bound**2, limit, gap
        self.start = self._inside()

    def _inside(self) -> Array:
        r"""A point strictly inside, from larger and larger penalties."""
        for penalty in 10.0 ** np.arange(-3.0, 4.0, 0.25):
            z = penalised(self.basis.rows, self.losses, self.mean, penalty)
            if np.isfinite(self._barrier(z)):
                return z
        raise ValueError("No function of the norm bound has a loss below the limit.")

    def _barrier(self, z: Array) -> float:
        room = self.limit - self.losses(self.mean + self.basis.rows @ z)[0].sum()
        ball = self.squared_norm - z @ z
        return -np.log(room) - np.log(ball) if room > 0.0 and ball > 0.0 else np.inf

    def bounds(self) -> tuple[Array, Array]:
        r"""Smallest and largest values at the query points of the basis."""
        return self.ends(-1.0), self.ends(1.0)

    def ends(self, sign: float) -> Array:
        r"""Largest values for sign 1, smallest ones for -1."""
        rows = self.basis.queries
        return self.mean + sign * np.array([self._largest(sign * row) for row in rows])

    def _largest(self, direction: Array) -> float:
        r"""Within ``gap`` below the maximum: two constraints over the barrier's weight."""
        z, weight = self.start, 1.0
        while True:
            z = self._centred(z, weight * direction)
            if 2.0 / weight <= self.gap:
                return float(direction @ z)
            weight = min(weight * _FACTOR, 2.0 / self.gap)

    def _centred(self, z: Array, direction: Array) -> Array:
        rows, identity = self.basis.rows, np.eye(len(z))

        def objective(z: Array) -> float:
            return self._barrier(z) - direction @ z

        for _ in range(_STEPS):
            loss, slope, bend = self.losses(self.mean + rows @ z)
            room, ball = self.limit - loss.sum(), self.squared_norm - z @ z
            pull, inward = rows.T @ slope / room, 2.0 * z / ball
            gradient = pull + inward - direction
            hessian = (rows.T * (bend / room)) @ rows + np.outer(pull, pull)
            hessian += (2.0 / ball) * identity + np.outer(inward, inward)
            step = -cho_solve(cho_factor(hessian), gradient)
            if -0.5 * gradient @ step < _CENTRING:
                break
            z = _searched(objective, z, step, gradient)
        return z
