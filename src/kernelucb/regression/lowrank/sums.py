r"""Sums over the data that a Nystrom regression keeps instead of the kernel matrix."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb.regression.lowrank.basis import Basis
from kernelucb.regression.pooling import pool


class Sums(NamedTuple):
    r"""What ``t`` observations say about the ``r`` coordinates, and what they leave open.

    With ``W = D^-1/2 [Z, y - m]`` (one row an observation, ``D`` the noise variances) and
    ``E = K - Z Z^T``. Repeated inputs are pooled where they came together.

    Attributes:
        inputs: ``t' x d'`` kernel inputs.
        precisions: ``t'`` sums of reciprocal noise variances.
        responses: ``t'`` sums of ``(y - m)`` over noise variance.
        residual_variance: ``t'`` values of ``E``'s diagonal times the precision.
        gram: ``W^T W``, ``(r + 1) x (r + 1)``.
        residual: ``W^T D^-1/2 E D^-1/2 W``; None without the pass over pairs.
        trace: The trace of ``D^-1/2 K D^-1/2``.
        num_observations: ``t``.
    """

    inputs: Tensor
    precisions: Tensor
    responses: Tensor
    residual_variance: Tensor
    gram: Tensor
    residual: Tensor | None
    trace: Tensor
    num_observations: int

    @classmethod
    def empty(cls, basis: Basis, pairs: bool) -> "Sums":
        r"""The sums over no data; ``pairs`` says whether to keep ``residual``."""
        inducing, rank = basis.inducing, basis.matrix.shape[-1] + 1
        none, square = inducing.new_zeros(0), inducing.new_zeros(rank, rank)
        residual = square if pairs else None
        trace = inducing.new_zeros(())
        return cls(inducing[:0], none, none, none, square, residual, trace, 0)

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

        Args:
            basis: The coordinates of the sums.
            inputs: ``n x d'`` kernel inputs.
            targets: ``n`` outcomes.
            noise_std: ``n`` noise scales.
            chunk_size: Rows and columns of a block.
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
        rows = _Rows(*(torch.cat(pair) for pair in zip(self[:3], new, strict=True)))
        residual = self.residual
        if residual is not None:
            half = _pairs(basis, rows, len(self.inputs), chunk_size)
            residual = residual + half + half.mT
        trace = self.trace + (prior.variance(new.inputs) * precisions).sum()
        residual_variance = torch.cat([self.residual_variance, residual_variance])
        count = self.num_observations + len(targets)
        return Sums(*rows, residual_variance, gram, residual, trace, count)

    def evidence(self, tau: Tensor) -> tuple[Tensor, Tensor]:
        r"""Upper bounds on ``y_w^T (I + K_w / tau)^-1 y_w`` and ``ln det(I + K_w / tau)``.

        The first with ``Z Z^T <= K_w`` in place of ``K_w``; the second by
        ``det(I + Z Z^T + E) <= det(I + Z Z^T) det(I + E)`` and Hadamard's inequality.

        Args:
            tau: ``g`` regularisers.
        """
        gram, tau = self.gram[:-1, :-1], tau.unsqueeze(-1)
        values, vectors = torch.linalg.eigh(gram)
        shares = (self.gram[-1, :-1] @ vectors).square()
        explained = (shares / (values.clamp_min(0.0) + tau)).sum(-1)
        rounding = torch.finfo(gram.dtype).eps * gram.trace()
        log_dets = torch.log1p(values.clamp_min(rounding) / tau).sum(-1)
        log_dets = log_dets + torch.log1p(self.residual_variance / tau).sum(-1)
        return (self.gram[-1, -1] - explained).clamp_min(0.0), log_dets


class _Rows(NamedTuple):
    inputs: Tensor
    precisions: Tensor
    responses: Tensor

    def weights(self, coordinates: Tensor) -> Tensor:
        r"""``D^-1/2 W``, ``t' x (r + 1)``."""
        weighted = coordinates * self.precisions.unsqueeze(-1)
        return torch.cat([weighted, self.responses.unsqueeze(-1)], dim=-1)

    def part(self, rows: slice) -> "_Rows":
        return _Rows(self.inputs[rows], self.precisions[rows], self.responses[rows])


def _spanned(basis: Basis, rows: _Rows, chunk_size: int) -> tuple[Tensor, Tensor]:
    r"""``W^T W`` without squared outcomes, and what the coordinates leave of each row."""
    rank = basis.matrix.shape[-1]
    gram, residual_variance = rows.inputs.new_zeros(rank + 1, rank + 1), []
    for block in slices(len(rows.inputs), chunk_size):
        part = rows.part(block)
        coordinates = basis(part.inputs)
        rest = basis.residual_variance(part.inputs, coordinates)
        residual_variance.append(rest * part.precisions)
        gram[:, :-1] += part.weights(coordinates).mT @ coordinates
    gram[:-1, -1] = gram[-1, :-1]
    return gram, torch.cat(residual_variance)


def _pairs(basis: Basis, rows: _Rows, old: int, chunk_size: int) -> Tensor:
    r"""``W^T E W`` over pairs of a new row and an earlier one, half of it on the diagonal.

    Args:
        basis: The coordinates.
        rows: All rows, the new ones last.
        old: Number of those that are not new.
        chunk_size: Rows and columns of a block.
    """
    blocks = [rows.part(block) for block in slices(len(rows.inputs), chunk_size, old)]
    first = sum(1 for _ in slices(old, chunk_size))
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


def slices(length: int, size: int, boundary: int = 0) -> Iterator[slice]:
    r"""Cover ``range(length)`` by slices of at most ``size``, none across ``boundary``."""
    for start, stop in ((0, boundary), (boundary, length)):
        for first in range(start, stop, size):
            yield slice(first, min(first + size, stop))
