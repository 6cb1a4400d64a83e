r"""Symmetric eigendecomposition of a kernel matrix, with its round-off policy."""

from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor


class Spectrum(NamedTuple):
    r"""Eigendecomposition ``matrix = vectors @ diag(values) @ vectors.T``.

    Attributes:
        values: ``n`` eigenvalues in ascending order, none below ``resolution``.
        vectors: ``n x n`` orthonormal columns.
        resolution: The backward error of the decomposition, machine epsilon times
            the largest eigenvalue. Smaller differences in ``values`` mean nothing.
    """

    values: Tensor
    vectors: Tensor
    resolution: float


def kernel_spectrum(matrix: Tensor) -> Spectrum:
    r"""Decompose a symmetric positive semi-definite matrix by one ``eigh``.

    Eigenvalues below the resolution of the decomposition, the negative ones among them,
    are raised to it: a perturbation no larger than its own backward error. Dropping all
    below ``n * eps * max`` instead would be one ``n`` times larger.

    Args:
        matrix: An ``n x n`` float64 kernel matrix.

    Raises:
        InputDataError: If an eigenvalue is negative beyond any round-off.
    """
    values, vectors = torch.linalg.eigh(matrix)
    largest = float(values.abs().max())
    epsilon = torch.finfo(matrix.dtype).eps
    if float(values[0]) < -(epsilon**0.5) * largest:
        raise InputDataError(
            "The kernel matrix of the training inputs has a negative eigenvalue "
            f"({float(values[0]):.3g}, largest {largest:.3g}): covar_module is not a "
            "positive semi-definite kernel."
        )
    resolution = max(epsilon * largest, torch.finfo(matrix.dtype).tiny)
    return Spectrum(values.clamp_min(resolution), vectors, resolution)
