r"""A prior estimated in a space of basis functions."""

from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import finite
from kernelucb._numerics.frozen import frozen_copy
from kernelucb.models.meta.base import (
    MetaModel,
    numbers,
)
from kernelucb.models.meta.cosine import RIDGE, CosineFeatures, TaskGroup
from kernelucb.models.meta.evidence import Evidence, Query, unresolved
from kernelucb.models.meta.modules import (
    Combined,
    FeatureKernel,
    FeatureMean,
    features_at,
)
from kernelucb.models.meta.moments import TaskMoments

# Combinations of basis functions this much smaller than the largest, on all training
# inputs together, cannot be told from zero by a least-squares fit in double precision.
# Those of a trained network are cut off where the ridge of its training did.
_INDEPENDENT, _TRAINED = 1e-7, RIDGE**0.5


class FeatureMetaModel(MetaModel):
    r"""Prior ``W^T phi(x)``, with the law of ``W`` estimated from ``N`` tasks.

    Each task gives one vector of weights by least squares; their mean and covariance give
    the prior's mean and kernel.

    Source: Wang, Kim & Kaelbling (2018), Section 4.2; Lemma 3 for given basis functions
    and tasks that share their inputs. Trained basis functions and different inputs are
    beyond it. Basis functions that are linearly dependent on the training inputs are
    combined into independent ones first, which does not change the space they span;
    of a trained network, nearly dependent ones are left out too.

    Example:
        >>> model = FeatureMetaModel(task_inputs, task_values)  # trains cosine features
        >>> acqf = MetaUCB(model.condition_on_observations(X, Y))
        >>> bound = MartingaleMixtureUCB(
        ...     model.to_gp(X, Y, noise_std=0.1), norm_bound=model.norm_bound(0.9)
        ... )

    Attributes:
        features: The basis functions, frozen.
        num_features: Number of independent ones.
    """

    finite_domain = False

    @checked
    def __init__(
        self,
        task_inputs: Tensor | Sequence[Tensor],
        task_values: Tensor | Sequence[Tensor],
        features: Module | None = None,
        *,
        num_features: int = 100,
        seed: int = 0,
        progress: bool = True,
        train_X: Tensor | None = None,
        train_Y: Tensor | None = None,
    ) -> None:
        r"""Train the basis functions where none are given, and estimate the prior.

        Args:
            task_inputs: ``M x d`` inputs that all tasks share, or ``M_i x d`` for each.
            task_values: ``N x M`` values, or ``M_i`` for each task.
            features: Maps ``... x d`` inputs to ``... x K`` values, at least as many inputs
                as ``K`` in every task. By default cosine features are trained on the tasks.
            num_features: How many of them; at most half the inputs of a task are used.
            seed: Of the training.
            progress: Show a progress bar while training.
            train_X: ``n x d`` evaluations of the new function so far, if any.
            train_Y: ``n x 1`` outcomes.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If values are not finite, there are fewer than two tasks, or a
                task has fewer inputs than there are independent basis functions.
            UnsupportedError: If ``features`` do not map inputs to features, or cannot be
                copied.
        """
        super().__init__()
        self._tasks = tasks = _tasks(task_inputs, task_values)
        groups = _groups(tasks)
        self.estimated = frozenset({"features"} if features is None else ())
        if features is None:
            fewest = min(len(inputs) for inputs, _ in tasks)
            features = CosineFeatures.train_on(
                groups, min(num_features, max(fewest // 2, 1)), seed=seed, progress=progress
            )
        self.features = frozen_copy(features)
        self.dimension = tasks[0][0].shape[-1]
        stacked = torch.cat([group.inputs for group in groups])
        cutoff = _TRAINED if "features" in self.estimated else _INDEPENDENT
        self._combinations = self._independent_combinations(stacked, cutoff)
        self.num_features = self._combinations.shape[-1]
        heads = torch.cat([self._heads(group) for group in groups])
        self._moments = TaskMoments.of(heads)
        mean = self._combinations @ self._moments.mean.unsqueeze(-1)
        self.mean_module = FeatureMean(Combined(self.features, mean))
        root = self._combinations @ self._moments.root.mT
        self.covar_module = FeatureKernel(Combined(self.features, root))
        everything = torch.cat([group.values.reshape(-1) for group in groups])
        self._task_range = (float(everything.min()), float(everything.max()))
        directions = heads.new_zeros(self.rank, 0)
        self._evidence = Evidence.none(self.dimension, directions)
        if train_X is not None and train_Y is not None:
            self._evidence = self.condition_on_observations(train_X, train_Y)._evidence

    @classmethod
    def construct_inputs(cls, training_data: Any, **options: Any) -> dict[str, Any]:
        r"""Arguments from BoTorch's or Ax's dataset and ``constructor_options``."""
        data = {"train_X": training_data.X, "train_Y": training_data.Y}
        tasks = {
            name: [numbers(each) for each in options[name]]
            for name in ("task_inputs", "task_values")
        }
        parts = (numbers(options[name]) for name in ("frequencies", "phases"))
        return data | tasks | {"features": CosineFeatures(*parts)}

    def constructor_options(self) -> dict[str, Any]:
        r"""The tasks and the cosine features, as lists.

        Raises:
            UnsupportedError: If the features are others.
        """
        features = self.features
        if not isinstance(features, CosineFeatures):
            raise UnsupportedError(
                f"{type(features).__name__} cannot be written as plain numbers; use "
                "CosineFeatures."
            )
        inputs, values = zip(*self._tasks, strict=True)
        return {
            "task_inputs": [each.tolist() for each in inputs],
            "task_values": [each.tolist() for each in values],
            "frequencies": features.frequencies.tolist(),
            "phases": features.phases.tolist(),
        }

    @checked
    def task_norms(
        self, task_inputs: Tensor | Sequence[Tensor], task_values: Tensor | Sequence[Tensor]
    ) -> Tensor:
        r"""Norms of other tasks under the estimated prior, one for each task.

        A task's norm is that of its least-squares fit by the basis functions.

        Args:
            task_inputs: As for the constructor.
            task_values: As for the constructor.
        """
        tasks = _tasks(task_inputs, task_values)
        if tasks[0][0].shape[-1] != self.dimension:
            raise BotorchTensorDimensionError(
                f"task_inputs must have {self.dimension} columns, got "
                f"{tasks[0][0].shape[-1]}."
            )
        heads = [self._heads(TaskGroup(x, y.unsqueeze(-1))) for x, y in tasks]
        return self._moments.norms(torch.cat(heads))

    def _independent_combinations(self, inputs: Tensor, cutoff: float) -> Tensor:
        r"""``K x K'`` weights of combinations that are orthonormal on the inputs."""
        values = features_at(self.features, inputs)
        _, singular, right = torch.linalg.svd(values, full_matrices=False)
        kept = singular > cutoff * singular.max()
        return right[kept].mT / singular[kept] * len(inputs) ** 0.5

    def _heads(self, group: TaskGroup) -> Tensor:
        r"""``n x K'`` least-squares weights of a group's tasks."""
        design = self.features(group.inputs) @ self._combinations
        if len(design) < self.num_features:
            raise InputDataError(
                f"A task has {len(design)} inputs for {self.num_features} independent "
                "basis functions; it needs at least as many. Use fewer basis functions."
            )
        return torch.linalg.lstsq(design, group.values, driver="gelsd").solution.mT

    @property
    def prior_std(self) -> float:
        r"""Estimated prior standard deviation (root mean square over the tasks' inputs)."""
        inputs = torch.cat([points for points, _ in self._tasks])
        variance: Any = self.covar_module(inputs, diag=True)
        return float(variance.mean().sqrt())

    def _query(self, X: Tensor) -> Query:
        raw = self.covar_module.features(X)  # pyright: ignore
        features, left = self._split(raw)
        mean = self.mean_module.features(X).squeeze(-1)  # pyright: ignore
        return Query(mean, features, left @ left.mT)

    def _split(self, raw: Tensor) -> tuple[Tensor, Tensor]:
        r"""Coordinates along the evaluations, and what is orthogonal to them."""
        basis = self._evidence.basis
        coordinates = raw @ basis
        left = raw - coordinates @ basis.mT
        correction = left @ basis  # once more: one projection leaves round-off of the whole
        left = left - correction @ basis.mT
        known = unresolved(left.square().sum(-1), raw.square().sum(-1))
        left = left.masked_fill(known.unsqueeze(-1), 0.0)
        return coordinates + correction, left

    def _extended_basis(self, x: Tensor) -> tuple[Tensor, Tensor] | None:
        raw = self.covar_module.features(x.unsqueeze(0))  # pyright: ignore
        coordinates, left = self._split(raw)
        length = left.norm()
        if length == 0.0:
            return None
        basis = torch.cat([self._evidence.basis, left.mT / length], dim=-1)
        return basis, torch.cat([coordinates.squeeze(0), length.reshape(1)])


def _tasks(
    task_inputs: Tensor | Sequence[Tensor], task_values: Tensor | Sequence[Tensor]
) -> list[tuple[Tensor, Tensor]]:
    r"""Inputs and values of each task, float64; the same object where inputs are shared.

    Raises:
        BotorchTensorDimensionError: If the shapes do not fit together.
        InputDataError: If a value is not finite.
    """
    values = [each.detach().double().reshape(-1) for each in _each(task_values)]
    shared = isinstance(task_inputs, Tensor)
    if shared and task_inputs.dim() == 2:
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


def _groups(tasks: Sequence[tuple[Tensor, Tensor]]) -> list[TaskGroup]:
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
