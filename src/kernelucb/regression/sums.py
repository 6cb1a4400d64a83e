r"""Sums over the data that a Nystrom regression keeps instead of the kernel matrix."""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from kernelucb.regression.decomposition import pool
from kernelucb.regression.prior import Prior

# Directions of the inducing points with less than this share of the largest eigenvalue are
# left out: round-off, eps over the share, would show in the coordinates along them.
_CUT_OFF = 1e-10


class Embedding(Module):
    r"""Coordinates of ``k(x, .)`` in an orthonormal basis of the inducing sections.

    Attributes:
        prior: Prior of the outcomes.
        inducing: ``m x d'`` kernel inputs.
        basis: ``m x r`` matrix that maps covariances to coordinates.
    """

    inducing: Tensor
    basis: Tensor

    def __init__(self, prior: Prior, inducing: Tensor, basis: Tensor) -> None:
        super().__init__()
        self.prior = prior
        self.register_buffer("inducing", inducing)
        self.register_buffer("basis", basis)

    @classmethod
    def of(cls, prior: Prior, inducing: Tensor) -> "Embedding":
        r"""Orthonormal basis of the sections at ``m x d'`` kernel inputs."""
        covariance = prior.covariance(inducing, inducing)
        return cls(prior, inducing, whitening(0.5 * (covariance + covariance.mT)))

    def extended(self, inputs: Tensor) -> "Embedding":
        r"""The basis with what ``p x d'`` kernel inputs add to it, behind the old ones."""
        coordinates = self(inputs)
        rest = self.prior.covariance(inputs, inputs) - coordinates @ coordinates.mT
        values, vectors = torch.linalg.eigh(0.5 * (rest + rest.mT))
        kept = values > _CUT_OFF * self.prior.variance(inputs).max()
        new = vectors[:, kept] / values[kept].sqrt()
        old = torch.cat([self.basis, -self.basis @ coordinates.mT @ new], dim=-1)
        new = torch.nn.functional.pad(new, (self.basis.shape[-1], 0))
        inducing = torch.cat([self.inducing, inputs])
        return Embedding(self.prior, inducing, torch.cat([old, new]))

    def forward(self, inputs: Tensor) -> Tensor:
        r"""Coordinates of ``b x d'`` kernel inputs, ``b x r``; differentiable."""
        return self.prior.covariance(inputs, self.inducing) @ self.basis

    @property
    def round_off(self) -> float:
        r"""Bound on the error of a coordinates' inner product, relative to ``k(x, x)``."""
        return (len(self.inducing) + 8.0) * torch.finfo(self.basis.dtype).eps

    def residual_variance(self, inputs: Tensor, coordinates: Tensor) -> Tensor:
        r"""``k(x, x) - |z(x)|^2`` rounded up, ``b`` values, never negative."""
        whole = self.prior.variance(inputs)
        rest = whole - coordinates.square().sum(-1) + self.round_off * whole
        return rest.clamp_min(0.0)

    def separate_variance(self) -> Tensor:
        r"""Mean variance of an inducing section that the other ones do not explain."""
        squares = self.basis.square().sum(-1)  # zero for a section that is zero itself
        return torch.where(squares > 0.0, squares.reciprocal(), 0.0).mean()


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
        residual: ``W^T D^-1/2 E D^-1/2 W``; None where it was not asked for.
        whole: Trace of ``D^-1/2 K D^-1/2``.
        count: Number of observations ``t``.
    """

    inputs: Tensor
    precisions: Tensor
    responses: Tensor
    residual_variance: Tensor
    gram: Tensor
    residual: Tensor | None
    whole: Tensor
    count: int

    @classmethod
    def empty(cls, embedding: Embedding, pairs: bool) -> "Sums":
        r"""The sums over no data; ``pairs`` says whether to keep ``residual``."""
        inducing, rank = embedding.inducing, embedding.basis.shape[-1] + 1
        none, square = inducing.new_zeros(0), inducing.new_zeros(rank, rank)
        residual = square if pairs else None
        whole = inducing.new_zeros(())
        return cls(inducing[:0], none, none, none, square, residual, whole, 0)

    def extended(
        self,
        embedding: Embedding,
        inputs: Tensor,
        targets: Tensor,
        noise_std: Tensor,
        chunk_size: int,
    ) -> "Sums":
        r"""The sums over these and more observations.

        One pass over the new observations, and one over their pairs with all where
        ``residual`` is kept: ``O(t r)`` for each new one, in blocks of ``chunk_size``.

        Args:
            embedding: The coordinates of the sums.
            inputs: ``n x d'`` kernel inputs.
            targets: ``n`` outcomes.
            noise_std: ``n`` noise scales.
            chunk_size: Rows and columns of a block.
        """
        prior = embedding.prior
        pooled = pool(inputs, targets - prior.mean(inputs), noise_std)
        precisions = pooled.noise_std.square().reciprocal()
        responses = precisions * pooled.residuals
        squares = (responses * pooled.residuals).sum()
        if pooled.scatter is not None:
            squares = squares + pooled.scatter
        new = _Rows(pooled.inputs, precisions, responses)
        gram, residual_variance = _spanned(embedding, new, chunk_size)
        gram = self.gram + gram
        gram[-1, -1] += squares
        rows = _Rows(*(torch.cat(pair) for pair in zip(self[:3], new, strict=True)))
        residual = self.residual
        if residual is not None:
            half = _pairs(embedding, rows, len(self.inputs), chunk_size)
            residual = residual + half + half.mT
        whole = self.whole + (prior.variance(new.inputs) * precisions).sum()
        residual_variance = torch.cat([self.residual_variance, residual_variance])
        count = self.count + len(targets)
        return Sums(*rows, residual_variance, gram, residual, whole, count)

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


def _spanned(embedding: Embedding, rows: _Rows, chunk_size: int) -> tuple[Tensor, Tensor]:
    r"""``W^T W`` without squared outcomes, and what the coordinates leave of each row."""
    rank = embedding.basis.shape[-1]
    gram, residual_variance = rows.inputs.new_zeros(rank + 1, rank + 1), []
    for block in slices(len(rows.inputs), chunk_size):
        part = rows.part(block)
        coordinates = embedding(part.inputs)
        rest = embedding.residual_variance(part.inputs, coordinates)
        residual_variance.append(rest * part.precisions)
        gram[:, :-1] += part.weights(coordinates).mT @ coordinates
    gram[:-1, -1] = gram[-1, :-1]
    return gram, torch.cat(residual_variance)


def _pairs(embedding: Embedding, rows: _Rows, old: int, chunk_size: int) -> Tensor:
    r"""``W^T E W`` over pairs of a new row and an earlier one, half of it on the diagonal.

    Args:
        embedding: The coordinates.
        rows: All rows, the new ones last.
        old: Number of those that are not new.
        chunk_size: Rows and columns of a block.
    """
    blocks = [rows.part(block) for block in slices(len(rows.inputs), chunk_size, old)]
    first = sum(1 for _ in slices(old, chunk_size))
    coordinates = [embedding(block.inputs) for block in blocks[first:]]
    weights = [
        block.weights(z) for block, z in zip(blocks[first:], coordinates, strict=True)
    ]
    total = embedding.inducing.new_zeros(weights[0].shape[-1], weights[0].shape[-1])
    for number, other in enumerate(blocks):
        mine = max(number - first, 0)
        z, w = coordinates[mine], weights[mine]
        if number < first:
            z = embedding(other.inputs)
            w = other.weights(z)
        for at in range(mine, len(coordinates)):
            error = embedding.prior.covariance(blocks[first + at].inputs, other.inputs)
            error = error.addmm_(coordinates[at], z.mT, alpha=-1.0)
            share = 0.5 if first + at == number else 1.0
            total += share * (weights[at].mT @ (error @ w))
    return total


def slices(length: int, size: int, boundary: int = 0) -> Iterator[slice]:
    r"""Cover ``range(length)`` by slices of at most ``size``, none across ``boundary``."""
    for start, stop in ((0, boundary), (boundary, length)):
        for first in range(start, stop, size):
            yield slice(first, min(first + size, stop))


def whitening(matrix: Tensor) -> Tensor:
    r"""``r`` columns ``c`` with ``c^T matrix c = 1`` that resolve a Gram matrix.

    Args:
        matrix: ``m x m`` symmetric, positive semi-definite to round-off.
    """
    diagonal = matrix.diagonal()
    scale = torch.where(diagonal > 0, diagonal, torch.inf).rsqrt()
    values, vectors = torch.linalg.eigh(scale.outer(scale) * matrix)
    kept = values > _CUT_OFF * values[-1]
    return scale.unsqueeze(-1) * vectors[:, kept] / values[kept].sqrt()
