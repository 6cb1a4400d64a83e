r"""Bounds in common use, written as in the papers with plain linear solves.

One noise scale ``sigma``; ``K`` kernel matrix, ``k`` its ``b x n`` cross covariances,
``v`` the ``b`` prior variances, ``y`` outcomes minus the prior mean. Each band is
``(centre, half width)`` in outcome units, prior mean left out.
"""

import math

import torch
from torch import Tensor


def log_det(K: Tensor, alpha: float) -> float:
    r"""``ln det(I + K / alpha)``."""
    return float(torch.linalg.slogdet(torch.eye(len(K)).to(K) + K / alpha).logabsdet)


def ridge(K: Tensor, k: Tensor, v: Tensor, y: Tensor, alpha: float):
    r"""Ridge estimate and standard deviation, Flynn & Reeb (2024), Eqs. (2) and (3)."""
    gram = K + alpha * torch.eye(len(K)).to(K)
    mean = k @ torch.linalg.solve(gram, y)
    return mean, (v - (k * torch.linalg.solve(gram, k.mT).mT).sum(-1)).sqrt()


def dual_ellipsoid(K, k, v, y, alpha, sigma, norm, delta, c):
    r"""Flynn & Reeb (2024), Eq. (13): the ellipsoid bound at one ``alpha``."""
    eye = torch.eye(len(K)).to(K)
    squared_radius = sigma**2 * (
        float(y @ torch.linalg.solve(sigma**2 * eye + c * K, y))
        + log_det(K, sigma**2 / c)
        + 2.0 * math.log(1.0 / delta)
    )
    quadratic = alpha * float(y @ torch.linalg.solve(K + alpha * eye, y))
    mean, sd = ridge(K, k, v, y, alpha)
    return mean, math.sqrt((squared_radius + alpha * norm**2 - quadratic) / alpha) * sd


def analytic_mixture(K, k, v, y, sigma, norm, delta, c):
    r"""Flynn & Reeb (2024), Corollary 4.6 with Lemma C.2, ``alpha = sigma^2 / c``."""
    alpha = sigma**2 / c
    width = math.sqrt(c * log_det(K, alpha) + 2.0 * c * math.log(1.0 / delta) + norm**2)
    mean, sd = ridge(K, k, v, y, alpha)
    return mean, width * sd


def abbasi_yadkori(K, k, v, y, sigma, norm, delta, alpha):
    r"""Abbasi-Yadkori (2012), Theorem 3.11 = Durand et al. (2018), Theorem 1."""
    noise = math.sqrt(log_det(K, alpha) + 2.0 * math.log(1.0 / delta))
    mean, sd = ridge(K, k, v, y, alpha)
    return mean, (norm + sigma / math.sqrt(alpha) * noise) * sd


def improved_gp_ucb(K, k, v, y, sigma, norm, delta, horizon):
    r"""Chowdhury & Gopalan (2017), Theorem 2, ``eta = 2/T``, ``t eta = 2``."""
    alpha = 1.0 + 2.0 / horizon
    noise = math.sqrt(log_det(K, alpha) + 2.0 + 2.0 * math.log(1.0 / delta))
    mean, sd = ridge(K, k, v, y, alpha)
    return mean, (norm + sigma * noise) * sd


def wang_de_freitas(K, k, v, y, sigma, norm, delta):
    r"""Wang & de Freitas (2014), Proposition 1, in Durand et al. (2018), Lemma 3.

    With the last term in noise units, as all the others are.
    """
    gain = 0.5 * log_det(K, sigma**2)
    squared = (
        norm**2
        + math.sqrt(8.0 * gain * math.log(2.0 / delta))
        + math.sqrt(2.0 * math.log(4.0 / delta)) * norm
        + 2.0 * gain
        + 2.0 * math.log(2.0 / delta)
    )
    mean, sd = ridge(K, k, v, y, sigma**2)
    return mean, math.sqrt(squared) * sd


def srinivas_finite(t: int, delta: float, size: int) -> float:
    r"""Srinivas et al. (2010), Theorem 1."""
    return 2.0 * math.log(size * t**2 * math.pi**2 / (6.0 * delta))


def srinivas_compact(t: int, delta: float, d: int, r: float, a: float, b: float) -> float:
    r"""Srinivas et al. (2010), Theorem 2."""
    first = 2.0 * math.log(t**2 * 2.0 * math.pi**2 / (3.0 * delta))
    root = math.sqrt(math.log(4.0 * d * a / delta))
    return first + 2.0 * d * math.log(t**2 * d * b * r * root)


def srinivas_rkhs(t: int, delta: float, norm: float, gain: float) -> float:
    r"""Srinivas et al. (2010), Theorem 3 (their ``B`` bounds the squared norm)."""
    return 2.0 * norm**2 + 300.0 * gain * math.log(t / delta) ** 3
