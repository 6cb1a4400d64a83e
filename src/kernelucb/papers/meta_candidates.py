r"""A prior on candidates: Wang, Kim & Kaelbling (2018), Section 4.1.

``DiscreteMetaModel``, and the completion of missing task values (``complete_matrix``).
"""

import math
from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.utils.datasets import SupervisedDataset
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.checks import as_double, finite
from kernelucb._numerics.domains import checked_points
from kernelucb.papers.meta_model import Basis, MetaModel

# An input is a candidate if it agrees with it to this share of each column's range: wide
# enough for a single-precision copy.
_SAME = 1e-6

# Completion of a matrix of task values.
_SWEEPS = 100  # most sweeps for one rank, started from the rank below
_TOLERANCE = 1e-5  # change in a sweep, as a share of the deviations, that ends them
_WORTH = 1e-3  # share of the error of the column means that a higher rank must take away
_PATIENCE = 3  # ranks without improvement before the search ends
_HELD_OUT = 0.1  # share of the observed values that judge a rank
_HOPELESS = 0.95  # error ratio above which completion is refused: a tenth of the variance


class Lookup(Module):
    r"""Row numbers of inputs that are rows of ``M x d`` candidates."""

    candidates: Tensor

    def __init__(self, candidates: Tensor) -> None:
        super().__init__()
        self.register_buffer("candidates", candidates)

    def forward(self, X: Tensor) -> Tensor:
        r"""``...`` positions of ``... x d`` inputs among the candidates."""
        scale = self.candidates.amax(0) - self.candidates.amin(0)
        scale = torch.where(scale > 0, scale, 1.0)  # of a column in which all agree
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
        candidates = checked_points("candidates", candidates)
        if len(candidates.unique(dim=0)) < len(candidates):
            raise InputDataError("candidates has equal rows; each input must appear once.")
        self.candidates = candidates
        self._task_values, self._seed = self._checked_values(task_values), seed
        self.completion = complete_matrix(self._task_values, seed)
        self.estimated = frozenset({"values"} if self.completion.share_missing else ())
        groups, vectors = [(candidates, self._task_values.mT)], self.completion.values
        self._set_prior(Basis(Lookup(candidates), None), groups, vectors, train_X, train_Y)

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
        lookup = Lookup(candidates.detach().double())
        rows: list[Tensor] = []
        for inputs, values in zip(task_inputs, task_values, strict=True):
            index, row = lookup(inputs), lookup.candidates.new_zeros(len(candidates))
            sums = row.index_add(0, index, values.detach().double().reshape(-1))
            # Where nothing was observed this is NaN, 0 / 0: missing.
            rows.append(sums / index.bincount(minlength=len(row)))
        return cls(torch.stack(rows), candidates, seed=seed)

    @classmethod
    def construct_inputs(
        cls,
        training_data: SupervisedDataset,
        *,
        task_values: Sequence[Sequence[float | None]] = (),
        candidates: Sequence[Sequence[float]] = (),
        seed: int = 0,
    ) -> dict[str, Any]:
        r"""Arguments from BoTorch's or Ax's dataset and ``constructor_options``."""
        # Missing values are stored as None, as JSON has no NaN; NumPy reads None as NaN.
        return {
            "task_values": as_double(np.array(task_values, dtype=float)),
            "candidates": as_double(candidates),
            "train_X": training_data.X,
            "train_Y": training_data.Y,
            "seed": seed,
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
        return self._moments.norms(self._checked_values(task_values))

    def _checked_values(self, task_values: Tensor) -> Tensor:
        r"""``N x M`` task values as float64, NaN where missing."""
        count = len(self.candidates)
        if task_values.dim() != 2 or task_values.shape[1] != count:
            raise BotorchTensorDimensionError(
                f"task_values must be `N x {count}`, one row for each training task, got "
                f"shape {tuple(task_values.shape)}."
            )
        values = task_values.detach().double()
        finite("task_values", values.masked_fill(values.isnan(), 0.0))
        return values


class Completion(NamedTuple):
    r"""A completed matrix.

    Attributes:
        values: ``N x M`` values; the observed ones are as given.
        rank: Rank of the low-rank part found (around the column means); 0 where nothing
            was missing.
        share_missing: Share of the entries that were filled in.
        error_ratio: Root mean square error of held-out entries, relative to filling in
            the column means; 0 where nothing was missing.
    """

    values: Tensor
    rank: int
    share_missing: float
    error_ratio: float


def complete_matrix(values: Tensor, seed: int = 0) -> Completion:
    r"""Fill in NaN entries by column means and a matrix of low rank.

    Source: hard-impute of Mazumder, Hastie & Tibshirani (2010) with warm starts and column
    means, for the matrix completion of Candes & Recht (2009) that Wang, Kim & Kaelbling
    (2018) assume in Section 4.1. Soft-impute, its convex relative, needs a far higher rank
    for the same error. The rank is the one that predicts a tenth of the observed entries
    best. Assumes entries missing at random. Deterministic for a given ``seed``.

    Args:
        values: ``N x M`` values, NaN where missing.
        seed: Chooses the entries that are held out.
    """
    seen = ~values.isnan()
    missing = 1.0 - float(seen.double().mean())
    if missing == 0.0:
        return Completion(values, 0, 0.0, 0.0)
    for name, counts, least in (("tasks", seen.sum(1), 1), ("candidates", seen.sum(0), 2)):
        short = (counts < least).nonzero().reshape(-1).tolist()
        if short:
            raise InputDataError(
                f"The {name} {short[:8]} have fewer than {least} training value(s); "
                "drop them."
            )
    rank, ratio = _choose_rank(values, seen, seed)
    if ratio > _HOPELESS:
        raise InputDataError(
            f"{missing:.0%} of the training values are missing, which is too much to "
            f"complete: held-out values are predicted with {ratio:.2f} times the error of "
            "the column means. Drop the tasks or candidates with the fewest values."
        )
    filled = next(islice(_by_rank(values, seen), rank, None))
    return Completion(filled, rank, missing, ratio)


def _choose_rank(values: Tensor, seen: Tensor, seed: int) -> tuple[int, float]:
    r"""Rank with the least held-out error, and that error relative to rank 0."""
    generator = torch.Generator().manual_seed(seed)
    # Drawn on the CPU, so that every device holds out the same.
    held = seen & (torch.rand(seen.shape, generator=generator).to(values) < _HELD_OUT)
    held &= (seen & ~held).sum(0) > 0  # a column without values has no mean
    rest = seen & ~held
    chosen, freedom, best, baseline = 0, sum(values.shape), math.inf, math.inf
    for rank, filled in enumerate(_by_rank(values, rest)):
        error = float((filled - values)[held].norm())
        if rank == 0:
            best = baseline = error
        elif error < best - _WORTH * baseline:
            best, chosen = error, rank
        after = rank + 1
        # Up to as many free numbers as half the values; more would fit the values by heart.
        if after * (freedom - after) > 0.5 * int(rest.sum()) or after - chosen > _PATIENCE:
            break
    return chosen, best / baseline if baseline > 0.0 else 1.0


def _by_rank(values: Tensor, seen: Tensor) -> Iterator[Tensor]:
    r"""Completed values: by column means, then by fits of rank 1, 2, ..

    Each fit starts from the one of the rank below.
    """
    means = torch.where(seen, values, 0.0).sum(0) / seen.sum(0)
    filled = torch.where(seen, values, means)
    for rank in count(1):
        yield filled
        for _ in range(_SWEEPS):
            centre = filled.mean(0)
            deviations = filled - centre
            # Eigenvalues ascend: the last axes are the principal ones.
            axes = torch.linalg.eigh(deviations.mT @ deviations).eigenvectors[:, -rank:]
            updated = torch.where(seen, filled, centre + deviations @ axes @ axes.mT)
            change = float((updated - filled).norm())
            filled = updated
            if change <= _TOLERANCE * float(deviations.norm()):
                break
