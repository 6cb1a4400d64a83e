r"""Processor time of a round against the NumPy yardstick."""

from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.papers.bkb_2019.problems import bandit_of, rows_of
from benchmarks.papers.bkb_2019.yardstick import NumpyBKB
from benchmarks.runner import stream


@threadpool_limits.wrap(limits=1)
def play_rounds(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Mean time of the five rounds up to each of ``shown``, and of all of them.

    Processor time of one thread, the two in turn: other work hardly shows.
    """
    task = SimpleNamespace(**settings)
    features, rewards = rows_of(task.data)
    bandit = bandit_of(task, torch.from_numpy(features), "practical")
    scales = task.lengthscale, task.noise_std, task.norm_bound
    yardstick = NumpyBKB(features, *scales, task.delta, task.qbar, seed=0)
    noise = stream(task.seed, "time")

    def play(arm: int) -> float:
        return float(rewards[arm] + task.noise_std * noise.standard_normal())

    ours, theirs, rows = [], [], []
    for number in range(1, max(task.shown) + 1):
        start = process_time()
        arm = bandit.select()
        bandit.observe(arm, play(arm))
        ours.append(process_time() - start)
        start = process_time()
        yardstick.step(play)
        theirs.append(process_time() - start)
        sizes = {"inducing": len(bandit.inducing)}
        sizes |= {"inducing_yardstick": len(yardstick.inducing)}
        if number in task.shown:
            rows.append({"round": str(number)} | sizes | _times(ours[-5:], theirs[-5:]))
    rows.append({"round": f"1 to {number}"} | sizes | _times(ours, theirs))
    return {"rows": rows}


def _times(ours: list[float], theirs: list[float]) -> dict[str, str]:
    own, other = float(np.mean(ours)), float(np.mean(theirs))
    return {
        "milliseconds": f"{1e3 * own:.3g}",
        "milliseconds_yardstick": f"{1e3 * other:.3g}",
        "ratio": f"{other / own:.3g}",
    }
