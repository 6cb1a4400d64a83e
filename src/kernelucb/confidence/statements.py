r"""The wording of guarantees and assumptions, once for every bound."""

from typing import NamedTuple, Protocol

from torch import Tensor

from kernelucb.confidence.assumptions import Assumption, Assumptions, Status

# The outcomes must form a martingale in the order in which they arrive.
REPORTED = Assumption(
    "outcomes",
    "whether and when an outcome is reported does not depend on its noise",
    Status.GIVEN,
)


class PriorKnowledge(Protocol):
    r"""What a statement says of kernel, mean and noise; every regression state has it."""

    @property
    def estimated(self) -> frozenset[str]:
        r"""Which of ``"kernel"``, ``"mean"`` and ``"noise"`` were fitted to the data."""
        ...

    @property
    def noise_std(self) -> Tensor:
        r"""Noise scales, outcome units: one for each observation, or for all."""
        ...


class Knowledge(NamedTuple):
    r"""A ``PriorKnowledge`` without data."""

    estimated: frozenset[str]
    noise_std: Tensor


def rkhs_assumptions(
    source: str,
    known: PriorKnowledge,
    delta: float,
    norm: Assumption,
    *,
    anytime: bool = True,
    horizon: float | None = None,
    guarantee: str | None = None,
    noise: str = "conditionally sub-Gaussian",
) -> Assumptions:
    r"""Assumptions of a bound for functions of bounded RKHS norm.

    Args:
        source: Paper and theorem.
        known: Which parts of the model were fitted to the data, and the noise scales.
        delta: Failure probability.
        norm: Where the norm bound comes from.
        anytime: Whether the bound holds for all rounds at once.
        horizon: Number of rounds that it is for; None for all.
        guarantee: Overrides the usual wording.
        noise: Condition on the noise, in words.
    """
    rounds = "every round at once" if anytime else "one round, fixed in advance"
    if horizon is not None:
        rounds = f"every round up to {horizon:.6g} at once"
    items = (
        _kernel(known),
        _mean(known),
        _noise(known, noise),
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
        horizon=horizon,
    )


def bayesian_assumptions(
    source: str, known: PriorKnowledge, delta: float, domain: str
) -> Assumptions:
    r"""Assumptions of a bound for samples from the Gaussian process itself.

    It holds on a part of the space only, so for a maximum over other points it is nothing.

    Args:
        source: Paper and theorem.
        known: Which parts of the model were fitted to the data, and the noise scales.
        delta: Failure probability.
        domain: Where the bound holds, in words.
    """
    items = (
        _kernel(known),
        _mean(known),
        _noise(known, "independent and Gaussian"),
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
        all_points=False,
    )


def _kernel(known: PriorKnowledge) -> Assumption:
    if "kernel" in known.estimated:
        return Assumption(
            "kernel",
            "the kernel is the true one; its hyper-parameters are trainable and may have "
            "been fitted to these data",
            Status.ESTIMATED,
        )
    return Assumption("kernel", "the kernel was fixed before the data", Status.GIVEN)


def _mean(known: PriorKnowledge) -> Assumption:
    if "mean" in known.estimated:
        return Assumption(
            "mean",
            "the prior mean and outcome scale are known; they were estimated from these "
            "data (trainable mean or Standardize)",
            Status.ESTIMATED,
        )
    return Assumption("mean", "the prior mean was fixed before the data", Status.GIVEN)


def _noise(known: PriorKnowledge, condition: str) -> Assumption:
    smallest = float(known.noise_std.min())
    largest = float(known.noise_std.max())
    scale = f"{smallest:.6g}"
    if smallest != largest:
        scale += f" to {largest:.6g}, one for each observation"
    estimated = "noise" in known.estimated
    statement = f"the noise is {condition} with scale {scale}"
    if estimated:
        statement += "; the scale is the model's own estimate"
    return Assumption("noise", statement, Status.ESTIMATED if estimated else Status.GIVEN)
