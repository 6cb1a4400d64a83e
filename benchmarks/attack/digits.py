r"""The exact band in 50-digit arithmetic, from the inputs up, sharing no code with src."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import mpmath as mp

DIGITS = 50
_LEFT, _RIGHT, _STEPS = -25, 25, 100  # decades of the regulariser; golden sections
Row = Sequence[float]


class Question(NamedTuple):
    r"""A band to compute.

    Attributes:
        kernel: A key of ``KERNELS``.
        length: Length scale.
        X: Inputs.
        Y: Outcomes.
        noise_std: Noise scale.
        norm_bound: Bound on the norm.
        delta: Failure probability.
        scale: Scale of the mixture.
    """

    kernel: str
    length: float
    X: Sequence[Row]
    Y: Sequence[float]
    noise_std: float
    norm_bound: float
    delta: float
    scale: float


def exact_bands(question: Question, points: Sequence[Row]) -> list[tuple[float, float]]:
    r"""Lower and upper bounds: Flynn & Reeb (2024), Eqs. (8) and (12).

    Inputs are taken as the binary numbers that they are.
    """
    with mp.workdps(DIGITS):
        noise, length = mp.mpf(question.noise_std), mp.mpf(question.length)
        rows = [[mp.mpf(v) for v in row] for row in question.X]
        formula = KERNELS[question.kernel]

        def k(left: list, right: list) -> Any:
            gap = mp.sqrt(mp.fsum((a - b) ** 2 for a, b in zip(left, right, strict=True)))
            return formula(gap / length)

        gram = mp.matrix([[k(a, b) / noise**2 for b in rows] for a in rows])
        eigenvalues, basis = mp.eigsy(gram)
        lam = [max(value, mp.mpf(0)) for value in eigenvalues]
        z = _rotated(basis, [mp.mpf(v) / noise for v in question.Y])
        radius = _squared_radius(question, lam, z)
        norm = mp.mpf(question.norm_bound)
        bands = []
        for point in points:
            x = [mp.mpf(v) for v in point]
            q = _rotated(basis, [k(x, row) / noise for row in rows])
            sides = [_side(sign, lam, z, q, radius, norm) for sign in (-1, 1)]
            bands.append((-float(sides[0]), float(sides[1])))
        return bands


def _rotated(basis: Any, values: list) -> list:
    n = len(values)
    return [mp.fsum(basis[i, j] * values[i] for i in range(n)) for j in range(n)]


def _squared_radius(question: Question, lam: list, z: list) -> Any:
    c = mp.mpf(question.scale)
    evidence = mp.fsum(v**2 / (1 + c * e) for v, e in zip(z, lam, strict=True))
    volume = mp.fsum(mp.log(1 + c * e) for e in lam)
    return evidence + volume + 2 * mp.log(1 / mp.mpf(question.delta))


def _side(sign: int, lam: list, z: list, q: list, radius: Any, norm: Any) -> Any:
    r"""Largest ``sign f(x)`` in the set: the least over all regularisers and the ball."""

    def value(exponent: Any) -> Any:
        tau = mp.mpf(10) ** exponent
        shrunk = [1 / (e + tau) for e in lam]
        mean = mp.fsum(a * b * s for a, b, s in zip(q, z, shrunk, strict=True))
        variance = 1 - mp.fsum(a**2 * s for a, s in zip(q, shrunk, strict=True))
        misfit = mp.fsum(b**2 * tau * s for b, s in zip(z, shrunk, strict=True))
        excess = radius + tau * norm**2 - misfit
        return sign * mean + mp.sqrt(max(excess, 0) / tau * max(variance, 0))

    return min(_least(value), norm)


def _least(value: Callable) -> Any:
    r"""Golden-section search; the function is quasi-convex."""
    left, right = mp.mpf(_LEFT), mp.mpf(_RIGHT)
    ratio = (mp.sqrt(5) - 1) / 2
    a, b = right - ratio * (right - left), left + ratio * (right - left)
    at_a, at_b = value(a), value(b)
    for _ in range(_STEPS):
        if at_a <= at_b:
            right, b, at_b = b, a, at_a
            a = right - ratio * (right - left)
            at_a = value(a)
        else:
            left, a, at_a = a, b, at_b
            b = left + ratio * (right - left)
            at_b = value(b)
    return min(at_a, at_b)


KERNELS: dict[str, Callable] = {
    "rbf": lambda r: mp.exp(-(r**2) / 2),
    "matern12": lambda r: mp.exp(-r),
    "matern32": lambda r: (1 + mp.sqrt(3) * r) * mp.exp(-mp.sqrt(3) * r),
    "matern52": lambda r: (1 + mp.sqrt(5) * r + 5 * r**2 / 3) * mp.exp(-mp.sqrt(5) * r),
}
