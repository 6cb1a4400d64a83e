r"""A prior in basis functions: Wang, Kim & Kaelbling (2018), Section 4.2.

``FeatureMetaModel``, and the training of the basis functions (``CosineFeatures``).
"""

from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor
from torch.nn import Module, Parameter

from kernelucb._numerics.checks import as_double, finite
from kernelucb._numerics.estimates import frozen_copy
from kernelucb.papers.meta_model import Basis, MetaModel, Tasks

# Training of cosine features, on inputs scaled to a range of 1.
_SCALES = (1.0, 2.0, 4.0, 8.0, 16.0)  # first guesses of the frequencies' size
_UNSEEN = 0.2  # share of the inputs on which a step's heads are judged
_STEPS = 150  # of Adam
_RATE = 0.02  # of Adam; phases are in radians
_RIDGE = 1e-6  # of the mean squared feature: keeps a head solvable, and no more
# Combinations of basis functions this much smaller than the largest, on all training
# inputs together, cannot be told from zero by a least-squares fit in double precision.
_INDEPENDENT = 1e-7
# Combinations of a trained network are cut off where the ridge of its training did.
_TRAINED = _RIDGE**0.5


class CosineFeatures(Module):
    r"""``cos(x^T frequencies + phases)``, the basis functions of Wang et al. (2018).

    Args:
        frequencies: ``d x K``.
        phases: ``K``, of the same type.

    Raises:
        BotorchTensorDimensionError: If they are not ``d x K`` and ``K``.

    Attributes:
        of_the_tasks: Whether a ``FeatureMetaModel`` trained them on its own tasks.
    """

    of_the_tasks = False

    def __init__(self, frequencies: Tensor, phases: Tensor) -> None:
        super().__init__()
        if frequencies.dim() != 2 or phases.shape != frequencies.shape[1:]:
            raise BotorchTensorDimensionError(
                "frequencies must be `d x K` and phases `K`, got shapes "
                f"{tuple(frequencies.shape)} and {tuple(phases.shape)}."
            )
        self.frequencies = Parameter(frequencies)
        self.phases = Parameter(phases)

    def forward(self, X: Tensor) -> Tensor:
        r"""``... x K`` features of ``... x d`` inputs."""
        return torch.cos(X @ self.frequencies + self.phases)


def _split(groups: Tasks, generator: torch.Generator) -> tuple[Tasks, Tasks]:
    r"""Four fifths of each group's inputs, drawn at random, and the fifth held out."""
    kept, held = list[tuple[Tensor, Tensor]](), list[tuple[Tensor, Tensor]]()
    for inputs, values in groups:
        order = torch.randperm(len(inputs), generator=generator)
        cut = max(1, round(len(order) * (1.0 - _UNSEEN)))
        kept.append((inputs[order[:cut]], values[order[:cut]]))
        held.append((inputs[order[cut:]], values[order[cut:]]))
    return kept, held


def _error(features: Module, fitted: Tasks, predicted: Tasks) -> Tensor:
    r"""Mean squared error at ``predicted`` of heads fitted to ``fitted``."""
    total, count = fitted[0][1].new_zeros(()), 0
    for (inputs, values), (others, unseen) in zip(fitted, predicted, strict=True):
        design = features(inputs)
        gram = design.mT @ design
        # The gradient passes through the heads (variable projection), so the features are
        # trained for the best heads that they allow.
        ridge = _RIDGE * len(design) * torch.eye(len(gram)).to(gram)
        heads = torch.linalg.solve(gram + ridge, design.mT @ values)
        total = total + (features(others) @ heads - unseen).square().sum()
        count += unseen.numel()
    return total / max(count, 1)


def _trained(groups: Tasks, num_features: int, seed: int, progress: bool) -> CosineFeatures:
    r"""A network of one hidden layer with a linear head for each task.

    Each step fits the heads by least squares on a random four fifths of the inputs, and
    takes an Adam step on the features to reduce the error at the other fifth: with another
    part in each step, no inputs are learnt by heart. Deterministic for a given ``seed``.
    """
    generator = torch.Generator().manual_seed(seed)
    from rich.progress import track  # only where features are trained

    stacked = torch.cat([inputs for inputs, _ in groups])
    span = stacked.amax(0) - stacked.amin(0)
    span = torch.where(span > 0, span, 1.0)
    groups = [(x / span, values) for x, values in groups]
    size = (stacked.shape[-1], num_features)
    normal = torch.randn(size, generator=generator, dtype=torch.float64).to(stacked)
    turns = torch.rand(num_features, generator=generator).to(stacked)
    starts = [CosineFeatures(scale * normal, 2.0 * torch.pi * turns) for scale in _SCALES]
    first = _split(groups, generator)
    best = min(starts, key=lambda each: float(_error(each, *first).detach()))
    optimizer = torch.optim.Adam(best.parameters(), lr=_RATE)
    steps = range(_STEPS)

    for _ in track(steps, "basis functions", transient=True, disable=not progress):
        optimizer.zero_grad()
        _error(best, *_split(groups, generator)).backward()
        optimizer.step()
    frequencies = best.frequencies.detach() / span.unsqueeze(-1)
    return CosineFeatures(frequencies, best.phases.detach()).requires_grad_(False)


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
        self._tasks = _listed(task_inputs, task_values)
        groups = _grouped(self._tasks)
        trained = isinstance(features, CosineFeatures) and features.of_the_tasks
        if features is None:
            most = max(min(len(inputs) for inputs, _ in groups) // 2, 1)
            features = _trained(groups, min(num_features, most), seed, progress)
            features.of_the_tasks = trained = True
        self.features = frozen_copy(features, remember=False)
        self.estimated = frozenset({"features"} if trained else ())
        cutoff = _TRAINED if trained else _INDEPENDENT
        self._combinations = self._independent_combinations(groups, cutoff)
        self.num_features = self._combinations.shape[-1]
        heads = torch.cat([self._heads(*group) for group in groups])
        basis = Basis(self.features, self._combinations)
        self._set_prior(basis, groups, heads, train_X, train_Y)

    @classmethod
    def construct_inputs(
        cls,
        training_data: SupervisedDataset,
        *,
        task_inputs: Sequence[Sequence[Sequence[float]]] = (),
        task_values: Sequence[Sequence[float]] = (),
        frequencies: Sequence[Sequence[float]] = (),
        phases: Sequence[float] = (),
        of_the_tasks: bool = False,
    ) -> dict[str, Any]:
        r"""Arguments from BoTorch's or Ax's dataset and ``constructor_options``."""
        features = CosineFeatures(as_double(frequencies), as_double(phases))
        features.of_the_tasks = of_the_tasks
        return {
            "task_inputs": [*map(as_double, task_inputs)],
            "task_values": [*map(as_double, task_values)],
            "features": features,
            "train_X": training_data.X,
            "train_Y": training_data.Y,
        }

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
        return {
            "task_inputs": [inputs.tolist() for inputs, _ in self._tasks],
            "task_values": [values.tolist() for _, values in self._tasks],
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
        tasks = _listed(task_inputs, task_values, self.dimension)
        heads = [self._heads(x, y.unsqueeze(-1)) for x, y in tasks]
        return self._moments.norms(torch.cat(heads))

    def _independent_combinations(self, groups: Tasks, cutoff: float) -> Tensor:
        r"""``K x K'`` weights of combinations that are orthonormal on the inputs."""
        inputs = torch.cat([inputs for inputs, _ in groups])
        values = self.features(inputs)
        if values.dim() != 2 or len(values) != len(inputs) or values.numel() == 0:
            raise BotorchTensorDimensionError(
                "features must map `n x d` inputs to `n x K` values, got shape "
                f"{tuple(values.shape)} for {tuple(inputs.shape)}."
            )
        finite("features(task_inputs)", values)
        _, singular, right = torch.linalg.svd(values, full_matrices=False)
        kept = singular > cutoff * singular.max()
        # Scaled to mean squares of one, whatever the number of inputs.
        return right[kept].mT / singular[kept] * len(inputs) ** 0.5

    def _heads(self, inputs: Tensor, values: Tensor) -> Tensor:
        r"""``n x K'`` least-squares weights of ``n`` tasks, ``m x n`` values."""
        design = self.features(inputs) @ self._combinations
        if len(design) < self.num_features:
            raise InputDataError(
                f"A task has {len(design)} inputs for {self.num_features} independent "
                "basis functions; it needs at least as many. Use fewer basis functions."
            )
        # By singular values, as a task's few inputs may leave combinations dependent; the
        # driver of `lstsq` that takes these is for the CPU alone.
        return (torch.linalg.pinv(design) @ values).mT


def _listed(
    task_inputs: Tensor | Sequence[Tensor],
    task_values: Tensor | Sequence[Tensor],
    dimension: int | None = None,
) -> Tasks:
    r"""Inputs and values of each task, float64; ``dimension`` is ``d`` where known."""
    values = [each.detach().double().reshape(-1) for each in task_values]
    if isinstance(task_inputs, Tensor) and task_inputs.dim() == 2:  # shared by all
        inputs = [task_inputs.detach().double()] * len(values)
    else:
        inputs = [each.detach().double() for each in task_inputs]
    d = dimension or (inputs[0].shape[-1] if inputs and inputs[0].dim() else 0)
    if d == 0 or [each.shape for each in inputs] != [(len(each), d) for each in values]:
        size = dimension or "d"
        raise BotorchTensorDimensionError(
            f"task_inputs must be `M x {size}` inputs that all tasks share, or `M_i x "
            f"{size}` inputs for each task, and task_values as many values for each."
        )
    for each in {id(each): each for each in inputs}.values():  # shared inputs once
        finite("task_inputs", each)
    finite("task_values", torch.cat(values))
    return list(zip(inputs, values, strict=True))


def _grouped(tasks: Tasks) -> Tasks:
    r"""Tasks with equal inputs together: ``m x d`` inputs, ``m x n`` values of ``n``."""
    groups: dict[bytes, tuple[Tensor, list[Tensor]]] = {}
    for inputs, values in tasks:
        key = inputs.cpu().numpy().tobytes()  # tensors are hashed by identity
        groups.setdefault(key, (inputs, []))[1].append(values)
    return [(inputs, torch.stack(values, -1)) for inputs, values in groups.values()]
