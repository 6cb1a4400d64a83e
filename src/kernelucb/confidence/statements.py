r"""The wording of guarantees and assumptions, once for every bound."""

from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.regression import RidgeState

# The outcomes must form a martingale in the order in which they arrive.
REPORTED = Assumption(
    "outcomes",
    "whether and when an outcome is reported does not depend on its noise",
    Status.GIVEN,
)


def rkhs_assumptions(
    source: str,
    regression: RidgeState,
    delta: float,
    norm: Assumption,
    *,
    anytime: bool = True,
    guarantee: str | None = None,
    noise: str = "conditionally sub-Gaussian",
) -> Assumptions:
    r"""Assumptions of a bound for functions of bounded RKHS norm.

    Args:
        source: Paper and theorem.
        regression: The data; says which parts of the model were fitted to them.
        delta: Failure probability.
        norm: Where the norm bound comes from.
        anytime: Whether the bound holds for all rounds at once.
        guarantee: Overrides the usual wording.
        noise: Condition on the noise, in words.
    """
    rounds = "every round at once" if anytime else "one round, fixed in advance"
    items = (
        _kernel(regression),
        _mean(regression),
        _noise(regression, noise),
        norm,
        REPORTED,
    )
    return Assumptions(
        source=source,
        guarantee=guarantee
        or f"holds for every point and {rounds} with probability {1 - delta:.6g}",
        anytime=anytime,
        items=items,
        delta=delta,
    )


def bayesian_assumptions(
    source: str, regression: RidgeState, delta: float, domain: str, all_points: bool
) -> Assumptions:
    r"""Assumptions of a bound for samples from the Gaussian process itself.

    Args:
        source: Paper and theorem.
        regression: The data; says which parts of the model were fitted to them.
        delta: Failure probability.
        domain: Where the bound holds, in words.
        all_points: Whether that is all points at once.
    """
    items = (
        _kernel(regression),
        _mean(regression),
        _noise(regression, "independent and Gaussian"),
        Assumption(
            "prior",
            "f is a sample of the GP with this kernel and mean (not a fixed function)",
            Status.GIVEN,
        ),
        REPORTED,
    )
    return Assumptions(
        source=source,
        guarantee=f"holds {domain} and every round at once with probability "
        f"{1 - delta:.6g}",
        anytime=True,
        items=items,
        delta=delta,
        all_points=all_points,
    )


def bounded_noise_assumptions(
    source: str,
    regression: RidgeState,
    delta: float,
    norm: Assumption,
    information_gain: float | None,
) -> Assumptions:
    r"""Assumptions of Srinivas et al. (2010), Theorem 3.

    Args:
        source: Paper and theorem.
        regression: The data; says which parts of the model were fitted to them.
        delta: Failure probability.
        norm: Where the norm bound comes from.
        information_gain: Bound on the maximum information gain; None where the gain of
            the observed points was used instead.
    """
    assumptions = rkhs_assumptions(
        source, regression, delta, norm, noise="almost surely bounded"
    )
    if information_gain is None:
        gain = Assumption(
            "information gain",
            "the maximum information gain is that of the observed points (it is larger)",
            Status.ESTIMATED,
        )
    else:
        gain = Assumption(
            "information gain",
            f"the maximum information gain is at most {information_gain:.6g} nats",
            Status.GIVEN,
        )
    return assumptions.with_extra(gain)


def _kernel(regression: RidgeState) -> Assumption:
    if "kernel" in regression.estimated:
        return Assumption(
            "kernel",
            "the kernel is the true one; its hyper-parameters are trainable and may have "
            "been fitted to these data",
            Status.ESTIMATED,
        )
    return Assumption("kernel", "the kernel was fixed before the data", Status.GIVEN)


def _mean(regression: RidgeState) -> Assumption:
    if "mean" in regression.estimated:
        return Assumption(
            "mean",
            "the prior mean and outcome scale are known; they were estimated from these "
            "data (trainable mean or Standardize)",
            Status.ESTIMATED,
        )
    return Assumption("mean", "the prior mean was fixed before the data", Status.GIVEN)


def _noise(regression: RidgeState, condition: str) -> Assumption:
    smallest = float(regression.noise_std.min())
    largest = float(regression.noise_std.max())
    scale = f"{smallest:.6g}"
    if smallest != largest:
        scale += f" to {largest:.6g}, one for each observation"
    estimated = "noise" in regression.estimated
    statement = f"the noise is {condition} with scale {scale}"
    if estimated:
        statement += "; the scale is the model's own estimate"
    return Assumption("noise", statement, Status.ESTIMATED if estimated else Status.GIVEN)
