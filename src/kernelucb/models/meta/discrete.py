r"""A prior estimated on a finite set of candidates."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.checks import as_double, finite
from kernelucb.models.meta.base import MetaModel
from kernelucb.models.meta.completion import complete_matrix
from kernelucb.models.meta.tasks import TaskGroup, TaskMoments, candidate_values

# An input is a candidate if it agrees with it to this share of each column's range: wide
# enough for a single-precision copy.
_SAME = 1e-6


class Lookup(Module):
    r"""Rows of an ``M x r`` table for inputs that are rows of ``M x d`` candidates."""

    candidates: Tensor
    table: Tensor

    def __init__(self, candidates: Tensor, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("candidates", candidates)
        self.register_buffer("table", table)

    def index(self, X: Tensor) -> Tensor:
        r"""Positions of ``... x d`` inputs among the candidates."""
        scale = self.candidates.amax(0) - self.candidates.amin(0)
        scale = torch.where(scale > 0, scale, 1.0)
        rows = X.detach().to(self.candidates).reshape(-1, X.shape[-1])
        distances = torch.cdist(rows / scale, self.candidates / scale, p=torch.inf)
        nearest, index = distances.min(-1)
        if bool((nearest > _SAME).any()):
            row = rows[int(nearest.argmax())].tolist()
            raise InputDataError(
                f"The input {row} is not one of the model's candidates, and the prior is "
                "known at these alone. Use optimize_acqf_discrete, or FeatureMetaModel for "
                "a continuous domain."
            )
        return index.reshape(X.shape[:-1])

    def forward(self, X: Tensor) -> Tensor:
        r"""``... x r`` rows of the table for ``... x d`` inputs."""
        return self.table[self.index(X)]


class DiscreteMetaModel(MetaModel):
    r"""Prior on ``M`` candidates, estimated from ``N`` tasks that were observed on them.

    Source: Wang, Kim & Kaelbling (2018), Section 4.1. Nothing is assumed about how the
    candidates relate to each other; ``candidates`` only names them.

    Missing task values (NaN) are completed first, see ``complete_matrix``. Completed
    values carry no noise of their own, so the covariance comes out a little too small.

    Example:
        >>> model = DiscreteMetaModel(task_values, candidates)
        >>> acqf = MetaUCB(model, delta=0.05)
        >>> x, _ = optimize_acqf_discrete(acqf, q=1, choices=candidates)
        >>> model = model.condition_on_observations(x, y)

    Attributes:
        candidates: ``M x d`` inputs.
        completion: How missing values were filled in, see ``Completion``.
    """

    finite_domain = True

    def __init__(
        self,
        task_values: Tensor,
        candidates: Tensor,
        *,
        train_X: Tensor | None = None,
        train_Y: Tensor | None = None,
        seed: int = 0,
    ) -> None:
        r"""Estimate the prior.

        Args:
            task_values: ``N x M`` values of the training tasks, NaN where missing.
            candidates: ``M x d`` distinct inputs.
            train_X: ``n x d`` evaluations of the new function so far, if any.
            train_Y: ``n x 1`` outcomes.
            seed: For the completion of missing values.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If there are fewer than two tasks, candidates repeat, or too
                many values are missing.
        """
        super().__init__()
        if candidates.dim() != 2 or candidates.numel() == 0:
            raise BotorchTensorDimensionError(
                f"candidates must be `M x d`, got shape {tuple(candidates.shape)}."
            )
        candidates = finite("candidates", candidates).detach().double()
        if len(candidates.unique(dim=0)) < len(candidates):
            raise InputDataError("candidates has equal rows; each input must appear once.")
        values = candidate_values(task_values, len(candidates))
        self._task_values, self._seed = values, seed
        self.candidates, self.completion = candidates, complete_matrix(values, seed)
        self.estimated = frozenset({"values"} if self.completion.share_missing else ())
        moments = TaskMoments.of(self.completion.values)
        mean = Lookup(candidates, moments.mean.unsqueeze(-1))
        root = Lookup(candidates, moments.root.mT.contiguous())
        groups = [TaskGroup(candidates, values.mT)]
        self._set_prior(mean, root, groups, moments, train_X, train_Y)

    @classmethod
    def from_observations(
        cls,
        task_inputs: Sequence[Tensor],
        task_values: Sequence[Tensor],
        candidates: Tensor,
        seed: int = 0,
    ) -> "DiscreteMetaModel":
        r"""A model from tasks that were each observed at candidates of their own.

        Each at ``n_i x d`` rows of ``candidates``, with ``n_i`` values; values at repeated
        rows are averaged.
        """
        lookup = Lookup(candidates.detach().double(), candidates)
        matrix = candidates.new_full(
            (len(task_inputs), len(candidates)), torch.nan, dtype=torch.float64
        )
        for row, inputs, values in zip(matrix, task_inputs, task_values, strict=True):
            index, values = lookup.index(inputs), values.detach().double().reshape(-1)
            sums = torch.zeros_like(row).index_add(0, index, values)
            counts = torch.zeros_like(row).index_add(0, index, torch.ones_like(values))
            row[counts > 0] = (sums / counts)[counts > 0]
        return cls(matrix, candidates, seed=seed)

    @classmethod
    def construct_inputs(cls, training_data: Any, **options: Any) -> dict[str, Any]:
        r"""Arguments from BoTorch's or Ax's dataset and ``constructor_options``."""
        values = [
            [math.nan if value is None else value for value in row]
            for row in options["task_values"]
        ]
        return {
            "task_values": as_double(values),
            "candidates": as_double(options["candidates"]),
            "train_X": training_data.X,
            "train_Y": training_data.Y,
            "seed": options["seed"],
        }

    def constructor_options(self) -> dict[str, Any]:
        r"""Task values (None where missing), candidates and seed."""
        values = [
            [None if math.isnan(value) else value for value in row]
            for row in self._task_values.tolist()
        ]
        candidates = self.candidates.tolist()
        return {"task_values": values, "candidates": candidates, "seed": self._seed}

    def task_norms(self, task_values: Tensor) -> Tensor:
        r"""Norms of ``n x M`` complete tasks under the estimated prior, ``n`` values."""
        return self._moments.norms(candidate_values(task_values, len(self.candidates)))
