r"""One run: a method plays one repetition of a setting."""

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from benchmarks.papers.flynn_reeb_2024.configuration import Task
from benchmarks.papers.flynn_reeb_2024.learners import make_learner
from benchmarks.papers.flynn_reeb_2024.problems import (
    arm_sets,
    own_stream,
    reward_function,
)


@dataclass(frozen=True)
class Run:
    r"""Result of a task.

    Attributes:
        arms: Index of the arm played in each round.
        regret: Best mean reward of the round's arms minus that of the arm played.
        seconds: Wall-clock time of choosing and updating, all rounds.
    """

    arms: list[int]
    regret: list[float]
    seconds: float


def play(task: Task) -> Run:
    r"""Play one task, in this process, single-threaded."""
    reward = reward_function(task.protocol, task.setting, task.repetition)
    own = own_stream(task)
    learner = make_learner(task, own)
    arms_played, regret, seconds = [], [], 0.0
    for number, arms in enumerate(arm_sets(task)):
        means = reward(arms)
        start = perf_counter()
        index = learner.select(arms) if number else int(own.integers(len(arms)))
        outcome = means[index] + task.protocol.noise_std * own.standard_normal()
        learner.observe(arms[index], outcome)
        seconds += perf_counter() - start
        arms_played.append(index)
        regret.append(float(means.max() - means[index]))
    if not np.all(np.isfinite(regret)):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    return Run(arms_played, regret, seconds)
