r"""How guarantees and assumptions are worded, for all bounds."""

from typing import NamedTuple, Protocol

from torch import Tensor

from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Status,
    rounds_in_words,
)
from kernelucb.regression.outcome_map import IDENTITY, OutcomeMap

# The outcomes must form a martingale in the order in which they arrive.
REPORTED = Assumption(
    "outcomes",
    "outcomes are not changed, averaged or merged after they were observed, and whether "
    "and when one is reported does not depend on its noise",
    Status.GIVEN,
)


class PriorKnowledge(Protocol):
    r"""What is known of kernel, mean and noise; every regression state says so."""

    @property
    def estimated(self) -> frozenset[str]:
        r"""Which of ``"kernel"``, ``"mean"`` and ``"noise"`` were fitted to the data."""
        ...

    @property
    def noise_scales(self) -> Tensor:
        r"""Noise scales, outcome units: one for each observation, or for all."""
        ...

    @property
    def outcome_map(self) -> OutcomeMap:
        r"""From outcomes to the scale on which the noise is additive."""
        ...


class Knowledge(NamedTuple):
    r"""A ``PriorKnowledge`` without data."""

    estimated: frozenset[str]
    noise_scales: Tensor
    outcome_map: OutcomeMap = IDENTITY


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

    ``horizon`` is the number of rounds for which it holds, None for all; ``guarantee``
    replaces the usual wording, and ``noise`` is the condition on the noise in words.
    """
    usual = (
        f"holds for every point and {rounds_in_words(anytime, horizon)} with probability "
        f"{1 - delta:.6g}"
    )
    return Assumptions(
        source=source,
        guarantee=guarantee or usual,
        anytime=anytime,
        items=_items(known, noise, norm),
        delta=delta,
        horizon=horizon,
    )


def bayesian_assumptions(
    source: str, known: PriorKnowledge, delta: float, domain: str
) -> Assumptions:
    r"""Assumptions of a bound for samples from the Gaussian process itself.

    It holds on ``domain`` (in words) only: it says nothing about a maximum elsewhere.
    """
    prior = Assumption(
        "prior",
        "f is a sample of the GP with this kernel and mean (not a fixed function)",
        Status.GIVEN,
    )
    return Assumptions(
        source=source,
        guarantee=f"holds {domain} and every round at once with probability "
        f"{1 - delta:.6g}",
        anytime=True,
        items=_items(known, "independent and Gaussian", prior),
        delta=delta,
        all_points=False,
    )


def _items(
    known: PriorKnowledge, condition: str, function: Assumption
) -> tuple[Assumption, ...]:
    r"""Assumptions on the model, the noise (``condition`` in words) and the function."""
    smallest, largest = (float(extreme) for extreme in known.noise_scales.aminmax())
    scale = f"{smallest:.6g}"
    if smallest != largest:
        scale += (
            f" to {largest:.6g}, one for each observation, fixed before its outcome (as is "
            "the number of readings behind it)"
        )
    noise = f"the noise is {condition}{known.outcome_map.after} with scale {scale}"
    given = {
        "kernel": "the kernel was fixed before the data",
        "mean": "the prior mean was fixed before the data",
        "noise": noise,
    }
    estimated = {
        "kernel": "the kernel is the true one; its hyper-parameters are or were trainable "
        "and may have been fitted to these data",
        "mean": "the prior mean and outcome scale are known; they were estimated from "
        "these data (trainable mean or Standardize)",
        "noise": f"{noise}; the scale is an estimate",
    }
    items = [
        Assumption(name, estimated[name], Status.ESTIMATED)
        if name in known.estimated
        else Assumption(name, given[name], Status.GIVEN)
        for name in given
    ]
    items += [function, REPORTED]
    if not known.outcome_map.is_identity:
        scale = known.outcome_map.statement
        items.append(Assumption("outcome transform", scale, Status.GIVEN))
    return tuple(items)
