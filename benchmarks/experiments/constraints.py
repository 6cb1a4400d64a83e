r"""Problems with outcome constraints: of known norm, and of BoTorch."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from botorch.test_functions import synthetic
from botorch.utils.transforms import unnormalize
from torch import Tensor

from benchmarks.experiments.configuration import ExperimentTask, Setting
from benchmarks.experiments.problems import KnownFunction, drawn

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class ConstrainedProblem:
    r"""Maximise an objective on the unit cube where all slacks are at least 0.

    Attributes:
        objective: From ``n x d`` points to ``n`` values.
        slacks: From ``n x d`` points to ``n x c`` values.
        thresholds: What each constrained outcome, its slack above them, must at least be.
        start: ``d`` coordinates of a point that is known to be feasible, if there is one.
        optimum: Largest value of a feasible point.
        noise_std: Of all outcomes.
        setting: What is known of the functions; None where nothing is.
    """

    dimension: int
    objective: Function
    slacks: Function
    thresholds: tuple[float, ...]
    start: Tensor | None
    optimum: float
    noise_std: float
    setting: Setting | None

    @property
    def constrained(self) -> list[str]:
        r"""Names of the constrained outcomes."""
        return [f"c{i}" for i in range(len(self.thresholds))]


def constrained_problem(task: ExperimentTask) -> ConstrainedProblem:
    r"""The problem of a task, the same for all methods."""
    if isinstance(task.problem, str):
        return _of_botorch(task.problem, task.noise_std)
    return _of_known_norm(task, task.problem)


def _of_known_norm(task: ExperimentTask, setting: Setting) -> ConstrainedProblem:
    r"""Objective and constraint of the same kind; the threshold leaves a given share."""
    objective, other = (
        KnownFunction.draw(task.protocol, setting, "constrained", task.seed, i)
        for i in range(2)
    )
    line = torch.linspace(0.0, 1.0, task.grid, dtype=torch.float64)
    grid = torch.cartesian_prod(*[line] * setting.dimension)
    values = other(grid)
    # Ax keeps what is written in the constraint.
    threshold = round(float(values.quantile(1.0 - task.share)), 6)
    known = grid[values >= float(values.quantile(1.0 - 0.5 * task.share))]
    random = drawn(task.protocol, setting, "start", task.seed)
    return ConstrainedProblem(
        setting.dimension,
        objective,
        lambda X: (other(X) - threshold).unsqueeze(-1),
        (threshold,),
        known[int(random.integers(len(known)))],
        float(objective(grid)[values >= threshold].max()),
        setting.noise_std,
        setting,
    )


def _of_botorch(name: str, noise_std: float) -> ConstrainedProblem:
    r"""A function that BoTorch minimises, with its slacks as outcomes."""
    function = getattr(synthetic, name)(negate=True)
    bounds = function.bounds
    return ConstrainedProblem(
        function.dim,
        lambda X: -function.evaluate_true(unnormalize(X, bounds)),
        lambda X: function.evaluate_slack_true(unnormalize(X, bounds)),
        (0.0,) * function.num_constraints,
        None,
        float(function.optimal_value),
        noise_std,
        None,
    )
