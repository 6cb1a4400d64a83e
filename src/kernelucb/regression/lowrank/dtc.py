r"""The posterior of a sketch as a regression state."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from kernelucb._numerics.estimates import draft_of
from kernelucb._numerics.spectral import cutoff_of
from kernelucb.regression.lowrank.basis import Basis
from kernelucb.regression.lowrank.sketch import SketchedData
from kernelucb.regression.prior import Prior
from kernelucb.regression.state import RidgeState


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


class DTCRegression(RidgeState):
    r"""The deterministic training conditional in the eigenbasis of its observations.

    ``mean`` and ``variance`` at ``regularizer`` are those of Calandriello et al. (2019),
    Eq. 4.

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
        self.prior, self.dimension, self.estimated = prior, dimension, estimated
        self.data = data
        precision, sketch = (prior.scale / noise_std) ** 2, data.sketch
        self.regularizer = sketch.alpha * precision
        sums = sketch.gram, sketch.moments, data.tally.squares.sum()
        whitened = (precision * each for each in sums)
        eigenvalues, targets, rotation = in_eigenbasis(*whitened)
        self.register_buffer("spectrum", eigenvalues)  # not widened
        self.eigenvalue_cutoff = cutoff_of(eigenvalues)
        noise_scales = targets.new_full((1,), noise_std)
        self._keep(eigenvalues=eigenvalues, targets=targets, noise_scales=noise_scales)
        left = precision * data.counts * data.residual_variance
        self.register_buffer("residual_variance", left)
        self.remainder = float(left.sum())
        self.basis = data.basis.rotated(rotation)
        self._count = data.num_observations
        variance = float(data.counts @ data.prior_variance) / max(self._count, 1)
        self.prior_std = prior.scale * variance**0.5

    @property
    def num_observations(self) -> int:
        r"""Number of observations ``n``."""
        return self._count

    def coordinates(self, inputs: Tensor, prior_variance: Tensor) -> tuple[Tensor, Tensor]:
        r"""See ``RidgeState``."""
        features, rest = self.basis.project(inputs)
        return self.prior.scale * features, self.prior.scale**2 * rest

    @torch.no_grad()
    def with_pending(self, X_pending: Tensor) -> RidgeState:
        r"""The state with ``p x d`` raw inputs added that have no outcomes yet."""
        X = self._checked(X_pending).detach()
        if len(X) == 0:
            return self
        inputs = self.prior.transform(X.to(self.data.inputs))
        data = self.data.conditioned(inputs, inputs.new_zeros(len(inputs)))
        known = float(self.noise_scales), self.dimension, self.estimated
        return DTCRegression(self.prior, data, *known)

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
        r"""See ``evidence_bounds``; ``g`` regularisers ``tau``."""
        told = self.spectrum, self.targets, self.residual_variance
        return evidence_bounds(*told, regularizers)
