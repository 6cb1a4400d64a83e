r"""Breakdown values: the norm or noise scale up to which a claim about a band stands."""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

import torch

from kernelucb._numerics.checks import positive_scalar
from kernelucb._numerics.digits import at_least, at_most
from kernelucb._numerics.estimates import EstimatedNumber, estimated
from kernelucb.confidence.band import Band, named_terms, terms_of
from kernelucb.exceptions import InconsistentConfidenceSetWarning

BandT = TypeVar("BandT", bound=Band)

_JUST_ABOVE = 1.02  # times the least consistent norm: the smallest norm bound tried
_NORM_STEP, _NOISE_STEP = 2.0, 1.5
_MOST_NOISE = 100.0


@dataclass(frozen=True)
class Breakdown:
    r"""How large norm and noise may be before a claim falls.

    *The claim holds, or the norm is above* ``norm_bound`` (*if the noise scale is at most
    the given scale*); and *the claim holds, or the noise scale is above* ``noise_std`` (*if
    the norm is at most* ``at_norm_bound``). All sentences of these two forms about one
    band, of all claims and all rounds, even chosen after a look at the data, are true at
    once with probability ``1 - delta``. No norm bound is assumed.

    Where a claim rests on several norm bounds, all are multiplied by the same factor, and
    the norms below refer to the smallest bound of the objective. ``norms`` names each: *the
    claim holds, or one of the norms is above its number*. Below the norm bounds in use only
    that of a single objective is tried; those of its constraints, and of the terms of a
    sum, stay at least as large as they are.

    All numbers come from the data, so they count as estimated when given to a bound.

    Attributes:
        norm_bound: Largest norm bound at which the claim was found to stand, outcome units;
            0 where it stands at none.
        least_consistent_norm: Lower bound on the norm that the data force, outcome units.
        noise_std: Largest noise scale at which the claim was found to stand, outcome units
            (the largest of several scales); None where the band has no noise scale to
            enlarge.
        at_norm_bound: Norm bound at which ``noise_std`` and ``lengthscale`` were found,
            outcome units.
        lengthscale: For a family of length scales, the shortest length scale down to which
            the claim was found to stand, units of the kernels' inputs; None for other
            bands. *The claim holds, or the length scale is below* ``lengthscale``.
        stands_throughout: Whether the claim stood at every norm bound that was tried, of
            which ``norm_bound`` is then the largest.
        norms: For a claim that rests on several bands, the name of each and the norm bound
            at which the claim was found to stand (the smallest that was tried, where it
            stands at none), outcome units; *the claim holds, or one of these norms is above
            its bound*. Empty where there is one band.
        at_norms: The same of ``at_norm_bound``.
        noise_factor: For a claim that rests on several noise scales, the largest multiple
            of all at which the claim was found to stand; None where there is one scale.
    """

    norm_bound: float
    least_consistent_norm: float
    noise_std: float | None = None
    at_norm_bound: float | None = None
    lengthscale: float | None = None
    stands_throughout: bool = False
    norms: tuple[tuple[str, float], ...] = ()
    at_norms: tuple[tuple[str, float], ...] = ()
    noise_factor: float | None = None

    @property
    def margin(self) -> float:
        r"""``norm_bound / least_consistent_norm``; 0 where the claim stands at no norm."""
        if self.norm_bound == 0.0:
            return 0.0
        least = self.least_consistent_norm
        return self.norm_bound / least if least > 0.0 else math.inf

    def __str__(self) -> str:
        least = at_least(self.least_consistent_norm)
        at = _listed(self.at_norms)
        if self.at_norm_bound is not None and not at:
            at = f"a norm of {at_least(self.at_norm_bound)}"
        at = f" at {at}" if at else ""
        if math.isinf(self.least_consistent_norm):
            return "does not stand: no function of any norm explains the data at this noise"
        if self.norm_bound == 0.0:
            tried = _listed(self.norms)
            tried = tried or f"the least norm that explains the data, {least}"
            text = f"does not stand even at {tried}"
            if self.lengthscale is not None:
                length = at_most(self.lengthscale)
                text += f", unless the length scale is {length} or more{at}"
            return text
        norm, times = at_least(self.norm_bound), at_least(self.margin, count=3)
        times = f"({times} times the least that explains the data)"
        text = "stands"
        limits = [f"the norm of {name} is above {at_least(n)}" for name, n in self.norms]
        limits = [" or ".join(limits)] if limits else []
        if self.stands_throughout:
            text += " at every norm tried" + ("" if limits else f", up to {norm} {times}")
        elif not limits:
            limits.append(f"the norm is above {norm} {times}")
        if self.noise_factor is not None:
            factor = at_least(self.noise_factor, count=3)
            limits.append(f"a noise scale is above {factor} times the one in use{at}")
        elif self.noise_std is not None:
            limits.append(f"the noise is above {at_least(self.noise_std)}{at}")
        if self.lengthscale is not None:
            limits.append(f"the length scale is below {at_most(self.lengthscale)}{at}")
        return f"{text} unless {', or '.join(limits)}" if limits else text


def _listed(norms: tuple[tuple[str, float], ...]) -> str:
    r"""``"norms of 6.5 (objective) and 3.2 (constraint)"``, or nothing."""
    if not norms:
        return ""
    return "norms of " + " and ".join(f"{at_least(n)} ({name})" for name, n in norms)


def breakdown(
    band: BandT,
    claim: Callable[[BandT], bool],
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
        return breakdown_of(
            {"": band},
            lambda *factors: claim(band.relaxed(*factors)),
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
    norm = float(band.smallest_norm_bound)
    whole = band.relaxed()  # whose norm bound is larger where the data contradict it
    least = float(whole.least_norm_factor * whole.smallest_norm_bound) / norm
    if math.isinf(least):
        return Breakdown(norm_bound=0.0, least_consistent_norm=EstimatedNumber(least))
    first = _JUST_ABOVE * least if least > 0.0 else 1.0 / most
    of_objective = [id(term) for term in terms_of(band)]
    if len(of_objective) > 1:
        first = max(first, 1.0)
    limit = max(most * max(least, 1.0 / most), first)
    with torch.no_grad():
        factor = _largest(stands, max(first, min(1.0, limit)), _NORM_STEP, limit, step)
        if factor == 0.0 and first < 1.0 and stands(first):
            factor = _between(stands, first, 1.0, step)
        at = min(factor or math.inf, max(first, 1.0))  # where functions explain the data
        ratio = noise = shortest = None
        if factor > 0.0 and None not in [term.noise_scale for term in terms.values()]:
            steps = _NOISE_STEP, _MOST_NOISE, step
            ratio = max(_largest(lambda ratio: stands(at, ratio), 1.0, *steps), 1.0)
            noise = ratio * cast(float, band.noise_scale)
        for length in sorted(set(band.lengthscales), reverse=True):  # longest first
            if not stands(at, 1.0, length):
                break
            shortest = length

    def norms_at(multiple: float) -> tuple[tuple[str, float], ...]:
        norms: list[tuple[str, float]] = []
        for name, term in terms.items() if len(terms) > 1 else ():
            factor = multiple if id(term) in of_objective else max(multiple, 1.0)
            number = EstimatedNumber(factor * term.smallest_norm_bound)
            norms.append((name, number))
        return tuple(norms)

    several = len(terms) > 1 or len(set(_noise_scales(band))) > 1
    needs_norm = noise is not None or shortest is not None
    found = {
        "norm_bound": factor * norm,
        "least_consistent_norm": least * norm,
        "noise_std": noise,
        "at_norm_bound": at * norm if needs_norm else None,
        "lengthscale": shortest,
        "noise_factor": ratio if several else None,
    }
    return Breakdown(
        **{name: estimated(value) for name, value in found.items()},
        stands_throughout=factor >= limit / step,
        norms=norms_at(factor or first),
        at_norms=norms_at(at) if needs_norm else (),
    )


def _noise_scales(band: Band) -> set[float]:
    r"""All noise scales of a band and of its parts, outcome units."""
    if band.parts:
        return set[float]().union(*map(_noise_scales, band.parts))
    scales = getattr(band.data, "noise_scales", None)
    return set() if scales is None else set(scales.tolist())


def _largest(
    stands: Callable[[float], bool], first: float, growth: float, limit: float, step: float
) -> float:
    r"""A large number from ``first`` to ``limit`` at which a claim stands; 0 if none is."""
    if not stands(first):
        return 0.0
    good = first
    while good < limit:
        tried = min(growth * good, limit)
        if not stands(tried):
            return _between(stands, good, tried, step)
        good = tried
    return good


def _between(
    stands: Callable[[float], bool], good: float, bad: float, step: float
) -> float:
    r"""A number at which a claim stands, where it stands at ``good`` and not at ``bad``."""
    while bad > step * good:  # bisection of logarithms; only tried values are returned
        middle = math.sqrt(good * bad)
        if stands(middle):
            good = middle
        else:
            bad = middle
    return good
