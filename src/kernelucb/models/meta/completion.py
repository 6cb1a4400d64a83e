r"""Missing entries: low-rank completion with the rank chosen on held-out entries.

No maintained library chooses the rank: scikit-learn imputes by neighbours or by regression
of columns on each other, ``cmfrec`` and ``tensorly`` want the rank given.
"""

from typing import NamedTuple

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor

_SWEEPS, _TOLERANCE = 100, 1e-5  # for each rank, started from the rank below
_WORTH = 1e-3  # share of the error of the column means that a higher rank must take away
_PATIENCE = 3  # ranks without improvement before the search ends
_HELD_OUT = 0.1
_HOPELESS = 0.95  # error ratio above which completion is refused: a tenth of the variance


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
    if values.dim() != 2 or values.numel() == 0:
        raise BotorchTensorDimensionError(
            f"values must be `N x M`, got shape {tuple(values.shape)}."
        )
    seen = ~values.isnan()
    missing = 1.0 - float(seen.double().mean())
    if missing == 0.0:
        return Completion(values, 0, 0.0, 0.0)
    _check_lines(seen)
    rank, ratio = _choose_rank(values, seen, seed)
    if ratio > _HOPELESS:
        raise InputDataError(
            f"{missing:.0%} of the training values are missing, which is too much to "
            f"complete: held-out values are predicted with {ratio:.2f} times the error of "
            "the column means. Drop the tasks or candidates with the fewest values."
        )
    filled = _filled_with_means(values, seen)
    for step in range(1, rank + 1):
        filled = _impute(filled, seen, step)
    return Completion(filled, rank, missing, ratio)


def _check_lines(seen: Tensor) -> None:
    rows, columns = seen.sum(1), seen.sum(0)
    for name, counts, least in (("tasks", rows, 1), ("candidates", columns, 2)):
        short = (counts < least).nonzero().reshape(-1).tolist()
        if short:
            raise InputDataError(
                f"The {name} {short[:8]} have fewer than {least} training value(s); "
                "drop them."
            )


def _choose_rank(values: Tensor, seen: Tensor, seed: int) -> tuple[int, float]:
    r"""Rank with the least held-out error, and that error relative to rank 0."""
    generator = torch.Generator().manual_seed(seed)
    held = seen & (torch.rand(seen.shape, generator=generator).to(values) < _HELD_OUT)
    held &= (seen & ~held).sum(0) > 0
    rest = seen & ~held
    filled = _filled_with_means(values, rest)
    baseline = best = float((filled - values)[held].norm())
    rank, chosen = 1, 0
    freedom = sum(values.shape)
    while rank * (freedom - rank) <= 0.5 * int(rest.sum()) and rank - chosen <= _PATIENCE:
        filled = _impute(filled, rest, rank)
        error = float((filled - values)[held].norm())
        if error < best - _WORTH * baseline:
            best, chosen = error, rank
        rank += 1
    return chosen, best / baseline if baseline > 0.0 else 1.0


def _filled_with_means(values: Tensor, seen: Tensor) -> Tensor:
    r"""Unseen entries replaced by the mean of the seen ones in their column."""
    means = torch.where(seen, values, 0.0).sum(0) / seen.sum(0)
    return torch.where(seen, values, means)


def _impute(filled: Tensor, seen: Tensor, rank: int) -> Tensor:
    r"""Replace unseen entries by column means and the best fit of a rank, repeatedly."""
    for _ in range(_SWEEPS):
        centre = filled.mean(0)
        deviations = filled - centre
        axes = torch.linalg.eigh(deviations.mT @ deviations).eigenvectors[:, -rank:]
        updated = torch.where(seen, filled, centre + deviations @ axes @ axes.mT)
        change = float((updated - filled).norm())
        filled = updated
        if change <= _TOLERANCE * float(deviations.norm()):
            break
    return filled
