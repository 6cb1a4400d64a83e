r"""The best of very many candidates in bounded memory."""

import logging
from typing import NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from kernelucb._numerics.checks import tensor, whole_number
from kernelucb.acquisition.ucb import BandUCB

_LOG = logging.getLogger(__name__)
# Values of the same point in different places of a call differ by less, relatively.
_ROUND_OFF = 1e-12


class Best(NamedTuple):
    r"""The best candidate.

    Attributes:
        point: ``1 x d`` candidate.
        value: Acquisition value of the candidate.
        index: Position of the candidate among all candidates.
    """

    point: Tensor
    value: float
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]

    def __str__(self) -> str:
        point = ", ".join(f"{each:.4g}" for each in self.point.reshape(-1).tolist())
        return f"candidate {self.index}: ({point}), acquisition value {self.value:.4g}"


@torch.no_grad()
def argmax(acqf: AcquisitionFunction, candidates: Tensor, chunk_size: int = 1024) -> Best:
    r"""The candidate of largest value, the first where several tie.

    The same candidate as ``acqf(candidates.unsqueeze(-2)).argmax()``, in the memory of the
    candidates and one chunk. A bound that needs a search at each point is searched only at
    candidates whose cheap upper bound (``majorant``) exceeds the best value found.

    Args:
        acqf: An acquisition function of single points.
        candidates: ``n x d`` points, at least one.
        chunk_size: Number of candidates that are scored at once.

    Raises:
        BotorchTensorDimensionError: If the candidates are not ``n x d``.
        InputDataError: If there are no candidates, or a value is NaN.
        ValueError: If the chunk size is not a whole number of at least one.
    """
    if tensor("candidates", candidates).dim() != 2:
        raise BotorchTensorDimensionError(
            f"candidates must be `n x d`, got shape {tuple(candidates.shape)}."
        )
    if len(candidates) == 0:
        raise InputDataError("There are no candidates to choose from.")
    best = Best(candidates[:1], -torch.inf, 0)
    size = whole_number("chunk_size", chunk_size)
    _LOG.debug("%d candidates in chunks of %d.", len(candidates), size)
    for number, chunk in enumerate(candidates.split(size)):
        position, value = _best_of_chunk(acqf, chunk, best.value)
        index = number * size + position
        if value != value:
            raise InputDataError(f"The acquisition function is NaN at candidate {index}.")
        if value > best.value:
            best = Best(chunk[position : position + 1], value, index)
    return best


def _best_of_chunk(
    acqf: AcquisitionFunction, chunk: Tensor, floor: float
) -> tuple[int, float]:
    r"""Position and value of the best candidate; any position if none exceeds ``floor``."""
    X = chunk.unsqueeze(-2)
    if not isinstance(acqf, BandUCB):
        values = acqf(X)
        position = int(values.argmax())  # of a NaN, where there is one
        return position, float(values[position])
    majorants = acqf.majorant(X)
    top = int(majorants.argmax())
    if float(majorants[top]) <= floor:
        return top, floor
    least = float(acqf(X[top : top + 1]))
    promising = majorants >= least - _ROUND_OFF * abs(least)
    promising[top] = True
    positions = promising.nonzero().squeeze(-1)
    values = acqf(X[positions])
    equal = values >= values.max() - _ROUND_OFF * values.max().abs()
    # Alone again: the last bits depend on what else is evaluated.
    best, first = (int(positions[at]) for at in (values.argmax(), equal.int().argmax()))
    value, earlier = (float(acqf(X[at : at + 1])) for at in (best, first))
    return (first, earlier) if earlier >= value else (best, value)
