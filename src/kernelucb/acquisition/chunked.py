r"""The best of very many candidates in bounded memory."""

from typing import NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from torch import Tensor

from kernelucb._numerics.checks import whole_number


class Best(NamedTuple):
    r"""The best candidate.

    Attributes:
        point: ``1 x d`` candidate.
        value: Its value.
        index: Its position among the candidates.
    """

    point: Tensor
    value: float
    index: int


@torch.no_grad()
def argmax(acqf: AcquisitionFunction, candidates: Tensor, chunk_size: int = 8192) -> Best:
    r"""The candidate of largest value, the first where several tie.

    Memory is bounded by the candidates and what the function needs for one chunk; the
    result is that of ``acqf(candidates.unsqueeze(-2)).argmax()``.

    Args:
        acqf: An acquisition function of single points.
        candidates: ``n x d`` points, at least one.
        chunk_size: Number of candidates that are scored at once.

    Raises:
        BotorchTensorDimensionError: If the shape is another.
        InputDataError: If there are no candidates, or a value is NaN.
        ValueError: If the chunk size is not a whole number of at least one.
    """
    if candidates.dim() != 2:
        raise BotorchTensorDimensionError(
            f"candidates must be `n x d`, got shape {tuple(candidates.shape)}."
        )
    if len(candidates) == 0:
        raise InputDataError("There are no candidates to choose from.")
    best = Best(candidates[:1], -torch.inf, 0)
    chunks = candidates.split(whole_number("chunk_size", chunk_size))
    for number, chunk in enumerate(chunks):
        values = acqf(chunk.unsqueeze(-2))
        position = int(values.argmax())  # of a NaN, where there is one
        value = float(values[position])
        if value != value:
            raise InputDataError(
                f"The acquisition function is NaN at candidate "
                f"{number * chunk_size + position}."
            )
        if value > best.value:
            index = number * chunk_size + position
            best = Best(chunk[position : position + 1], value, index)
    return best
