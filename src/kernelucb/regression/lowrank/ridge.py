r"""A sketch as a ridge regression: the state of BKB's confidence set."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from kernelucb._numerics.frozen import draft_of
from kernelucb._numerics.spectral import cutoff_of
from kernelucb.regression.lowrank.basis import Basis
from kernelucb.regression.lowrank.sketch import Sketched
from kernelucb.regression.pending import PendingRegression
from kernelucb.regression.prior import Prior
from kernelucb.regression.state import Projection, RidgeState, resolved


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
