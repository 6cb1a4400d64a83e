r"""Processor time of a round against the NumPy yardstick, and very many rounds of BBKB."""

from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.papers.bkb_2019.problems import rows_of
from benchmarks.papers.bkb_2019.yardstick import NumpyBKB
from benchmarks.runner import fixed_kernel, stream
from kernelucb import BKBBandit


def _bandit(task: SimpleNamespace, **options: Any) -> tuple[BKBBandit, np.ndarray]:
    features, rewards = rows_of(task.data)
    bandit = BKBBandit(
        torch.from_numpy(features),
        fixed_kernel("rbf", task.lengthscale),
        norm_bound=task.norm_bound,
        noise_std=task.noise_std,
        delta=task.delta,
        qbar=task.qbar,
        radius="practical",
        **options,
    )
    return bandit, rewards


@threadpool_limits.wrap(limits=1)
def play_rounds(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Mean time of the five rounds up to each of ``shown``, and of all of them.

    Processor time of one thread, the two in turn: other work hardly shows.
    """
    task = SimpleNamespace(**settings)
    bandit, rewards = _bandit(task)
    yardstick = NumpyBKB(
        bandit.candidates.numpy(),
        task.lengthscale,
        task.noise_std,
        task.norm_bound,
        task.delta,
        task.qbar,
        seed=0,
    )
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
        sizes = len(bandit.inducing), len(yardstick.inducing)
        if number in task.shown:
            rows.append(_row(str(number), *sizes, ours[-5:], theirs[-5:]))
    return {"rows": [*rows, _row(f"1 to {number}", *sizes, ours, theirs)]}


def _row(
    rounds: str, inducing: int, other_inducing: int, ours: list[float], theirs: list[float]
) -> dict[str, Any]:
    own, other = float(np.mean(ours)), float(np.mean(theirs))
    return {
        "round": rounds,
        "inducing": inducing,
        "inducing_yardstick": other_inducing,
        "milliseconds": f"{1e3 * own:.3g}",
        "milliseconds_yardstick": f"{1e3 * other:.3g}",
        "ratio": f"{other / own:.3g}",
    }
