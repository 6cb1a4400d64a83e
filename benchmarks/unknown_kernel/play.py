r"""One run: a method plays one seed of a setting with finitely many arms."""

import warnings
from dataclasses import dataclass
from time import process_time

import numpy as np
from botorch.utils.sampling import manual_seed
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from benchmarks.runner import stream
from benchmarks.unknown_kernel import balancing, practice
from benchmarks.unknown_kernel.learners import Family, Learner, Oracle
from benchmarks.unknown_kernel.problems import Problem, noise_of, start_arms
from benchmarks.unknown_kernel.settings import Task
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_RULES: dict[str, type[Learner]] = {
    rule.__name__: rule
    for rule in (
        Oracle,
        Family,
        balancing.LengthscaleBalancing,
        balancing.ShrinkingLengthscale,
        practice.FittedMixture,
        practice.UpperConfidenceBound,
        practice.LogNoisyExpectedImprovement,
    )
}


@dataclass(frozen=True)
class Run:
    r"""Result of a task. Regret is the largest value on the arms minus the true value.

    Misses and eliminations are those of a family, widths those of a band: where there is
    none they are 0 or empty.

    Attributes:
        regret: Of every arm that the learner chose.
        recommended: Of the arm that it recommends in the end.
        seconds: Processor time of the whole run.
        misses: Number of looks at the union's band that found the function outside.
        eliminated: For each member the number of observations that contradicted it, 0 for
            none.
        width: Mean width of the learner's band over the arms, at the end.
        oracle_width: The same of the band that knows the kernel, from the same data.
    """

    regret: list[float]
    recommended: float
    seconds: float
    misses: int
    eliminated: list[int]
    width: float
    oracle_width: float


def play(task: Task) -> Run:
    r"""Play one task. It depends on nothing else that was drawn in this process."""
    own = stream(task.seed, "own", task.setting.name, task.method.name)
    with manual_seed(int(own.integers(2**31))), warnings.catch_warnings():
        warnings.simplefilter("ignore", NumericalWarning)  # a jitter of BoTorch's
        warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)  # counted
        return _play(task)


def _play(task: Task) -> Run:
    begin, protocol = process_time(), task.protocol
    problem = Problem.draw(protocol, task.setting, task.seed)
    learner = _RULES[task.method.rule](problem, **task.method.options)
    noise = noise_of(protocol, task.setting, task.seed)
    for number, arm in enumerate(start_arms(protocol, task.setting, task.seed)):
        learner.observe(arm, float(problem.values[arm]) + noise[number])
    covering = task.setting.family.covering(task.setting.lengthscale)
    regret, misses = [], 0
    for number, error in enumerate(noise[protocol.starts :], 1):
        arm = learner.select()
        value = float(problem.values[arm])
        learner.observe(arm, value + error)
        regret.append(problem.optimum - value)
        if isinstance(learner, Family) and number % protocol.check_every == 0:
            learner.survivors()  # looks at every member
            misses += is_outside(learner, covering)
    recommended = problem.optimum - float(problem.values[learner.recommended()])
    if not np.all(np.isfinite([*regret, recommended])):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    eliminated = learner.eliminated if isinstance(learner, Family) else []
    widths = _widths(learner)
    seconds = process_time() - begin
    return Run(regret, recommended, seconds, misses, eliminated, *widths)


def outside(problem: Problem, lower: Tensor, upper: Tensor) -> bool:
    r"""Whether the function leaves a band at any arm; round-off does not count."""
    values, slack = problem.values, 1e-9 * problem.norm_bound
    return bool(((values < lower - slack) | (values > upper + slack)).any())


def is_outside(family: Family, covering: int | None) -> bool:
    r"""Whether the function leaves the union's band at any arm.

    It does not where it stays in the band of one member that is left, so the member that
    should hold it, if there is one, is asked first.
    """
    if covering is not None and family.is_left(covering):
        band = family.band(covering)
        if not outside(family.problem, band.lower, band.upper):
            return False
    return outside(family.problem, family.lower(), family.upper())


def _widths(learner: Learner) -> tuple[float, float]:
    r"""Mean width of the learner's band, and of the oracle's on the same data; or zeros."""
    oracle = Oracle(learner.problem)
    oracle.played, oracle.outcomes = learner.played, learner.outcomes
    band = oracle.band()
    if isinstance(learner, Family):
        own = learner.upper() - learner.lower()
    elif isinstance(learner, Oracle):
        own = band.upper - band.lower
    else:
        return 0.0, 0.0
    return float(own.mean()), float((band.upper - band.lower).mean())
