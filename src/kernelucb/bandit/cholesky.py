r"""Growing Cholesky factors, for bounds that need one or two regularisers."""

import math

import torch
from torch import Tensor

from kernelucb.bandit.history import Fit, Moments
from kernelucb.bandit.observations import Query

_BLOCK = 128


class GrowingCholesky:
    r"""Cholesky factor ``L`` of ``K_w + tau``, with ``L^-1 y_w``, row by row.

    Stored as block rows whose diagonal blocks are inverted, so that a solve is a handful
    of matrix products.

    Attributes:
        regularizer: ``tau``.
        log_det: ``ln det(I + K_w / tau)``.
    """

    def __init__(self, regularizer: float, like: Tensor) -> None:
        self.regularizer = regularizer
        self.log_det = 0.0
        self.count = 0
        self._like = like
        self._rows: list[Tensor] = []
        self._inverses: list[Tensor] = []
        self._solved_targets: list[Tensor] = []

    @property
    def solved_targets(self) -> Tensor:
        r"""``n`` values ``L^-1 y_w``."""
        if not self._solved_targets:
            return self._like.new_empty(0)
        return torch.cat(self._solved_targets)[: self.count]

    def append(self, covariance: Tensor, variance: float, target: float) -> None:
        r"""Add one row.

        Args:
            covariance: ``n`` whitened covariances with the earlier inputs.
            variance: Whitened prior variance.
            target: Outcome minus prior mean, noise units.
        """
        row = self.solve(covariance.unsqueeze(-1))[:, 0]
        pivot = math.sqrt(variance + self.regularizer - float(row @ row))
        start = self.count % _BLOCK
        if start == 0:
            self._rows.append(self._like.new_zeros(_BLOCK, self.count + _BLOCK))
            self._inverses.append(self._like.new_zeros(_BLOCK, _BLOCK))
            self._solved_targets.append(self._like.new_zeros(_BLOCK))
        residual = target - float(row @ self.solved_targets)
        self._rows[-1][start, : self.count] = row
        self._rows[-1][start, self.count] = pivot
        inside = row[self.count - start :] @ self._inverses[-1][:start, :start]
        self._inverses[-1][start, :start] = -inside / pivot
        self._inverses[-1][start, start] = 1.0 / pivot
        self._solved_targets[-1][start] = residual / pivot
        self.log_det += 2.0 * math.log(pivot) - math.log(self.regularizer)
        self.count += 1

    def solve(self, right: Tensor) -> Tensor:
        r"""``L^-1 right`` for ``n x a`` right sides."""
        solution = torch.empty_like(right)
        for index, (row, inverse) in enumerate(
            zip(self._rows, self._inverses, strict=True)
        ):
            low, high = index * _BLOCK, min((index + 1) * _BLOCK, self.count)
            rest = right[low:high]
            if low:
                rest = torch.addmm(
                    rest, row[: high - low, :low], solution[:low], alpha=-1.0
                )
            torch.mm(inverse[: high - low, : high - low], rest, out=solution[low:high])
        return solution

    def solve_transposed(self, right: Tensor) -> Tensor:
        r"""``L^-T right`` for ``n`` values."""
        solution = right.clone()
        for index in reversed(range(len(self._rows))):
            low, high = index * _BLOCK, min((index + 1) * _BLOCK, self.count)
            size = high - low
            solution[low:high] = solution[low:high] @ self._inverses[index][:size, :size]
            solution[:low] -= solution[low:high] @ self._rows[index][:size, :low]
        return solution


class CholeskySystems:
    r"""The systems at a few regularisers, one factor each."""

    def __init__(self, factors: list[GrowingCholesky], regularizers: Tensor) -> None:
        self.factors = factors
        self.regularizers = regularizers

    def fit(self) -> Fit:
        r"""How the ridge estimates fit the data."""
        solved = [factor.solved_targets for factor in self.factors]
        squares = torch.stack([values @ values for values in solved])
        return Fit(
            regularizers=self.regularizers,
            log_det=squares.new_tensor([factor.log_det for factor in self.factors]),
            quadratic_form=self.regularizers * squares,
        )

    def squared_weights(self) -> Tensor:
        r"""Squared lengths of the ridge estimates' weights; see ``Systems``."""
        weights = [f.solve_transposed(f.solved_targets) for f in self.factors]
        return torch.stack([values @ values for values in weights])

    def moments(self, points: Query) -> Moments:
        r"""Ridge estimates at arms whose covariances are in noise units."""
        deviations, variances = [], []
        for factor in self.factors:
            solved = factor.solve(points.covariance)
            deviations.append(factor.solved_targets @ solved)
            explained = solved.square_().sum(0)
            variances.append((points.prior_variance - explained).clamp_min(0.0))
        return Moments(torch.stack(deviations, -1), torch.stack(variances, -1))


class CholeskyHistory:
    r"""One growing factor for each regulariser in use.

    Args:
        noise_std: Noise scale, outcome units.
        like: Gives dtype and device.
    """

    def __init__(self, noise_std: float, like: Tensor) -> None:
        self.noise_std = noise_std
        self._like = like
        self._slots: dict[str, CholeskySystems] = {}
        self._past: list[tuple[Tensor, float, float]] = []

    def append(self, query: Query, target: float) -> None:
        r"""Add one observation; see ``History``."""
        whitened = query.covariance[:, 0] / self.noise_std**2
        variance = float(query.prior_variance) / self.noise_std**2
        self._past.append((whitened, variance, target))
        for factor in self._factors().values():
            factor.append(whitened, variance, target)

    def project(self, query: Query) -> Query:
        r"""Arms with covariances in noise units."""
        return query._replace(covariance=query.covariance / self.noise_std)

    def systems(self, slot: str, regularizers: Tensor) -> CholeskySystems:
        r"""The systems at given regularisers; a new one costs ``O(n^3)`` once."""
        known = self._slots.get(slot)
        if known is None or not torch.equal(known.regularizers, regularizers):
            factors = self._factors()
            taus = [float(tau) for tau in regularizers]
            for tau in set(taus) - factors.keys():
                factors[tau] = GrowingCholesky(tau, self._like)
                for row in self._past:
                    factors[tau].append(*row)
            known = CholeskySystems([factors[tau] for tau in taus], regularizers)
            self._slots[slot] = known
        return known

    def _factors(self) -> dict[float, GrowingCholesky]:
        systems = self._slots.values()
        return {f.regularizer: f for known in systems for f in known.factors}
