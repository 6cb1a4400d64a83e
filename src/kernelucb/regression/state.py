r"""Regression states: what the data say of query points, at every regulariser."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, TypeAlias

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.checks import finite, tensor
from kernelucb._numerics.estimates import estimated
from kernelucb._numerics.spectral import split_variance
from kernelucb.regression.outcome_map import OutcomeMap
from kernelucb.regression.prior import Prior

# A state has `dimension`, `num_observations`, `prior_std`, `outcome_map`, `mean(X)`,
# `project(X)` and `with_pending(X_pending)`; projected points have a `baseline`. Combined
# states and those of other models are no `RidgeState`.
State: TypeAlias = Any
Points: TypeAlias = Any


class Projection(NamedTuple):
    r"""Query points as the state sees them; everything else is arithmetic on these.

    ``k(x, .)`` is split along the eigendirections of the kernel matrix: ``features`` are
    its coordinates in an orthonormal basis of the span of the training sections, the rest
    is orthogonal to all of them.

    Attributes:
        inputs: ``b x d'`` kernel inputs.
        baseline: ``b`` values of the prior mean, outcome units; support functions are
            measured from it.
        prior_variance: ``b`` values of ``k(x, x)``, outcome units squared.
        features: ``b x r`` values ``v(x) = lam^-1/2 U^T D^-1/2 k(X, x)``.
        residual_variance: ``b`` values ``k(x, x) - |v|^2``, which no outcome at the
            training inputs reduces.
    """

    inputs: Tensor
    baseline: Tensor
    prior_variance: Tensor
    features: Tensor
    residual_variance: Tensor

    def rows(self, mask: Tensor | slice) -> "Projection":
        r"""The points in a slice, or where ``mask`` is true."""
        return Projection._make([part[mask] for part in self])


class RidgeState(Module, ABC):
    r"""Whitened regression in a basis in which it is diagonal.

    Mean, variance and quadratic form at any regulariser ``tau`` are sums over the
    eigenvalues: ``O(r)`` a point, once its ``r`` features are known.

    Attributes:
        eigenvalues: ``r`` eigenvalues ``lam``, ascending.
        targets: ``r`` coordinates ``z`` of the whitened outcomes.
        noise_scales: ``n`` noise standard deviations, outcome units, to compute with.
        eigenvalue_cutoff: What round-off makes of a zero eigenvalue.
        dimension: Number of raw input columns ``d``.
        estimated: Parts of the model that were fitted to the data.
        prior_std: Prior standard deviation of the outcome (root mean square over the
            inputs).
    """

    eigenvalues: Tensor
    targets: Tensor
    noise_scales: Tensor
    prior: Prior
    eigenvalue_cutoff: float
    dimension: int
    estimated: frozenset[str]
    prior_std: float

    def _describe(self, like: Any) -> None:
        r"""Take over what a state, or a model in numbers, knows beside its outcomes."""
        self.prior, self.dimension = like.prior, like.dimension
        self.estimated = like.estimated

    def _keep(self, **tensors: Tensor) -> None:
        r"""Register buffers, which move between devices with the state."""
        for name, value in tensors.items():
            self.register_buffer(name, value)

    @abstractmethod
    def coordinates(self, inputs: Tensor, prior_variance: Tensor) -> tuple[Tensor, Tensor]:
        r"""``features`` and ``residual_variance`` of ``b x d'`` inputs; differentiable."""

    @abstractmethod
    def with_pending(self, X_pending: Tensor) -> "RidgeState":
        r"""The state with ``p x d`` raw inputs added that have no outcomes yet.

        For variances only; the noise there is ``pending_noise_std``.
        """

    def project(self, X: Tensor) -> Projection:
        r"""Coordinates of ``b x d`` raw query points; differentiable in ``X``."""
        return self.project_inputs(self.prior.transform(X.to(self.eigenvalues)))

    def project_inputs(self, inputs: Tensor) -> Projection:
        r"""Coordinates of ``b x d'`` inputs as the kernel sees them.

        Raises:
            InputDataError: If the prior could not be evaluated there.
        """
        mean, prior_variance = self.prior.mean(inputs), self.prior.variance(inputs)
        features, rest = self.coordinates(inputs, prior_variance)
        if not bool(torch.isfinite(mean + rest).all()):
            raise InputDataError(
                "The kernel or the prior mean is not finite at some points: they are too "
                "large for 64-bit numbers. Rescale the inputs, those of the data as well "
                "(input_transform=Normalize(d))."
            )
        return Projection(inputs, mean, prior_variance, features, rest)

    def difference(self, points: Projection, other: Projection) -> Projection:
        r"""The functional ``f(x) - f(x')`` for ``b`` points and one other, as points.

        Its prior variance is the squared kernel metric ``||k(x, .) - k(x', .)||^2``.
        """
        covariance = self.prior.covariance(points.inputs, other.inputs)[:, 0]
        prior_variance = points.prior_variance + other.prior_variance - 2.0 * covariance
        same = (points.inputs == other.inputs).all(-1)
        prior_variance = torch.where(same, 0.0, prior_variance).clamp_min(0.0)
        farthest = safe_sqrt(points.residual_variance) + safe_sqrt(other.residual_variance)
        features, rest = split_variance(
            points.features - other.features, prior_variance, farthest.square()
        )
        mean = points.baseline - other.baseline
        return Projection(points.inputs, mean, prior_variance, features, rest)

    @property
    def num_observations(self) -> int:
        r"""Number of observations ``n``."""
        return len(self.noise_scales)

    @property
    def noise_std(self) -> Tensor:
        r"""The noise scales to be handed on, marked where they were fitted to the data."""
        noise = self.noise_scales
        return estimated(noise) if "noise" in self.estimated else noise

    @property
    def pending_noise_std(self) -> Tensor:
        r"""Noise scale of pending points: the root mean square of the known ones."""
        return self.noise_scales.square().mean().sqrt()

    @property
    def has_one_noise_scale(self) -> bool:
        r"""Whether all observations have the same noise scale."""
        return bool((self.noise_scales == self.noise_scales[0]).all())

    @property
    def mean_terms(self) -> Tensor:
        r"""``r`` values ``sqrt(lam) z``, which ``v / (lam + tau)`` weights in the mean."""
        return self.eigenvalues.sqrt() * self.targets

    @property
    def outcome_scale(self) -> float:
        r"""Outcome units per unit of the model (the ``Standardize`` constant, or one).

        A norm bound refers to ``model.covar_module`` as it stands and to outcome units; the
        prior's kernel is ``outcome_scale^2`` times that, so that norms under it are norm
        bounds over ``outcome_scale``.
        """
        return self.prior.scale

    @property
    def outcome_map(self) -> OutcomeMap:
        r"""From outcomes to the scale that the state is on; outcome units are its units."""
        return self.prior.outcome_map

    def mean(self, X: Tensor, regularizer: float | Tensor = 1.0) -> Tensor:
        r"""Ridge estimate at ``b x d`` points, ``b`` values in outcome units.

        Args:
            X: ``b x d`` query points.
            regularizer: ``tau``, one number or ``b``; 1 gives the GP posterior mean.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``b x d``.
            InputDataError: If the points are not real, finite numbers.
        """
        points = self.project(self._checked(X))
        return points.baseline + self.deviation_at(points, self._column(regularizer))

    def variance(self, X: Tensor, regularizer: float | Tensor = 1.0) -> Tensor:
        r"""Latent variance (without noise) at ``b x d`` points, ``b`` values.

        Arguments and errors as for ``mean``; ``tau = 1`` gives the GP posterior variance.
        """
        return self.variance_at(self.project(self._checked(X)), self._column(regularizer))

    def quadratic_form(self, regularizer: float | Tensor = 1.0) -> Tensor:
        r"""``y_w^T (I + K_w / tau)^-1 y_w``, one value for each ``tau``."""
        tau = self._column(regularizer)
        return (self.targets.square() * tau / (self.eigenvalues + tau)).sum(-1)

    def quadratic_form_drop(self, tau_ref: float, regularizer: Tensor) -> Tensor:
        r"""``quadratic_form(tau_ref) - quadratic_form(tau)``, one value for each ``tau``.

        Nothing cancels where both forms are large and nearly equal, as at small noise:
        ``(tau_ref - tau) sum_i w_i / (lam_i + tau)``, ``w = z^2 lam / (lam + tau_ref)``.
        """
        lam = self.eigenvalues
        weights = self.targets.square() * lam / (lam + tau_ref)
        inverse = (lam + regularizer.unsqueeze(-1)).reciprocal_()
        return (tau_ref - regularizer) * (inverse @ weights)

    def deviation_at(self, points: Projection, regularizer: Tensor) -> Tensor:
        r"""Ridge estimate minus prior mean at ``b`` projected points, ``b`` values.

        ``regularizer`` is ``tau`` as a zero-dimensional or ``b x 1`` tensor.
        Source: Flynn & Reeb (2024), Eq. (2), in the eigenbasis.
        """
        weights = (self.eigenvalues + regularizer).reciprocal_().mul_(self.mean_terms)
        return (points.features * weights).sum(-1)

    def variance_at(self, points: Projection, regularizer: Tensor) -> Tensor:
        r"""Latent variance at ``b`` projected points, ``b`` values, never negative.

        ``regularizer`` as for ``deviation_at``; it may be infinite.
        Source: Flynn & Reeb (2024), Eq. (3), in the eigenbasis.
        """
        shrinkage = (self.eigenvalues / regularizer).add_(1.0).reciprocal_()
        return points.residual_variance + (points.features.square() * shrinkage).sum(-1)

    def variances_at(
        self, points: Projection, regularizers: Tensor, shrinkage: Tensor
    ) -> Tensor:
        r"""Latent variances at ``b`` points and ``g`` values of ``tau``, ``b x g``.

        Never negative. ``shrinkage`` holds ``tau / (lam + tau)``, ``r x g`` values that a
        grid keeps.
        """
        return points.residual_variance.unsqueeze(-1) + points.features.square() @ shrinkage

    @torch.no_grad()
    def variance_slopes(
        self, points: Projection, regularizer: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Latent variance at ``b`` points, each at its own ``tau``, and two derivatives.

        The derivatives are those in ``ln(tau)``.
        """
        tau = regularizer.unsqueeze(-1)
        resolved = self.eigenvalues + tau
        shrinkage = tau / resolved
        torch.div(self.eigenvalues, resolved, out=resolved)
        terms = points.features.square().mul_(shrinkage)
        value = points.residual_variance + terms.sum(-1)
        first = terms.mul_(resolved).sum(-1)
        second = terms.mul_(resolved.sub_(shrinkage)).sum(-1)
        return value, first, second

    def _checked(self, X: Tensor, name: str = "X") -> Tensor:
        shape = tuple(tensor(name, X).shape)
        if len(shape) != 2 or shape[1] != self.dimension:
            raise BotorchTensorDimensionError(
                f"{name} must be `b x {self.dimension}`, got shape {shape}."
            )
        return finite(name, X)

    def _column(self, regularizer: float | Tensor) -> Tensor:
        r"""One ``tau``, or several, with a last dimension for the eigenvalues."""
        lam = self.eigenvalues
        return torch.as_tensor(regularizer, dtype=lam.dtype, device=lam.device).unsqueeze(
            -1
        )
