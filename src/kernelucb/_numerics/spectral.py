r"""Symmetric eigendecomposition of a kernel matrix, with its round-off policy."""

from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor


class Spectrum(NamedTuple):
    r"""Eigendecomposition ``matrix = vectors @ diag(values) @ vectors.T``.

    Attributes:
        values: ``n`` eigenvalues, none negative.
        vectors: ``n x n`` orthonormal columns.
        resolution: The backward error of the decomposition, machine epsilon times
            the largest eigenvalue. Smaller differences in ``values`` mean nothing.
    """

    values: Tensor
    vectors: Tensor
    resolution: float


def kernel_spectrum(matrix: Tensor) -> Spectrum:
    r"""Decompose a symmetric positive semi-definite matrix by one ``eigh``.

    Eigenvalues that round-off made slightly negative become zero. Small positive ones
    are kept: dropping everything below ``n * eps * max`` would perturb the matrix by
    far more than ``eigh`` does, and moves bounds at small noise visibly.

    Args:
        matrix: An ``n x n`` float64 kernel matrix.

    Raises:
        InputDataError: If an eigenvalue is negative beyond any round-off.
    """
    values, vectors = torch.linalg.eigh(matrix)
    largest = float(values[-1].clamp_min(0.0))
    epsilon = torch.finfo(matrix.dtype).eps
    if float(values[0]) < -(epsilon**0.5) * largest or (
        largest == 0.0 and float(values[0]) < 0.0
    ):
        raise InputDataError(
            "The kernel matrix of the training inputs has a negative eigenvalue "
            f"({float(values[0]):.3g}, largest {largest:.3g}): covar_module is not a "
            "positive semi-definite kernel."
        )
    resolution = max(epsilon * largest, torch.finfo(matrix.dtype).tiny)
    return Spectrum(values.clamp_min(0.0), vectors, resolution)
