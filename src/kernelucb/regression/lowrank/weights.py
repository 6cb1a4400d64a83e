r"""The best weights in the span of inducing features and outcomes."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from kernelucb.regression.lowrank.basis import Basis, directions
from kernelucb.regression.lowrank.sums import Sums

_LEAST_SPLIT, _LARGEST_SPLIT = 1e-8, 1e4


class WeightProblem(NamedTuple):
    r"""Quadratic forms of weights ``a = A p``, with ``A`` orthonormal on ``[Z, y_w]``.

    ``|a|^2 = |p|^2``, ``a^T y_w = p^T outcomes`` and, with coordinates ``z`` of a query,
    ``||k(x, .) - sum_s a_s k_w(x_s, .)||^2 <= |z - cross^T p|^2 + (1 + s) rho^2
    + (1 + 1/s) p^T remainder p``.

    Attributes:
        cross: ``A^T Z``, ``r x m``.
        remainder: ``A^T E A`` rounded up, ``r x r``.
        outcomes: ``A^T y_w``, ``r`` values.
        scale: Factors of the ``m`` coordinates; above one for those of pending points,
            which share the split of ``rho``.
        split: ``s``.
    """

    cross: Tensor
    remainder: Tensor
    outcomes: Tensor
    scale: Tensor
    split: float

    @classmethod
    def of(cls, basis: Basis, sums: Sums) -> "WeightProblem":
        r"""The problem of some data, with the split that is best on average over them.

        Args:
            basis: The coordinates that the weights are made of, the first ones of
                those that the sums are over.
            sums: The data.
        """
        own = [*range(basis.matrix.shape[-1]), -1]
        further = slice(len(own) - 1, -1)
        gram = sums.gram[own][:, own]
        span = directions(gram, gram.diagonal())
        if span.shape[-1] == 0:  # features and outcomes are zero: a weight of no effect
            span = gram.new_zeros(len(gram), 1)
        cross = span.mT @ gram[:, :-1]
        resolved = span.mT @ sums.gram[own, further]
        rounding = _rounding(basis, sums, span)
        remainder = _remainder(sums, span, rounding) + resolved @ resolved.mT
        residual_variance = (
            sums.residual_variance.sum() + sums.gram.diagonal()[further].sum()
        )
        split = _balanced_split(basis, sums, cross, remainder, rounding, residual_variance)
        ones = cross.new_ones(cross.shape[-1])
        return cls(cross, remainder, gram[-1] @ span, ones, split)

    @property
    def matrix(self) -> Tensor:
        r"""``cross cross^T + (1 + 1/s) remainder``, ``r x r``."""
        return self.cross @ self.cross.mT + (1.0 + 1.0 / self.split) * self.remainder

    def with_rows(self, coordinates: Tensor, noise_std: Tensor) -> "WeightProblem":
        r"""The problem with ``p`` free weights more, for observations without outcomes.

        Along coordinates that are new, the observations so far count as residual_variance.

        Args:
            coordinates: ``p x m'`` of the new observations, the old coordinates first.
            noise_std: One noise scale.
        """
        rows, added = len(coordinates), coordinates.shape[-1] - len(self.scale)
        scale = pad(self.scale, (0, added), value=(1.0 + self.split) ** 0.5)
        new = coordinates * scale / noise_std
        return WeightProblem(
            cross=torch.cat([pad(self.cross, (0, added)), new]),
            remainder=pad(self.remainder, (0, rows, 0, rows)),
            outcomes=pad(self.outcomes, (0, rows)),
            scale=scale,
            split=self.split,
        )


def _rounding(basis: Basis, sums: Sums, span: Tensor) -> Tensor:
    r"""Bound on the error of the remainder along each of ``r`` weights.

    That of ``E`` itself, and that of the sums ``W^T E W``: where columns of ``W`` are
    nearly collinear (a few observations much more precise than all others), weights of
    length one are differences of large multiples of them.
    """
    squares = sums.gram.diagonal()[[*range(len(span) - 1), -1]]
    multiples = (squares.unsqueeze(-1) * span.square()).sum(0)
    lost = sums.trace + sums.residual_variance.sum() * multiples
    return basis.round_off * lost


def _remainder(sums: Sums, span: Tensor, rounding: Tensor) -> Tensor:
    r"""What the sums leave open on the span of the weights, rounded up.

    Its trace where it is not known.
    """
    if sums.residual is None:
        return sums.residual_variance.sum() * torch.eye(span.shape[-1]).to(span)
    inner = span.mT @ sums.residual @ span
    return 0.5 * (inner + inner.mT) + rounding.diag()


def _balanced_split(
    basis: Basis,
    sums: Sums,
    cross: Tensor,
    remainder: Tensor,
    rounding: Tensor,
    residual_variance: Tensor,
) -> float:
    r"""The ``s`` that is best on average over the observations, at ``tau = 1``.

    In the mean of ``rho^2`` an inducing point counts with the variance that the others
    leave there, since queries lie elsewhere.
    """
    identity = torch.eye(len(cross)).to(cross)
    weights = torch.linalg.solve(cross @ cross.mT + remainder + identity, cross)
    own = slice(cross.shape[-1])
    spread = (weights * (remainder @ weights @ sums.gram[own, own])).sum()
    share = min(1.0, len(basis.inducing) / sums.num_observations)
    separate = share * basis.separate_variance() * sums.precisions.sum()
    left = residual_variance + separate
    # A remainder that is round-off may be negative; the split must be fit for it as well.
    least = weights * rounding.unsqueeze(-1) * (weights @ sums.gram[own, own])
    spread = spread.clamp_min(least.sum())
    ratio = torch.where(left > 0.0, spread / left, 0.0)  # zero for sections of zero
    return min(max(float(ratio.sqrt()), _LEAST_SPLIT), _LARGEST_SPLIT)
