r"""The three choices of beta of GP-UCB (Srinivas, Krause, Kakade & Seeger 2010)."""

import math

from kernelucb._numerics.checks import positive_scalar


def finite_domain_beta(round_number: int, delta: float, domain_size: int) -> float:
    r"""``2 ln(|D| t^2 pi^2 / (6 delta))``: ``f`` a GP sample, finite domain, anytime.

    Source: Srinivas et al. (2010), Theorem 1.

    Args:
        round_number: ``t``, the round about to be played.
        delta: Failure probability.
        domain_size: Number of points of the domain (not its dimension).
    """
    positive_scalar("domain_size", domain_size)
    return 2.0 * math.log(domain_size * round_number**2 * math.pi**2 / (6.0 * delta))


def compact_domain_beta(
    round_number: int,
    delta: float,
    dimension: int,
    domain_length: float,
    lipschitz_a: float,
    lipschitz_b: float,
) -> float:
    r"""``f`` a GP sample on ``[0, r]^d`` with smooth paths, anytime.

    ``2 ln(t^2 2 pi^2 / (3 delta)) + 2 d ln(t^2 d b r sqrt(ln(4 d a / delta)))``. The
    sample paths' partial derivatives must satisfy
    ``P(sup |df/dx_j| > L) <= a exp(-(L/b)^2)`` for every ``j``.

    Source: Srinivas et al. (2010), Theorem 2.

    Args:
        round_number: ``t``, the round about to be played.
        delta: Failure probability.
        dimension: ``d``.
        domain_length: ``r``, the side of the cube that holds the domain.
        lipschitz_a: ``a``.
        lipschitz_b: ``b``.
    """
    for name, value in [
        ("domain_length", domain_length),
        ("lipschitz_a", lipschitz_a),
        ("lipschitz_b", lipschitz_b),
    ]:
        positive_scalar(name, value)
    ratio = 4.0 * dimension * lipschitz_a / delta
    if ratio <= 1.0:
        raise ValueError(
            f"4 d lipschitz_a / delta must be above 1 for Theorem 2, got {ratio:.3g}; a "
            "probability bound needs lipschitz_a >= 1."
        )
    cover = round_number**2 * dimension * lipschitz_b * domain_length
    return 2.0 * math.log(
        round_number**2 * 2.0 * math.pi**2 / (3.0 * delta)
    ) + 2.0 * dimension * math.log(cover * math.sqrt(math.log(ratio)))


def norm_bound_beta(
    round_number: int, delta: float, norm: float, information_gain: float
) -> float:
    r"""``2 B^2 + 300 gamma ln^3(t/delta)``: ``f`` in the RKHS, bounded noise, anytime.

    Source: Srinivas et al. (2010), Theorem 3 (their ``B`` bounds the squared norm).

    Args:
        round_number: ``t``, the round about to be played.
        delta: Failure probability.
        norm: Norm bound, prior units.
        information_gain: ``gamma``, a bound on the maximum information gain, nats.
    """
    log = math.log(round_number / delta)
    return 2.0 * norm**2 + 300.0 * information_gain * log**3
