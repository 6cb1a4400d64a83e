r"""The methods of the comparison.

``base`` says what a method is; ``rivals`` and ``ax_default`` are what people use today,
``ours`` the methods of this package.
"""

from benchmarks.practical.configuration import Task
from benchmarks.practical.learners import ax_default, ours, rivals
from benchmarks.practical.learners.base import Learner

__all__ = ["Learner", "ax_default", "make_learner", "ours", "rivals"]


def make_learner(task: Task) -> Learner:
    r"""A new learner for a run."""
    return Learner.rules[task.method.rule](**task.method.options)
