r"""Metrics that are successes or counts, in the units of their probability or rate.

A metric is what estimates the probability or rate: 0 or 1, the proportion of successes
among ``num_trials``, or a count divided by its ``exposure``. Thresholds of constraints,
bounds, gaps and pictures are then in the units that Ax knows the metric in.
"""

from collections.abc import Mapping
from typing import Any

import torch

from kernelucb._numerics.checks import finite_scalar, positive_scalar, whole_number
from kernelucb.regression.likelihood.losses import LINKS
from kernelucb.regression.outcome_map import OutcomeMap

Options = Mapping[str, Any]

# Counts that are stored as proportions lose this much of a whole number at most.
_ROUNDING = 1e-3


def expected_outcome(options: Options) -> float:
    r"""The outcome nearest to what is expected by the options of one metric."""
    mean = finite_scalar("mean", options.get("mean") or 0.0)
    latent = torch.tensor(mean, dtype=torch.float64).clamp(-700.0, 20.0)
    total = _total(options)
    return round(total * float(_link(options).inverse(latent))) / total


def check_threshold(options: Options, constraint: str, level: float) -> None:
    r"""Refuse a threshold that no probability or rate of one metric can cross.

    Raises:
        ValueError: If the log odds or log rate of ``level`` is not finite.
    """
    link = _link(options)
    if not link.takes(torch.tensor(level, dtype=torch.float64)):
        kind = "rate" if options["likelihood"] == "poisson" else "probability"
        raise ValueError(
            f"{constraint} is on a {kind}, so its threshold must be {link.domain}; the "
            f"metric is {_metric(options)}."
        )


def impossible(options: Options, values: Any) -> tuple[Any, str]:
    r"""Which outcomes of one metric, a pandas series, cannot be, and what it must be."""
    total, likelihood = _total(options), options["likelihood"]
    counts = values * total
    wrong = (counts < 0.0) | ((counts - counts.round()).abs() > _ROUNDING)
    if likelihood != "poisson":
        wrong |= counts > total
    return wrong, f"a metric with the likelihood {likelihood} is {_metric(options)}"


def _link(options: Options) -> OutcomeMap:
    likelihood = options.get("likelihood")
    if likelihood not in LINKS:
        raise ValueError(f"likelihood must be one of {', '.join(LINKS)}; got {likelihood}.")
    return LINKS[likelihood]


def _metric(options: Options) -> str:
    r"""What a trial reports, in words."""
    total = _total(options)
    if options["likelihood"] == "poisson":
        return "a count" if total == 1.0 else f"a count divided by exposure = {total:g}"
    if options["likelihood"] == "binomial":
        return f"the proportion of successes among num_trials = {total:g}"
    return "0 or 1"


def _total(options: Options) -> float:
    r"""How many successes, or which count, an outcome of 1 stands for."""
    likelihood = options.get("likelihood")
    if likelihood == "poisson":
        return positive_scalar("exposure", options.get("exposure") or 1.0)
    if likelihood == "binomial":
        return float(whole_number("num_trials", options.get("num_trials") or 1))
    return 1.0
