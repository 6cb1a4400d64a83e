r"""One run of the regret comparison."""

from dataclasses import dataclass
from time import process_time

from benchmarks.papers.bkb_2019.configuration import RegretTask
from benchmarks.papers.bkb_2019.learners import Learner
from benchmarks.papers.bkb_2019.problems import problem_of
from benchmarks.runner import stream


@dataclass(frozen=True)
class Run:
    r"""Result of a task.

    Attributes:
        regret: Largest mean reward minus that of the arm played, each round.
        steps: Number of times that the posterior was updated.
        inducing: Number of inducing arms at the end.
        seconds: Processor time of choosing and updating, all rounds.
    """

    regret: list[float]
    steps: int
    inducing: int
    seconds: float


def play(task: RegretTask) -> Run:
    r"""Play one task. First arm and noise of each round are the same for all methods."""
    setting, trial = task.setting, task.trial
    problem = problem_of(setting, trial)
    first = stream(setting.seed, "first", setting.data, trial)
    noise = stream(setting.seed, "noise", setting.data, trial)
    learner = Learner(problem, task.method, setting, trial)
    best, regret, steps, seconds = problem.rewards.max(), [], 0, 0.0
    while len(regret) < setting.rounds:
        start = process_time()
        arms = learner.select() if steps else [int(first.integers(len(problem.arms)))]
        seconds += process_time() - start
        rewards = problem.rewards[arms]
        outcomes = rewards + setting.noise_std * noise.standard_normal(len(arms))
        start = process_time()
        learner.observe(arms, outcomes.tolist())
        seconds += process_time() - start
        regret.extend((best - rewards).tolist())
        steps += 1
    return Run(regret, steps, len(learner.bandit.inducing), seconds)
