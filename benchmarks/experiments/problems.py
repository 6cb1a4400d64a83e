r"""Functions of known norm on the unit cube, and problems with outcome constraints."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from botorch.test_functions import synthetic
from botorch.utils.transforms import unnormalize
from torch import Tensor

from benchmarks.experiments import reaction
from benchmarks.runner import KnownFunction, fixed_kernel, stream

Function = Callable[[Tensor], Tensor]
Parameters = Mapping[str, Any]
REACTION = "reaction"


def drawn(task: SimpleNamespace, what: str, *names: str | int) -> np.random.Generator:
    r"""The stream of what is drawn for a function of a problem."""
    return stream(task.stream, what, task.problem, *names)


def known_function(task: SimpleNamespace, *names: str | int) -> KnownFunction:
    r"""The function of these names, of the norm of its problem."""
    kernel = fixed_kernel(task.kernel, task.lengthscale)
    size = task.norm, task.dimension, task.centres
    return KnownFunction.draw(drawn(task, "function", *names), kernel, *size)


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


def constrained_problem(task: SimpleNamespace) -> ConstrainedProblem:
    r"""The problem of a run, the same for all methods."""
    if task.problem == REACTION:
        return _of_reaction(task)
    return _of_known_norm(task) if hasattr(task, "kernel") else _of_botorch(task)


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


def _of_known_norm(task: SimpleNamespace) -> ConstrainedProblem:
    r"""Objective and constraint of the same kind; the threshold leaves a given share."""
    objective, other = (known_function(task, "constrained", task.seed, i) for i in range(2))
    line = torch.linspace(0.0, 1.0, task.grid, dtype=torch.float64)
    grid = torch.cartesian_prod(*[line] * task.dimension)
    values = other(grid)
    # Ax keeps what is written in the constraint.
    threshold = round(float(values.quantile(1.0 - task.share)), 6)
    known = grid[values >= float(values.quantile(1.0 - 0.5 * task.share))]
    start = int(drawn(task, "start", task.seed).integers(len(known)))
    given = ("kernel", "lengthscale", "noise_std")
    return ConstrainedProblem(
        **_cube(task.dimension),
        outcomes=lambda X: torch.stack([objective(X), other(X)], -1),
        names=("y", "c0"),
        limits=((">=", threshold),),
        start=known[start],
        optimum=float(objective(grid)[values >= threshold].max()),
        noise_std=(task.noise_std,) * 2,
        given={name: getattr(task, name) for name in given} | {"norm_bound": task.norm},
    )


def _of_botorch(task: SimpleNamespace) -> ConstrainedProblem:
    r"""A function that BoTorch minimises, with its slacks as outcomes."""
    function = getattr(synthetic, task.problem)(negate=True)

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
        noise_std=(task.noise_std,) * (1 + count),
    )


def _of_reaction(task: SimpleNamespace) -> ConstrainedProblem:
    r"""Most output with little impurity; solvent, temperature and time are chosen."""
    reactor = reaction.Reactor.draw(task.stream, task.seed)
    names, noise_std = tuple(reaction.BELIEFS), reaction.NOISE_STD
    given: dict[str, Any] = {
        option: {name: belief[option] for name, belief in reaction.BELIEFS.items()}
        for option in ("kernel", "lengthscale", "mean", "norm_bound")
    }
    return ConstrainedProblem(
        parameters=reaction.PARAMETERS,
        point=reaction.point,
        outcomes=reactor.outcomes,
        names=names,
        limits=(("<=", reaction.LIMIT),),
        start=None,
        optimum=reactor.optimum(task.grid),
        noise_std=noise_std,
        given=given | {"noise_std": dict(zip(names, noise_std, strict=True))},
        grid=[reaction.named(recipe) for recipe in reaction.grid(11)],
    )
