r"""Breakdown values: the norm or noise scale up to which a claim about a band stands."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

from kernelucb._numerics.checks import positive_scalar
from kernelucb._numerics.digits import at_least, at_most
from kernelucb.confidence.band import Band
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

    Where a band rests on several norm bounds, all are multiplied by the same factor, and
    the norms below refer to the largest bound.

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
        norms: For a claim that rests on several norm bounds, the name of each and the bound
            at which the claim was found to stand, outcome units; *the claim holds, or one
            of these norms is above its bound*. Empty where there is one norm bound.
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
        if self.norm_bound == 0.0:
            text = f"does not stand even at the least norm that explains the data, {least}"
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
            band, lambda *factors: claim(band.relaxed(*factors)), largest_margin, accuracy
        )


def breakdown_of(
    band: Band,
    stands: Callable[..., bool],
    largest_margin: float = 1000.0,
    accuracy: float = 0.05,
) -> Breakdown:
    r"""As ``breakdown``, of a function of the arguments of ``Band.relaxed``."""
    most = positive_scalar("largest_margin", largest_margin)
    step = 1.0 + positive_scalar("accuracy", accuracy)
    own = float(max(band.norm_bounds, default=math.nan))
    whole = band.relaxed()  # whose norm bound is larger where the data contradict it
    least = whole.least_norm_factor * max(whole.norm_bounds) / own
    first = _JUST_ABOVE * least if least > 0.0 else 1.0 / most
    limit = max(most * max(least, 1.0 / most), first)
    with torch.no_grad():
        factor = _largest(stands, max(first, min(1.0, limit)), _NORM_STEP, limit, step)
        if factor == 0.0 and first < 1.0 and stands(first):
            factor = _between(stands, first, 1.0, step)
        at = min(factor or math.inf, max(first, 1.0))  # where functions explain the data
        noise = shortest = several = None
        scale = band.noise_scale
        if factor > 0.0 and scale is not None:
            steps = _NOISE_STEP, _MOST_NOISE, step
            ratio = _largest(lambda ratio: stands(at, ratio), 1.0, *steps)
            noise = max(ratio, 1.0) * scale
            several = max(ratio, 1.0) if len(_noise_scales(band)) > 1 else None
        for length in dict.fromkeys(band.lengthscales):
            if not stands(at, 1.0, length):
                break
            shortest = length
    return Breakdown(
        norm_bound=factor * own,
        least_consistent_norm=least * own,
        noise_std=noise,
        at_norm_bound=None if noise is None and shortest is None else at * own,
        lengthscale=shortest,
        stands_throughout=factor >= limit / step,
        noise_factor=several,
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
