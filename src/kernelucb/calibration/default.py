r"""Margins of the default policy, which come with the package."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, TypedDict

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import one_of, tensor
from kernelucb.calibration.claims import Claim, Margins
from kernelucb.calibration.policy import Loop

PATH = Path(__file__).parent / "default_margins.json"
Prior = Literal["botorch", "matern", "either"]
PRIORS = {"botorch": "BoTorch's prior", "matern": "a rougher prior than BoTorch's"}
_CHOICES = *PRIORS, "either"


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


def written(every: Mapping[str, Mapping[int, Kept]]) -> str:
    r"""The package's file: of each prior, each number of inputs on a line."""
    priors = (
        f'"{prior}": {{\n'
        + ",\n".join(f'"{inputs}": {json.dumps(each)}' for inputs, each in found.items())
        + "}"
        for prior, found in every.items()
    )
    return "{" + ",\n".join(priors) + "}\n"


@cache
def every(path: Path) -> dict[str, dict[int, Kept]]:
    r"""What a file of the package keeps, by priors and numbers of inputs."""
    found: dict[str, dict[str, Kept]] = json.loads(path.read_text(encoding="utf-8"))
    return {
        prior: {int(inputs): each for inputs, each in kept.items()}
        for prior, kept in found.items()
    }


def default_margins(
    bounds: Tensor, *, maximize: bool = True, prior: Prior = "botorch"
) -> Margins:
    r"""Margins of ``Loop.default(bounds)``, for draws of a prior, noise as well.

    From 149 replays of 40 outcomes on draws of BoTorch's default prior, or of a rougher one
    (Matern 5/2, lengthscales Gamma(3, 6), which was BoTorch's); of ``"either"`` in every
    round the larger one. First claims come after ten outcomes. 50 other replays have chosen
    how margins differ between rounds. Between the numbers of inputs that were replayed they
    are the larger ones of both neighbours. The command is
    ``python -m benchmarks.calibration.margins``.

    Example:
        >>> stopping = CalibratedGapStopping(0.1, default_margins(bounds))

    Source: ranks of exchangeable numbers.

    Args:
        bounds: ``2 x d`` limits of the inputs.
        maximize: Whether large outcomes are sought.
        prior: ``"botorch"``, ``"matern"`` (rougher: larger margins), or ``"either"``.

    Raises:
        ValueError: If there is no such prior.
        UnsupportedError: If there are more inputs than in any replay.
    """
    one_of("prior", prior, *_CHOICES)
    inputs = tensor("bounds", bounds).shape[-1]
    names = [*PRIORS] if prior == "either" else [prior]
    known = [every(PATH)[name] for name in names]
    neighbours = _neighbours(inputs, set[int].intersection(*map(set, known)))
    parts = [each[number] for each in known for number in neighbours]
    loop = Loop.default(bounds, rounds=parts[0]["rounds"], maximize=maximize)
    statement = (
        "the function and its noise are a draw of "
        f"{' or of '.join(PRIORS[name] for name in names)}"
    )
    if inputs not in neighbours:
        numbers = " and ".join(map(str, neighbours))
        statement += f", for which the larger margin of {numbers} inputs is one"
    found = tuple(_margins(loop, statement, part) for part in parts)
    # Ranks of the larger numbers are the larger ones of all ranks, as all are in order.
    scores, statistics = (
        {name: torch.stack([each[name] for each in series]).amax(0) for name in series[0]}
        for series in ([each.scores for each in found], [each.statistics for each in found])
    )
    return _Largest(loop, statement, scores, statistics, found[0].first, parts=found)


@dataclass(frozen=True)
class _Largest(Margins):
    r"""In every round the largest margin of several."""

    parts: tuple[Margins, ...] = field(default=(), repr=False)

    def margin(self, claim: Claim, delta: float, runs: int | None = None) -> float:
        return max(part.margin(claim, delta, runs) for part in self.parts)


def _margins(loop: Loop, statement: str, part: Kept) -> Margins:
    scores, statistics, shapes = (
        {name: torch.tensor(each, dtype=torch.float64) for name, each in series.items()}
        for series in (part["scores"], part["statistics"], part["shapes"])
    )
    return Margins(
        loop,
        statement,
        {name: each.unsqueeze(-1) for name, each in scores.items()},
        {name: each.unsqueeze(-1) for name, each in statistics.items()},
        first=part["first"],
        shapes=shapes,
    )


def _neighbours(inputs: int, known: Collection[int]) -> list[int]:
    below, above = ([*filter(side, known)] for side in (inputs.__ge__, inputs.__le__))
    if not (below and above):
        raise UnsupportedError(
            f"There are margins for {min(known)} to {max(known)} inputs, and bounds has "
            f"{inputs}: make your own with kernelucb.calibration.calibrate."
        )
    return sorted({max(below), min(above)})
