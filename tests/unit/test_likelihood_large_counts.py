r"""Data of a function within the norm bound do not contradict it."""

import math
import warnings

import pytest
import torch
from gpytorch.kernels import RBFKernel

from kernelucb.exceptions import InconsistentConfidenceSetWarning
from problems import likelihood_ucb


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
        band = likelihood_ucb(
            X,
            counts,
            kernel,
            likelihood="poisson",
            mean_module=math.log(rate),
            norm_bound=1.0,
        )
        # The function may be left out, with probability delta; with this seed it is not.
        lower, upper = band.latent_bounds(X)
        assert bool((lower <= math.log(rate) + latent).all())
        assert bool((upper >= math.log(rate) + latent).all())
        assert band.norm_bound == 1.0
        assert not band.assumptions.violated


@pytest.mark.parametrize("lengthscale", [0.3, 2.0])
@pytest.mark.parametrize("norm_bound", [0.25, 3.0, None])
def test_data_that_no_function_explains_still_give_a_band(lengthscale, norm_bound):
    # Neighbours differ by factors of 10,000: the norm that this needs overflows a rate.
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.float64)
    kernel.requires_grad_(False)
    random = torch.Generator().manual_seed(35)
    X = torch.randint(49, (30, 1), generator=random).double() / 48.0
    latent = 9.0 * torch.randn(30, dtype=torch.float64, generator=random)
    counts = torch.poisson(latent.clamp(max=9.2).exp(), generator=random)
    options = {"likelihood": "poisson", "norm_bound": norm_bound}
    with warnings.catch_warnings(record=True):  # by default; here an error
        warnings.simplefilter("always")
        band = likelihood_ucb(X, counts, kernel, **options)
    lower, upper = band.latent_bounds(torch.linspace(0, 1, 9).double().unsqueeze(-1))
    assert bool((lower <= upper).all())
    assert bool(torch.isfinite(lower + upper).all())
    assert band.assumptions.violated
    assert band.least_consistent_norm > (norm_bound or 0.0)  # by the data, not the band
    with pytest.raises(InconsistentConfidenceSetWarning):
        likelihood_ucb(X, counts, kernel, **options)
