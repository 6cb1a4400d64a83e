r"""One run: a bound chooses points of a function whose norm is known."""

from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.runner import KnownFunction, fixed_kernel, stream
from kernelucb import KernelRegression, MartingaleMixtureUCB, NormTracker

ARMS, CENTRES, NOISE_STD, LENGTHSCALE = 200, 20, 0.1, 0.3


def play(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Play on ``ARMS`` random points of the unit square.

    Returns:
        The share of the arms at which the band ``missed`` the function and the ``ratio`` of
        norm bound and true norm after each evaluation; at the end the ``regret`` of the arm
        with the largest lower bound.
    """
    task = SimpleNamespace(**settings)
    draw = stream(task.seed, "function", task.kernel, f"{task.norm:g}")
    kernel = fixed_kernel(task.kernel, LENGTHSCALE)
    arms = torch.from_numpy(draw.random((ARMS, 2)))
    with torch.no_grad():
        truth = KnownFunction.draw(draw, kernel, task.norm, 2, CENTRES)(arms)
    chosen, rounds = [int(draw.integers(ARMS))], max(task.looks)
    noise = NOISE_STD * torch.from_numpy(draw.standard_normal(rounds))
    tracker, found, regret = _tracker(task), {"missed": [], "ratio": []}, 0.0
    for number in range(1, rounds + 1):
        Y = truth[chosen] + noise[:number]
        state: Any = KernelRegression(arms[chosen], Y, kernel, NOISE_STD)
        norm_bound = task.norm if tracker is None else tracker
        acqf = MartingaleMixtureUCB(state, norm_bound=norm_bound)
        tracker = tracker if task.kept else _tracker(task)
        lower, upper = acqf.bounds(arms)
        slack = 1e-9 * task.norm
        missed = (truth < lower - slack) | (truth > upper + slack)
        found["missed"].append(float(missed.double().mean()))
        found["ratio"].append(acqf.norm_bound / task.norm)
        regret = float(truth.max() - truth[lower.argmax()])
        chosen.append(int(upper.argmax()))
    return found | {"regret": regret}


def _tracker(task: SimpleNamespace) -> NormTracker | None:
    if task.inflation == 0.0:
        return None
    return NormTracker(inflation=task.inflation, floor=task.floor)
