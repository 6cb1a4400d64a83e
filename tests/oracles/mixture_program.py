r"""The set of the mixture of filters as it is defined, by cutting planes of ellipsoids.

All functions of norm at most ``B`` at which ``sum_j pi_j M_j <= 1 / delta``, without an
eigenbasis. By the variational formula of the log-sum-exp that is the intersection, over
all weights ``w``, of ``e^T A_w e <= r_w^2``: at the maximiser over a few of these the most
violated one is added, until none is.
"""

import math
from typing import NamedTuple

import cvxpy as cp
import torch
from torch import Tensor

from oracles.filters import log_closed_form
from oracles.socp import square_root

_OPTIONS = {"tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8}
_FEASIBLE = 1e-6  # of log(1 / delta)


class Member(NamedTuple):
    r"""``exp((e^T A e - b) / 2)`` with its prior weight; ``A`` may be a number."""

    A: Tensor | float
    b: float
    weight: float


def hybrid(gram: Tensor, scale: float, energy: float, weight: float) -> Member:
    r"""Of the scale ``c`` and the energy ``l``; ``gram`` in units of the noise."""
    _, A, b = log_closed_form(gram, gram.new_zeros(len(gram)), scale, energy)
    return Member(A, float(b), weight)


def energy_alone(count: int, energy: float, weight: float) -> Member:
    return Member(energy, -count * math.log1p(-energy), weight)


def flynn_reeb(gram: Tensor, y: Tensor, scale: float, weight: float) -> Member:
    r"""Flynn & Reeb (2024), Eq. (8), of outcomes ``y`` in units of the noise."""
    total = torch.eye(len(y), dtype=y.dtype) + scale * gram
    form = y @ torch.linalg.solve(total, y)
    return Member(1.0, float(form + torch.logdet(total)), weight)


def upper_deviation(
    K_joint: Tensor,
    y: Tensor,
    noise_std: Tensor,
    members: list[Member],
    norm: float,
    delta: float,
) -> float:
    r"""``max f(x) - m(x)`` over the set, for the last row ``x`` of ``K_joint``.

    As in ``socp.upper_deviation``; ``y`` are the outcomes minus the prior mean.
    """
    root = square_root(K_joint).numpy()
    g = cp.Variable(root.shape[1])
    values = root @ g
    e = cp.multiply(1.0 / noise_std.numpy(), y.numpy() - values[:-1])
    constraints = [cp.norm(g) <= norm]
    forms = torch.stack([_matrix(member, len(y)) for member in members])
    b = torch.tensor([member.b for member in members], dtype=y.dtype)
    log_prior = torch.tensor([member.weight for member in members], dtype=y.dtype).log()
    for _ in range(100):
        problem = cp.Problem(cp.Maximize(values[-1]), constraints)
        problem.solve(solver=cp.CLARABEL, **_OPTIONS)
        residuals = torch.as_tensor(e.value)
        logs = 0.5 * (forms @ residuals @ residuals - b) + log_prior
        if torch.logsumexp(logs, 0) <= -math.log(delta) + _FEASIBLE:
            return float(problem.value)
        w = torch.softmax(logs, 0)
        divergence = (torch.xlogy(w, w) - w * log_prior).sum()
        squared = float(w @ b + 2.0 * divergence) - 2.0 * math.log(delta)
        factor = square_root(torch.einsum("j,jrs->rs", w, forms)).mT.numpy()
        constraints.append(cp.norm(factor @ e) <= math.sqrt(squared))
    raise RuntimeError("The cutting planes did not converge.")


def _matrix(member: Member, count: int) -> Tensor:
    if isinstance(member.A, Tensor):
        return 0.5 * (member.A + member.A.mT)
    return member.A * torch.eye(count, dtype=torch.float64)
