r"""The increasing map from outcomes to the scale that a model is on, and its unit."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from botorch.exceptions import UnsupportedError
from botorch.models.transforms.outcome import (
    Bilog,
    ChainedOutcomeTransform,
    Log,
    OutcomeTransform,
    Power,
    Standardize,
)
from torch import Tensor


@dataclass(frozen=True)
class Step:
    r"""A strictly increasing transform of outcomes: one of BoTorch's, or log odds.

    Unlike BoTorch's transforms it is defined everywhere: outcomes below the domain go to
    the end of the image, values outside the image count as its end, and slopes are finite.

    Attributes:
        kind: Name of the transform.
        power: Exponent of ``Power``, above zero.
    """

    kind: Literal["Log", "Power", "Bilog", "Logit"]
    power: float = 1.0

    def __str__(self) -> str:
        return f"Power({self.power:.15g})" if self.kind == "Power" else self.kind

    @property
    def bend(self) -> int:
        r"""1 where the inverse is convex on the image, -1 where it is concave.

        0 where its slope is the same on both sides of zero, and rises or falls on each.
        """
        if self.kind in ("Bilog", "Logit"):
            return 0
        return 1 if self.power <= 1.0 else -1

    def forward(self, outcomes: Tensor) -> Tensor:
        r"""Transformed outcomes."""
        match self.kind:
            case "Log":
                return outcomes.clamp_min(0.0).log()  # -inf at the end, no NaN
            case "Power":
                return outcomes.clamp_min(0.0).pow(self.power)
            case "Bilog":
                return outcomes.sign() * outcomes.abs().log1p()
            case "Logit":
                return outcomes.clamp(0.0, 1.0).logit()

    def inverse(self, values: Tensor) -> Tensor:
        r"""Outcomes; differentiable."""
        match self.kind:
            case "Log":
                return values.exp()
            case "Power":
                inside = values > 0.0  # at zero a root has no finite slope
                return values.where(inside, 1.0).pow(1.0 / self.power).where(inside, 0.0)
            case "Bilog":  # expm1, as exp(v) - 1 loses small values
                return torch.where(values > 0.0, values.expm1(), -(-values).expm1())
            case "Logit":
                return values.sigmoid()


class OutcomeMap(NamedTuple):
    r"""A strictly increasing map from outcomes to the scale that a model is on.

    The function of bounded norm, its bounds and the noise are on that scale, where the
    noise is additive. Since the map is strictly increasing, a band for ``f`` there is a
    band for ``inverse(f(x))`` with the same probability. That is the median of a noisy
    outcome where zero is the median of the noise, and not its mean.

    Attributes:
        steps: Transforms in the order in which they are applied; without any, the map
            leaves outcomes as they are.
    """

    steps: tuple[Step, ...] = ()

    @property
    def is_identity(self) -> bool:
        r"""Whether outcomes stay as they are."""
        return not self.steps

    @property
    def after(self) -> str:
        r"""Scale of a number in words, such as ``" after Log"``; empty without a map."""
        return f" after {' and '.join(map(str, self.steps))}" if self.steps else ""

    def same_as(self, tracked: str | None) -> str:
        r"""The scale in words; an error if a tracker has seen outcomes on another."""
        words = self.after.strip() or "untransformed"
        if tracked not in (None, words):
            raise ValueError(
                f"The outcomes that the tracker has seen were before {tracked}, those of "
                f"the model are {words}: what it has learnt is on another scale. Give the "
                "same outcome transform in every round, or start a new tracker."
            )
        return words

    @property
    def statement(self) -> str:
        r"""Assumption of a bound on this scale about outcomes, in words."""
        words = (
            f"f, its norm and the noise are those of the outcome{self.after}, where the "
            "noise is additive; in outcome units a bound is for the median of an outcome "
            "(noise of median 0), not for its mean"
        )
        some = math.isfinite(self.least_outcome)
        return f"{words}; outcomes are {self.domain}" if some else words

    @property
    def least(self) -> float:
        r"""Lower end of the map's image."""
        return float(self.forward(torch.tensor(-math.inf, dtype=torch.float64)))

    @property
    def least_outcome(self) -> float:
        r"""Lower end of the outcomes that the map takes."""
        return float(self.inverse(torch.tensor(-math.inf, dtype=torch.float64)))

    @property
    def largest_outcome(self) -> float:
        r"""Upper end of the outcomes that the map takes."""
        return float(self.inverse(torch.tensor(math.inf, dtype=torch.float64)))

    def forward(self, outcomes: Tensor) -> Tensor:
        r"""Outcomes on the model's scale; outside its domain, the end of the image."""
        for step in self.steps:
            outcomes = step.forward(outcomes)
        return outcomes

    def takes(self, outcomes: Tensor) -> bool:
        r"""Whether each of the outcomes has a finite value on the model's scale."""
        inside = outcomes >= self.least_outcome
        return bool((inside & self.forward(outcomes).isfinite()).all())

    @property
    def domain(self) -> str:
        r"""``"above 0"``: the outcomes that have a value, in words."""
        if math.isfinite(self.largest_outcome):
            ends = f"{self.least_outcome:g} and {self.largest_outcome:g}"
            return f"strictly between {ends}"
        side = "at least" if math.isfinite(self.least) else "above"
        return f"{side} {self.least_outcome:g}"

    def inverse(self, values: Tensor) -> Tensor:
        r"""Values on the model's scale in outcome units; differentiable.

        Outside the image they count as its end, beyond which no function value lies.
        """
        for step in reversed(self.steps):
            values = step.inverse(values)
        return values

    def largest_gain(
        self, gain: Tensor, lower: Tensor, upper: Tensor, sign: int = 1
    ) -> Tensor:
        r"""Upper bound on a gain in outcome units, from one on the model's scale.

        The value ``v`` of a point is between ``lower`` and ``upper``, and another exceeds
        it by at most ``gain >= 0`` (lies below by that, where ``sign`` is -1 and small
        outcomes are sought). In outcomes that is ``inverse(v + gain) - inverse(v)`` at most
        (with ``v - gain`` in place of ``v``). It is largest at an end of the interval where
        all steps bend the same way; for a single step there or, where its slope is the same
        on both sides of zero, with zero halfway, as nearly as the interval allows.
        Otherwise the difference of the outer ends bounds it.
        """
        if self.is_identity:
            return gain
        shift = gain if sign == -1 else 0.0
        ends = [(end - shift).clamp_min(self.least) for end in (lower, upper)]
        bends = {step.bend for step in self.steps}
        if len(self.steps) > 1 and bends not in ({1}, {-1}):
            rise = self.inverse(ends[1] + gain) - self.inverse(ends[0])
        else:
            halfway = torch.minimum(torch.maximum(-0.5 * gain, ends[0]), ends[1])
            starts = torch.stack(torch.broadcast_tensors(*ends, halfway))
            rise = (self.inverse(starts + gain) - self.inverse(starts)).amax(0)
        most = self.largest_outcome - self.least_outcome
        return rise.nan_to_num(nan=most, posinf=most)  # too large for a number


IDENTITY = OutcomeMap()


def check_identity(outcome_map: OutcomeMap, what: str, ways: str) -> None:
    r"""Refuse a map where ``what`` needs outcome units; ``ways`` says what to do."""
    if not outcome_map.is_identity:
        raise UnsupportedError(
            f"{what} is in outcome units, and the model is of the outcome"
            f"{outcome_map.after}: {ways}."
        )


class OutcomeUnits(NamedTuple):
    r"""How a model's numbers become outcomes: ``map.inverse(offset + scale * value)``."""

    offset: float = 0.0  # value of the map at the model's zero
    scale: float = 1.0  # its units per unit of the model
    outcome_map: OutcomeMap = IDENTITY
    learned: bool = False  # whether offset and scale were taken from the outcomes


def outcome_units(transform: OutcomeTransform | None) -> OutcomeUnits:
    r"""Map and units of an outcome transform: increasing steps, then ``Standardize``."""
    parts = [] if transform is None else _parts(transform)
    kinds = [type(part) for part in parts]
    count = kinds.index(Standardize) if Standardize in kinds else len(parts)
    outcome_map = OutcomeMap(tuple([_step(part) for part in parts[:count]]))
    offset, scale, learned = 0.0, 1.0, False
    # From the last one inwards: each maps the units of the next to those before it.
    for part in reversed(parts[count:]):
        if type(part) is not Standardize:
            raise UnsupportedError(
                f"The outcome transform has {type(part).__name__} after Standardize, whose "
                "constants come from the outcomes: a norm bound would mean something else "
                f"after each of them. Use {type(part).__name__} first, Standardize last."
            )
        # One that saw no outcomes yet leaves them as they are.
        if bool(part._is_trained):  # pyright: ignore[reportPrivateUsage]
            deviation = float(part.stdvs.double().squeeze())
            offset = float(part.means.double().squeeze()) + deviation * offset
            scale, learned = scale * deviation, True
    return OutcomeUnits(offset, scale, outcome_map, learned)


def _parts(transform: OutcomeTransform) -> list[Any]:
    r"""The single transforms, in the order in which they are applied."""
    if type(transform) is ChainedOutcomeTransform:
        steps: Any = transform.values()
        return [part for each in steps for part in _parts(each)]
    return [transform]


def _step(transform: OutcomeTransform) -> Step:
    name = type(transform).__name__
    if type(transform) not in (Log, Power, Bilog):
        raise UnsupportedError(
            f"The outcome transform {name} is not one of Standardize, Log, Power and "
            "Bilog, so a norm bound has no meaning under it. Use these or no outcome "
            "transform."
        )
    if type(transform) is not Power:
        return Step("Log" if type(transform) is Log else "Bilog")
    if not 0.0 < transform.power < math.inf:
        raise UnsupportedError(
            f"Power({transform.power}) does not rise with the outcome. Use a power above "
            "0, or model the reciprocal of the outcome and seek small values of it."
        )
    return Step("Power", transform.power)
