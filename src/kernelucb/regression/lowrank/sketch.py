r"""Observations as the features of a few inducing points see them.

With features ``z(x) = (K_SS^{1/2})^+ k_S(x)``, ``Z`` the features of the observed inputs
and ``V = Z^T Z + alpha I``::

    mean(x) = z(x)^T V^-1 Z^T y
    var(x)  = k(x, x) - |z(x)|^2 + alpha z(x)^T V^-1 z(x)

Source: Calandriello et al. (2019), Eq. 4; the predictive of Titsias' collapsed bound with
the same inducing points. Features are only defined up to a rotation; see ``Basis``.
"""

from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor
from torch.nn.functional import pad

from kernelucb._numerics.estimates import draft_of
from kernelucb._numerics.spectral import cutoff_of
from kernelucb.regression.lowrank.basis import Basis
from kernelucb.regression.pending import PendingRegression
from kernelucb.regression.prior import Prior
from kernelucb.regression.state import Projection, RidgeState, resolved

# Rows that are worked on together, so that nothing as large as the features is needed.
ROWS = 4096
# Least noise in prior deviations: a thousand times the rounding of such outcomes.
_LEAST_NOISE = 1e3 * torch.finfo(torch.float64).eps


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

    @classmethod
    def empty(cls, num_features: int, alpha: float, like: Tensor) -> "Sketch":
        r"""The prior, without observations."""
        gram = like.new_zeros(num_features, num_features)
        return cls.of(gram, like.new_zeros(num_features), alpha)

    @property
    def log_det(self) -> float:
        r"""``ln det(I + Z^T Z / alpha)``, rounded up."""
        rounding = len(self.gram) * torch.finfo(self.gram.dtype).eps
        diagonal = self.gram.diagonal() + self.alpha
        pivots = self.factor.diagonal().square() + rounding * diagonal
        return float((pivots / self.alpha).log().sum())

    def observe(self, features: Tensor, counts: Tensor, sums: Tensor) -> "Sketch":
        r"""A sketch of more observations, summed at ``n`` inputs; one Cholesky factor."""
        gram = self.gram.clone()
        for part, weights in zip(features.split(ROWS), counts.split(ROWS), strict=True):
            gram.addmm_(part.mT, weights.unsqueeze(-1) * part)
        return Sketch.of(gram, self.moments + features.mT @ sums, self.alpha)

    def residual_features(self, features: Tensor) -> Tensor:
        r"""Posterior features: those that observations leave of ``n x r`` ones.

        Inner products of ``sqrt(alpha) V^{-1/2} z(x)`` are posterior covariances in the
        span of the inducing points.
        """
        solved = torch.linalg.solve_triangular(self.factor, features.mT, upper=False)
        return self.alpha**0.5 * solved.mT

    def variance(self, features: Tensor, residual_variance: Tensor) -> Tensor:
        r"""Latent variance: a sum of positive terms, so it does not cancel near the data.

        Of ``n x r`` features and ``n`` values ``k(x, x) - |z(x)|^2``.
        """
        parts = features.split(ROWS)
        left = [self.residual_features(part).square().sum(-1) for part in parts]
        return residual_variance + torch.cat(left)


class Sketched:
    r"""Observations at ``u`` inputs, features of inducing points, and a sketch of them.

    A step makes another one of these and leaves this one as it is.
    """

    prior: Prior  # prior in the units of the outcomes
    inputs: Tensor  # `u x d'` different kernel inputs
    counts: Tensor  # `u` numbers of observations, zero where there are none
    sums: Tensor  # `u` sums of outcomes minus prior means
    squares: Tensor  # `u` sums of their squares
    basis: Basis  # features of the inducing points
    residual_variance: Tensor  # `u` values, what the features leave of the prior variances
    sketch: Sketch  # the observations as the features see them

    @property
    def features(self) -> Tensor:
        r"""``u x r`` features of the inputs."""
        raise NotImplementedError

    @property
    def variance(self) -> Tensor:
        r"""``u`` latent variances at the inputs."""
        raise NotImplementedError

    @property
    def observed(self) -> Tensor:
        r"""Positions of the inputs with observations, ascending."""
        return self.counts.nonzero().squeeze(-1)

    @property
    def prior_variance(self) -> Tensor:
        r"""``u`` prior variances at the inputs."""
        return self.prior.variance(self.inputs)

    @property
    def num_observations(self) -> int:
        r"""Number of observations, repeats included."""
        return int(self.counts.sum())


class DTCRegression(RidgeState):
    r"""The deterministic training conditional in the eigenbasis of its observations.

    ``mean`` and ``variance`` at ``regularizer`` are those of Calandriello et al. (2019),
    Eq. 4. Outcomes outside the span of the features stand in one direction of eigenvalue
    zero, so quadratic forms are those with ``Z Z^T`` in place of the kernel matrix.

    Attributes:
        regularizer: ``tau = alpha / noise_std^2`` of the sketch.
        remainder: Bound on the eigenvalues of what the features leave of the whitened
            kernel matrix: its trace.
    """

    spectrum: Tensor
    residual_variance: Tensor
    basis: Basis

    @torch.no_grad()
    def __init__(
        self,
        prior: Prior,
        data: Sketched,
        noise_std: float,
        dimension: int,
        estimated: frozenset[str],
    ) -> None:
        r"""State of a sketch; one ``eigh``.

        Prior and noise scale are in outcome units, of which ``prior.scale`` make a unit of
        the data.
        """
        super().__init__()
        self.prior, self.dimension, self.estimated = prior, dimension, estimated
        noise, sketch = noise_std / prior.scale, data.sketch
        self.regularizer = sketch.alpha / noise**2
        values, vectors = torch.linalg.eigh(sketch.gram)
        eigenvalues = pad(values.clamp_min(0.0) / noise**2, (1, 0))
        self.eigenvalue_cutoff = cutoff_of(eigenvalues)
        kept = eigenvalues > self.eigenvalue_cutoff
        lengths = torch.where(kept, eigenvalues, torch.inf).sqrt()
        targets = pad(sketch.moments @ vectors, (1, 0)) / noise**2 / lengths
        rest = float(data.squares.sum()) / noise**2 - float(targets.square().sum())
        targets[0] = max(rest, 0.0) ** 0.5
        self.register_buffer("spectrum", eigenvalues)  # not widened
        self._set_spectrum(eigenvalues, targets)
        self.register_buffer("noise_scales", values.new_full((1,), noise_std))
        left = data.counts * data.residual_variance / noise**2
        self.register_buffer("residual_variance", left)
        self.basis = data.basis.rotated(pad(vectors, (1, 0)))
        self._count = data.num_observations
        summed = float(data.counts @ data.prior_variance)
        self._prior_std = prior.scale * (summed / max(self._count, 1)) ** 0.5
        self.remainder = float(left.sum())

    @property
    def num_observations(self) -> int:
        r"""Number of observations ``n``."""
        return self._count

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome (root mean square over the inputs)."""
        return self._prior_std

    def project(self, X: Tensor) -> Projection:
        r"""Coordinates of ``b x d`` raw query points; differentiable in ``X``."""
        inputs, scale = self.prior.transform(X.to(self.eigenvalues)), self.prior.scale
        features, rest = self.basis.project(inputs)
        mean, prior_variance = self.prior.mean(inputs), self.prior.variance(inputs)
        rest = scale**2 * rest
        resolved(mean, rest)
        return Projection(inputs, mean, prior_variance, scale * features, rest)

    @torch.no_grad()
    def with_pending(self, X_pending: Tensor) -> RidgeState:
        r"""The state with ``p x d`` raw inputs added that have no outcomes yet."""
        X = self._checked(X_pending).detach()
        if len(X) == 0:
            return self
        return PendingRegression(self, self.project(X), float(self.noise_scales))

    def widened(self) -> "DTCRegression":
        r"""The state with the remainder added to all eigenvalues, for norms.

        The whitened kernel matrix is at most ``Z Z^T + remainder``, so the least norm of a
        ridge estimate within some distance of the outcomes here is at most that of any
        function within this distance: with a valid radius, a valid lower bound on the norm.
        """
        state = draft_of(self)
        state.eigenvalues = self.eigenvalues + self.remainder
        state.singular_values = state.eigenvalues.sqrt()
        return state

    def evidence_terms(self, regularizers: Tensor) -> tuple[Tensor, Tensor]:
        r"""Upper bounds on ``y_w^T (I + K_w / tau)^-1 y_w`` and ``ln det(I + K_w / tau)``.

        Args:
            regularizers: ``g`` values ``tau``; see ``Sums.evidence``.
        """
        tau = regularizers.unsqueeze(-1)
        forms = (self.targets.square() * tau / (self.spectrum + tau)).sum(-1)
        log_dets = torch.log1p(self.spectrum.clamp_min(self.eigenvalue_cutoff) / tau)
        rest = torch.log1p(self.residual_variance / tau)
        return forms, log_dets.sum(-1) + rest.sum(-1)


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
