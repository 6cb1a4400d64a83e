r"""Data of a function within the norm bound do not contradict it."""

import math

import pytest
import torch
from gpytorch.kernels import RBFKernel

from kernelucb import LikelihoodUCB


@pytest.mark.parametrize("rate", [1.0, 100.0, 1e4, 1e6])
def test_large_counts_do_not_contradict_a_true_norm_bound(rate):
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(0.25, dtype=torch.float64)
    kernel.requires_grad_(False)
    X = torch.linspace(0.0, 1.0, 15, dtype=torch.float64).unsqueeze(-1)
    latent = 0.9 * kernel(X, X[5:6]).to_dense().squeeze(-1)  # of norm 0.9
    random = torch.Generator().manual_seed(1)
    for _ in range(5):
        counts = torch.poisson(rate * latent.exp(), generator=random)
        band = LikelihoodUCB(
            X,
            counts,
            kernel,
            likelihood="poisson",
            mean=math.log(rate),
            norm_bound=1.0,
        )
        # The function may be left out, with probability delta; with this seed it is not.
        lower, upper = band.latent_bounds(X)
        assert bool((lower <= math.log(rate) + latent).all())
        assert bool((upper >= math.log(rate) + latent).all())
        assert band.norm_bound == 1.0
        assert not band.assumptions.violated
