r"""Processor time of a round against the NumPy yardstick, and 20,000 rounds of BBKB."""

import resource
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from benchmarks.papers.bkb_2019.configuration import Configuration
from benchmarks.papers.bkb_2019.problems import rows_of
from benchmarks.papers.bkb_2019.yardstick import NumpyBKB
from benchmarks.runner import (
    fixed_kernel,
    markdown_table,
    stream,
    write_lines,
    write_summary,
)
from kernelucb import BKBBandit

_QBAR = 2.0


def run_time(configuration: Configuration, results: Path) -> list[Path]:
    r"""Rounds are compared by processor time: other work hardly shows."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        rows = _per_round(configuration, configuration.time.rounds)
    torch.set_num_threads(threads)
    return write_summary(results, "time", rows, _round_table(rows))


def run_long(configuration: Configuration, results: Path, rounds: int | None) -> list[Path]:
    r"""BBKB over very many rounds, by the clock on the wall."""
    settings, threads = configuration.long, torch.get_num_threads()
    torch.set_num_threads(settings.threads)
    lines = []
    for batches in settings.batches:
        lines += ["", *_long_run(configuration, rounds or settings.rounds, *batches)]
    torch.set_num_threads(threads)
    path = results / "long.md"
    write_lines(path, lines[1:])
    return [path]


def _bandit(configuration: Configuration, **options) -> tuple[BKBBandit, np.ndarray]:
    protocol = configuration.protocol
    features, rewards = rows_of(configuration.time.data)
    bandit = BKBBandit(
        torch.from_numpy(features),
        fixed_kernel("rbf", protocol.lengthscale),
        norm_bound=protocol.norm_bound,
        noise_std=protocol.noise_std,
        delta=protocol.delta,
        qbar=_QBAR,
        radius="practical",
        **options,
    )
    return bandit, rewards


def _per_round(configuration: Configuration, shown: Sequence[int]) -> list[dict]:
    r"""Mean time of the five rounds up to each of those shown, one thread each."""
    protocol = configuration.protocol
    bandit, rewards = _bandit(configuration)
    yardstick = NumpyBKB(
        bandit.candidates.numpy(),
        protocol.lengthscale,
        protocol.noise_std,
        protocol.norm_bound,
        protocol.delta,
        _QBAR,
        seed=0,
    )
    noise = stream(protocol.seed, "time")

    def play(arm: int) -> float:
        return float(rewards[arm] + protocol.noise_std * noise.standard_normal())

    ours, theirs, rows, number, inducing = [], [], [], 0, (0, 0)
    for number in range(1, max(shown) + 1):
        start = process_time()
        arm = bandit.select()
        bandit.observe(arm, play(arm))
        ours.append(process_time() - start)
        start = process_time()
        yardstick.step(play)
        theirs.append(process_time() - start)
        if number in shown:
            inducing = len(bandit.inducing), len(yardstick.inducing)
            rows.append(_row(str(number), *inducing, ours[-5:], theirs[-5:]))
    return [*rows, _row(f"1 to {number}", *inducing, ours, theirs)]


def _row(
    rounds: str, inducing: int, other_inducing: int, ours: list[float], theirs: list[float]
) -> dict:
    own, other = float(np.mean(ours)), float(np.mean(theirs))
    return {
        "round": rounds,
        "inducing": inducing,
        "inducing_yardstick": other_inducing,
        "milliseconds": f"{1e3 * own:.3g}",
        "milliseconds_yardstick": f"{1e3 * other:.3g}",
        "ratio": f"{other / own:.3g}",
    }


def _round_table(rows: list[dict]) -> list[str]:
    header = ["round", "m", "ours, ms", "NumPy, ms", "ratio"]
    keys = ["round", "inducing", "milliseconds", "milliseconds_yardstick", "ratio"]
    return [
        "Processor time of one round of BKB, A = 20640, one thread each, both in one run:",
        "",
        *markdown_table(header, [[str(row[key]) for key in keys] for row in rows]),
    ]


def _long_run(
    configuration: Configuration, rounds: int, growth: float, regularizer: float
) -> list[str]:
    protocol = configuration.protocol
    bandit, rewards = _bandit(configuration, batch_growth=growth, alpha=regularizer)
    noise = stream(protocol.seed, "long")
    marks = [round(rounds * share) for share in (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)]
    start, steps, regret, rows = perf_counter(), 0, 0.0, []
    while bandit.num_observations < rounds:
        arms = bandit.batch_select(rounds - bandit.num_observations)
        values = rewards[arms]
        noisy = values + protocol.noise_std * noise.standard_normal(len(arms))
        bandit.observe(arms, noisy)
        steps, regret = steps + 1, regret + float((rewards.max() - values).sum())
        while marks and bandit.num_observations >= marks[0]:
            uniform = float(rewards.max() - rewards.mean()) * bandit.num_observations
            rows.append(
                [
                    str(marks.pop(0)),
                    str(steps),
                    str(len(bandit.inducing)),
                    f"{perf_counter() - start:.0f}",
                    f"{regret / uniform:.3f}",
                ]
            )
            print(*rows[-1], flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [
        f"BBKB over {rounds} rounds, A = {len(rewards)}, C = {growth:g}, regulariser "
        f"{regularizer:g}, {torch.get_num_threads()} threads; peak memory of the whole "
        f"process so far {peak:.2f} GiB, of which features "
        f"{8 * bandit.arms.features.numel() / 2**30:.2f}:",
        "",
        *markdown_table(["rounds", "batches", "m", "seconds", "regret over uniform"], rows),
    ]
