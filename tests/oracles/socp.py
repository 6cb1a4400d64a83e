r"""Flynn & Reeb (2024) as convex programs in cvxpy, without any reduction of ours.

``K`` is the kernel matrix, ``y`` the outcomes minus the prior mean, ``noise_std`` one
number for each observation; everything in outcome units.
A fit that counts directions unequally comes as a matrix ``A``: the misfit ``e``, in units
of the noise, then has the square ``e^T A e``; ``I`` where no matrix is given.
"""

import math

import cvxpy as cp
import torch
from torch import Tensor

_OPTIONS = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}


def squared_radius(
    K: Tensor, y: Tensor, noise_std: Tensor, delta: float, c: float
) -> float:
    r"""Eq. (8): ``y^T (D + c K)^-1 y + ln det(I + c D^-1 K) + 2 ln(1/delta)``.

    With one noise scale it is their ``R_t^2 / sigma^2``.
    """
    noise = torch.diag(noise_std.square())
    log_det = torch.linalg.slogdet(torch.eye(len(y)).to(K) + c * K / noise.diagonal())
    quadratic = y @ torch.linalg.solve(noise + c * K, y)
    return float(quadratic + log_det.logabsdet) + 2.0 * math.log(1.0 / delta)


def upper_deviation(
    K_joint: Tensor,
    y: Tensor,
    noise_std: Tensor,
    squared: float,
    norm: float,
    A: Tensor | None = None,
) -> float:
    r"""Eq. (10): ``max f(x) - m(x)`` for the last row ``x`` of ``K_joint``.

    ``K_joint`` is the ``(n + 1) x (n + 1)`` kernel matrix of the data and ``x``. By the
    representer theorem ``f - m = sum_i w_i k(x_i, .)``; with ``L L^T = K_joint`` and
    ``g = L^T w`` its values are ``L g`` and its norm is ``||g||``.
    """
    root = square_root(K_joint)
    g = cp.Variable(root.shape[1])
    values = root.numpy() @ g
    misfit = _counted(values[:-1] - y.numpy(), noise_std, A)
    return _solve(
        cp.Maximize(values[-1]),
        [cp.norm(misfit, 2) <= math.sqrt(squared), cp.norm(g, 2) <= norm],
    )


def lower_deviation(
    K_joint: Tensor,
    y: Tensor,
    noise_std: Tensor,
    squared: float,
    norm: float,
    A: Tensor | None = None,
) -> float:
    r"""``min f(x) - m(x)``: Eq. (10) for the mirrored data."""
    return -upper_deviation(K_joint, -y, noise_std, squared, norm, A)


def upper_of_neighbours(
    K_joint: Tensor,
    y: Tensor,
    noise_std: Tensor,
    squared: float,
    norm: float,
    error: float,
    A: Tensor | None = None,
) -> float:
    r"""``max f(x) - m(x)`` over ``f = g + h``, ``||g - m|| <= norm``, ``|h| <= error``.

    ``f``, and not ``g``, lies within the radius of the data. ``x``, the last row of
    ``K_joint``, is none of the observed inputs; an ``h`` of any shape is allowed.
    """
    root = square_root(K_joint)
    g, h = cp.Variable(root.shape[1]), cp.Variable(len(root))
    values = root.numpy() @ g + h
    misfit = _counted(values[:-1] - y.numpy(), noise_std, A)
    return _solve(
        cp.Maximize(values[-1]),
        [
            cp.norm(misfit, 2) <= math.sqrt(squared),
            cp.norm(g, 2) <= norm,
            cp.norm(h, "inf") <= error,
        ],
    )


def largest_difference(
    K_joint: Tensor,
    y: Tensor,
    noise_std: Tensor,
    squared: float,
    norm: float,
    A: Tensor | None = None,
) -> float:
    r"""As Eq. (10), ``max f(x) - f(x')`` for the last two rows ``x, x'`` of ``K_joint``."""
    root = square_root(K_joint)
    g = cp.Variable(root.shape[1])
    values = root.numpy() @ g
    misfit = _counted(values[:-2] - y.numpy(), noise_std, A)
    return _solve(
        cp.Maximize(values[-2] - values[-1]),
        [cp.norm(misfit, 2) <= math.sqrt(squared), cp.norm(g, 2) <= norm],
    )


def least_norm(
    K: Tensor, y: Tensor, noise_std: Tensor, squared: float, A: Tensor | None = None
) -> float:
    r"""``min ||f - m||_H`` over functions within the radius of Eq. (8)."""
    root = square_root(K)
    g = cp.Variable(root.shape[1])
    misfit = _counted(root.numpy() @ g - y.numpy(), noise_std, A)
    return _solve(cp.Minimize(cp.norm(g, 2)), [cp.norm(misfit, 2) <= math.sqrt(squared)])


def _counted(residual, noise_std: Tensor, A: Tensor | None):
    misfit = cp.multiply((1.0 / noise_std).numpy(), residual)
    return misfit if A is None else square_root(A).mT.numpy() @ misfit


def square_root(K: Tensor) -> Tensor:
    r"""``L`` without the columns that are round-off; each moves ``f`` by 1e-7 at most."""
    values, vectors = torch.linalg.eigh(K)
    kept = values > len(K) * torch.finfo(K.dtype).eps * values[-1]
    return vectors[:, kept] * values[kept].sqrt()


def _solve(objective, constraints) -> float:
    problem = cp.Problem(objective, constraints)
    problem.solve(solver=cp.CLARABEL, **_OPTIONS)
    if problem.status != cp.OPTIMAL:
        raise RuntimeError(f"the oracle did not solve its program: {problem.status}")
    return float(problem.value)
