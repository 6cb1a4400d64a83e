r"""One run on finitely many arms, and how often the union's band misses."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from linear_operator.utils.warnings import NumericalWarning
from torch import Tensor

from benchmarks.runner import outside, quiet, seeded
from benchmarks.unknown_kernel.balancing import LengthscaleBalancing, ShrinkingLengthscale
from benchmarks.unknown_kernel.learners import Family, Learner, Oracle, Refitted
from benchmarks.unknown_kernel.problems import (
    Problem,
    covering,
    function_name,
    noise_of,
    start_arms,
)
from kernelucb.exceptions import InconsistentConfidenceSetWarning

_RULES: dict[str, type[Learner]] = {
    rule.__name__: rule
    for rule in (Oracle, Family, LengthscaleBalancing, ShrinkingLengthscale)
}


def play(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Play one method; regret is the largest value on the arms minus the true value.

    Returns:
        ``regret`` of every arm that the learner chose, and of the arm that it recommends in
        the end (``recommended``); ``misses``, the number of looks at the union's band that
        found the function outside; ``eliminated``, for each member of a family the number
        of observations that contradicted it, 0 for none; mean ``width`` of the learner's
        band over the arms, and ``oracle_width`` from the same data. 0 or empty where there
        is none.
    """
    task = SimpleNamespace(**settings)
    expected = NumericalWarning, InconsistentConfidenceSetWarning  # BoTorch's; counted
    names = "own", function_name(task), task.method
    with seeded(task.trial, *names), quiet(*expected):
        return _play(task)


def _play(task: SimpleNamespace) -> dict[str, Any]:
    problem = Problem.draw(task, task.trial)
    learner = _RULES.get(task.rule, Refitted)(problem)
    noise = noise_of(task, task.trial)
    for number, arm in enumerate(start_arms(task, task.trial)):
        learner.observe(arm, float(problem.values[arm]) + noise[number])
    regret, misses = [], 0
    for number, error in enumerate(noise[task.starts :], 1):
        arm = learner.select()
        value = float(problem.values[arm])
        learner.observe(arm, value + error)
        regret.append(problem.optimum - value)
        if isinstance(learner, Family) and number % task.check_every == 0:
            learner.survivors()  # looks at every member
            misses += is_outside(learner)
    recommended = problem.optimum - float(problem.values[learner.recommended()])
    if not np.all(np.isfinite([*regret, recommended])):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    found = {"regret": regret, "recommended": recommended, "misses": misses}
    found["eliminated"] = learner.eliminated if isinstance(learner, Family) else []
    return found | _widths(learner)


def _outside(problem: Problem, lower: Tensor, upper: Tensor) -> bool:
    r"""Whether the function leaves a band at any arm; round-off does not count."""
    slack = 1e-9 * problem.norm_bound
    return bool(outside(problem.values, lower, upper, slack).any())


def is_outside(family: Family) -> bool:
    r"""Whether the function leaves the union's band at any arm.

    It does not where it stays in the band of one member that is left, so the member that
    should hold it, if there is one, is asked first.
    """
    index = covering(family.task)
    if index is not None and family.is_left(index):
        band = family.band(index)
        if not _outside(family.problem, band.lower, band.upper):
            return False
    return _outside(family.problem, family.lower(), family.upper())


def _widths(learner: Learner) -> dict[str, float]:
    oracle = Oracle(learner.problem)
    oracle.played, oracle.outcomes = learner.played, learner.outcomes
    band = oracle.band()
    if isinstance(learner, Family):
        own = learner.upper() - learner.lower()
    elif isinstance(learner, Oracle):
        own = band.upper - band.lower
    else:
        return {"width": 0.0, "oracle_width": 0.0}
    widths = {"width": own, "oracle_width": band.upper - band.lower}
    return {name: float(width.mean()) for name, width in widths.items()}


EVENTS = ("missed", "lost", "emptied")


@quiet(InconsistentConfidenceSetWarning)  # counted
def sequences(settings: dict[str, Any]) -> dict[str, Any]:
    r"""For each sequence of a block the first round of an event, 0 where it never came.

    The function was outside the union's band at some arm (``missed``); the member that
    covers it was contradicted (``lost``); all members were (``emptied``).
    """
    first = settings["block"] * settings["size"]
    numbers = range(first, first + settings["size"])
    columns = zip(*(_sequence(settings, number) for number in numbers), strict=True)
    return {name: list(column) for name, column in zip(EVENTS, columns, strict=True)}


def _sequence(settings: dict[str, Any], number: int) -> list[int]:
    lengths = settings["lengthscales"]
    task = SimpleNamespace(**settings, lengthscale=lengths[number % len(lengths)])
    problem = Problem.draw(task, number)
    learner, index = Family(problem), covering(task)
    starts, found = start_arms(task, number), [0, 0, 0]
    for count, error in enumerate(noise_of(task, number), 1):
        arm = starts[count - 1] if count <= len(starts) else learner.select()
        learner.observe(arm, float(problem.values[arm]) + error)
        missed = is_outside(learner)
        lost = index is not None and learner.eliminated[index] > 0
        events = (missed, lost, all(learner.eliminated))
        found = [old or count * now for old, now in zip(found, events, strict=True)]
    return found
