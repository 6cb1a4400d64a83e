r"""Breakdown values: the norm or noise scale up to which a claim about a band stands."""

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
from botorch.exceptions import UnsupportedError

from kernelucb._numerics.checks import positive_scalar
from kernelucb._numerics.estimates import estimated
from kernelucb.certificates.words import Breakdown
from kernelucb.confidence.band import Band, band_of, named_terms, terms_of
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_JUST_ABOVE = 1.02  # times the least consistent norm: the smallest norm bound tried
_NORM_STEP = 2.0  # from one norm bound tried to the next
_NOISE_STEP = 1.5  # the same of noise scales
_MOST_NOISE = 100.0  # times the noise scale in use: the largest tried


def breakdown(
    band: Any,
    claim: Callable[[Any], bool],
    *,
    largest_margin: float = 1000.0,
    accuracy: float = 0.05,
) -> Breakdown:
    r"""Up to which norm and which noise scale a claim stands, anytime.

    Example:
        >>> breakdown(band, lambda b: regret_certificate(b, bounds=box).gap <= 5.0)

    Source: ours (``docs/mathematics.md``). The sets of functions that explain the data grow
    with the norm bound and the noise scale, and rest on one event (``Band.relaxed``): the
    true function is in every set whose norm bound and noise scale are large enough. So if a
    claim is true of every function of a set, the claim is true, or the set's norm bound or
    noise scale is too small. Assumptions: the band's, without the norm bound.

    Only norm bounds and noise scales at which the claim was found to stand are returned, so
    the values are never too large. They may be too small by the share ``accuracy``, or
    where the claim falls and stands again at a larger value.

    Args:
        band: ``MartingaleMixtureUCB``, ``KernelFamilyUCB`` or ``LikelihoodUCB``, within a
            range or not, or a combination of them.
        claim: Maps a band of the same kind to whether every function of the band's set
            satisfies the claim; may use anything that is computed from the band.
        largest_margin: Largest norm bound to try, over the least consistent norm.
        accuracy: Share by which the values may be too small.

    Raises:
        ValueError: If ``largest_margin`` or ``accuracy`` is not above 0.
        UnsupportedError: If the band's sets are not one event for all norm bounds.
    """
    if getattr(band, "outcome_constraints", None) is not None:
        raise UnsupportedError(
            "The claim would be about the objective without its constraints; ask "
            "optimum_report, whose claims have breakdown values of all bands."
        )
    whole = band_of("band", band)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return breakdown_of(
            {"": whole},
            lambda *factors: claim(whole.relaxed(*factors)),
            largest_margin,
            accuracy,
        )


def breakdown_of(
    bands: Mapping[str, Band],
    stands: Callable[..., bool],
    largest_margin: float = 1000.0,
    accuracy: float = 0.05,
) -> Breakdown:
    r"""As ``breakdown``, of a function of the arguments of ``Band.relaxed``.

    The first of the named bands is the objective's; see ``Breakdown`` for the others.
    """
    most = positive_scalar("largest_margin", largest_margin)
    step = 1.0 + positive_scalar("accuracy", accuracy)
    band, terms = next(iter(bands.values())), named_terms(bands)
    whole = band.relaxed()  # whose norm bound is larger where the data contradict it
    norm = float(band.smallest_norm_bound)
    least = float(whole.least_norm_factor * whole.smallest_norm_bound) / norm
    if math.isinf(least):
        return Breakdown(norm_bound=0.0, least_consistent_norm=estimated(least))
    of_objective = {term.key for term in terms_of(band)}
    first = _JUST_ABOVE * least if least > 0.0 else 1.0 / most
    first = max(first, 1.0) if len(of_objective) > 1 else first
    limit = max(most * max(least, 1.0 / most), first)
    ratio = noise = shortest = None
    with torch.no_grad():
        start = max(first, min(1.0, limit))
        factor = _largest(stands, start, _NORM_STEP, limit, step)
        if factor == 0.0 and first < 1.0:
            factor = _largest(stands, first, _NORM_STEP, limit, step, bad=1.0)
        at = min(factor or math.inf, max(first, 1.0))  # where functions explain the data
        if factor > 0.0 and None not in [term.noise_scale for term in terms.values()]:
            steps = _NOISE_STEP, _MOST_NOISE, step
            ratio = max(_largest(lambda ratio: stands(at, ratio), 1.0, *steps), 1.0)
            noise = ratio * cast(float, band.noise_scale)
        for length in sorted(set(band.lengthscales), reverse=True):  # longest first
            if not stands(at, 1.0, length):
                break
            shortest = length

    def norms_at(multiple: float) -> tuple[tuple[str, float], ...]:
        if len(terms) == 1:
            return ()
        factors = {term.key: max(multiple, 1.0) for term in terms.values()}
        factors |= dict.fromkeys(of_objective, multiple)
        found = ((n, factors[t.key] * t.smallest_norm_bound) for n, t in terms.items())
        return tuple((name, estimated(norm)) for name, norm in found)

    data = [term.data for term in terms_of(band) if hasattr(term.data, "noise_scales")]
    scales = {scale for each in data for scale in each.noise_scales.tolist()}
    needs_norm = noise is not None or shortest is not None
    return Breakdown(
        norm_bound=estimated(factor * norm),
        least_consistent_norm=estimated(least * norm),
        noise_std=estimated(noise),
        at_norm_bound=estimated(at * norm) if needs_norm else None,
        lengthscale=estimated(shortest),
        stands_throughout=factor >= limit / step,
        norms=norms_at(factor or first),
        at_norms=norms_at(at) if needs_norm else (),
        noise_factor=estimated(ratio) if len(terms) > 1 or len(scales) > 1 else None,
    )


def _largest(
    stands: Callable[[float], bool],
    first: float,
    growth: float,
    limit: float,
    step: float,
    bad: float = math.inf,
) -> float:
    r"""A large number from ``first`` to ``limit`` at which a claim stands; 0 if none is.

    ``bad`` is a number at which it is known to fall. Only numbers that were tried are
    returned.
    """
    if not stands(first):
        return 0.0
    good = first
    while good < limit and bad > step * good:  # bisection of logarithms
        tried = min(growth * good, limit) if math.isinf(bad) else math.sqrt(good * bad)
        if stands(tried):
            good = tried
        else:
            bad = tried
    return good
