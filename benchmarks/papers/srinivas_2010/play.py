r"""One run: a method plays one function."""

from dataclasses import dataclass
from time import perf_counter

import numpy as np

from benchmarks.papers.srinivas_2010.configuration import Task
from benchmarks.papers.srinivas_2010.learners import make_learner
from benchmarks.papers.srinivas_2010.priors import function_of, prior_of
from benchmarks.runner import stream


@dataclass(frozen=True)
class Run:
    r"""Result of a task.

    Attributes:
        arms: Point played in each round.
        regret: Largest value of the function minus its value at the point played.
        seconds: Wall-clock time of choosing and updating, all rounds.
    """

    arms: list[int]
    regret: list[float]
    seconds: float


def play(task: Task) -> Run:
    r"""Play one task. First point and noise are the same for all methods."""
    setting = task.setting
    prior, function = prior_of(setting), function_of(setting, task.trial)
    first = stream(setting.seed, "first", setting.source, task.trial)
    noise = stream(setting.seed, "noise", setting.source, task.trial)
    learner = make_learner(prior, task.method, setting)
    arms, regret, seconds = [], [], 0.0
    for number in range(setting.rounds):
        start = perf_counter()
        arm = learner.select() if number else int(first.integers(prior.size))
        outcome = float(function[arm]) + prior.noise_std * noise.standard_normal()
        learner.observe(arm, outcome)
        seconds += perf_counter() - start
        arms.append(arm)
        regret.append(float(function.max() - function[arm]))
    if not np.all(np.isfinite(regret)):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    return Run(arms, regret, seconds)
