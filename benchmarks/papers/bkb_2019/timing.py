r"""Processor time of a round against the NumPy yardstick, and very many rounds of BBKB."""

import resource
from time import perf_counter, process_time
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


def play_long(settings: dict[str, Any]) -> dict[str, Any]:
    r"""BBKB over very many rounds, by the clock on the wall."""
    task = SimpleNamespace(**settings)
    torch.set_num_threads(task.threads)
    options = {"batch_growth": task.batch_growth, "alpha": task.regularizer}
    bandit, rewards = _bandit(task, **options)
    noise = stream(task.seed, "long")
    marks = [round(task.rounds * share) for share in (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)]
    start, steps, regret, rows = perf_counter(), 0, 0.0, []
    while bandit.num_observations < task.rounds:
        arms = bandit.batch_select(task.rounds - bandit.num_observations)
        values = rewards[arms]
        bandit.observe(arms, values + task.noise_std * noise.standard_normal(len(arms)))
        steps, regret = steps + 1, regret + float((rewards.max() - values).sum())
        while marks and bandit.num_observations >= marks[0]:
            uniform = float(rewards.max() - rewards.mean()) * bandit.num_observations
            cells = [marks.pop(0), steps, len(bandit.inducing)]
            seconds = f"{perf_counter() - start:.0f}"
            rows.append([*map(str, cells), seconds, f"{regret / uniform:.3f}"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    features = 8 * bandit.arms.features.numel() / 2**30
    return {"rows": rows, "peak": peak, "features": features, "arms": len(rewards)}
