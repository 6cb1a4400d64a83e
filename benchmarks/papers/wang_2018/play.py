r"""One run: a method solves one problem."""

from dataclasses import dataclass

import numpy as np

from benchmarks.papers.wang_2018.configuration import Task
from benchmarks.papers.wang_2018.grasp import play_grasp


@dataclass(frozen=True)
class Run:
    r"""Result of a task.

    Attributes:
        values: True value of each evaluation, in their order.
        refused: Why the method is not defined here; empty where it is.
    """

    values: list[float]
    refused: str = ""


def play(task: Task) -> Run:
    r"""Play one task, in this process, single-threaded."""
    try:
        if task.domain.name == "grasp":
            values = play_grasp(task)
        else:
            from benchmarks.papers.wang_2018.synthetic import play_synthetic

            values = play_synthetic(task)
    except ValueError as error:
        if "training functions" not in str(error):
            raise
        return Run([], str(error))
    if not np.all(np.isfinite(values)):
        raise ArithmeticError(f"A value that is not a number in {task}.")
    return Run(values)
