r"""Unknown noise after Durand, Maillard & Pineau (2018), with plain linear solves.

``K`` kernel matrix of the first ``t`` inputs, ``y`` outcomes minus the prior mean, ``C``
norm bound, ``level`` the paper's ``delta'``. Both cases of Theorem 3 are computed and the
better one is taken, as their Remark 8 advises.
"""

import math

import torch
from torch import Tensor

from oracles.closed_forms import log_det, ridge


def residual_std(K: Tensor, y: Tensor, lam: float) -> float:
    r"""``sigma_hat``, before Theorem 3."""
    fitted = K @ torch.linalg.solve(K + lam * torch.eye(len(K)).to(K), y)
    return math.sqrt(float((y - fitted).square().mean()))


def constant(t: int, level: float) -> float:
    r"""``C_t``, with ``c_t`` of Lemma 6 and ``ln t`` at least one."""
    rounds = math.log(math.pi**2 * max(math.log(t), 1.0) ** 2 / 6.0)
    return math.log(math.e / level) * (1.0 + rounds / math.log(1.0 / level))


def lower_cases(s: float, t: int, lam: float, C: float, known: float, level: float):
    r"""Theorem 3, ``sigma_-`` in cases 1 and 2 with factor one on the last term."""
    spread, bias = math.sqrt(2.0 * constant(t, level) / t), C * math.sqrt(lam / t)
    return s - known * spread - bias, (s - bias) / (1.0 + spread)


def upper_cases(s: float, D: float, t: int, lam: float, C: float, known: float, level):
    r"""Theorem 3, ``sigma_+`` in cases 1 and 2."""
    first = math.sqrt(constant(t, level) / t)
    second = math.sqrt((constant(t, level) + 2.0 * D) / t)
    bias = math.sqrt(2.0 * known * C * math.sqrt(lam * D) / t)
    one = s + known * (first + second) + bias
    alpha = max(1.0 - first - second, 0.0)
    b = C * math.sqrt(lam * D) / (2.0 * t)
    if alpha == 0.0:
        return one, math.inf
    return one, (math.sqrt(s * alpha + b) + math.sqrt(b)) ** 2 / alpha**2


def printed_lower(s: float, t: int, lam: float, C: float, largest: float, level: float):
    r"""Theorem 3, case 2 as printed; ``largest`` is their maximum of ``1 + k / lambda``."""
    bias = C * math.sqrt(lam / t * (1.0 - 1.0 / largest))
    return (s - bias) / (1.0 + math.sqrt(2.0 * constant(t, level) / t))


def sandwich(K, y, C, known, level, minus: float, plus: float) -> tuple[float, float]:
    r"""Corollary 1: ``sigma_-`` and ``sigma_+`` of round ``t`` from those before."""
    t, lam = len(K), plus**2 / C**2
    s = residual_std(K, y, lam)
    minus = max(minus, *lower_cases(s, t, lam, C, known, level))
    D = 2.0 * math.log(1.0 / level) + log_det(K, minus**2 / C**2)
    return minus, min(plus, *upper_cases(s, D, t, lam, C, known, level))


def corollary_band(K, k, v, y, C, minus, plus, level):
    r"""Eq. (3): centre and half width, with ``lambda_t = sigma_+^2 / C^2``."""
    lam = plus**2 / C**2
    information = 2.0 * math.log(1.0 / level) + log_det(K, minus**2 / C**2)
    B = math.sqrt(lam) * C + plus * math.sqrt(information)
    mean, sd = ridge(K, k, v, y, lam)
    return mean, sd / math.sqrt(lam) * B
