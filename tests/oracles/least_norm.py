r"""The least norm of a function near the data, by a search over ridge estimates."""

import math

import torch
from scipy.optimize import brentq
from torch import Tensor


def least_norm(K: Tensor, y: Tensor, squared_radius: float) -> float:
    r"""``min ||f||`` where ``|f - y|^2 <= squared_radius``; noise units.

    The minimiser is a ridge estimate, whose misfit increases in its ridge parameter.
    """
    lam, vectors = torch.linalg.eigh(K)
    lam, z = lam.clamp_min(0.0), vectors.mT @ y

    def surplus(log_ridge: float) -> float:
        ridge = math.exp(log_ridge)
        return float((ridge * z / (lam + ridge)).square().sum()) - squared_radius

    if float(z.square().sum()) <= squared_radius:
        return 0.0
    ridge = math.exp(brentq(surplus, -40.0, 40.0, xtol=1e-13))
    return math.sqrt(float((lam * (z / (lam + ridge)).square()).sum()))
