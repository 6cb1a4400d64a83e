r"""What the exact bound is measured against: the paper's algorithms written plainly.

``NumPyMixture`` follows Section 5 and Appendix E.2 (inverse and log-determinant updated by
Schur complements, one pair for each ridge parameter); ``cone_program`` is the paper's
Figure 3, one program for each arm. Neither uses kernelucb.
"""

import math
from collections.abc import Callable, Sequence

import cvxpy
import numpy as np

Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]
PAPER_GRID = (0.1, 0.3, 1.0, 3.0, 10.0)


class Ridge:
    r"""``(K + alpha I)^-1`` and ``ln det(I + K / alpha)``, one observation at a time.

    The inverse grows in place, in memory that is reserved once: copying it in every round
    would take longer than the arithmetic.
    """

    def __init__(self, alpha: float, capacity: int = 1024) -> None:
        self.alpha = alpha
        self.log_det = 0.0
        self.size = 0
        self._memory = np.zeros((capacity, capacity))

    @property
    def inverse(self) -> np.ndarray:
        return self._memory[: self.size, : self.size]

    def observe(self, covariance: np.ndarray, variance: float) -> None:
        r"""Add an input, given its kernel values with the earlier ones and itself."""
        product = self.inverse @ covariance
        pivot = variance + self.alpha - covariance @ product
        scaled = product / pivot
        inverse, size = self.inverse, self.size
        inverse += np.outer(scaled, product)
        if size == len(self._memory):
            self._memory = np.pad(self._memory, (0, size))
        self._memory[size, :size] = self._memory[:size, size] = -scaled
        self._memory[size, size] = 1.0 / pivot
        self.size += 1
        self.log_det += math.log(pivot / self.alpha)


class NumPyMixture:
    r"""Kernel DMM-UCB; with one grid point, Kernel AMM-UCB.

    Args:
        kernel: Function of two sets of inputs, variance one.
        norm_bound: ``B``.
        noise_std: ``sigma``.
        delta: Failure probability.
        covariance_scale: ``c``.
        grid: Ridge parameters in multiples of ``sigma^2 / c``; must hold 1.
    """

    def __init__(
        self,
        kernel: Kernel,
        norm_bound: float,
        noise_std: float,
        delta: float,
        covariance_scale: float,
        grid: Sequence[float] = PAPER_GRID,
    ) -> None:
        self.kernel = kernel
        self.norm_bound, self.noise_std, self.delta = norm_bound, noise_std, delta
        alpha = noise_std**2 / covariance_scale
        self.ridges = [Ridge(multiple * alpha) for multiple in grid]
        self.reference = self.ridges[list(grid).index(1.0)]
        self.inputs: np.ndarray | None = None
        self.outcomes = np.empty(0)

    def observe(self, arm: np.ndarray, outcome: float) -> None:
        new = arm[None, :]
        earlier = new[:0] if self.inputs is None else self.inputs
        covariance = self.kernel(earlier, new)[:, 0]
        for ridge in self.ridges:
            ridge.observe(covariance, float(self.kernel(new, new)[0, 0]))
        self.inputs = np.vstack([earlier, new])
        self.outcomes = np.append(self.outcomes, outcome)

    def squared_radius(self) -> float:
        r"""``R_t^2``, Eq. (8)."""
        fitted = self.reference.inverse @ self.outcomes
        quadratic = self.reference.alpha * (self.outcomes @ fitted)
        surplus = self.reference.log_det + 2.0 * math.log(1.0 / self.delta)
        return quadratic + self.noise_std**2 * surplus

    def upper(self, arms: np.ndarray) -> np.ndarray:
        r"""The upper bound at ``n x d`` arms, Eq. (12) over the grid."""
        covariance = self.kernel(arms, self.inputs)
        radius = self.squared_radius()
        bounds = [self._ellipsoid_bound(ridge, covariance, radius) for ridge in self.ridges]
        return np.min(bounds, axis=0)

    def _ellipsoid_bound(
        self, ridge: Ridge, covariance: np.ndarray, squared_radius: float
    ) -> np.ndarray:
        weights = ridge.inverse @ self.outcomes
        solved = covariance @ ridge.inverse
        variance = np.maximum(1.0 - np.sum(solved * covariance, axis=1), 0.0)
        # y^T y - y^T K (K + alpha I)^-1 y = alpha y^T (K + alpha I)^-1 y
        excess = (
            squared_radius
            + ridge.alpha * self.norm_bound**2
            - ridge.alpha * (self.outcomes @ weights)
        )
        return covariance @ weights + np.sqrt(max(excess, 0.0) / ridge.alpha * variance)

    def select(self, arms: np.ndarray) -> int:
        return int(self.upper(arms).argmax())


def cone_program(mixture: NumPyMixture, arm: np.ndarray, jitter: float = 1e-9) -> float:
    r"""The exact upper bound at one arm as the paper's Figure 3 computes it.

    Args:
        mixture: Holds the data, the kernel and the radius.
        arm: One arm.
        jitter: Added to the diagonal before the Cholesky factor, as the paper advises.
    """
    points = np.vstack([mixture.inputs, arm[None, :]])
    covariance = mixture.kernel(points, points)
    size = len(points)
    factor = np.linalg.cholesky(covariance + jitter * np.eye(size)).T
    weights = cvxpy.Variable(size)
    constraints = [
        cvxpy.norm(covariance[:-1] @ weights - mixture.outcomes)
        <= math.sqrt(mixture.squared_radius()),
        cvxpy.norm(factor @ weights) <= mixture.norm_bound,
    ]
    problem = cvxpy.Problem(cvxpy.Maximize(covariance[-1] @ weights), constraints)
    return float(problem.solve(solver=cvxpy.CLARABEL))
