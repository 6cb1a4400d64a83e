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

from kernelucb._numerics.checks import as_double, finite
from kernelucb._numerics.estimates import frozen_copy
from kernelucb.models.meta.base import MetaModel
from kernelucb.models.meta.cosine import RIDGE, CosineFeatures
from kernelucb.models.meta.tasks import TaskGroup, TaskMoments, grouped, listed_tasks

# Combinations of basis functions this much smaller than the largest, on all training
# inputs together, cannot be told from zero by a least-squares fit in double precision.
# Those of a trained network are cut off where the ridge of its training did.
_INDEPENDENT, _TRAINED = 1e-7, RIDGE**0.5


class Combined(Module):
    r"""``features(x) @ weights``, with ``K x r`` weights of ``... x K`` features."""

    weights: Tensor

    def __init__(self, features: Module, weights: Tensor) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("weights", weights)

    def forward(self, X: Tensor) -> Tensor:
        r"""Linear combinations of the features."""
        return self.features(X) @ self.weights


class FeatureMetaModel(MetaModel):
    r"""Prior ``W^T phi(x)``, with the law of ``W`` estimated from ``N`` tasks.

    Each task gives one vector of weights by least squares; their mean and covariance give
    the prior's mean and kernel.

    Source: Wang, Kim & Kaelbling (2018), Section 4.2; Lemma 3 for given basis functions
    and tasks that share their inputs. Trained basis functions and different inputs are
    beyond it. Basis functions that are linearly dependent on the training inputs are first
    combined into independent ones, which does not change the space that they span; nearly
    dependent ones of a trained network are left out as well.

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
            features: Maps ``... x d`` inputs to ``... x K`` values; every task needs at
                least ``K`` inputs. By default cosine features are trained on the tasks.
            num_features: How many cosine features; at most half the number of inputs of
                the smallest task are used.
            seed: Seed of the training.
            progress: Show a progress bar while training.
            train_X: ``n x d`` evaluations of the new function so far, if any.
            train_Y: ``n x 1`` outcomes.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If values are not finite, there are fewer than two tasks, or a
                task has fewer inputs than there are independent basis functions.
            UnsupportedError: If ``features`` cannot be copied.
        """
        super().__init__()
        self._tasks = tasks = listed_tasks(task_inputs, task_values)
        groups = grouped(tasks)
        if features is None:
            most = max(min(len(inputs) for inputs, _ in tasks) // 2, 1)
            count = min(num_features, most)
            features = CosineFeatures.train_on(groups, count, seed, progress)
            features.of_the_tasks = True
        self.features = frozen_copy(features, remember=False)
        trained = isinstance(features, CosineFeatures) and features.of_the_tasks
        self.estimated = frozenset({"features"} if trained else ())
        cutoff = _TRAINED if trained else _INDEPENDENT
        self._combinations = self._independent_combinations(groups, cutoff)
        self.num_features = self._combinations.shape[-1]
        heads = torch.cat([self._heads(group) for group in groups])
        moments = TaskMoments.of(heads)
        mean = Combined(self.features, self._combinations @ moments.mean.unsqueeze(-1))
        root = Combined(self.features, self._combinations @ moments.root.mT)
        self._set_prior(mean, root, groups, moments, train_X, train_Y)

    @classmethod
    def construct_inputs(cls, training_data: Any, **options: Any) -> dict[str, Any]:
        r"""Arguments from BoTorch's or Ax's dataset and ``constructor_options``."""
        data = {"train_X": training_data.X, "train_Y": training_data.Y}
        tasks = {
            name: [as_double(each) for each in options[name]]
            for name in ("task_inputs", "task_values")
        }
        parts = (as_double(options[name]) for name in ("frequencies", "phases"))
        features = CosineFeatures(*parts)
        features.of_the_tasks = options["of_the_tasks"]
        return data | tasks | {"features": features}

    def constructor_options(self) -> dict[str, Any]:
        r"""The tasks and the cosine features, as lists.

        Raises:
            UnsupportedError: If the features are no ``CosineFeatures``.
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
            "of_the_tasks": features.of_the_tasks,
        }

    def task_norms(
        self, task_inputs: Tensor | Sequence[Tensor], task_values: Tensor | Sequence[Tensor]
    ) -> Tensor:
        r"""Norms of other tasks under the estimated prior, one for each task.

        A task, given as to the constructor, has the norm of its least-squares fit by the
        basis functions.
        """
        tasks = listed_tasks(task_inputs, task_values)
        if tasks[0][0].shape[-1] != self.dimension:
            raise BotorchTensorDimensionError(
                f"task_inputs must have {self.dimension} columns, got "
                f"{tasks[0][0].shape[-1]}."
            )
        heads = [self._heads(TaskGroup(x, y.unsqueeze(-1))) for x, y in tasks]
        return self._moments.norms(torch.cat(heads))

    def _independent_combinations(
        self, groups: Sequence[TaskGroup], cutoff: float
    ) -> Tensor:
        r"""``K x K'`` weights of combinations that are orthonormal on the inputs."""
        inputs = torch.cat([group.inputs for group in groups])
        values = self.features(inputs)
        if values.dim() != 2 or len(values) != len(inputs) or values.numel() == 0:
            raise BotorchTensorDimensionError(
                "features must map `n x d` inputs to `n x K` values, got shape "
                f"{tuple(values.shape)} for {tuple(inputs.shape)}."
            )
        finite("features(task_inputs)", values)
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
