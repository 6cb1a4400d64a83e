r"""Missing entries: soft-impute with the penalty chosen on held-out entries.

There is no kept library for this: scikit-learn imputes by neighbours or by regression of
column on column, ``fancyimpute`` is not maintained, ``cmfrec`` (compiled) and ``tensorly``
factorise at a rank that must be given.
"""

import math
from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

_PENALTIES = 20  # geometric, from the largest singular value down to 1e-3 of it
_SMALLEST = 1e-3
_SWEEPS, _TOLERANCE = 100, 1e-4  # of one penalty, started from the one above
_HELD_OUT = 0.1


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
    r"""Fill in NaN entries by nuclear-norm regularised least squares.

    Source: soft-impute, Mazumder, Hastie & Tibshirani (2010), for the matrix completion of
    Candes & Recht (2009) that Wang, Kim & Kaelbling (2018) assume. The penalty is the one
    that predicts a tenth of the observed entries best. Assumes entries missing at random.
    Deterministic for a given ``seed``.

    Args:
        values: ``N x M`` values, NaN where missing.
        seed: Chooses the entries that are held out.

    Raises:
        InputDataError: If a row has no value or a column fewer than two, or if too much is
            missing: a matrix of the rank found has more degrees of freedom than there are
            observed entries, or the held-out entries are predicted no better than by the
            column means.
    """
    seen = ~values.isnan()
    missing = 1.0 - float(seen.double().mean())
    if missing == 0.0:
        return Completion(values, 0, 0.0, 0.0)
    _check_lines(seen)
    generator = torch.Generator().manual_seed(seed)
    held = seen & (torch.rand(seen.shape, generator=generator).to(values) < _HELD_OUT)
    held &= (seen & ~held).sum(0) > 0
    rest = seen & ~held
    errors, start = [], _scaled_means(values, rest)[0]
    for fit, _ in _path(values, rest):
        errors.append(_rms((start + fit - values)[held]) if bool(held.any()) else math.inf)
    baseline = _rms((start - values)[held]) if bool(held.any()) else 0.0
    best = min(range(len(errors)), key=errors.__getitem__)
    ratio = errors[best] / baseline if baseline > 0.0 else math.inf
    centre = _scaled_means(values, seen)[0]
    fit, rank = list(_path(values, seen, best + 1))[-1]
    freedom = rank * (sum(values.shape) - rank)
    if ratio >= 1.0 or freedom > int(seen.sum()):
        raise InputDataError(
            f"{missing:.0%} of the training values are missing, which is too much to "
            f"complete: held-out values are predicted {ratio:.2f} times as badly as by the "
            f"column means, and a matrix of the rank found ({rank}) has {freedom} degrees "
            f"of freedom for {int(seen.sum())} values. Drop the tasks or candidates with "
            "the fewest values."
        )
    return Completion(torch.where(seen, values, centre + fit), rank, missing, ratio)


def _check_lines(seen: Tensor) -> None:
    rows, columns = seen.sum(1), seen.sum(0)
    for name, counts, least in (("tasks", rows, 1), ("candidates", columns, 2)):
        short = (counts < least).nonzero().reshape(-1).tolist()
        if short:
            raise InputDataError(
                f"The {name} {short[:8]} have fewer than {least} training value(s); "
                "nothing can be said about them. Drop them."
            )


def _scaled_means(values: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    r"""Column means of the seen entries, and the residuals from them (zero elsewhere)."""
    total = torch.where(seen, values, 0.0).sum(0)
    means = total / seen.sum(0)
    return means, torch.where(seen, values - means, 0.0)


def _path(values: Tensor, seen: Tensor, steps: int = _PENALTIES):
    r"""Fit and rank at each penalty, from the largest down; each starts from the last."""
    residuals = _scaled_means(values, seen)[1]
    top = float(torch.linalg.matrix_norm(residuals, 2))
    fit = torch.zeros_like(residuals)
    for step in range(1, steps + 1):
        penalty = top * _SMALLEST ** (step / _PENALTIES)
        rank = 0
        for _ in range(_SWEEPS):
            filled = torch.where(seen, residuals, fit)
            left, singular, right = torch.linalg.svd(filled, full_matrices=False)
            shrunk = (singular - penalty).clamp_min(0.0)
            rank = int((shrunk > 0).sum())
            previous = fit
            fit = (left[:, :rank] * shrunk[:rank]) @ right[:rank]
            if float((fit - previous).norm()) <= _TOLERANCE * float(fit.norm()):
                break
        yield fit, rank


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())
