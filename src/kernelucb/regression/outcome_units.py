r"""What an outcome transform of BoTorch is: an increasing map, and a unit."""

import math
from itertools import takewhile
from typing import Any, NamedTuple

from botorch.exceptions import UnsupportedError
from botorch.models.transforms.outcome import (
    Bilog,
    ChainedOutcomeTransform,
    Log,
    OutcomeTransform,
    Power,
    Standardize,
)

from kernelucb.regression.outcome_map import (
    IDENTITY,
    BilogStep,
    LogStep,
    OutcomeMap,
    PowerStep,
    Step,
    check_identity,
)


class OutcomeUnits(NamedTuple):
    r"""How a model's numbers become outcomes: ``map.inverse(offset + scale * value)``.

    Attributes:
        offset: Value of the map at the model's zero.
        scale: Its units per unit of the model.
        outcome_map: The map, an ``OutcomeMap``.
        learned: Whether offset and scale were taken from the outcomes.
    """

    offset: float = 0.0
    scale: float = 1.0
    outcome_map: OutcomeMap = IDENTITY
    learned: bool = False


def outcome_units(transform: OutcomeTransform | None) -> OutcomeUnits:
    r"""What an outcome transform does: increasing steps, then ``Standardize``.

    Raises:
        UnsupportedError: If it does anything else; the message says what to use.
    """
    parts = _parts(transform)
    steps = [*takewhile(lambda part: type(part) is not Standardize, parts)]
    outcome_map = OutcomeMap(tuple(_step(part) for part in steps))
    offset, scale, learned = 0.0, 1.0, False
    for part in reversed(parts[len(steps) :]):
        if type(part) is not Standardize:
            raise UnsupportedError(
                f"The outcome transform has {type(part).__name__} after Standardize, whose "
                "constants come from the outcomes: a norm bound would mean something else "
                f"after each of them. Use {type(part).__name__} first, Standardize last."
            )
        if bool(part._is_trained):  # pyright: ignore[reportPrivateUsage]
            own = float(part.stdvs.double().squeeze())
            offset = float(part.means.double().squeeze()) + own * offset
            scale, learned = scale * own, True
    return OutcomeUnits(offset, scale, outcome_map, learned)


def affine_units(transform: OutcomeTransform | None) -> tuple[float, float]:
    r"""Offset and scale that take a model's units to outcome units.

    Raises:
        UnsupportedError: If the transform is not ``Standardize``, or absent.
    """
    offset, scale, outcome_map, _ = outcome_units(transform)
    ways = "transform the outcomes yourself, or use SketchedMartingaleMixtureUCB"
    check_identity(outcome_map, "BKBModel", ways)
    return offset, scale


def _parts(transform: Any) -> list[Any]:
    r"""The single transforms, in the order in which they are applied."""
    if transform is None:
        return []
    if type(transform) is ChainedOutcomeTransform:
        return [part for each in transform.values() for part in _parts(each)]
    return [transform]


def _step(transform: Any) -> Step:
    name = type(transform).__name__
    steps = {Log: LogStep, Bilog: BilogStep, Power: lambda: PowerStep(transform.power)}
    if type(transform) not in steps:
        raise UnsupportedError(
            f"The outcome transform {name} is not one of Standardize, Log, Power and "
            "Bilog, so a norm bound has no meaning under it. Use these or no outcome "
            "transform."
        )
    if transform._outputs is not None:  # pyright: ignore[reportPrivateUsage]
        raise UnsupportedError(
            f"{name}(outputs=...) is for some of several outcomes. Build one model for "
            f"each outcome, with {name}() or without it."
        )
    if isinstance(transform, Power) and not 0.0 < transform.power < math.inf:
        raise UnsupportedError(
            f"Power({transform.power}) does not rise with the outcome. Use a power above "
            "0, or model the reciprocal of the outcome and seek small values of it."
        )
    return steps[type(transform)]()
