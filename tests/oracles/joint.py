r"""The joint set for function and noise scale, written with dense Gaussian densities.

By Ville's inequality ``q(y) / N(y; f, s^2 I)`` stays below ``1 / delta`` at every round
with probability ``1 - delta``, so the true ``f`` and ``s`` belong to the set where
``|f - y|^2 <= R^2(s) = 2 s^2 (A - n ln s)`` with
``A = ln(1/delta) - ln q(y) - n ln(2 pi) / 2``. One noise scale, outcome units throughout.
"""

import math

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal


def log_mixture_density(K, y, noise_scales, covariance_scales) -> float:
    r"""``ln q(y)``, an equal mixture of ``N(0, c K + s^2 I)``."""
    K, y = np.asarray(K), np.asarray(y)
    parts = [
        multivariate_normal(cov=c * K + s**2 * np.eye(len(y))).logpdf(y)
        for s in noise_scales
        for c in covariance_scales
    ]
    return float(logsumexp(parts)) - math.log(len(parts))


def squared_radius(s, log_density: float, n: int, delta: float):
    r"""``R^2(s)`` in outcome units."""
    A = math.log(1.0 / delta) - log_density - 0.5 * n * math.log(2.0 * math.pi)
    return 2.0 * s**2 * (A - n * np.log(s))
