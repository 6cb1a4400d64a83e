r"""Bounds under a prior estimated from earlier tasks (Wang, Kim & Kaelbling 2018)."""

import math
from typing import ClassVar, Protocol

from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.posterior_band import PosteriorModel
from kernelucb.confidence.statements import REPORTED

_FINITE_SOURCE = "Wang, Kim & Kaelbling (2018), Theorem 2"
_FEATURES_SOURCE = "Wang, Kim & Kaelbling (2018), Theorem 4"
_BAND_SOURCE = "; band: Lemma 11 and Corollary 6"
_ESTIMATES = {
    "values": "missing training values were completed exactly",
    "features": "f lies in the span of the basis functions, which were trained on the same "
    "tasks (the theorem takes them as given)",
    "inputs": "the inputs evaluated so far do not depend on the training functions (the "
    "proof conditions on them, but a search that uses the prior chooses them)",
}


class EstimatedPrior(PosteriorModel, Protocol):
    r"""What the bounds read of a model; see ``kernelucb.models.meta.MetaModel``."""

    estimated: frozenset[str]
    finite_domain: ClassVar[bool]

    @property
    def num_tasks(self) -> int:
        r"""Number of training functions."""
        ...

    @property
    def value_range(self) -> tuple[float, float]:
        r"""Smallest and largest value of training functions and evaluations."""
        ...


def exploration_factor(num_tasks: int, round_number: int, delta: float) -> float:
    r"""``zeta_t``, the multiplier of the estimated standard deviation.

    ``(sqrt(6 (N - 3 + t + 2 sqrt(t L) + 2 L) / (delta N (N - t - 1))) +
    sqrt(2 ln(3 / delta))) / sqrt(1 - 2 sqrt(L / (N - t)))`` with ``L = ln(6 / delta)``.

    Source: Wang, Kim & Kaelbling (2018), Eq. 12.

    Args:
        num_tasks: ``N``, number of training functions.
        round_number: ``t``, the evaluation about to be made (evaluations plus one).
        delta: Failure probability.

    Raises:
        ValueError: If ``N`` is not above ``t + 4 L``.
    """
    n, t, log = num_tasks, round_number, math.log(6.0 / delta)
    if n <= t + 4.0 * log:
        needed = math.floor(t + 4.0 * log) + 1
        raise ValueError(
            f"Evaluation {t} with delta = {delta:g} needs at least {needed} training "
            f"functions (more than t + 4 ln(6/delta)), and there are {n}. Use more, a "
            "larger delta, or MetaPI."
        )
    mean_error = 6.0 * (n - 3 + t + 2.0 * math.sqrt(t * log) + 2.0 * log)
    mean_error = math.sqrt(mean_error / (delta * n * (n - t - 1)))
    sample = math.sqrt(2.0 * math.log(3.0 / delta))
    return (mean_error + sample) / math.sqrt(1.0 - 2.0 * math.sqrt(log / (n - t)))


def meta_assumptions(
    model: EstimatedPrior, guarantee: str, band: bool = True
) -> Assumptions:
    r"""What the regret bounds rest on.

    Source: Wang, Kim & Kaelbling (2018), Theorem 2 (a finite domain) or Theorem 4 (given
    basis functions).

    Args:
        model: The estimated prior.
        guarantee: What holds, in words.
        band: Whether the paper covers the band as well.
    """
    prior = Assumption(
        "prior",
        f"f and the {model.num_tasks} training functions are independent samples of one "
        "Gaussian process, with independent Gaussian noise of one scale",
        Status.GIVEN,
    )
    inputs = {"inputs"} if model.num_evaluations else set[str]()
    estimates = [
        Assumption(name, statement, Status.ESTIMATED)
        for name, statement in _ESTIMATES.items()
        if name in model.estimated | inputs
    ]
    source = _FINITE_SOURCE if model.finite_domain else _FEATURES_SOURCE
    source += _BAND_SOURCE if band else ""
    items = (prior, *estimates, REPORTED)
    return Assumptions(source, guarantee, anytime=False, items=items, all_points=False)
