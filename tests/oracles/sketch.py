r"""Inducing-point regression written as in the papers, with dense matrices.

``K`` is the kernel as a function of two sets of points, ``S`` inducing points, ``X, y``
observations (repeats as they come, prior mean subtracted), ``lam`` the regulariser.
"""

import torch
from torch import Tensor


def embedding(K, S: Tensor, X: Tensor) -> Tensor:
    r"""``z(x) = (K_SS^{1/2})^+ k_S(x)``, Calandriello et al. (2019), before Eq. 4."""
    left, values, right = torch.linalg.svd(K(S, S))
    resolved = values > 1e-13 * values[0]
    root = (left / values.where(resolved, torch.inf).sqrt()) @ right
    return K(X, S) @ root


def dtc(K, S: Tensor, X: Tensor, y: Tensor, lam: float, T: Tensor):
    r"""Mean, and ``lam`` times variance, at points ``T``; Eq. 4 as printed."""
    Z, z = embedding(K, S, X), embedding(K, S, T)
    V = Z.mT @ Z + lam * torch.eye(Z.shape[1]).to(Z)
    mean = z @ torch.linalg.solve(V, Z.mT @ y)
    middle = Z.mT @ Z @ torch.linalg.inv(V)
    variance = K(T, T).diagonal() - ((z @ middle) * z).sum(-1)
    return mean, variance
