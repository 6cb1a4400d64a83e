r"""The certified width of inducing points, with dense matrices in feature space."""

import math

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor


def terms(K: Tensor, counts: Tensor, inducing: Tensor, lam: float) -> tuple[float, float]:
    r"""``ln det(I + Z^T Z / lam) + sum_s ln(1 + e_s / lam)`` and ``sum_s e_s / lam``.

    Args:
        K: ``u x u`` kernel matrix of distinct inputs.
        counts: ``u`` numbers of observations.
        inducing: Positions of the inducing points.
        lam: Ridge parameter.
    """
    Z, R = _parts(K, counts, inducing)
    rest = R.square().sum(-1) / lam
    eye = torch.eye(len(K)).to(K)
    log_det = torch.linalg.slogdet(eye + Z.mT @ Z / lam).logabsdet
    return float(log_det + rest.log1p().sum()), float(rest.sum())


def largest_residual(K: Tensor, counts: Tensor, inducing: Tensor, lam: float) -> float:
    r"""The largest eigenvalue of ``R R^T / lam``; see ``terms``."""
    _, R = _parts(K, counts, inducing)
    return float(torch.linalg.eigvalsh(R @ R.mT)[-1]) / lam


def _parts(K: Tensor, counts: Tensor, inducing: Tensor) -> tuple[Tensor, Tensor]:
    r"""Observed inputs in feature space: within the span, and outside it."""
    values, vectors = torch.linalg.eigh(K)
    features = vectors * values.clamp_min(0.0).sqrt()  # rows: the inputs
    span = features[inducing]
    projector = torch.linalg.pinv(span, rtol=1e-7) @ span
    observed = counts.sqrt().unsqueeze(-1) * features
    return observed @ projector, observed - observed @ projector


def width(gain: float, residual: float, lam: float, norm: float, noise_std: float) -> float:
    r"""The largest norm of ``noise - bias`` over the share of ``f`` outside the span."""
    noise = noise_std * math.sqrt(gain / lam)

    def error(share: float) -> float:
        inside = noise + norm * math.sqrt(1.0 - share + residual * share)
        return math.hypot(inside, norm * math.sqrt(share))

    found = minimize_scalar(
        lambda share: -error(share), bounds=(0.0, 1.0), method="bounded"
    )
    return max(error(0.0), error(1.0), -float(found.fun))
