r"""Does a band hold where whether an outcome is reported depends on its noise?"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.runner import fixed_kernel, line, outside, quiet, stream
from benchmarks.trust.functions import POINTS, drawn_values
from kernelucb import KernelRegression, MartingaleMixtureUCB
from kernelucb.exceptions import InconsistentConfidenceSetWarning

KERNEL, LENGTHSCALE, NORM, NOISE_STD, DELTA = "rbf", 0.2, 2.0, 0.1, 0.05


def play_lost(settings: dict[str, Any]) -> dict[str, int]:
    r"""Play the largest upper bound again and again until its outcome is reported.

    Returns:
        The number of reported outcomes at the first miss of the band; 0 without one.
    """
    task = SimpleNamespace(**settings)
    kernel, arms = fixed_kernel(KERNEL, LENGTHSCALE), line(POINTS)
    values = drawn_values("random", kernel, NORM, task.seed)
    noise = torch.from_numpy(_reported(task)) * NOISE_STD
    chosen = [int(stream(task.seed, "start").integers(len(values)))]
    for number in range(1, task.outcomes + 1):
        outcomes = values[chosen] + noise[:number]
        lower, upper = _band(KernelRegression(arms[chosen], outcomes, kernel, NOISE_STD))
        if bool(outside(values, lower, upper, 1e-9 * NORM).any()):
            return {"missed": number}
        chosen.append(int(upper.argmax()))
    return {"missed": 0}


def _reported(task: SimpleNamespace) -> np.ndarray:
    r"""The noise of the outcomes that are reported, in its own standard deviations."""
    noise = stream(task.seed, "noise").standard_normal(20 * task.outcomes)
    if task.losses == "random":
        reported = stream(task.seed, "losses").random(len(noise)) < 0.5
    else:
        reported = noise >= (-np.inf if task.losses == "none" else float(task.losses))
    return noise[reported][: task.outcomes]


def _band(state: KernelRegression) -> tuple[Tensor, Tensor]:
    # An empty set is widened until it holds one function, which is then judged.
    with quiet(InconsistentConfidenceSetWarning):
        acqf = MartingaleMixtureUCB(state, norm_bound=NORM, delta=DELTA, fit="martingale")
    return acqf.bounds(line(POINTS))
