r"""Values of training tasks as users give them; mean, covariance and norms of tasks."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from kernelucb._numerics.checks import finite

# Largest share of a vector that round-off leaves outside a span that contains it, with room
# for directions that were dropped as unresolved.
_OUTSIDE = 1e-9


class TaskGroup(NamedTuple):
    r"""Tasks that were observed at the same inputs."""

    inputs: Tensor  # `m x d`
    values: Tensor  # `m x n`, one column for each task; NaN where missing


def candidate_values(task_values: Tensor, count: int) -> Tensor:
    r"""``N x M`` task values at ``count`` candidates as float64, NaN where missing."""
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

    Inputs are ``M x d`` that all tasks share, or ``M_i x d`` for each; values ``N x M``, or
    ``M_i`` for each task.
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
    r"""The values of each task; none in a single number."""
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


class TaskMoments(NamedTuple):
    r"""Unbiased mean and covariance of ``N`` task vectors of length ``M``.

    Source: Wang, Kim & Kaelbling (2018), Section 4: ``mu = Y^T 1 / N`` and
    ``k = (Y - 1 mu^T)^T (Y - 1 mu^T) / (N - 1)``.
    """

    mean: Tensor  # `M` values
    # `r x M` matrix with `covariance = root^T root` and orthogonal rows; `r` is the rank
    root: Tensor
    leverages: Tensor  # `N` diagonal entries of the hat matrix of the centred tasks

    @classmethod
    def of(cls, values: Tensor) -> "TaskMoments":
        r"""Moments of ``N x M`` complete values."""
        count = len(values)
        if count < 2:
            raise InputDataError(
                f"A covariance needs at least 2 training tasks, got {count}."
            )
        mean = values.mean(0)
        left, singular, right = torch.linalg.svd(values - mean, full_matrices=False)
        # Relative to the values, not to the deviations: the mean is rounded at their size.
        size = float(torch.linalg.matrix_norm(values, 2)) if values.numel() else 0.0
        cutoff = max(values.shape) * torch.finfo(values.dtype).eps * size
        rank = int((singular > cutoff).sum())
        root = singular[:rank, None] * right[:rank] / math.sqrt(count - 1)
        return cls(mean, root, left[:, :rank].square().sum(-1))

    def norms(self, values: Tensor) -> Tensor:
        r"""Norm of each vector's deviation from the mean, in the space of the covariance.

        ``sqrt((y - mu)^T k^+ (y - mu))`` for each of ``n x M`` values: the RKHS norm under
        the estimated kernel, infinite outside the range of the covariance.
        """
        deviations = values - self.mean
        squared_lengths = self.root.square().sum(-1)
        products = deviations @ self.root.mT
        coordinates = products / squared_lengths
        outside = (deviations - coordinates @ self.root).norm(dim=-1)
        norms = (products * coordinates / squared_lengths).sum(-1).sqrt()
        scale = deviations.norm(dim=-1)
        return torch.where(outside > _OUTSIDE * scale, torch.inf, norms)

    def leave_one_out_norms(self) -> Tensor:
        r"""Norm of each training task under the prior estimated from the others.

        With ``a = N / (N - 1)`` and leverage ``q``, removing a task gives the squared norm
        ``(N - 2) a^2 q / (1 - a q)`` (Sherman-Morrison). Infinite where no other task
        reaches a direction of this one.
        """
        count = len(self.leverages)
        ratio = count / (count - 1)
        rest = 1.0 - ratio * self.leverages
        squared = (count - 2) * ratio**2 * self.leverages / rest
        return torch.where(rest > _OUTSIDE, squared, torch.inf).sqrt()


def conformal_quantile(norms: Tensor, probability: float) -> float:
    r"""Value that one more exchangeable norm stays below with at least this probability.

    The ``ceil((n + 1) probability)``-th smallest of ``n`` norms (split conformal
    prediction, e.g. Lei et al. 2018, Theorem 2.1); nothing is assumed about their law.
    """
    position = math.ceil((len(norms) + 1) * probability - 1e-12)
    if position > len(norms):
        needed = math.ceil(probability / (1.0 - probability) - 1e-12)
        raise InputDataError(
            f"A norm bound that holds with probability {probability:g} needs at least "
            f"{needed} tasks, got {len(norms)}."
        )
    value = float(norms.sort().values[position - 1])
    if math.isinf(value):
        share = float(norms.isinf().double().mean())
        raise InputDataError(
            f"{share:.0%} of the tasks are not in the span of the others, so no norm bound "
            f"holds with probability {probability:g} under this prior. Use more training "
            "tasks, fewer candidates or features, or a lower probability."
        )
    return value
