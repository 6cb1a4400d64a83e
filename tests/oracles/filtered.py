r"""How much a bound's fit counts each direction of the outcomes, as a matrix."""

import torch
from torch import Tensor


def counted(acqf) -> Tensor:
    r"""``A = U a(lam) U^T`` over all observations, from an eigenbasis of its own.

    ``I`` for a fit that counts all of them alike.
    """
    state = acqf.band.data
    spectral_filter = getattr(acqf.band.confidence_set.regression, "spectral_filter", None)
    if spectral_filter is None:
        return torch.eye(state.num_observations, dtype=torch.float64)
    K = state.prior.covariance(state.train_inputs, state.train_inputs)
    lam, U = torch.linalg.eigh(K / state.noise_std.outer(state.noise_std))
    return (U * spectral_filter(lam.clamp_min(0.0))) @ U.mT
