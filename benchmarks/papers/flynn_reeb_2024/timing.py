r"""Figure 4: time per round, all methods in turn within one process.

Absolute times depend on the machine; the ratios of one run are what is reported. In every
round each method chooses and updates in turn, so that whatever else the machine does falls
on all of them.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from rich.progress import track
from threadpoolctl import threadpool_limits

from benchmarks.papers.flynn_reeb_2024.configuration import (
    Configuration,
    Method,
    Setting,
    Task,
)
from benchmarks.papers.flynn_reeb_2024.learners import BanditLearner, Learner, make_learner
from benchmarks.papers.flynn_reeb_2024.problems import (
    arm_sets,
    kernel_function,
    own_stream,
    reward_function,
)
from benchmarks.papers.flynn_reeb_2024.yardsticks import (
    PAPER_GRID,
    NumPyMixture,
    cone_program,
)
from benchmarks.runner import markdown_table, write_summary

NUMPY_GRIDS = {"numpy_dmm": PAPER_GRID, "numpy_amm": (1.0,)}
# Numerator, denominator and the target of the time per round averaged over all rounds.
TARGETS = (
    ("filters", "exact", 1.3),
    ("exact", "numpy_dmm", 1.0),
    ("amm", "numpy_amm", 0.5),
)
SOCP_TARGET = 1000.0


@dataclass
class ConeTimes:
    r"""One cone program per arm against the exact bound's round, after the same data."""

    program_seconds: list[float]
    exact_seconds: list[float]
    largest_difference: float

    def speedup(self) -> float:
        r"""Time of a round of cone programs over that of the exact bound's round."""
        return sum(self.program_seconds) / statistics.median(self.exact_seconds)


def numpy_learner(task: Task, grid: Sequence[float]) -> NumPyMixture:
    r"""The plain NumPy method with what the setting lets it believe."""
    protocol, setting = task.protocol, task.setting
    return NumPyMixture(
        kernel_function(setting.kernel, setting.lengthscale),
        norm_bound=setting.norm_factor * protocol.norm,
        noise_std=setting.noise_factor * protocol.noise_std,
        delta=protocol.delta,
        covariance_scale=setting.covariance_scale(protocol.rounds),
        grid=grid,
    )


def time_rounds(
    configuration: Configuration, setting: Setting, repetition: int, rounds: int
) -> dict[str, list[float]]:
    r"""Seconds of every round (choose and update) for every method."""
    contenders: dict[str, tuple[Learner, np.random.Generator]] = {}
    task = None
    for name, method in configuration.methods.items():
        task = Task(configuration.protocol, setting, method, repetition, rounds)
        generator = own_stream(task)
        contenders[name] = (make_learner(task, generator), generator)
    for name, grid in NUMPY_GRIDS.items():
        task = Task(configuration.protocol, setting, Method(name, name), repetition, rounds)
        contenders[name] = (numpy_learner(task, grid), own_stream(task))
    reward = reward_function(configuration.protocol, setting, repetition)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    sets = track(arm_sets(task), f"repetition {repetition}", total=rounds)
    for number, arms in enumerate(sets):
        means = reward(arms)
        for name, (learner, generator) in contenders.items():
            noise = configuration.protocol.noise_std * generator.standard_normal()
            step = _first_round if number == 0 else _round
            seconds[name].append(_seconds(lambda: step(learner, arms, means, noise)))  # noqa: B023
    return seconds


def _first_round(
    learner: Learner, arms: np.ndarray, means: np.ndarray, noise: float
) -> None:
    learner.observe(arms[0], means[0] + noise)


def _round(learner: Learner, arms: np.ndarray, means: np.ndarray, noise: float) -> None:
    index = learner.select(arms)
    learner.observe(arms[index], means[index] + noise)


def _seconds(work: Callable[[], object]) -> float:
    start = perf_counter()
    work()
    return perf_counter() - start


def time_cone_programs(
    configuration: Configuration, setting: Setting, observations: int, num_arms: int
) -> ConeTimes:
    r"""Time one cone program per arm, and the exact bound on the same data and arms."""
    method = configuration.methods["exact"]
    task = Task(configuration.protocol, setting, method, 0, observations + 21)
    generator = own_stream(task)
    exact = make_learner(task, generator)
    plain = numpy_learner(task, (1.0,))
    reward = reward_function(configuration.protocol, setting, 0)
    exact_seconds, cone = [], ([], 0.0)
    for number, arms in enumerate(arm_sets(task)):
        if number == observations:
            cone = _cone_round(plain, exact, arms[:num_arms])
        means = reward(arms)
        noise = configuration.protocol.noise_std * generator.standard_normal()
        if number == 0:
            index = 0
            exact.observe(arms[index], means[index] + noise)
        else:
            start = perf_counter()
            index = exact.select(arms)
            exact.observe(arms[index], means[index] + noise)
            if number >= observations:
                exact_seconds.append(perf_counter() - start)
        if number < observations:
            plain.observe(arms[index], means[index] + noise)
    return ConeTimes(cone[0], exact_seconds, cone[1])


def _cone_round(
    plain: NumPyMixture, exact: BanditLearner, arms: np.ndarray
) -> tuple[list[float], float]:
    r"""Seconds of each arm's program, and how far its value is from the exact bound's."""
    _, upper = exact.bandit.bounds(torch.from_numpy(arms))
    seconds, largest = [], 0.0
    for arm, bound in zip(track(arms, "cone programs"), upper.tolist(), strict=True):
        start = perf_counter()
        value = cone_program(plain, arm)
        seconds.append(perf_counter() - start)
        largest = max(largest, abs(value - bound))
    return seconds, largest


def run_figure4(
    configuration: Configuration, repetitions: int, rounds: int, results: Path
) -> tuple[list[Path], dict[str, np.ndarray]]:
    r"""Time everything, single-threaded; returns the files and the mean curves."""
    figure = configuration.figure4
    setting = Setting(figure.kernel, figure.lengthscale, figure.dimension)
    torch.set_num_threads(1)
    with threadpool_limits(1):
        runs = [
            time_rounds(configuration, setting, repetition, rounds)
            for repetition in range(repetitions)
        ]
        observations = min(figure.socp_round, rounds)
        cone = time_cone_programs(configuration, setting, observations, figure.socp_arms)
    curves = {name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}
    whole = (figure.repetitions, configuration.protocol.rounds)
    parts = f"figure4_{repetitions}_repetitions_{rounds}_rounds"
    stem = "figure4" if (repetitions, rounds) == whole else parts
    rows = [
        {
            "method": name,
            "milliseconds": round(1e3 * float(curve.mean()), 4),
            "of_numpy_dmm": round(float(curve.mean() / curves["numpy_dmm"].mean()), 4),
            "rounds": rounds,
            "n": len(runs),
        }
        for name, curve in curves.items()
    ]
    lines = _report(curves, cone, len(runs), rounds, observations)
    return write_summary(results, stem, rows, lines), curves


def _report(
    curves: dict[str, np.ndarray],
    cone: ConeTimes,
    repetitions: int,
    rounds: int,
    observations: int,
) -> list[str]:
    reference = curves["numpy_dmm"].mean()
    times = [
        (name, f"{1e3 * curve.mean():.2f}", f"{curve.mean() / reference:.3f}")
        for name, curve in curves.items()
    ]
    ratios = []
    for ours, plain, target in TARGETS:
        ratio = curves[ours].mean() / curves[plain].mean()
        met = "yes" if ratio <= target else "**no**"
        ratios.append((f"{ours} / {plain}", f"{ratio:.3f}", f"<= {target:g}", met))
    speedup = cone.speedup()
    met = "yes" if speedup >= SOCP_TARGET else "**no**"
    programs = f"one cone program per arm / exact, t = {observations}"
    ratios.append((programs, f"{speedup:.0f}", f">= {SOCP_TARGET:g}", met))
    return [
        f"Time per round, mean over {rounds} rounds and {repetitions} repetitions, one "
        "thread, all methods in turn in one process.",
        "",
        *markdown_table(["method", "milliseconds a round", "of NumPy DMM"], times),
        "",
        *markdown_table(["ratio", "measured", "target", "met"], ratios),
        "",
        f"Cone programs: {len(cone.program_seconds)} arms, "
        f"{1e3 * statistics.mean(cone.program_seconds):.1f} ms each; the exact bound's "
        f"round: {1e3 * statistics.median(cone.exact_seconds):.2f} ms (median of "
        f"{len(cone.exact_seconds)} rounds). Largest difference between a program's value "
        f"and the exact bound: {cone.largest_difference:.1e}.",
    ]
