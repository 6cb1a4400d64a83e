r"""Sums over the data in place of the kernel matrix, and the best weights they give."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from kernelucb.regression.lowrank.basis import Basis, directions
from kernelucb.regression.pooling import pool

_LEAST_SPLIT, _LARGEST_SPLIT = 1e-8, 1e4


class _Rows(NamedTuple):
    r"""Observations, pooled where they came together."""

    inputs: Tensor  # `t' x d'` kernel inputs
    precisions: Tensor  # `t'` sums of reciprocal noise variances
    responses: Tensor  # `t'` sums of `(y - m)` over noise variance

    def weights(self, coordinates: Tensor) -> Tensor:
        r"""``D^-1/2 W``, ``t' x (r + 1)``."""
        weighted = coordinates * self.precisions.unsqueeze(-1)
        return torch.cat([weighted, self.responses.unsqueeze(-1)], dim=-1)

    def part(self, rows: slice) -> "_Rows":
        return _Rows(self.inputs[rows], self.precisions[rows], self.responses[rows])


class Sums(NamedTuple):
    r"""Statistics of ``t`` observations on ``r`` coordinates, and of what these leave.

    With ``W = D^-1/2 [Z, y - m]`` (one row an observation, ``D`` the noise variances) and
    ``E = K - Z Z^T``.
    """

    rows: _Rows  # the observations
    residual_variance: Tensor  # `t'` values of `E`'s diagonal times the precision
    gram: Tensor  # `W^T W`, `(r + 1) x (r + 1)`
    residual: Tensor | None  # `W^T D^-1/2 E D^-1/2 W`; None without the pass over pairs
    trace: Tensor  # the trace of `D^-1/2 K D^-1/2`
    num_observations: int  # `t`

    @classmethod
    def empty(cls, basis: Basis, pairs: bool) -> "Sums":
        r"""The sums over no data; ``pairs`` says whether to keep ``residual``."""
        inducing, rank = basis.inducing, basis.matrix.shape[-1] + 1
        none, square = inducing.new_zeros(0), inducing.new_zeros(rank, rank)
        rows, residual = _Rows(inducing[:0], none, none), square if pairs else None
        return cls(rows, none, square, residual, inducing.new_zeros(()), 0)

    def extended(
        self,
        basis: Basis,
        inputs: Tensor,
        targets: Tensor,
        noise_std: Tensor,
        chunk_size: int,
    ) -> "Sums":
        r"""The sums over these and more observations.

        One pass over the new observations, and one over their pairs with all where
        ``residual`` is kept: ``O(t r)`` for each new one, in blocks of ``chunk_size``.
        """
        prior = basis.prior
        pooled = pool(inputs, targets - prior.mean(inputs), noise_std)
        precisions = pooled.noise_std.square().reciprocal()
        responses = precisions * pooled.residuals
        squares = (responses * pooled.residuals).sum()
        if pooled.scatter is not None:
            squares = squares + pooled.scatter
        new = _Rows(pooled.inputs, precisions, responses)
        gram, residual_variance = _spanned(basis, new, chunk_size)
        gram = self.gram + gram
        gram[-1, -1] += squares
        rows = _Rows(*(torch.cat(pair) for pair in zip(self.rows, new, strict=True)))
        residual = self.residual
        if residual is not None:
            half = _pairs(basis, rows, len(self.rows.inputs), chunk_size)
            residual = residual + half + half.mT
        trace = self.trace + (prior.variance(new.inputs) * precisions).sum()
        residual_variance = torch.cat([self.residual_variance, residual_variance])
        count = self.num_observations + len(targets)
        return Sums(rows, residual_variance, gram, residual, trace, count)

    def evidence(self, tau: Tensor) -> tuple[Tensor, Tensor]:
        r"""Upper bounds on ``y_w^T (I + K_w / tau)^-1 y_w`` and ``ln det(I + K_w / tau)``.

        The first with ``Z Z^T <= K_w`` in place of ``K_w``; the second by
        ``det(I + Z Z^T + E) <= det(I + Z Z^T) det(I + E)`` and Hadamard's inequality.
        ``tau`` are ``g`` regularisers.
        """
        gram, tau = self.gram[:-1, :-1], tau.unsqueeze(-1)
        values, vectors = torch.linalg.eigh(gram)
        shares = (self.gram[-1, :-1] @ vectors).square()
        explained = (shares / (values.clamp_min(0.0) + tau)).sum(-1)
        rounding = torch.finfo(gram.dtype).eps * gram.trace()
        log_dets = torch.log1p(values.clamp_min(rounding) / tau).sum(-1)
        log_dets = log_dets + torch.log1p(self.residual_variance / tau).sum(-1)
        return (self.gram[-1, -1] - explained).clamp_min(0.0), log_dets


class WeightProblem(NamedTuple):
    r"""Quadratic forms of weights ``a = A p``, with ``A`` orthonormal on ``[Z, y_w]``.

    ``|a|^2 = |p|^2``, ``a^T y_w = p^T outcomes`` and, with coordinates ``z`` of a query,
    ``||k(x, .) - sum_s a_s k_w(x_s, .)||^2 <= |z - cross^T p|^2 + (1 + s) rho^2
    + (1 + 1/s) p^T remainder p``.
    """

    cross: Tensor  # `A^T Z`, `r x m`
    remainder: Tensor  # `A^T E A` rounded up, `r x r`
    outcomes: Tensor  # `A^T y_w`, `r` values
    # Factors of the `m` coordinates; above one for those of pending points, which share the
    # split of `rho`
    scale: Tensor
    split: float  # `s`

    @classmethod
    def of(cls, basis: Basis, sums: Sums) -> "WeightProblem":
        r"""The problem of some data, with the split that is best on average over them.

        The weights are made of the coordinates of ``basis``, the first ones of those that
        the sums are over.
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
        if sums.residual is None:  # the trace
            most = sums.residual_variance.sum()
            remainder = most * torch.eye(span.shape[-1]).to(span)
        else:
            inner = span.mT @ sums.residual @ span
            remainder = 0.5 * (inner + inner.mT) + rounding.diag()
        remainder = remainder + resolved @ resolved.mT
        left = sums.residual_variance.sum() + sums.gram.diagonal()[further].sum()
        split = _balanced_split(basis, sums, cross, remainder, rounding, left)
        ones = cross.new_ones(cross.shape[-1])
        return cls(cross, remainder, gram[-1] @ span, ones, split)

    @property
    def matrix(self) -> Tensor:
        r"""``cross cross^T + (1 + 1/s) remainder``, ``r x r``."""
        return self.cross @ self.cross.mT + (1.0 + 1.0 / self.split) * self.remainder

    def with_rows(self, coordinates: Tensor, noise_std: Tensor) -> "WeightProblem":
        r"""The problem with ``p`` free weights more, for observations without outcomes.

        Along coordinates that are new, the observations so far count as residual variance.
        ``coordinates`` are ``p x m'``, the old ones first.
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


def _spanned(basis: Basis, rows: _Rows, chunk_size: int) -> tuple[Tensor, Tensor]:
    r"""``W^T W`` without squared outcomes, and what the coordinates leave of each row."""
    rank = basis.matrix.shape[-1]
    gram, residual_variance = rows.inputs.new_zeros(rank + 1, rank + 1), []
    for block in _slices(len(rows.inputs), chunk_size):
        part = rows.part(block)
        coordinates, rest = basis.project(part.inputs)
        residual_variance.append(rest * part.precisions)
        gram[:, :-1] += part.weights(coordinates).mT @ coordinates
    gram[:-1, -1] = gram[-1, :-1]
    return gram, torch.cat(residual_variance)


def _pairs(basis: Basis, rows: _Rows, old: int, chunk_size: int) -> Tensor:
    r"""``W^T E W`` over pairs of a new row and an earlier one, half of it on the diagonal.

    All rows, of which the first ``old`` are not new.
    """
    blocks = [rows.part(block) for block in _slices(len(rows.inputs), chunk_size, old)]
    first = sum(1 for _ in _slices(old, chunk_size))
    coordinates = [basis(block.inputs) for block in blocks[first:]]
    weights = [
        block.weights(z) for block, z in zip(blocks[first:], coordinates, strict=True)
    ]
    total = basis.inducing.new_zeros(weights[0].shape[-1], weights[0].shape[-1])
    for number, other in enumerate(blocks):
        mine = max(number - first, 0)
        z, w = coordinates[mine], weights[mine]
        if number < first:
            z = basis(other.inputs)
            w = other.weights(z)
        for at in range(mine, len(coordinates)):
            error = basis.prior.covariance(blocks[first + at].inputs, other.inputs)
            error = error.addmm_(coordinates[at], z.mT, alpha=-1.0)
            share = 0.5 if first + at == number else 1.0
            total += share * (weights[at].mT @ (error @ w))
    return total


def _slices(length: int, size: int, boundary: int = 0) -> Iterator[slice]:
    r"""Cover ``range(length)`` by slices of at most ``size``, none across ``boundary``."""
    for start, stop in ((0, boundary), (boundary, length)):
        for first in range(start, stop, size):
            yield slice(first, min(first + size, stop))


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
    separate = share * basis.separate_variance() * sums.rows.precisions.sum()
    left = residual_variance + separate
    # A remainder that is round-off may be negative; the split must be fit for it as well.
    least = weights * rounding.unsqueeze(-1) * (weights @ sums.gram[own, own])
    spread = spread.clamp_min(least.sum())
    ratio = torch.where(left > 0.0, spread / left, 0.0)  # zero for sections of zero
    return min(max(float(ratio.sqrt()), _LEAST_SPLIT), _LARGEST_SPLIT)
