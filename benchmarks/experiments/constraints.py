r"""Problems with outcome constraints: of known norm, of BoTorch, and a reaction."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from botorch.test_functions import synthetic
from botorch.utils.transforms import unnormalize
from torch import Tensor

from benchmarks.experiments.configuration import ExperimentTask, Reaction, Setting
from benchmarks.experiments.problems import KnownFunction, drawn
from benchmarks.experiments.reaction import Reactor

Function = Callable[[Tensor], Tensor]
Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class ConstrainedProblem:
    r"""Maximise an outcome where the others keep to their limits.

    Attributes:
        parameters: As Ax takes them.
        point: From parameters to a ``1 x d`` point.
        outcomes: From ``n x d`` points to ``n x (1 + c)`` values, the objective first.
        names: Of the outcomes.
        limits: Of each constrained outcome: ``">="`` or ``"<="``, and the threshold.
        start: ``d`` coordinates of a point that is known to be feasible, if there is one.
        optimum: Largest value of a feasible point.
        noise_std: Of each outcome.
        given: Options of a bound that rests on nothing estimated; empty where nothing is
            known.
        grid: Parameters at which bands are compared with the truth.
    """

    parameters: list[RangeParameterConfig | ChoiceParameterConfig]
    point: Callable[[Parameters], Tensor]
    outcomes: Function
    names: tuple[str, ...]
    limits: tuple[tuple[str, float], ...]
    start: Tensor | None
    optimum: float
    noise_std: tuple[float, ...]
    given: dict[str, Any] = field(default_factory=dict)
    grid: list[dict[str, Any]] = field(default_factory=list)

    def objective(self, X: Tensor) -> Tensor:
        r"""From ``n x d`` points to ``n`` values."""
        return self.outcomes(X)[:, 0]

    def slacks(self, X: Tensor) -> Tensor:
        r"""From ``n x d`` points to ``n x c`` values, at least 0 where feasible."""
        signs = torch.tensor([1.0 if side == ">=" else -1.0 for side, _ in self.limits])
        levels = torch.tensor([level for _, level in self.limits], dtype=torch.float64)
        return signs * (self.outcomes(X)[:, 1:] - levels)

    @property
    def constraints(self) -> list[str]:
        r"""As Ax takes them."""
        pairs = zip(self.names[1:], self.limits, strict=True)
        return [f"{name} {side} {level:.6f}" for name, (side, level) in pairs]


def constrained_problem(task: ExperimentTask) -> ConstrainedProblem:
    r"""The problem of a task, the same for all methods."""
    if isinstance(task.problem, str):
        return _of_botorch(task.problem, task.noise_std)
    if isinstance(task.problem, Reaction):
        return _of_reaction(task, task.problem)
    return _of_known_norm(task, task.problem)


def _cube(dimension: int) -> dict[str, Any]:
    r"""Parameters ``x0``, ``x1``, ... from 0 to 1, and their point."""
    names = [f"x{i}" for i in range(dimension)]
    parameters = [
        RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0))
        for name in names
    ]

    def point(values: Parameters) -> Tensor:
        return torch.tensor([[values[name] for name in names]], dtype=torch.float64)

    return {"parameters": parameters, "point": point}


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
    prior = {"kernel": setting.kernel, "lengthscale": setting.lengthscale}
    return ConstrainedProblem(
        **_cube(setting.dimension),
        outcomes=lambda X: torch.stack([objective(X), other(X)], -1),
        names=("y", "c0"),
        limits=((">=", threshold),),
        start=known[int(random.integers(len(known)))],
        optimum=float(objective(grid)[values >= threshold].max()),
        noise_std=(setting.noise_std,) * 2,
        given=prior | {"norm_bound": setting.norm, "noise_std": setting.noise_std},
    )


def _of_botorch(name: str, noise_std: float) -> ConstrainedProblem:
    r"""A function that BoTorch minimises, with its slacks as outcomes."""
    function = getattr(synthetic, name)(negate=True)

    def outcomes(X: Tensor) -> Tensor:
        X = unnormalize(X, function.bounds)
        value = -function.evaluate_true(X).unsqueeze(-1)
        return torch.cat([value, function.evaluate_slack_true(X)], -1)

    count = function.num_constraints
    return ConstrainedProblem(
        **_cube(function.dim),
        outcomes=outcomes,
        names=("y", *(f"c{i}" for i in range(count))),
        limits=((">=", 0.0),) * count,
        start=None,
        optimum=float(function.optimal_value),
        noise_std=(noise_std,) * (1 + count),
    )


def _of_reaction(task: ExperimentTask, setting: Reaction) -> ConstrainedProblem:
    r"""Most output with little impurity; solvent, temperature and time are chosen."""
    reactor = Reactor.draw(task.protocol, setting, task.seed)
    beliefs, names = setting.beliefs, tuple(setting.beliefs)
    given: dict[str, Any] = {
        name: {outcome: getattr(each, name) for outcome, each in beliefs.items()}
        for name in ("kernel", "lengthscale", "mean", "norm_bound")
    }
    return ConstrainedProblem(
        parameters=reactor.parameters,
        point=reactor.point,
        outcomes=reactor.outcomes,
        names=names,
        limits=(("<=", setting.limit),),
        start=None,
        optimum=reactor.optimum(task.grid),
        noise_std=setting.noise_std,
        given=given | {"noise_std": dict(zip(names, setting.noise_std, strict=True))},
        grid=[reactor.named(recipe) for recipe in reactor.grid(11)],
    )
