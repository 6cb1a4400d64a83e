r"""Resolved small eigenvalues are kept: the posterior mean at small noise needs them."""

import torch

from kernelucb import KernelRegression
from problems import frozen_kernel, normal, uniform
from tolerances import SMALL_NOISE_MEAN


def test_mean_at_small_noise_matches_a_cholesky_solve():
    kernel, X, queries = frozen_kernel("rbf", 0.5), uniform(300, 3, 1), uniform(50, 3, 2)
    Y = (5 * X).sin().sum(-1) + 1e-3 * normal(300, 3)
    K = kernel(X).to_dense() + 1e-6 * torch.eye(300, dtype=torch.float64)
    weights = torch.cholesky_solve(Y.unsqueeze(-1), torch.linalg.cholesky(K))
    expected = (kernel(queries, X).to_dense() @ weights).squeeze(-1)
    error = (KernelRegression(X, Y, kernel, 1e-3).mean(queries) - expected).abs().max()
    assert float(error) <= SMALL_NOISE_MEAN
