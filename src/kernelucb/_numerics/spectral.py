r"""Spectrum and features of a kernel matrix, and what round-off hides of both."""

from collections.abc import Callable

import numpy as np
import torch
from botorch.exceptions import InputDataError
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from torch import Tensor

from kernelucb._numerics.arrays import Array, as_array

_CUT_OFF = 4.0  # of epsilon times the largest eigenvalue
# A residual variance that exceeds its bound by this factor, as round-off of one that
# attains it, may stay: it is an upper bound as well.
_UNSEEN = 1.0 + 1e-13
_SLACK = (1e-6, 1e-4, 1e-2)  # over the eigenvalue that Lanczos iterations find


def kernel_spectrum(matrix: Tensor) -> tuple[Tensor, Tensor, float]:
    r"""Decompose a symmetric positive semi-definite float64 matrix by one ``eigh``.

    Ascending eigenvalues, none negative; orthonormal columns; and the cut-off below which
    eigenvalues were set to zero.

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
    cutoff = cutoff_of(values)
    return torch.where(values < cutoff, 0.0, values), vectors, cutoff


def cutoff_of(eigenvalues: Tensor) -> float:
    r"""Size below which an eigenvalue is round-off: 4 epsilon of the largest one."""
    rounding = torch.finfo(eigenvalues.dtype)
    return max(_CUT_OFF * rounding.eps * float(eigenvalues.abs().max()), rounding.tiny)


def eigenvalue_limit(matrix: Tensor) -> float:
    r"""Upper bound on the largest eigenvalue of a symmetric float64 matrix, with proof.

    Lanczos iterations converge from below and prove nothing. But if the Cholesky
    factorisation of ``s I - A`` runs to its end, with ``s`` reduced by what its round-off
    may amount to, then ``s I - A`` is positive definite (Rump 2006, Verification of
    positive definiteness). Otherwise the bound is the Frobenius norm.
    """
    count, most = len(matrix), float(torch.linalg.matrix_norm(matrix))
    most *= 1.0 + count * torch.finfo(matrix.dtype).eps
    if count < 3 or not 0.0 < most < np.inf:
        return most
    try:
        values = eigsh(as_array(matrix.cpu()), 1, which="LA", v0=np.ones(count))[0]
    except ArpackNoConvergence:
        return most
    # Twice the relative error, of sums of so many terms, times as many in the trace.
    rounding = 2.0 * (count + 4) * torch.finfo(matrix.dtype).eps * count
    for slack in _SLACK:
        shift = (1.0 + slack) * float(values[0])
        if not 0.0 < shift < most:
            break
        shifted = -matrix
        shifted.diagonal().add_(shift - rounding * (shift + most))
        if not int(torch.linalg.cholesky_ex(shifted).info):
            return shift
    return most


def split_variance(
    raw_features: Tensor,
    prior_variance: Tensor,
    reach: Callable[..., Array],
    *given: Tensor,
) -> tuple[Tensor, Tensor]:
    r"""``b x n`` features and residual variance, consistent with each other.

    ``reach``, a function of what is ``given``, bounds the rest from above: it is sharp near
    a section, where the difference of ``prior_variance`` and the squared features is
    round-off.
    """
    rest = prior_variance - raw_features.square().sum(-1)
    # Mostly nothing is hidden: no copy, and the gradient of a plain difference.
    values = as_array(rest)
    with np.errstate(all="ignore"):  # what is not finite is refused elsewhere
        most = _UNSEEN * reach(*map(as_array, given))
        plain = (values >= 0.0) & (values <= most)
    if plain.all():
        return raw_features, rest
    features, excessive = raw_features, rest < 0.0
    if bool(excessive.any()):
        rows = raw_features[excessive]
        rows = rows * _room_factors(rows, prior_variance[excessive])
        features = features.index_put((excessive,), rows)
        rest = prior_variance - features.square().sum(-1)
    return features, torch.minimum(rest.clamp_min(0.0), reach(*given))


@torch.no_grad()
def _room_factors(features: Tensor, prior_variance: Tensor) -> Tensor:
    r"""Factors that keep the squared features of each row from exceeding the prior.

    Features are ordered as the eigenvalues, ascending. Those of the smallest, near the
    resolution of the ``eigh``, carry large relative errors; they are reduced to what the
    others leave.
    """
    squares = features.square()
    larger = squares.flip(-1).cumsum(-1).flip(-1) - squares
    rounding = 8.0 * features.shape[-1] * torch.finfo(features.dtype).eps
    room = ((1.0 + rounding) * prior_variance.unsqueeze(-1) - larger).clamp_min(0.0)
    return torch.where(squares > room, (room / squares).sqrt(), 1.0)
