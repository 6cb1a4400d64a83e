r"""Margins of the default policy, which come with the package."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypedDict

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import tensor
from kernelucb.calibration.claims import Margins
from kernelucb.calibration.policy import Loop

PATH = Path(__file__).parent / "default_margins.json"
_STATEMENT = "the function and its noise are a draw of BoTorch's prior or of a rougher one"


class Kept(TypedDict):
    r"""Largest scores and statistics of each replay on draws of a prior, and the shapes."""

    digest: str
    first: int
    rounds: int
    scores: dict[str, list[float]]
    statistics: dict[str, list[float]]
    shapes: dict[str, list[float]]


def kept(margins: Margins) -> Kept:
    r"""What the package keeps of margins: of every replay the largest numbers, in order."""

    def largest(series: Mapping[str, Tensor]) -> dict[str, list[float]]:
        return {name: each.amax(-1).sort().values.tolist() for name, each in series.items()}

    return Kept(
        digest=margins.loop.digest,
        first=margins.first,
        rounds=margins.loop.rounds,
        scores=largest(margins.scores),
        statistics=largest(margins.statistics),
        shapes={name: shape.tolist() for name, shape in margins.shapes.items()},
    )


@cache
def every(path: Path) -> dict[int, list[Kept]]:
    r"""What a file of the package keeps of each prior, by the number of inputs."""
    found: dict[str, list[Kept]] = json.loads(path.read_text(encoding="utf-8"))
    return {int(inputs): each for inputs, each in found.items()}


def default_margins(bounds: Tensor, *, maximize: bool = True) -> Margins:
    r"""Margins of ``Loop.default(bounds)``, the larger ones of two priors.

    From 149 replays of 40 outcomes on draws of BoTorch's default prior, and as many of a
    rougher one (Matern 5/2, lengthscales Gamma(3, 6), which was BoTorch's), noise as well;
    first claims come after ten outcomes. 50 other replays of each have chosen how margins
    differ between rounds. Between the numbers of inputs that were replayed they are the
    larger ones of both neighbours. The command is
    ``python -m benchmarks.calibration.margins``.

    Example:
        >>> stopping = CalibratedGapStopping(0.1, default_margins(bounds))

    Source: ranks of exchangeable numbers.

    Args:
        bounds: ``2 x d`` limits of the inputs.
        maximize: Whether large outcomes are sought.

    Raises:
        UnsupportedError: If there are more inputs than in any replay.
    """
    inputs, known = tensor("bounds", bounds).shape[-1], every(PATH)
    neighbours = [each for each in known if each <= inputs][-1:]
    neighbours += [each for each in known if each >= inputs][:1]
    if len(neighbours) < 2:
        raise UnsupportedError(
            f"There are margins for {min(known)} to {max(known)} inputs, and bounds has "
            f"{inputs}: make your own with kernelucb.calibration.calibrate."
        )
    parts = [part for each in neighbours for part in known[each]]
    loop = Loop.default(bounds, rounds=parts[0]["rounds"], maximize=maximize)
    scores = _larger([each["scores"] for each in parts])
    statistics = _larger([each["statistics"] for each in parts])
    statement = _STATEMENT
    if inputs not in known:
        numbers = " and ".join(map(str, neighbours))
        statement = f"{statement}, for which the larger margin of {numbers} inputs is one"
    return Margins(
        loop,
        statement,
        {name: each.unsqueeze(-1) for name, each in scores.items()},
        {name: each.unsqueeze(-1) for name, each in statistics.items()},
        first=max(each["first"] for each in parts),
        shapes=_larger([each["shapes"] for each in parts]),
    )


def _larger(parts: Sequence[Mapping[str, list[float]]]) -> dict[str, Tensor]:
    # Ranks of the larger numbers are the larger ones of all ranks, as all are in order.
    numbers = [
        {name: torch.tensor(each, dtype=torch.float64) for name, each in part.items()}
        for part in parts
    ]
    return {
        name: torch.stack([part[name] for part in numbers]).amax(0) for name in numbers[0]
    }
