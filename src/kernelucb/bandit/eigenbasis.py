r"""The resolved spectrum of the older observations."""

from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb._numerics.features import Sections
from kernelucb.regression import KernelRegression


class Eigenbasis(NamedTuple):
    r"""The resolved part of the spectrum of the older observations.

    Attributes:
        num_observations: How many observations it is of.
        eigenvalues: ``r`` eigenvalues of the whitened kernel matrix, ascending.
        basis: ``n x r`` matrix that maps covariances to features.
        sections: The kernel sections at the distinct inputs.
        rows: Position of an observation at each of them.
        targets: ``r`` coordinates ``z`` of the whitened outcomes.
        unresolved: Squared norm of the outcomes outside these directions.
        eigenvalue_cutoff: What round-off can make of a zero eigenvalue.
    """

    num_observations: int
    eigenvalues: Tensor
    basis: Tensor
    sections: Sections
    rows: Tensor
    targets: Tensor
    unresolved: float
    eigenvalue_cutoff: float

    @classmethod
    def empty(cls, like: Tensor) -> "Eigenbasis":
        r"""The basis before any observation."""
        none, matrix = like.new_empty(0), like.new_empty(0, 0)
        sections, tiny = Sections(matrix, none, none), torch.finfo(like.dtype).tiny
        return cls(0, none, matrix, sections, none.long(), none, 0.0, tiny)

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
            eigenvalue_cutoff=regression.eigenvalue_cutoff,
        )

    @property
    def mean_terms(self) -> Tensor:
        r"""``r`` values ``sqrt(lam) z``."""
        return self.eigenvalues.sqrt() * self.targets


class RidgeEstimate(NamedTuple):
    r"""The ridge estimate at one regulariser ``tau``.

    Attributes:
        regularizer: ``tau``.
        older: ``r`` coordinates of its weights in the eigenbasis.
        newest: ``p`` weights of the newest observations.
        squared_misfit: Squared distance to the data, noise units.
        squared_norm: Squared RKHS norm.
    """

    regularizer: float
    older: Tensor
    newest: Tensor
    squared_misfit: float
    squared_norm: float
