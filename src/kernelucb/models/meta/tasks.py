r"""The values of training tasks, as users give them."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from botorch.exceptions import BotorchTensorDimensionError
from torch import Tensor

from kernelucb._numerics.checks import finite


class TaskGroup(NamedTuple):
    r"""Tasks that were observed at the same inputs.

    Attributes:
        inputs: ``m x d``.
        values: ``m x n``, one column for each task; NaN where missing.
    """

    inputs: Tensor
    values: Tensor


def candidate_values(task_values: Tensor, count: int) -> Tensor:
    r"""``N x M`` task values at ``count`` candidates as float64, NaN where missing.

    Raises:
        BotorchTensorDimensionError: If they are not ``N x M``.
        InputDataError: If a value is infinite.
    """
    if task_values.dim() != 2 or task_values.shape[1] != count:
        raise BotorchTensorDimensionError(
            f"task_values must be `N x {count}`, one row for each training task, got "
            f"shape {tuple(task_values.shape)}."
        )
    values = task_values.detach().double()
    finite("task_values", values.masked_fill(values.isnan(), 0.0))
    return values


def listed_tasks(
    task_inputs: Tensor | Sequence[Tensor], task_values: Tensor | Sequence[Tensor]
) -> list[tuple[Tensor, Tensor]]:
    r"""Inputs and values of each task, float64; the same object where inputs are shared.

    Args:
        task_inputs: ``M x d`` inputs that all tasks share, or ``M_i x d`` for each.
        task_values: ``N x M`` values, or ``M_i`` for each task.

    Raises:
        BotorchTensorDimensionError: If the shapes do not fit together.
        InputDataError: If a value is not finite.
    """
    values = [each.detach().double().reshape(-1) for each in _each(task_values)]
    if isinstance(task_inputs, Tensor) and task_inputs.dim() == 2:
        inputs = [task_inputs.detach().double()] * len(values)
    else:
        inputs = [each.detach().double() for each in _each(task_inputs)]
    shapes_fit = len(inputs) == len(values) > 0 and all(
        x.dim() == 2
        and x.numel() > 0
        and (len(x), x.shape[1]) == (len(y), inputs[0].shape[1])
        for x, y in zip(inputs, values, strict=True)
    )
    if not shapes_fit:
        raise BotorchTensorDimensionError(
            "task_inputs must be `M x d` inputs that all tasks share, or `M_i x d` inputs "
            "for each task, and task_values as many values for each."
        )
    for x, y in zip(inputs, values, strict=True):
        finite("task_inputs", x)
        finite("task_values", y)
    return list(zip(inputs, values, strict=True))


def _each(tasks: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    r"""What is given for each task; nothing in a single number."""
    if isinstance(tasks, Tensor):
        return tasks.unbind() if tasks.dim() > 0 else ()
    return tasks


def grouped(tasks: Sequence[tuple[Tensor, Tensor]]) -> list[TaskGroup]:
    r"""Tasks with equal inputs together, in the order of their first appearance."""
    groups: list[tuple[Tensor, list[Tensor]]] = []
    for inputs, values in tasks:
        for known, members in groups:
            if inputs is known or torch.equal(inputs, known):
                members.append(values)
                break
        else:
            groups.append((inputs, [values]))
    return [TaskGroup(inputs, torch.stack(members, -1)) for inputs, members in groups]
