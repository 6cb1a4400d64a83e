r"""Does ``CertifiedGapStopping`` stop too far from the optimum?"""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from benchmarks.practical.fitting import fitted_model
from benchmarks.runner import fixed_kernel, line, quiet, stream
from benchmarks.trust.functions import POINTS, drawn_values, test_function
from kernelucb import (
    CertifiedGapStopping,
    KernelRegression,
    MartingaleMixtureUCB,
    NormTracker,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning, UncertifiedError

NORM, NOISE_STD, LENGTHSCALE, DELTA = 10.0, 0.1, 0.1, 0.05
GAP, FITTED_GAP, FITTED_START = 1.0, 0.25, 5
FITTED = "fitted"


def play_stop(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Play the largest upper bound and ask the rule in every round.

    Returns:
        Whether the rule raised ``UncertifiedError``, the number of observations at the
        stop (0 without one), and the true regret of the recommended point then, over the
        accepted gap.
    """
    task = SimpleNamespace(**settings)
    arms, values, gap, chosen, state_of = _game(task)
    noise = torch.from_numpy(stream(task.seed, "noise").standard_normal(200)) * NOISE_STD
    rule = CertifiedGapStopping(gap, arms, allow_estimated=task.allow_estimated)
    norm_bound: Any = {"given": NORM, "none": None, "tracker": NormTracker.cautious()}
    norm_bound = norm_bound.get(task.norm_bound, task.norm_bound)
    found = {"refused": False, "stopped": 0, "regret": 0.0}
    for _ in range(task.rounds):
        state = state_of(arms[chosen], values[chosen] + noise[: len(chosen)])
        # Data that contradict a norm given: the rule sees it and does not stop.
        with quiet(InconsistentConfidenceSetWarning):
            acqf = MartingaleMixtureUCB(
                state, norm_bound=norm_bound, delta=DELTA, fit="martingale"
            )
        try:
            decision = rule(acqf)
        except UncertifiedError:
            return found | {"refused": True}
        if decision.stop:
            same = (arms == decision.certificate.recommended).all(-1)
            regret = float(values.max() - values[same].min()) / gap
            return found | {"stopped": len(chosen), "regret": regret}
        chosen.append(int(acqf.bounds(arms)[1].argmax()))
    return found


def _game(task: SimpleNamespace) -> tuple[Tensor, Tensor, float, list[int], Callable]:
    r"""Arms, values, accepted gap, first arms, and what makes a state of the data."""
    random = stream(task.seed, "start")
    if task.kernel == FITTED:
        arms, values = test_function(task.function)
        start = random.choice(len(arms), FITTED_START, replace=False).tolist()
        return arms, values, FITTED_GAP, start, lambda X, Y: fitted_model(X, Y, None)[0]
    kernel = fixed_kernel(task.kernel, LENGTHSCALE)
    values = drawn_values(task.function, kernel, NORM, task.seed)
    start = [int(random.integers(len(values)))]
    state = partial(KernelRegression, covar_module=kernel, noise_std=NOISE_STD)
    return line(POINTS), values, GAP, start, state
