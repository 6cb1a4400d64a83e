r"""The one eigendecomposition of a regression state."""

from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor
from torch.nn.functional import pad

from kernelucb._numerics.features import lost_lengths
from kernelucb._numerics.spectral import kernel_spectrum
from kernelucb.regression.pooling import Pooled, pool
from kernelucb.regression.prior import Prior


class Decomposition(NamedTuple):
    r"""Whitened kernel regression in the eigenbasis of its distinct inputs.

    Attributes:
        distinct_inputs: ``m x d'`` distinct inputs.
        distinct_index: ``m`` positions of an observation at each of them.
        distinct_variance: ``m`` prior variances there.
        distinct_noise_std: ``m`` noise scales of the pooled outcomes there.
        distinct_lost: ``m`` lengths of what the kept eigenvectors leave of each section.
        eigenvalues: ``r`` eigenvalues ``lam``, ascending.
        targets: ``r`` values ``z``.
        feature_basis: ``m x r`` matrix that maps covariances to features.
        eigenvalue_cutoff: What round-off makes of a zero eigenvalue.
    """

    distinct_inputs: Tensor
    distinct_index: Tensor
    distinct_variance: Tensor
    distinct_noise_std: Tensor
    distinct_lost: Tensor
    eigenvalues: Tensor
    targets: Tensor
    feature_basis: Tensor
    eigenvalue_cutoff: float


def pooled_data(prior: Prior, inputs: Tensor, targets: Tensor, noise_std: Tensor) -> Pooled:
    r"""Observations under the mean of a prior with repeated inputs made one.

    The same for priors with the same mean.

    Args:
        prior: Prior of the outcomes.
        inputs: ``n x d'`` kernel inputs.
        targets: ``n`` outcomes.
        noise_std: ``n`` noise scales.
    """
    return pool(inputs, targets - prior.mean(inputs), noise_std)


def decompose(prior: Prior, pooled: Pooled) -> Decomposition:
    r"""Decompose ``D^-1/2 K D^-1/2`` by one ``eigh`` of the size of the distinct inputs.

    Given the function's value at an input, the outcomes there enter the likelihood through
    their precision-weighted mean and through how far they scatter around it. So repeated
    inputs are pooled; one direction that no section reaches stands for all of the scatter.

    Args:
        prior: Prior of the outcomes.
        pooled: From ``pooled_data``.

    Raises:
        InputDataError: If the kernel matrix is not finite or not positive semi-definite.
    """
    kernel_matrix = prior.covariance(pooled.inputs, pooled.inputs)
    kernel_matrix = kernel_matrix / pooled.noise_std.outer(pooled.noise_std)
    if not bool(torch.isfinite(kernel_matrix).all()):
        raise InputDataError(
            "The kernel matrix over the noise variance is not finite: the inputs are too "
            "large for the kernel, or noise_std is too small beside the prior. Rescale the "
            "inputs (input_transform=Normalize(d)), or use a larger noise_std."
        )
    lam, vectors, eigenvalue_cutoff = kernel_spectrum(
        0.5 * (kernel_matrix + kernel_matrix.mT)
    )
    z = (pooled.residuals / pooled.noise_std) @ vectors
    lengths = torch.where(lam > 0, lam, torch.inf).sqrt()
    lost = lost_lengths(vectors[:, lam == 0], pooled.noise_std, eigenvalue_cutoff)
    basis = vectors / pooled.noise_std.unsqueeze(-1) / lengths
    if pooled.scatter is not None:
        lam, basis = pad(lam, (1, 0)), pad(basis, (1, 0))
        z = torch.cat([pooled.scatter.sqrt().reshape(1), z])
    return Decomposition(
        distinct_inputs=pooled.inputs,
        distinct_index=pooled.positions,
        distinct_variance=prior.variance(pooled.inputs),
        distinct_noise_std=pooled.noise_std,
        distinct_lost=lost,
        eigenvalues=lam,
        targets=z,
        feature_basis=basis,
        eigenvalue_cutoff=eigenvalue_cutoff,
    )
