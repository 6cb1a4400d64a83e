r"""Variances conditioned on points whose outcomes are not known yet."""

import torch
from torch import Tensor
from torch.linalg import vecdot

from kernelucb.regression.state import DerivedState, Projection, RidgeState

# Larger regularisers are replaced by this one: the variances are then the prior's.
_INFINITE = 1e75


class PendingRegression(DerivedState):
    r"""A state whose variances are conditioned on ``p`` more inputs; means are its own.

    With ``c(x)`` the covariances that the data leave at ``tau`` between a point and the
    pending ones, and ``C`` those among the pending ones, the variance falls to
    ``var_tau(x) - c(x)^T (C + tau s^2 I)^-1 c(x)``, ``s`` their noise scale: the
    variance of the larger regression without its eigendecomposition, ``O(r p^2)`` a point
    and regulariser.

    Source: block elimination in the regression of all ``n + p`` inputs.
    """

    features: Tensor
    products: Tensor
    left: Tensor

    def __init__(self, state: RidgeState, pending: Projection, noise_std: float) -> None:
        r"""From the projection of ``p`` points onto the state, and their noise scale."""
        super().__init__(state, state.eigenvalues, state.targets)
        self.pending, self.noise_variance = pending, noise_std**2
        features = pending.features
        self.register_buffer("features", features)
        products = features.mT.unsqueeze(-1) * features.mT.unsqueeze(-2)
        self.register_buffer("products", products.flatten(start_dim=1))
        prior = self.prior.covariance(pending.inputs, pending.inputs)
        left = prior - features @ features.mT
        values, vectors = torch.linalg.eigh(0.5 * (left + left.mT))
        # Never below zero, and no lower than round-off knows it.
        rounding = 8.0 * torch.finfo(left.dtype).eps * float(prior.diagonal().max())
        left = (vectors * values.clamp_min(len(left) * rounding)) @ vectors.mT
        self.register_buffer("left", left)

    def project_inputs(self, inputs: Tensor) -> Projection:
        r"""Coordinates as in the state of the data, and covariances with pending points."""
        points = super().project_inputs(inputs)
        between = self.prior.covariance(points.inputs, self.pending.inputs)
        beyond = between - points.features @ self.features.mT
        return points._replace(pending_covariance=beyond)

    def with_pending(self, X_pending: Tensor) -> RidgeState:
        r"""The state of the data with other pending points in place of these."""
        return self.state.with_pending(X_pending)

    def variance_at(self, points: Projection, regularizer: Tensor) -> Tensor:
        r"""Latent variance at projected points, ``b`` values; see ``RidgeState``."""
        tau = regularizer.clamp_max(_INFINITE)
        shrinkage = tau / (self.eigenvalues + tau)
        factor = torch.linalg.cholesky(self._remaining(shrinkage, tau))
        shared = _beyond(points) + (points.features * shrinkage) @ self.features.mT
        told = torch.linalg.solve_triangular(factor, shared.unsqueeze(-1), upper=False)
        variance = self.state.variance_at(points, regularizer)
        return (variance - told.square().sum((-2, -1))).clamp_min(0.0)

    def variances_at(
        self, points: Projection, regularizers: Tensor, shrinkage: Tensor
    ) -> Tensor:
        r"""Latent variances at ``g`` regularisers, ``b x g``; see ``RidgeState``."""
        columns = [
            (points.features * own) @ shrinkage + shared.unsqueeze(-1)
            for own, shared in zip(self.features, _beyond(points).mT, strict=True)
        ]
        remaining = self._remaining(shrinkage.mT, regularizers.unsqueeze(-1))
        factors = torch.linalg.cholesky(remaining)  # g x p x p
        shared = torch.stack(columns).permute(2, 0, 1)  # g x p x b
        told = torch.linalg.solve_triangular(factors, shared, upper=False)
        variances = self.state.variances_at(points, regularizers, shrinkage)
        return (variances - told.square().sum(1).mT).clamp_min(0.0)

    @torch.no_grad()
    def variance_slopes(
        self, points: Projection, regularizer: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Latent variance and derivatives in ``ln(tau)``; see ``RidgeState``."""
        tau = regularizer.unsqueeze(-1)
        inverse = 1.0 / (self.eigenvalues + tau)
        shrinkage, resolved = tau * inverse, self.eigenvalues * inverse
        first = shrinkage * resolved
        second = first * (resolved - shrinkage)
        matrix, *matrix_slopes = (
            self._remaining(part, tau, floor=part is shrinkage)
            for part in (shrinkage, first, second)
        )
        shared, *shared_slopes = (
            (points.features * part) @ self.features.mT
            for part in (shrinkage, first, second)
        )
        shared = shared + _beyond(points)
        factor = torch.linalg.cholesky(matrix)

        def solve(right: Tensor) -> Tensor:
            return torch.cholesky_solve(right.unsqueeze(-1), factor).squeeze(-1)

        def applied(slope: Tensor, vector: Tensor) -> Tensor:
            return (slope @ vector.unsqueeze(-1)).squeeze(-1)

        # With w = M^-1 c: told = c w, its slope 2 c' w - w M' w, and the slope of that.
        weights = solve(shared)
        moved = applied(matrix_slopes[0], weights)
        weights_slope = solve(shared_slopes[0] - moved)
        slope = vecdot(2.0 * shared_slopes[0] - moved, weights)
        bent = 2.0 * shared_slopes[1] - applied(matrix_slopes[1], weights)
        bend = vecdot(bent, weights)
        bend = bend + 2.0 * vecdot(shared_slopes[0] - moved, weights_slope)
        value, first, second = self.state.variance_slopes(points, regularizer)
        return value - vecdot(shared, weights), first - slope, second - bend

    def _remaining(self, shrinkage: Tensor, tau: Tensor, floor: bool = True) -> Tensor:
        r"""``C + tau s^2 I``, or its slope in ``ln(tau)`` for slopes of the shrinkage."""
        count = len(self.features)
        resolved = (shrinkage @ self.products).unflatten(-1, (count, count))
        noise = tau.unsqueeze(-1) * self.noise_variance * torch.eye(count).to(resolved)
        return resolved + noise + (self.left if floor else 0.0)


def _beyond(points: Projection) -> Tensor:
    if points.pending_covariance is None:
        raise TypeError("These points were not projected by a PendingRegression.")
    return points.pending_covariance
