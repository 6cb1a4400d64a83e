r"""Kernel regression on the span of a few inducing points, with a bound on the rest.

Also the sketch of BKB: with features ``z(x) = (K_SS^{1/2})^+ k_S(x)``, ``Z`` the features
of the observed inputs and ``V = Z^T Z + alpha I``::

    mean(x) = z(x)^T V^-1 Z^T y
    var(x)  = k(x, x) - |z(x)|^2 + alpha z(x)^T V^-1 z(x)

Source: Calandriello et al. (2019), Eq. 4; the predictive of Titsias' collapsed bound with
the same inducing points. Features are only defined up to a rotation; see ``Basis``.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from numpy.random import SeedSequence
from torch import Tensor
from torch.linalg import solve_triangular
from torch.nn import Module
from torch.nn.functional import pad

from kernelucb._numerics.checks import positive_values, training_targets, whole_number
from kernelucb._numerics.estimates import Number, draft_of, is_estimate, with_noise
from kernelucb._numerics.spectral import cutoff_of, kernel_spectrum
from kernelucb.data.exact import ROUNDED, RidgeState, distinct_rows, farthest, pool
from kernelucb.data.from_model import (
    ModelData,
    approximate_gp,
    input_transform_of,
    outcome_transform_of,
    read_model,
)
from kernelucb.data.prior import Prior

# Ends of the split `s`, whose factors are `1 + s` and `1 + 1 / s`.
_LEAST_SPLIT = 1e-8
_LARGEST_SPLIT = 1e4
# Least noise in prior deviations: a thousand times the rounding of such outcomes.
_LEAST_NOISE = 1e3 * torch.finfo(torch.float64).eps
# Directions whose squared length is below this share of the sections' own are left out:
# round-off, eps over its root, would show in the coordinates along them.
_CUT_OFF = 1e-10
# For each section, where the whole span counts: what is below is round-off itself.
_FINEST = 16.0 * torch.finfo(torch.float64).eps
# Rows that are worked on together, so that nothing as large as the features is needed.
ROWS = 4096
_LOG = logging.getLogger(__name__)
# Observations of the first step are drawn with prior variances, all at once.
_FIRST_BLOCK = 64
_PURPOSE = 0x424B42  # any number


class Basis(Module):
    r"""Coordinates of ``k(x, .)`` in an orthonormal basis of the inducing sections.

    Repeated and collinear inducing points add nothing.

    Attributes:
        inducing: ``m x d'`` kernel inputs.
        matrix: ``m x r`` matrix that maps covariances to features.
        whole: Whether all directions count that round-off leaves. A posterior of BKB does
            not learn from those left out, and would be too sure of the others.
    """

    prior: Prior
    inducing: Tensor
    matrix: Tensor

    def __init__(
        self, prior: Prior, inducing: Tensor, matrix: Tensor, whole: bool = False
    ) -> None:
        super().__init__()
        self.whole = whole
        object.__setattr__(self, "prior", prior)  # a part of whoever holds the basis
        self.register_buffer("inducing", inducing, persistent=False)
        self.register_buffer("matrix", matrix, persistent=False)

    @classmethod
    def of(cls, prior: Prior, inducing: Tensor, whole: bool = False) -> "Basis":
        r"""Basis of the sections at ``m x d'`` kernel inputs; one ``eigh``."""
        empty = cls(prior, inducing[:0], inducing.new_zeros(0, 0), whole)
        return empty.extended(inducing)

    def extended(self, inputs: Tensor, features: Tensor | None = None) -> "Basis":
        r"""The basis with the directions that ``p x d'`` kernel inputs add, as the last.

        Their ``features``, where given, are more accurate than computed anew: after many
        extensions the matrix is a long product.
        """
        features = self.forward(inputs) if features is None else features
        rest = self.prior.covariance(inputs, inputs) - features @ features.mT
        inducing = torch.cat([self.inducing, inputs])
        cut_off = _FINEST * len(inducing) if self.whole else _CUT_OFF
        new = directions(rest, self.prior.variance(inputs), cut_off)
        old = torch.cat([self.matrix, -self.matrix @ features.mT @ new], dim=-1)
        new = pad(new, (self.matrix.shape[-1], 0))
        return Basis(self.prior, inducing, torch.cat([old, new]), self.whole)

    def forward(self, inputs: Tensor) -> Tensor:
        r"""Features of ``b x d'`` kernel inputs, ``b x r``; differentiable."""
        if 0 in (len(inputs), len(self.inducing)):
            return inputs.new_zeros(len(inputs), self.matrix.shape[-1])
        return self.prior.covariance(inputs, self.inducing) @ self.matrix

    @property
    def round_off(self) -> float:
        r"""Bound on the error of an inner product of features, relative to ``k(x, x)``."""
        return (len(self.inducing) + 8.0) * torch.finfo(self.matrix.dtype).eps

    def project(self, inputs: Tensor, rows: int | None = None) -> tuple[Tensor, Tensor]:
        r"""Features of ``b x d'`` kernel inputs, and the variance ``k(x, x) - |z(x)|^2``.

        The variance is rounded up and never negative. ``rows`` are worked on together.
        """
        features = torch.cat([self(part) for part in inputs.split(rows or ROWS)])
        prior_variance = self.prior.variance(inputs)
        rest = prior_variance - features.square().sum(-1)
        return features, (rest + self.round_off * prior_variance).clamp_min(0.0)

    def separate_variance(self) -> Tensor:
        r"""Mean variance of an inducing section that the other ones do not explain."""
        squares = self.matrix.square().sum(-1)  # zero for a section that is zero itself
        return torch.where(squares > 0.0, squares.reciprocal(), 0.0).mean()


def directions(matrix: Tensor, variance: Tensor, cut_off: float = _CUT_OFF) -> Tensor:
    r"""``r`` columns ``c`` with ``c^T matrix c = 1`` that resolve a Gram matrix.

    ``matrix`` holds the inner products of ``m`` sections, or of what a basis leaves of
    them; the cut-off is relative to ``variance``, the squared lengths of whole sections.
    """
    scale = torch.where(variance > 0, variance, torch.inf).rsqrt()
    values, vectors = torch.linalg.eigh(scale.outer(scale) * (0.5 * (matrix + matrix.mT)))
    if len(values) and float(values[0]) < -1e-8 * max(1.0, float(values[-1])):
        raise InputDataError(
            "The kernel matrix of the inducing points has a negative eigenvalue "
            f"({float(values[0]):.3g} where the diagonal is one): covar_module is not a "
            "positive semi-definite kernel."
        )
    kept = values > cut_off
    return scale.unsqueeze(-1) * vectors[:, kept] / values[kept].sqrt()


def in_eigenbasis(
    gram: Tensor, moments: Tensor, squares: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Whitened outcomes in the eigenbasis of ``Z^T Z``; from ``Z^T Z, Z^T y, y^T y``.

    ``r + 1`` eigenvalues, ascending; as many coordinates of the outcomes, the first for
    their part outside the span of the features, at eigenvalue zero, so that quadratic forms
    are those with ``Z Z^T`` in place of the kernel matrix; and the ``r x (r + 1)`` rotation
    of the features. One ``eigh``.
    """
    values, vectors = torch.linalg.eigh(gram)
    eigenvalues, rotation = pad(values.clamp_min(0.0), (1, 0)), pad(vectors, (1, 0))
    kept = eigenvalues > cutoff_of(eigenvalues)
    targets = moments @ rotation / torch.where(kept, eigenvalues, torch.inf).sqrt()
    targets[0] = (squares - targets.square().sum()).clamp_min(0.0).sqrt()
    return eigenvalues, targets, rotation


def evidence_bounds(
    eigenvalues: Tensor, targets: Tensor, residual_variance: Tensor, regularizers: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Upper bounds on ``y_w^T (I + K_w / tau)^-1 y_w`` and ``ln det(I + K_w / tau)``.

    From ``in_eigenbasis``, what the features leave of the whitened variances, and ``g``
    regularisers ``tau``. The first has ``Z Z^T <= K_w`` in place of ``K_w``; the second is
    ``det(I + Z Z^T + E) <= det(I + Z Z^T) det(I + E)`` with Hadamard's inequality.
    """
    tau = regularizers.unsqueeze(-1)
    forms = (targets.square() * tau / (eigenvalues + tau)).sum(-1)
    log_dets = torch.log1p(eigenvalues.clamp_min(cutoff_of(eigenvalues)) / tau).sum(-1)
    return forms, log_dets + torch.log1p(residual_variance / tau).sum(-1)


def check_noise(name: str, noise_std: float, variance: Tensor) -> None:
    r"""Raise ``ValueError`` where the least noise is rounding beside prior variances."""
    deviation = float(variance.max().sqrt())
    least = _LEAST_NOISE * deviation
    if noise_std < least:
        raise ValueError(
            f"{name} is {noise_std:.3g}; with prior deviations of up to {deviation:.3g} it "
            f"must be at least {least:.3g} to be told from rounding. Give a larger one, or "
            "bring inputs and outcomes to order one."
        )


def ridge_factor(matrix: Tensor, alpha: float) -> Tensor:
    r"""Lower Cholesky factor of ``matrix + alpha I``, for a semi-definite matrix."""
    eye = torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    factor, failed = torch.linalg.cholesky_ex(matrix + alpha * eye)
    if int(failed):
        raise InputDataError(
            f"The ridge parameter (noise variance) {alpha:.3g} is lost in the rounding of "
            "the kernel's values. Use a larger one, or bring the inputs to order one: a "
            "polynomial kernel takes powers of their size."
        )
    return factor


class Sums(NamedTuple):
    r"""Statistics of ``t`` observations on ``r`` coordinates, and of what these leave.

    With ``W = D^-1/2 [Z, y - m]`` (one row an observation, ``D`` the noise variances) and
    ``E = K - Z Z^T``. Observations that came together are pooled, to ``t'`` rows.
    """

    inputs: Tensor  # `t' x d'` kernel inputs
    precisions: Tensor  # `t'` sums of reciprocal noise variances
    responses: Tensor  # `t'` sums of `(y - m)` over noise variance
    residual_variance: Tensor  # `t'` values of `E`'s diagonal times the precision
    gram: Tensor  # `W^T W`, `(r + 1) x (r + 1)`
    residual: Tensor | None  # `W^T D^-1/2 E D^-1/2 W`; None without the pass over pairs
    trace: Tensor  # the trace of `D^-1/2 K D^-1/2`

    @classmethod
    def empty(cls, basis: Basis, pairs: bool) -> "Sums":
        r"""The sums over no data; ``pairs`` says whether to keep ``residual``."""
        inducing, rank = basis.inducing, basis.matrix.shape[-1] + 1
        none, square = inducing.new_zeros(0), inducing.new_zeros(rank, rank)
        rows = inducing[:0], none, none, none
        return cls(*rows, square, square if pairs else None, none.sum())

    def extended(
        self, basis: Basis, inputs: Tensor, residuals: Tensor, noise_std: Tensor, size: int
    ) -> "Sums":
        r"""The sums over these and more observations, in blocks of ``size`` rows.

        One pass over the new observations, and one over their pairs with all where
        ``residual`` is kept: ``O(t r)`` for each new one.
        """
        pooled = pool(inputs, residuals, noise_std)
        precisions = pooled.noise_std.square().reciprocal()
        responses = precisions * pooled.residuals
        squares = (responses * pooled.residuals).sum()
        if pooled.scatter is not None:
            squares = squares + pooled.scatter
        gram, left = self.gram.clone(), []
        blocks = (each.split(size) for each in (pooled.inputs, precisions, responses))
        for part, precision, response in zip(*blocks, strict=True):
            coordinates, rest = basis.project(part, size)
            left.append(rest * precision)
            gram[:, :-1] += _weights(coordinates, precision, response).mT @ coordinates
        gram[:-1, -1] = gram[-1, :-1]
        gram[-1, -1] += squares
        trace = (basis.prior.variance(pooled.inputs) * precisions).sum()
        new = Sums(
            inputs=torch.cat([self.inputs, pooled.inputs]),
            precisions=torch.cat([self.precisions, precisions]),
            responses=torch.cat([self.responses, responses]),
            residual_variance=torch.cat([self.residual_variance, *left]),
            gram=gram,
            residual=self.residual,
            trace=self.trace + trace,
        )
        if self.residual is None:
            return new
        half = new._pairs(basis, len(self.inputs), size)
        return new._replace(residual=self.residual + half + half.mT)

    def _pairs(self, basis: Basis, old: int, size: int) -> Tensor:
        r"""``W^T E W`` over pairs of a new row and an earlier one, half of the diagonal.

        The first ``old`` rows are not new.
        """
        coordinates = torch.cat([basis(part) for part in self.inputs.split(size)])
        weights = _weights(coordinates, self.precisions, self.responses)
        total = torch.zeros_like(self.gram)
        for start in range(old, len(self.inputs), size):
            new = slice(start, start + size)
            earlier = [slice(at, min(at + size, start)) for at in range(0, start, size)]
            for other in (*earlier, new):
                error = basis.prior.covariance(self.inputs[new], self.inputs[other])
                error.addmm_(coordinates[new], coordinates[other].mT, alpha=-1.0)
                share = 0.5 if other is new else 1.0
                total += share * (weights[new].mT @ (error @ weights[other]))
        return total


def _weights(coordinates: Tensor, precisions: Tensor, responses: Tensor) -> Tensor:
    r"""``D^-1/2 W``, ``t' x (r + 1)``."""
    weighted = coordinates * precisions.unsqueeze(-1)
    return torch.cat([weighted, responses.unsqueeze(-1)], dim=-1)


class WeightProblem(NamedTuple):
    r"""Quadratic forms of weights ``a = A p``, with ``A`` orthonormal on ``[Z, y_w]``.

    ``|a|^2 = |p|^2``, ``a^T y_w = p^T outcomes`` and, with coordinates ``z`` of a query,
    ``||k(x, .) - sum_s a_s k_w(x_s, .)||^2 <= |z - cross^T p|^2 + (1 + s) rho^2
    + (1 + 1/s) p^T remainder p``.
    """

    cross: Tensor  # `A^T Z`, `r x m`
    remainder: Tensor  # `A^T E A` rounded up, `r x r`
    outcomes: Tensor  # `A^T y_w`, `r` values
    # Factors of the `m` coordinates; above one for pending points, which share the split
    # of `rho`
    scale: Tensor
    split: float  # `s`

    @classmethod
    def of(cls, basis: Basis, sums: Sums, num_observations: int) -> "WeightProblem":
        r"""The problem of some data, with the split that is best on average over them.

        The weights are made of the coordinates of ``basis``, the first ones of those that
        the sums are over.
        """
        columns = [*range(basis.matrix.shape[-1]), -1]
        further = slice(len(columns) - 1, -1)
        gram = sums.gram[columns][:, columns]
        span = directions(gram, gram.diagonal())
        if span.shape[-1] == 0:  # features and outcomes are zero: a weight of no effect
            span = gram.new_zeros(len(gram), 1)
        cross = span.mT @ gram[:, :-1]
        resolved = span.mT @ sums.gram[columns, further]
        outside = sums.residual_variance.sum()
        # Round-off of `E` itself, and of the sums `W^T E W`: where columns of `W` are
        # nearly collinear (a few observations much more precise than all others), weights
        # of length one are differences of large multiples of them.
        multiples = gram.diagonal() @ span.square()
        rounding = basis.round_off * (sums.trace + outside * multiples)
        if sums.residual is None:  # the trace
            remainder = outside * torch.eye(span.shape[-1]).to(span)
        else:
            inner = span.mT @ sums.residual @ span
            remainder = 0.5 * (inner + inner.mT) + rounding.diag()
        remainder = remainder + resolved @ resolved.mT
        # In the mean of `rho^2` an inducing point counts with the variance that the others
        # leave there, since queries lie elsewhere.
        share = min(1.0, len(basis.inducing) / num_observations)
        separate = share * basis.separate_variance() * sums.precisions.sum()
        left = outside + sums.gram.diagonal()[further].sum() + separate
        # The `s` that is best on average over the observations, at `tau = 1`. A remainder
        # that is round-off may be negative; the split must be fit for it as well.
        best = torch.linalg.solve(
            cross @ cross.mT + remainder + torch.eye(len(cross)).to(cross), cross
        )
        spread = best * ((remainder @ best) @ gram[:-1, :-1])
        least = best * (rounding.unsqueeze(-1) * (best @ gram[:-1, :-1]))
        spread = torch.maximum(spread.sum(), least.sum())
        ratio = torch.where(left > 0.0, spread / left, 0.0)  # zero for sections of zero
        split = min(max(float(ratio.sqrt()), _LEAST_SPLIT), _LARGEST_SPLIT)
        ones = cross.new_ones(cross.shape[-1])
        return cls(cross, remainder, gram[-1] @ span, ones, split)

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


class NystromRegression(RidgeState):
    r"""Regression whose weights lie in the span of inducing features and the outcomes.

    For any weights ``a`` on the ``t`` whitened observations, a function of norm at most
    ``B`` within ``r`` of them satisfies
    ``f(x) <= m(x) + a^T y_w + r |a| + B ||k(x, .) - sum_s a_s k_w(x_s, .)||``. With
    ``Z`` the ``t x m`` coordinates of the observations on the ``m`` inducing sections,
    ``z`` those of ``x``, and ``E = K_w - Z Z^T``,

        ``||k(x, .) - sum_s a_s k_w(x_s, .)||^2 <= |z - Z^T a|^2
        + (rho + sqrt(a^T E a))^2``,  ``rho^2 = k(x, x) - |z|^2``,

    and the last square is at most ``(1 + s) rho^2 + (1 + 1/s) a^T E a`` for any split
    ``s``. For weights ``a = [Z, y_w] p`` all of it is a quadratic form of size ``m + 1``.
    One generalised eigendecomposition makes it diagonal: eigenvalues, targets and features
    take the place of those of ``KernelRegression``, and ``MartingaleMixtureUCB``'s exact
    dual of this smaller problem is a valid, slightly wider bound. Where the inducing
    points span all observations, ``E = 0`` and the two agree.

    The split is the one that balances the two parts on average over the observations at
    ``tau = 1``. No ``t x t`` matrix is formed; a query costs ``O(m^2)``. ``E`` is computed
    by one pass over all pairs of distinct inputs, ``O(t^2 m)``, or bounded in ``O(t M^2)``
    with ``M`` further points: with ``Z'`` the coordinates on all of them,
    ``E = (Z' Z'^T - Z Z^T) + E'``, and ``E'`` is at most its trace.

    Source: ours, by weak duality; at the best of all weights it is the dual of Flynn & Reeb
    (2024), Theorem 4.5.

    Example:
        >>> state = NystromRegression(X, Y, kernel, 0.1, inducing_points=X[::100])

    Attributes:
        eigenvalues: ``r <= m + 1`` eigenvalues, ascending; see ``RidgeState``.
    """

    feature_basis: Tensor
    basis: Basis
    outer: Basis
    sums: Sums

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        covar_module: Kernel,
        noise_std: float | Tensor,
        inducing_points: Tensor,
        mean_module: Mean | None = None,
        *,
        remainder_points: Tensor | None = None,
        chunk_size: int = 1024,
    ) -> None:
        r"""State from tensors and a GPyTorch kernel.

        Args:
            train_X: ``n x d`` inputs.
            train_Y: ``n x 1`` or ``n`` outcomes.
            covar_module: Kernel of the prior, as for ``KernelRegression``.
            noise_std: Sub-Gaussian noise scale in outcome units, one number or ``n``.
            inducing_points: ``m x d`` inputs, observed or not, chosen in any way.
            mean_module: Known prior mean; zero when absent.
            remainder_points: ``M x d`` further inputs, observed or not, from which ``E`` is
                bounded: a few times as many as inducing points, spread as the inputs are
                (such as ``draw_sobol_samples``); with ``M = 0`` the bound is the trace of
                ``E``. By default ``E`` is computed by a pass over all pairs of inputs,
                which takes minutes for 10^5 inputs.
            chunk_size: Rows and columns of the blocks in which ``E`` is computed.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If there are no data, or they are not finite.
            ValueError: If noise or chunk size is not above zero, or noise is rounding.
        """
        super().__init__()
        data = ModelData.of(train_X, train_Y, noise_std, covar_module, mean_module)
        self._build(data, inducing_points, remainder_points, chunk_size)

    @classmethod
    def from_model(
        cls,
        model: Model,
        inducing_points: Tensor,
        noise_std: float | Tensor | None = None,
        *,
        remainder_points: Tensor | None = None,
        chunk_size: int = 1024,
    ) -> "NystromRegression":
        r"""State of the data and the prior of a BoTorch model, in outcome units.

        Args:
            model: As for ``KernelRegression.from_model``; its own posterior is not used.
            inducing_points: ``m x d`` raw inputs.
            noise_std: Noise scale in outcome units, one number or one per observation.
                Taken from the likelihood when absent.
            remainder_points: As for the class, raw inputs.
            chunk_size: As for the class.
        """
        data = read_model(model).with_noise_std(noise_std)
        state = cls.__new__(cls)
        Module.__init__(state)
        state._build(data, inducing_points, remainder_points, chunk_size)
        return state

    @torch.no_grad()
    def _build(
        self,
        data: ModelData,
        inducing_points: Tensor,
        remainder_points: Tensor | None,
        chunk_size: int,
    ) -> None:
        self.chunk_size = whole_number("chunk_size", chunk_size)
        inputs, noise = data.train_inputs, data.noise_std.to(data.train_inputs)
        self._describe(data)
        self._keep(noise_scales=noise)

        def kernel_points(name: str, points: Tensor) -> Tensor:
            points = self._checked(points, name)
            return self.prior.transform(points.detach().to(inputs))

        inducing = kernel_points("inducing_points", inducing_points)
        if len(inducing) == 0:
            raise BotorchTensorDimensionError("There must be an inducing point.")
        self.basis = self.outer = Basis.of(self.prior, inducing)
        if remainder_points is not None and remainder_points.numel() > 0:
            further = kernel_points("remainder_points", remainder_points)
            self.outer = self.basis.extended(further)
        self.sums = Sums.empty(self.outer, pairs=remainder_points is None)
        self._add(inputs, data.train_targets, noise)

    def _add(self, inputs: Tensor, targets: Tensor, noise_std: Tensor) -> None:
        check_noise("noise_std", float(noise_std.min()), self.prior.variance(inputs))
        data = inputs, targets - self.prior.mean(inputs), noise_std
        self.sums = self.sums.extended(self.outer, *data, self.chunk_size)
        self.prior_std = float(self.prior.variance(self.sums.inputs).mean().sqrt())
        self._solve(WeightProblem.of(self.basis, self.sums, self.num_observations))

    def _solve(self, problem: WeightProblem) -> None:
        r"""One ``eigh`` for the best weights at every regulariser."""
        self._problem = problem
        # Weak duality: any weights of the outcomes give a valid bound, so a small span of
        # weights costs width, never validity.
        remainder = (1.0 + 1.0 / problem.split) * problem.remainder
        matrix = problem.cross @ problem.cross.mT + remainder
        lam, vectors, cutoff = kernel_spectrum(matrix)
        lengths = torch.where(lam > 0, lam, torch.inf).sqrt()
        basis = problem.scale.unsqueeze(-1) * (problem.cross.mT @ vectors / lengths)
        self.eigenvalue_cutoff = cutoff
        targets = problem.outcomes @ vectors
        self._keep(eigenvalues=lam, targets=targets, feature_basis=basis)

    @property
    def split(self) -> float:
        r"""``s``, the split between ``rho^2`` and ``a^T E a``; see the class."""
        return self._problem.split

    @property
    def remainder(self) -> float:
        r"""Bound on the eigenvalues of ``E``; below 1 with enough inducing points."""
        return float(torch.linalg.eigvalsh(self._problem.remainder)[-1])

    @torch.no_grad()
    def evidence_terms(self, regularizers: Tensor) -> tuple[Tensor, Tensor]:
        gram, left = self.sums.gram, self.sums.residual_variance
        spectrum = in_eigenbasis(gram[:-1, :-1], gram[-1, :-1], gram[-1, -1])
        return evidence_bounds(spectrum[0], spectrum[1], left, regularizers)

    @torch.no_grad()
    def observe(
        self, X: Tensor, Y: Tensor, noise_std: float | Tensor | None = None
    ) -> "NystromRegression":
        r"""The state with ``p`` more observations and the same inducing points.

        ``O(p n m)``, or ``O(p M^2 + m^3)`` with remainder points.

        Args:
            X: ``p x d`` raw inputs.
            Y: ``p x 1`` or ``p`` outcomes, as they were observed.
            noise_std: One number or ``p``, outcome units; when absent, the noise scale of
                all observations so far.

        Raises:
            ValueError: If the noise scale is missing and the observations so far have
                several.
        """
        given, outcome_map = training_targets(X, Y), self.outcome_map
        if not outcome_map.takes(given):
            raise InputDataError(
                f"Outcomes must be {outcome_map.domain}, since the model is of them"
                f"{outcome_map.after}."
            )
        targets = outcome_map.forward(given)
        self._checked(X)
        if noise_std is None and not self.has_one_noise_scale:
            raise ValueError("noise_std is needed: the observations have several.")
        state = draft_of(self)
        if is_estimate(noise_std):
            state.estimated = self.estimated | {"noise"}
        noise_std = float(self.noise_scales[0]) if noise_std is None else noise_std
        noise = positive_values("noise_std", noise_std, len(targets)).to(self.noise_scales)
        inputs = self.prior.transform(X.detach().to(noise))
        state.register_buffer("noise_scales", torch.cat([self.noise_scales, noise]))
        state._add(inputs, targets.to(noise), noise)
        return state

    @torch.no_grad()
    def holds(self, X: Tensor, outcomes: Tensor) -> bool:
        r"""Whether its sums are of ``n`` outcomes at ``n x d`` raw inputs.

        Precisions times residuals, added up alone and times inputs and their squares: of
        outcomes at each other's inputs these differ, of the same in another order they do
        not.
        """
        if X.shape[-1] != self.dimension:
            return False
        inputs, responses = self.sums.inputs, self.sums.responses
        observed = self.prior.transform(X.to(inputs))
        residuals = outcomes.to(observed) - self.prior.mean(observed)
        weights = residuals / self.noise_scales.square()
        sums, others = weights @ _powers(observed), responses @ _powers(inputs)
        sizes = weights.abs() @ _powers(observed).abs()
        return bool(((sums - others).abs() <= ROUNDED * sizes).all())

    def with_inputs(self, inputs: Tensor) -> "NystromRegression":
        # They become inducing points, whose new directions hold no data.
        state, noise = draft_of(self), self.pending_noise_std
        noises = noise.expand(len(inputs))
        state.register_buffer("noise_scales", torch.cat([self.noise_scales, noises]))
        state.basis = self.basis.extended(inputs)
        state._solve(self._problem.with_rows(state.basis(inputs), noise))
        return state

    def coordinates(self, inputs: Tensor, prior_variance: Tensor) -> tuple[Tensor, Tensor]:
        coordinates, rest = self.basis.project(inputs)
        features = coordinates @ self.feature_basis
        scaled = (coordinates * self._problem.scale).square().sum(-1)
        left = (scaled - features.square().sum(-1)).clamp_min(0.0)
        left = left + self.basis.round_off * prior_variance
        # The split part of `rho^2`, and what weights of the outcomes leave.
        return features, (1.0 + self.split) * rest + left

    def _split_difference(
        self, features: Tensor, prior_variance: Tensor, *residual_variances: Tensor
    ) -> tuple[Tensor, Tensor]:
        # Residuals of the two count as opposite: features and rest are no parts of the
        # variance here.
        return features, farthest(*residual_variances)


def _powers(inputs: Tensor) -> Tensor:
    r"""Ones, inputs and their squares, in columns."""
    return torch.cat([torch.ones_like(inputs[:, :1]), inputs, inputs.square()], -1)


class Sketch(NamedTuple):
    r"""Observations as ``r`` features see them."""

    gram: Tensor  # `Z^T Z`, `r x r`; a repeated input counts as often as it was observed
    moments: Tensor  # `Z^T (y - m)`, `r` values
    alpha: float  # ridge parameter, in the squared units of the outcomes
    factor: Tensor  # lower Cholesky factor of `V = gram + alpha I`
    weights: Tensor  # `V^-1 moments`, `r` values

    @classmethod
    def of(cls, gram: Tensor, moments: Tensor, alpha: float) -> "Sketch":
        r"""From the sums over observations; one Cholesky factorisation."""
        factor = ridge_factor(gram, alpha)
        weights = torch.cholesky_solve(moments.unsqueeze(-1), factor).squeeze(-1)
        return cls(gram, moments, alpha, factor, weights)

    @property
    def half(self) -> Tensor:
        r"""``r x r`` triangular matrix ``h`` with ``h^T h = alpha V^-1``."""
        eye = torch.eye(len(self.gram)).to(self.gram)
        return self.alpha**0.5 * solve_triangular(self.factor, eye, upper=False)

    @property
    def log_det(self) -> float:
        r"""``ln det(I + Z^T Z / alpha)``, rounded up."""
        rounding = len(self.gram) * torch.finfo(self.gram.dtype).eps
        diagonal = self.gram.diagonal() + self.alpha
        pivots = self.factor.diagonal().square() + rounding * diagonal
        return float((pivots / self.alpha).log().sum())

    def solve(self, right: Tensor) -> Tensor:
        r"""``V^-1`` times ``r x k`` columns."""
        return torch.cholesky_solve(right, self.factor) if len(right) else right

    def quadratic(self, features: Tensor) -> Tensor:
        r"""``z^T V^-1 z`` of ``n x r`` features: sums of squares, which do not cancel."""
        halves = (
            solve_triangular(self.factor, part.mT, upper=False).square().sum(0)
            for part in features.split(ROWS)
        )
        return torch.cat([*halves])


class Tally(NamedTuple):
    r"""Observations added up at each of ``u`` places."""

    counts: Tensor  # `u` numbers of observations, zero where there are none
    sums: Tensor  # `u` sums of outcomes minus prior means
    squares: Tensor  # `u` sums of their squares

    def extended(self, index: Tensor, residuals: Tensor) -> "Tally":
        r"""With more outcomes minus prior means, at the places ``index``."""
        values = torch.ones_like(residuals), residuals, residuals.square()
        totals = zip(self, values, strict=True)
        return Tally(*(old.index_add(0, index, more) for old, more in totals))


@dataclass(frozen=True, eq=False)
class SketchedData:
    r"""Observations at ``u`` inputs, and inducing points drawn from these by variance.

    All else is computed from these when it is asked for, in ``O(u m^2)``, or follows from
    the step before where inducing points only come in addition. A step returns another
    state and leaves this one as it is. A draw counts with the variances of the step
    before, which are larger: as accurate, and more generous.

    Source: Calandriello et al. (2019), Algorithm 1 and Eq. 4.

    Attributes:
        prior: Prior in the units of the outcomes.
        inputs: ``u x d'`` distinct kernel inputs, with or without observations.
        alpha: Ridge parameter, in the squared units of the outcomes.
        qbar: Oversampling factor: inducing points grow in proportion.
        generator_state: State of the generator of the draws.
        tally: Observations at each input.
        inducing: ``m`` positions of the inducing points among the inputs.
    """

    prior: Prior
    inputs: Tensor
    alpha: float
    qbar: float
    generator_state: Tensor
    tally: Tally
    inducing: Tensor

    @classmethod
    def empty(
        cls,
        prior: Prior,
        inputs: Tensor,
        alpha: float,
        qbar: float,
        generator_state: Tensor,
    ) -> Self:
        r"""``u x d'`` inputs without observations."""
        none = inputs.new_zeros(len(inputs))
        tally, inducing = Tally(none, none, none), none[:0].long()
        return cls(prior, inputs, alpha, qbar, generator_state, tally, inducing)

    @property
    def counts(self) -> Tensor:
        r"""``u`` numbers of observations."""
        return self.tally.counts

    @property
    def observed(self) -> Tensor:
        r"""Positions of the inputs with observations, ascending."""
        return self.counts.nonzero().squeeze(-1)

    @property
    def num_observations(self) -> int:
        r"""Number of observations, repeats included."""
        return int(self.counts.sum())

    @cached_property
    def prior_mean(self) -> Tensor:
        r"""``u`` prior means."""
        return self.prior.mean(self.inputs)

    @cached_property
    def prior_variance(self) -> Tensor:
        r"""``u`` prior variances."""
        return self.prior.variance(self.inputs)

    @cached_property
    @torch.no_grad()
    def basis(self) -> Basis:
        r"""Features of the inducing points."""
        return Basis.of(self.prior, self.inputs[self.inducing], whole=True)

    @cached_property
    @torch.no_grad()
    def _projected(self) -> tuple[Tensor, Tensor]:
        return self.basis.project(self.inputs)

    @property
    def features(self) -> Tensor:
        r"""``u x r`` features of the inputs."""
        return self._projected[0]

    @property
    def residual_variance(self) -> Tensor:
        r"""``u`` values, what the features leave of ``prior_variance``; rounded up."""
        return self._projected[1]

    @cached_property
    def sketch(self) -> Sketch:
        r"""The observations as the features see them."""
        seen = self.observed
        rows, counts, sums = self.features[seen], self.counts[seen], self.tally.sums[seen]
        gram = rows.mT @ (counts.unsqueeze(-1) * rows)
        return Sketch.of(gram, rows.mT @ sums, self.alpha)

    @cached_property
    def mean(self) -> Tensor:
        r"""``u`` posterior means."""
        return self.prior_mean + self.features @ self.sketch.weights

    @cached_property
    def quadratic(self) -> Tensor:
        r"""``u`` values ``z^T V^-1 z``."""
        return self.sketch.quadratic(self.features)

    @property
    def variance(self) -> Tensor:
        r"""``u`` latent variances."""
        return self.residual_variance + self.alpha * self.quadratic

    def observe(self, index: Tensor, residuals: Tensor, slack: float = 0.0) -> Self:
        r"""With more outcomes minus prior means, and inducing points drawn again.

        ``index`` are the places of the ``n`` observations among the inputs. Inducing points
        drawn before are kept where all together are at most ``slack`` times the ones just
        drawn: as accurate, since the larger span contains the other.
        """
        tally = self.tally.extended(index, residuals)
        seen = tally.counts.nonzero().squeeze(-1)
        chances = inclusion_probabilities(
            self.variance[seen], tally.counts[seen], self.alpha, self.qbar
        )
        places, generator_state = draw(chances, self.generator_state)
        drawn = seen[places]
        new = drawn[~torch.isin(drawn, self.inducing)]
        every = torch.cat([self.inducing, new])
        grows = len(every) <= slack * len(drawn)
        inducing = every if grows else drawn
        _LOG.debug("%d inducing points drawn, %d in all.", len(drawn), len(inducing))
        state = replace(
            self, tally=tally, inducing=inducing, generator_state=generator_state
        )
        # They do not depend on the observations.
        vars(state).update(prior_mean=self.prior_mean, prior_variance=self.prior_variance)
        if grows:
            self._extend(state, new)
        return state

    @torch.no_grad()
    def _extend(self, state: "SketchedData", new: Tensor) -> None:
        r"""Give the next state what follows from this one with ``k`` more inducing points.

        In ``O(u r k)`` for ``r`` features, where all anew would cost ``O(u r^2)``.
        """
        (features, room), rank = self._projected, self.features.shape[1]
        basis = self.basis.extended(self.inputs[new], features[new])
        left = self.prior.covariance(self.inputs, self.inputs[new])
        left = left - features @ features[new].mT
        added = left @ basis.matrix[len(self.inducing) :, rank:]
        # Reduced where round-off explains more than there is.
        share = (room / added.square().sum(-1)).sqrt().clamp_max(1.0).nan_to_num()
        added = added * share.unsqueeze(-1)
        room = (room - added.square().sum(-1)).clamp_min(0.0)
        every = torch.cat([features, added], dim=1)
        vars(state).update(basis=basis, _projected=(every, room))
        # Observations lower the quadratic forms by squares (Woodbury's identity) ...
        more = state.counts - self.counts
        weighted = more[more > 0].sqrt().unsqueeze(-1) * features[more > 0]
        solved = self.sketch.solve(weighted.mT)
        factor = ridge_factor(weighted @ solved, 1.0)
        drops = features @ solve_triangular(factor.mT, solved, upper=True, left=False)
        # ... and directions add those of the last rows of the inverse Cholesky factor.
        last = torch.eye(every.shape[1]).to(every)[:, rank:]
        rises = every @ solve_triangular(state.sketch.factor.mT, last, upper=True)
        change = rises.square().sum(-1) - drops.square().sum(-1)
        vars(state).update(quadratic=(self.quadratic + change).clamp_min(0.0))

    def observe_at(self, inputs: Tensor, residuals: Tensor) -> Self:
        r"""The state after observations at ``n x d'`` inputs that may be new.

        In blocks that at most double the number of observations.
        """
        state, start = self, 0
        while start < len(inputs):
            block = slice(start, start + max(_FIRST_BLOCK, state.num_observations))
            state, index = state._with_inputs(inputs[block])
            state, start = state.observe(index, residuals[block]), block.stop
        return state

    @classmethod
    def drawn(
        cls,
        prior: Prior,
        inputs: Tensor,
        residuals: Tensor,
        alpha: float,
        qbar: float,
        generator_state: Tensor,
    ) -> Self:
        r"""From observations at ``n x d'`` inputs.

        The points are drawn again by the variances after all of them.
        """
        empty = cls.empty(prior, inputs[:0], alpha, qbar, generator_state)
        return empty.observe_at(inputs, residuals).redrawn()

    def redrawn(self) -> Self:
        r"""With inducing points drawn again by the present variances."""
        return self.observe(self.inducing[:0], self.tally.sums[:0])

    def conditioned(self, inputs: Tensor, residuals: Tensor) -> "SketchedData":
        r"""After observations at inputs that become inducing points, nothing drawn."""
        state, index = self._with_inputs(inputs)
        inducing = torch.cat([self.inducing, index]).unique()
        tally = state.tally.extended(index, residuals)
        return replace(state, tally=tally, inducing=inducing)

    def moved(self, move: Callable[[Tensor], Tensor]) -> "SketchedData":
        r"""The state where ``move`` puts tensors; the prior is there."""
        tally, inducing = Tally(*map(move, self.tally)), move(self.inducing)
        return replace(self, inputs=move(self.inputs), tally=tally, inducing=inducing)

    def _with_inputs(self, inputs: Tensor) -> tuple[Self, Tensor]:
        r"""The state with the distinct ones of more inputs, and the place of each."""
        every, count = torch.cat([self.inputs, inputs]), len(self.inputs)
        first, index = distinct_rows(every)
        zeros = self.counts.new_zeros(len(first) - count)
        tally = Tally(*(torch.cat([total, zeros]) for total in self.tally))
        return replace(self, inputs=every[first], tally=tally), index[count:]


def inclusion_probabilities(
    variance: Tensor, counts: Tensor, alpha: float, qbar: float
) -> Tensor:
    r"""Probability ``min(1, qbar count var / alpha)`` that an input becomes inducing.

    From ``n`` latent variances of the previous step and numbers of observations.

    Source: Calandriello et al. (2019), Algorithm 1, with one draw for all observations at
    an input: as probable as any of their own draws, or more, which Theorem 1 allows.
    """
    return (qbar / alpha * counts * variance).clamp(max=1.0)


def draw(probabilities: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    r"""Indices of the inputs drawn, ascending and never none, and the generator's state.

    Where no input is drawn, the most probable one is taken. ``state`` is that of a
    ``torch.Generator``.
    """
    uniform, state = uniform_numbers(len(probabilities), state)
    drawn = (uniform.to(probabilities.device) < probabilities).nonzero().squeeze(-1)
    if len(drawn) == 0:
        drawn = probabilities.argmax().reshape(1)
    return drawn, state


def uniform_numbers(count: int, state: Tensor) -> tuple[Tensor, Tensor]:
    r"""Random numbers on the CPU, so that every device draws the same; the next state."""
    generator = torch.Generator()
    generator.set_state(state.cpu())
    uniform = torch.rand(count, dtype=torch.float64, generator=generator)
    return uniform, generator.get_state()


def first_state(seed: int) -> Tensor:
    r"""State of a generator that ``torch.manual_seed(seed)`` has nothing in common with.

    With the same numbers as in random inputs, draws would depend on where these lie.
    """
    mixed = SeedSequence([_PURPOSE, seed % 2**64]).generate_state(1)
    return torch.Generator().manual_seed(int(mixed[0])).get_state()


class DTCRegression(RidgeState):
    r"""The deterministic training conditional in the eigenbasis of its observations.

    ``mean`` and ``variance`` at ``regularizer`` are those of Calandriello et al. (2019),
    Eq. 4.

    Attributes:
        data: Observations and inducing points, in the model's units.
        regularizer: ``tau = alpha / noise_std^2`` of the sketch.
        remainder: Bound on the eigenvalues of what the features leave of the whitened
            kernel matrix: its trace.
    """

    spectrum: Tensor
    residual_variance: Tensor

    @torch.no_grad()
    def __init__(
        self,
        prior: Prior,
        data: SketchedData,
        noise_std: float,
        dimension: int,
        estimated: frozenset[str],
    ) -> None:
        r"""State of a sketch; one ``eigh``.

        Prior and noise scale are in outcome units, of which ``prior.scale`` make a unit of
        the data.
        """
        super().__init__()
        self.prior, self.data = prior, data
        self.dimension, self.estimated = dimension, estimated
        precision, sketch = (prior.scale / noise_std) ** 2, data.sketch
        self.regularizer = sketch.alpha * precision
        sums = sketch.gram, sketch.moments, data.tally.squares.sum()
        whitened = (precision * each for each in sums)
        eigenvalues, targets, rotation = in_eigenbasis(*whitened)
        left = precision * data.counts * data.residual_variance
        self._keep(
            eigenvalues=eigenvalues,
            targets=targets,
            noise_scales=targets.new_full((1,), noise_std),
            spectrum=eigenvalues,  # not widened
            residual_variance=left,
        )
        self.eigenvalue_cutoff = cutoff_of(eigenvalues)
        self.remainder = float(left.sum())
        matrix = data.basis.matrix @ rotation
        self.basis = Basis(data.prior, data.basis.inducing, matrix, whole=True)
        variance = data.counts @ data.prior_variance / max(self.num_observations, 1)
        self.prior_std = prior.scale * float(variance) ** 0.5

    def regression(self) -> "DTCRegression":
        r"""The state itself, as models with such a state give theirs."""
        return self

    def with_noise_std(self, noise_std: Number) -> "DTCRegression":
        r"""The state around the same sketch with another noise scale, outcome units."""
        given = float(noise_std), self.dimension, with_noise(self.estimated, noise_std)
        return DTCRegression(self.prior, self.data, *given)

    @property
    def num_observations(self) -> int:
        r"""Number of observations ``n``."""
        return self.data.num_observations

    def coordinates(self, inputs: Tensor, prior_variance: Tensor) -> tuple[Tensor, Tensor]:
        r"""Features of the inducing points, rotated, and what they leave."""
        features, rest = self.basis.project(inputs)
        return self.prior.scale * features, self.prior.scale**2 * rest

    def with_inputs(self, inputs: Tensor) -> "DTCRegression":
        # They become inducing points.
        data = self.data.moved(lambda part: part.to(inputs.device))
        data = data.conditioned(inputs, inputs.new_zeros(len(inputs)))
        noise_std = float(self.noise_scales)
        return DTCRegression(self.prior, data, noise_std, self.dimension, self.estimated)

    def widened(self) -> "DTCRegression":
        r"""The state with the remainder added to all eigenvalues, for norms.

        The whitened kernel matrix is at most ``Z Z^T + remainder``, so the least norm of a
        ridge estimate within some distance of the outcomes here is at most that of any
        function within this distance: with a valid radius, a valid lower bound on the norm.
        """
        state = draft_of(self)
        state.eigenvalues = self.eigenvalues + self.remainder
        return state

    def evidence_terms(self, regularizers: Tensor) -> tuple[Tensor, Tensor]:
        spectrum, left = self.spectrum, self.residual_variance
        return evidence_bounds(spectrum, self.targets, left, regularizers)


def sketched_state(model: object) -> DTCRegression:
    r"""What a model with inducing points drawn by posterior variance says at present.

    A ``BKBModel``, or a GP with a ``BKBVariationalStrategy``, bare or in BoTorch's
    ``ApproximateGPyTorchModel``. Later observations and training do not change it.

    Raises:
        UnsupportedError: For any other model, or if BoTorch's model has transforms.
    """
    gp = approximate_gp(model)
    source = model if gp is None else gp.variational_strategy
    regression: Callable[[], DTCRegression] | None = getattr(source, "regression", None)
    if regression is None:
        raise UnsupportedError(
            f"{type(model).__name__} has no inducing points drawn by posterior variance; "
            "use BKBModel of kernelucb.models, or a GP with a BKBVariationalStrategy."
        )
    transforms = input_transform_of(model), outcome_transform_of(model)
    is_wrapped = gp is not None and gp is not model
    if is_wrapped and transforms != (None, None):
        raise UnsupportedError(
            "The strategy does not know of its model's transforms; transform the data "
            "yourself, or use BKBModel, which takes them."
        )
    return regression()
