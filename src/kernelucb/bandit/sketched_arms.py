r"""Sketched posterior of a finite set of arms, kept up to date at low rank."""

import torch
from gpytorch.settings import lazily_evaluate_kernels
from torch import Tensor

from kernelucb.regression.prior import Prior

# Variance outside the span of the inducing arms that counts as none, relative to the prior:
# the pseudo-inverse's cut-off. Features are divided by its root, so round-off stays 1e-11.
_RESOLUTION = 1e-10
_FIRST_CAPACITY = 32
# Inducing arms that are added together: their `eigh` and their covariances stay small.
_PART = 512


class SketchedArms:
    r"""Posterior mean and variance of every arm, given features of the inducing arms.

    With orthonormal features ``z(a)`` of the inducing arms, ``Z`` those of the observations
    and ``V = Z^T Z + lam I``: mean ``z^T V^-1 Z^T y`` and variance
    ``unexplained + lam z^T V^-1 z`` (see ``kernelucb._numerics.nystrom``). Observations
    at ``k`` arms, and ``k`` more inducing arms, change ``z^T V^-1 z`` by ``k`` squares,
    so either costs ``O(A r k)`` for ``A`` arms and ``r`` features, in ``O(A r)`` memory.

    Source: Calandriello et al. (2019), Eq. 4; block matrix inversion.

    Attributes:
        inducing: Inducing arms, in the order they were added.
        counts: ``A`` numbers of observations.
        sums: ``A`` sums of outcomes minus prior means.
        unexplained: ``A`` values ``k(a, a) - |z(a)|^2``.
        quadratic: ``A`` values ``z(a)^T V^-1 z(a)``.
    """

    def __init__(self, prior: Prior, candidates: Tensor, regularizer: float) -> None:
        r"""Arms without observations.

        Args:
            prior: Prior of the outcomes.
            candidates: ``A x d`` arms.
            regularizer: ``lam``.
        """
        self.prior, self.candidates, self.regularizer = prior, candidates, regularizer
        self.prior_mean = prior.mean(candidates)
        self.prior_variance = prior.variance(candidates)
        self.counts = torch.zeros_like(self.prior_mean)
        self.sums = torch.zeros_like(self.prior_mean)
        self._storage = candidates.new_empty(len(candidates), 0)
        self._forget()

    def _forget(self) -> None:
        empty = self.candidates.new_zeros(0, 0)
        self._rank = 0
        self.inducing = torch.zeros(0, dtype=torch.long, device=empty.device)
        self.unexplained = self.prior_variance.clone()
        self.quadratic = torch.zeros_like(self.prior_variance)
        self._gram, self._factor = empty, empty

    @property
    def features(self) -> Tensor:
        r"""``A x r`` features of the arms."""
        return self._storage[:, : self._rank]

    @property
    def observed(self) -> Tensor:
        r"""Arms with observations, ascending."""
        return self.counts.nonzero().squeeze(-1)

    @property
    def variance(self) -> Tensor:
        r"""``A`` latent variances."""
        return self.unexplained + self.regularizer * self.quadratic

    def mean(self) -> Tensor:
        r"""``A`` posterior means."""
        observed = self.observed
        moments = self.features[observed].mT @ self.sums[observed]
        return self.prior_mean + self.features @ self.solve(moments.unsqueeze(-1))[:, 0]

    def solve(self, right: Tensor) -> Tensor:
        r"""``V^-1`` times ``r x k`` columns."""
        return torch.cholesky_solve(right, self._factor) if self._rank else right

    def hallucination(self, arm: int, earlier: Tensor) -> Tensor:
        r"""What a further observation at an arm takes from quadratic forms.

        ``V^-1 z / sqrt(1 + z^T V^-1 z)`` after the ``earlier`` ones: the square of a
        feature's product with it is taken away.

        Args:
            arm: Where the observation would be made.
            earlier: ``r x h`` columns that this function returned before.

        Returns:
            ``r`` numbers.
        """
        z = self.features[arm]
        column = self.solve(z.unsqueeze(-1))[:, 0] - earlier @ (earlier.mT @ z)
        return column / (1.0 + z @ column).sqrt()

    def observe(self, arms: Tensor, counts: Tensor, sums: Tensor) -> None:
        r"""Add observations at distinct arms; the inducing arms stay.

        Args:
            arms: ``k`` distinct arms.
            counts: How many observations there are at each.
            sums: Summed outcomes minus prior means.
        """
        self.counts[arms] += counts
        self.sums[arms] += sums
        if self._rank == 0:
            return
        weighted = counts.sqrt().unsqueeze(-1) * self.features[arms]
        columns = self.solve(weighted.mT)
        inner = torch.eye(len(arms)).to(weighted) + weighted @ columns
        lower = torch.linalg.cholesky(inner)
        columns = torch.linalg.solve_triangular(lower.mT, columns, upper=True, left=False)
        self.quadratic -= (self.features @ columns).square().sum(-1)
        self.quadratic.clamp_(min=0.0)
        self._set_gram(self._gram + weighted.mT @ weighted)

    def add_inducing(self, arms: Tensor) -> None:
        r"""Add inducing arms; one ``eigh`` of the size of their number."""
        self.inducing = torch.cat([self.inducing, arms])
        left = self.features[arms]
        with lazily_evaluate_kernels(False):  # half the time for few columns
            covariance = self.prior.covariance(self.candidates, self.candidates[arms])
        residual = covariance - self.features @ left.mT
        square = residual[arms]
        values, vectors = torch.linalg.eigh(0.5 * (square + square.mT))
        resolved = values > _RESOLUTION * float(self.prior_variance[arms].max())
        added = residual @ (vectors[:, resolved] / values[resolved].sqrt())
        added *= self._room(added)
        self.unexplained -= added.square().sum(-1)
        self.unexplained.clamp_(min=0.0)
        self._extend(added)

    def _room(self, added: Tensor) -> Tensor:
        r"""Factors that keep round-off from explaining more than there is."""
        explained = added.square().sum(-1)
        excess = explained > self.unexplained
        factors = (self.unexplained / explained.where(excess, 1.0)).sqrt()
        return factors.where(excess, 1.0).unsqueeze(-1)

    def _extend(self, added: Tensor) -> None:
        r"""Append features, with the block inverse of the larger ``V``."""
        seen = self.observed
        weighted = self.counts[seen].unsqueeze(-1) * added[seen]
        border = self.features[seen].mT @ weighted
        corner = added[seen].mT @ weighted
        solved = self.solve(border)
        eye = torch.eye(added.shape[1]).to(added)
        lower = torch.linalg.cholesky(corner + self.regularizer * eye - border.mT @ solved)
        rest = added - self.features @ solved
        rest = torch.linalg.solve_triangular(lower.mT, rest, upper=True, left=False)
        self.quadratic += rest.square().sum(-1)
        upper = torch.cat([self._gram, border], dim=1)
        self._append(added)
        self._set_gram(torch.cat([upper, torch.cat([border.mT, corner], dim=1)]))

    def _append(self, added: Tensor) -> None:
        rank = self._rank + added.shape[1]
        if rank > self._storage.shape[1]:
            capacity = max(_FIRST_CAPACITY, rank + rank // 2)
            storage = self._storage.new_empty(len(added), capacity)
            storage[:, : self._rank] = self.features
            self._storage = storage
        self._storage[:, self._rank : rank] = added
        self._rank = rank

    def _set_gram(self, gram: Tensor) -> None:
        self._gram = gram
        eye = torch.eye(len(gram)).to(gram)
        self._factor = torch.linalg.cholesky(gram + self.regularizer * eye)

    def rebuild(self, inducing: Tensor) -> None:
        r"""Compute everything again, for other inducing arms."""
        self._forget()
        for part in inducing.split(_PART):
            self.add_inducing(part)
