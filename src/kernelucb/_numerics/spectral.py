r"""Eigendecomposition of a kernel matrix, without eigenvalues lost to round-off."""

from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

_CUT_OFF = 4.0


class Spectrum(NamedTuple):
    r"""Eigendecomposition ``matrix = vectors @ diag(values) @ vectors.T``."""

    values: Tensor  # in ascending order, none negative
    vectors: Tensor  # n x n orthonormal columns
    eigenvalue_cutoff: float  # values below this were set to zero


def kernel_spectrum(matrix: Tensor) -> Spectrum:
    r"""Decompose a symmetric positive semi-definite float64 matrix by one ``eigh``.

    No jitter is added. Eigenvalues that cannot be told from zero become zero; the usual
    cut-off, ``n`` times epsilon, would drop accurate ones as well and make the posterior
    mean 20 times less accurate at small noise.

    Raises:
        InputDataError: If an eigenvalue is negative beyond any round-off.
    """
    values, vectors = torch.linalg.eigh(matrix)
    smallest, largest = float(values[0]), float(values.abs().max())
    epsilon = torch.finfo(matrix.dtype).eps
    if smallest < -(epsilon**0.5) * largest:
        raise InputDataError(
            "The kernel matrix of the training inputs has a negative eigenvalue "
            f"({smallest:.3g}, largest {largest:.3g}): covar_module is not a positive "
            "semi-definite kernel."
        )
    eigenvalue_cutoff = cutoff_of(values)
    return Spectrum(
        torch.where(values < eigenvalue_cutoff, 0.0, values), vectors, eigenvalue_cutoff
    )


def cutoff_of(eigenvalues: Tensor) -> float:
    r"""What round-off makes of a zero: four times epsilon times the largest eigenvalue."""
    rounding = torch.finfo(eigenvalues.dtype)
    return max(_CUT_OFF * rounding.eps * float(eigenvalues.abs().max()), rounding.tiny)


def hidden_part(length: float, reach: float) -> float:
    r"""What a squared radius must grow by for what round-off hides of the outcomes.

    Along eigenvectors whose eigenvalues count as zero a function says some ``s`` of the
    outcomes ``z``, with ``|s| <= reach``; ``|z|^2`` is counted there in place of
    ``|z - s|^2``, which may be smaller by ``reach (2 |z| - reach)``, or by all of
    ``|z|^2`` where that is shorter than ``reach``.

    ``length`` is ``|z|``, ``reach`` the function's norm times the root of the cut-off.

    Source: ours; ``docs/mathematics.md``, "Round-off".
    """
    reach = min(reach, length)
    return reach * (2.0 * length - reach)


def covariance_root(matrix: Tensor) -> Tensor:
    r"""A square root of a covariance that may be singular, ``root @ root.T = matrix``.

    For drawing samples: eigenvalues that round-off made negative count as zero, so repeated
    points and points on the data need no jitter.
    """
    values, vectors = torch.linalg.eigh(matrix)
    return vectors * values.clamp_min(0.0).sqrt()
