"""The exact band in 60-digit arithmetic, from the inputs up; no arithmetic of src."""

import mpmath as mp
from torch import Tensor

from kernelucb.data.exact import SpectralFilter

DIGITS = 60


def exact_bands(
    kernel: str,
    lengthscale: float,
    train_X: Tensor,
    train_Y: Tensor,
    queries: Tensor,
    noise_std: float,
    norm_bound: float,
    delta: float,
    covariance_scale: float = 1.0,
    filtered: tuple[SpectralFilter, float] | None = None,
    hidden: float = 0.0,
) -> list[tuple[float, float]]:
    """Lower and upper bound at each query: Flynn & Reeb (2024), Eqs. (8) and (12).

    Or, of a mixture of filters, those of a filter ``a`` and a squared radius: the misfit
    is ``sum_i a_i eps_i^2``, so that ``a lam`` stands for ``lam``, ``sqrt(a) z`` for ``z``.
    ``hidden`` is added to the squared radius of the former.

    Inputs are taken as the exact binary numbers that they are; kernel values, the
    eigendecomposition and the minimum over the regulariser are computed in 60 digits.
    """
    with mp.workdps(DIGITS):
        inputs = [[mp.mpf(float(v)) for v in row] for row in train_X]
        k = _KERNELS[kernel]
        length, noise = mp.mpf(lengthscale), mp.mpf(noise_std)
        n = len(inputs)
        gram = mp.matrix(n, n)
        for i in range(n):
            for j in range(n):
                gram[i, j] = k(inputs[i], inputs[j], length) / noise**2
        lam, basis = mp.eigsy(gram)
        lam = [max(value, mp.mpf(0)) for value in lam]
        outcomes = [mp.mpf(float(v)) / noise for v in train_Y]
        z = [mp.fsum(basis[i, j] * outcomes[i] for i in range(n)) for j in range(n)]
        c, norm = mp.mpf(covariance_scale), mp.mpf(norm_bound)
        squared_radius = (
            mp.fsum(v**2 / (1 + c * e) for v, e in zip(z, lam, strict=True))
            + mp.fsum(mp.log(1 + c * e) for e in lam)
            + 2 * mp.log(1 / mp.mpf(delta))
            + mp.mpf(hidden)
        )
        roots = [mp.mpf(1)] * n
        if filtered is not None:
            roots = [mp.sqrt(_value(filtered[0], e)) for e in lam]
            squared_radius = mp.mpf(filtered[1])
            z = [a * b for a, b in zip(roots, z, strict=True)]
            lam = [a**2 * b for a, b in zip(roots, lam, strict=True)]
        bands = []
        for query in queries:
            point = [mp.mpf(float(v)) for v in query]
            sections = [k(point, row, length) / noise for row in inputs]
            q = [mp.fsum(basis[i, j] * sections[i] for i in range(n)) for j in range(n)]
            q = [a * b for a, b in zip(roots, q, strict=True)]
            prior = k(point, point, length)
            bands.append(_band(z, q, lam, prior, squared_radius, norm))
        return bands


def _value(spectral_filter: SpectralFilter, eigenvalue: mp.mpf) -> mp.mpf:
    level, *members = spectral_filter
    value = mp.mpf(level)
    for w, floor, corner in zip(*(part.tolist() for part in members), strict=True):
        value += w * (eigenvalue + mp.mpf(floor) * corner) / (eigenvalue + corner)
    return value


def _band(z, q, lam, prior, squared_radius, norm) -> tuple[float, float]:
    def ellipsoid(sign: int, tau: mp.mpf) -> mp.mpf:
        mean = mp.fsum(a * b / (e + tau) for a, b, e in zip(q, z, lam, strict=True))
        variance = prior - mp.fsum(a**2 / (e + tau) for a, e in zip(q, lam, strict=True))
        misfit = mp.fsum(b**2 * tau / (e + tau) for b, e in zip(z, lam, strict=True))
        excess = squared_radius + tau * norm**2 - misfit
        assert excess >= 0, "the confidence set is empty"
        return sign * mean + mp.sqrt(excess / tau * variance)

    ball = norm * mp.sqrt(prior)
    upper = min(_minimum(lambda tau: ellipsoid(1, tau)), ball)
    lower = -min(_minimum(lambda tau: ellipsoid(-1, tau)), ball)
    return float(lower), float(upper)


def _minimum(function) -> mp.mpf:
    """Golden-section search over 50 decades of tau; the function is quasi-convex."""
    left, right = mp.mpf(-25), mp.mpf(25)
    ratio = (mp.sqrt(5) - 1) / 2
    a, b = right - ratio * (right - left), left + ratio * (right - left)
    value_a, value_b = function(mp.mpf(10) ** a), function(mp.mpf(10) ** b)
    while right - left > mp.mpf(10) ** -9:
        if value_a <= value_b:
            right, b, value_b = b, a, value_a
            a = right - ratio * (right - left)
            value_a = function(mp.mpf(10) ** a)
        else:
            left, a, value_a = a, b, value_b
            b = left + ratio * (right - left)
            value_b = function(mp.mpf(10) ** b)
    return min(value_a, value_b)


def _distance(left, right, length) -> mp.mpf:
    return mp.sqrt(mp.fsum((a - b) ** 2 for a, b in zip(left, right, strict=True))) / length


def _rbf(left, right, length) -> mp.mpf:
    return mp.exp(-(_distance(left, right, length) ** 2) / 2)


def _matern_32(left, right, length) -> mp.mpf:
    r = mp.sqrt(3) * _distance(left, right, length)
    return (1 + r) * mp.exp(-r)


def _matern_52(left, right, length) -> mp.mpf:
    r = mp.sqrt(5) * _distance(left, right, length)
    return (1 + r + r**2 / 3) * mp.exp(-r)


_KERNELS = {"rbf": _rbf, "matern32": _matern_32, "matern52": _matern_52}
