r"""The resolved spectrum of the older observations."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.features import Sections
from kernelucb._numerics.spectral import hidden_part
from kernelucb.regression import KernelRegression


class Eigenbasis(NamedTuple):
    r"""The resolved part of the spectrum of the ``n`` older observations."""

    num_observations: int
    eigenvalues: Tensor  # r, of the whitened kernel matrix, ascending
    basis: Tensor  # n x r, maps covariances to features
    sections: Sections  # the kernel sections at the distinct inputs
    rows: Tensor  # position of an observation at each of them
    targets: Tensor  # r coordinates z of the whitened outcomes
    unresolved: float  # squared norm of the outcomes outside these directions
    hidden_length: float  # of those that eigenvalues near round-off would explain
    eigenvalue_cutoff: float  # what round-off can make of a zero eigenvalue

    @classmethod
    def empty(cls, like: Tensor) -> "Eigenbasis":
        r"""The basis before any observation."""
        none, matrix = like.new_empty(0), like.new_empty(0, 0)
        sections, tiny = Sections(matrix, none, none), torch.finfo(like.dtype).tiny
        return cls(0, none, matrix, sections, none.long(), none, 0.0, 0.0, tiny)

    @classmethod
    def of(cls, regression: KernelRegression) -> "Eigenbasis":
        r"""The basis of a regression, without the directions that round-off hides."""
        zeros = int((regression.eigenvalues == 0).sum())
        rows, rank = regression.distinct_index, len(regression.eigenvalues) - zeros
        basis = regression.eigenvalues.new_zeros(regression.num_observations, rank)
        return cls(
            num_observations=regression.num_observations,
            eigenvalues=regression.eigenvalues[zeros:].clone(),
            basis=basis.index_copy(0, rows, regression.feature_basis[:, zeros:]),
            sections=regression.distinct_sections,
            rows=rows,
            targets=regression.targets[zeros:].clone(),
            unresolved=float(regression.targets[:zeros].square().sum()),
            hidden_length=regression.hidden_length,
            eigenvalue_cutoff=regression.eigenvalue_cutoff,
        )

    def hidden_part(self, norm: float) -> float:
        r"""See ``KernelRegression``."""
        return hidden_part(self.hidden_length, norm * math.sqrt(self.eigenvalue_cutoff))

    def hidden_log_det(self, regularizer: float) -> float:
        r"""What eigenvalues that count as zero may add to ``ln det(I + K_w / tau)``."""
        hidden = self.num_observations - len(self.eigenvalues)
        return hidden * math.log1p(self.eigenvalue_cutoff / regularizer)

    @property
    def mean_terms(self) -> Tensor:
        r"""``r`` values ``sqrt(lam) z``."""
        return self.eigenvalues.sqrt() * self.targets


class RidgeEstimate(NamedTuple):
    r"""The ridge estimate at one regulariser ``tau``."""

    regularizer: float  # tau
    older: Tensor  # r coordinates of its weights in the eigenbasis
    newest: Tensor  # p weights of the newest observations
    squared_misfit: float  # squared distance to the data, noise units
    squared_norm: float  # squared RKHS norm
