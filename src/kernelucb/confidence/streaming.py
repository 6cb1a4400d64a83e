r"""The band that rests on running bounds on an unknown noise scale.

Durand, Maillard & Pineau (2018), Corollary 1. Its band (Theorem 2) rests on one of the
three events of the noise bounds (see ``noise/durand.py``).
"""

import math
from typing import cast

from kernelucb._numerics.checks import probability
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.noise.durand import ridge_regularizer
from kernelucb.confidence.noise.joint import JointSet
from kernelucb.confidence.noise.tracker import StreamingNoiseTracker
from kernelucb.confidence.noise.unknown import UnknownNoise
from kernelucb.confidence.norm.tracker import (
    NormBound,
    NormBoundLike,
    resolve_norm_bound,
    tracker_of,
)
from kernelucb.confidence.ridge_band import RidgeBand, fixed_ridge_band
from kernelucb.confidence.statements import rkhs_assumptions
from kernelucb.regression import KernelRegression

_SOURCE = (
    "Durand, Maillard & Pineau (2018), Corollary 1, the noise bounds of Theorem 3 as its "
    "proof gives them (ours)"
)


def corollary_tracker(
    tracker: StreamingNoiseTracker | None,
    regression: KernelRegression,
    norm_bound: NormBoundLike,
    noise: UnknownNoise,
    delta: float,
) -> tuple[StreamingNoiseTracker, Assumption]:
    r"""The tracker given, if it fits the arguments, or a new one; and its norm's origin.

    A new one takes three quarters of ``delta``, as Corollary 1 does. One that takes all
    of it is as good: the band at ``delta / 4`` rests on one of the tracker's own events.
    Without a norm bound, that of the given tracker is used; without a tracker it is
    estimated for an unknown noise scale.

    Raises:
        ValueError: If the tracker was built with other bounds or a larger ``delta``.
    """
    share = 0.75 * probability("delta", delta)
    if tracker is not None and norm_bound is None:
        norm_bound = tracker.norm_bound
    norm_tracker = tracker_of(norm_bound)
    if norm_tracker is not None:
        limits = UnknownNoise() if noise.upper is None else noise
        joint = JointSet.of(regression, delta, "mixture", limits)
        norm = resolve_norm_bound(norm_tracker, joint.regression, joint.radius(math.inf))
    else:
        norm = NormBound.given(cast(float, norm_bound), regression)
    value = norm.value * regression.outcome_scale
    new = StreamingNoiseTracker(value, noise, share)
    if tracker is None:
        return new, norm.assumption
    own, given = ((each.norm_bound, each.noise_std) for each in (tracker, new))
    if own != given or tracker.delta > delta:
        raise ValueError(
            f"The tracker has (norm_bound, noise_std) = {own} and delta = "
            f"{tracker.delta}; the arguments are {given} and {delta}. The bounds must be "
            "the same, and the tracker's delta at most this one."
        )
    return tracker, norm.assumption


def streaming_band(
    regression: KernelRegression,
    tracker: StreamingNoiseTracker,
    delta: float,
    norm_assumption: Assumption,
) -> RidgeBand[KernelRegression]:
    r"""Band of Corollary 1 from the tracker's interval, at ``delta / 4``.

    ``f_lambda +- sqrt(k_lambda / lambda) (sqrt(lambda) C + sigma_plus sqrt(D))`` with
    ``D = 2 ln(4/delta) + log_det(lambda_minus)``. As ``sqrt(lambda) = sigma_plus / C``, the
    width is ``C (1 + sqrt(D))`` standard deviations, for an infinite ``sigma_plus`` too,
    where the estimate is the prior mean. ``delta`` is the failure probability of band and
    interval together; the data are those that the tracker has seen.
    """
    norm = regression.norm_in_prior_units(float(tracker.norm_bound))
    lower, upper = tracker.interval
    log_det = float(regression.log_det(ridge_regularizer(regression, norm, lower)))
    width = norm * (1.0 + math.sqrt(2.0 * math.log(4.0 / delta) + log_det))
    regularizer = ridge_regularizer(regression, norm, upper)
    assumptions = _assumptions(regression, tracker, delta, norm_assumption)
    return fixed_ridge_band(regression, regularizer, width, assumptions)


def _assumptions(
    regression: KernelRegression,
    tracker: StreamingNoiseTracker,
    delta: float,
    norm: Assumption,
) -> Assumptions:
    assumptions = rkhs_assumptions(_SOURCE, regression, delta, norm)
    for name in sorted(tracker.estimated):
        statement = f"{assumptions[name].statement}; the noise tracker rests on an estimate"
        assumptions = assumptions.with_item(Assumption(name, statement, Status.ESTIMATED))
    known = f"above {tracker.noise_std.lower:.6g}"
    if tracker.noise_std.upper is not None:
        known = f"between {tracker.noise_std.lower:.6g} and {tracker.noise_std.upper:.6g}"
    statement = (
        "the noise is conditionally sub-Gaussian and second-order sub-Gaussian (Gaussian "
        f"noise is), scale unknown {known}"
    )
    if tracker.consistent:
        status = tracker.noise_std.status
        return assumptions.with_item(Assumption("noise", statement, status))
    statement += "; the data contradict this, the norm or the kernel"
    return assumptions.with_item(Assumption("noise", statement, Status.VIOLATED))
