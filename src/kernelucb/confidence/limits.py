r"""Sources of limits on single values beside a band: a range, replicates, a design."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol, Self

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.digits import as_given, coordinate
from kernelucb._numerics.estimates import Number
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.combined import within
from kernelucb.confidence.mixture import announce
from kernelucb.confidence.pointwise import FixedDesign, KnownRange, Pointwise, Replicates
from kernelucb.confidence.sets import ConfidenceSet
from kernelucb.data import KernelRegression
from kernelucb.data.exact import distinct_rows
from kernelucb.data.from_model import ModelData
from kernelucb.data.outcome_map import OutcomeMap


class Noise(NamedTuple):
    r"""Data of given noise scales, from which outcomes alone give limits."""

    data: ModelData
    levels: int = 1  # vectors of scales that share the band's ``delta``
    factor: float = 1.0  # the scales over those for which a design is weighed
    relaxed: bool = True  # whether larger scales are one event with these


class LimitedBand(Protocol):
    r"""What limits read of a band; see ``Band``."""

    @property
    def required_noise(self) -> Noise:
        r"""Data of given noise scales; ``UnsupportedError`` without."""
        ...

    @property
    def observed(self) -> Tensor | None:
        r"""``n x d`` observed inputs; None if not known."""
        ...

    @property
    def required_norm(self) -> Number:
        r"""The norm bound in use, prior units; ``UnsupportedError`` without one."""
        ...

    @property
    def outcome_map(self) -> OutcomeMap:
        r"""From outcomes to the scale of the set."""
        ...


@dataclass(frozen=True)
class Source(ABC):
    r"""A source of limits on values beside a band's set, with a share of ``delta``.

    Attributes:
        ratio: Failure probability of the limits over that of the set.
        noise_factor: Noise scale over the scale for which the limits were stated.
    """

    ratio: float
    noise_factor: float = 1.0
    theorem = ""  # in words
    is_range = False  # a range comes last, since it is compared with all else

    def relaxed(self, noise_factor: float) -> Self:
        r"""The same limits for a larger noise scale."""
        return replace(self, noise_factor=noise_factor * self.noise_factor)

    @abstractmethod
    def limits(self, band: LimitedBand, delta: float) -> Pointwise:
        r"""The limits that follow from the data of a band, at failure probability."""

    @property
    @abstractmethod
    def assumption(self) -> Assumption:
        r"""The assumption of the limits beside noise and norm."""

    def within(
        self, band: LimitedBand, whole: ConfidenceSet, delta: float
    ) -> ConfidenceSet:
        r"""Cut ``whole``, a set of the band, at a further ``ratio * delta``."""
        share = self.ratio * delta
        # Each vector of noise scales that a band may take has limits of its own.
        limits = self.limits(band, share / band.required_noise.levels)
        assumptions = whole.assumptions.spending(self.theorem, share)
        assumptions = assumptions.with_extra(self.assumption)
        item = self.contradiction(band, whole, limits)
        if item is not None:
            assumptions = assumptions.with_item(item)
        return within(whole, limits, assumptions)

    def contradiction(
        self, band: LimitedBand, whole: ConfidenceSet, limits: Pointwise
    ) -> Assumption | None:
        r"""An assumption that the limits contradict; None if there is none."""
        return None


@dataclass(frozen=True)
class ReplicateSource(Source):
    r"""Limits from the outcomes of each observed input alone; see ``Replicates``.

    Attributes:
        num_inputs: Number of inputs that may ever be observed; None if not fixed
            beforehand.
    """

    num_inputs: int | None = None
    theorem = "each input's outcomes alone (Robbins 1970)"

    def limits(self, band: LimitedBand, delta: float) -> Replicates:
        noise = band.required_noise
        data = noise.data
        distinct = len(distinct_rows(data.train_inputs)[0])
        if self.num_inputs is not None and distinct > self.num_inputs:
            raise ValueError(
                f"num_inputs is {self.num_inputs}, and {distinct} different inputs were "
                "observed; give the number of all inputs that may be observed, or None."
            )
        # For the noise scale that was expected before, of which rho is a multiple.
        scale = float(data.noise_std[0]) / (noise.factor * self.noise_factor)
        return Replicates(data, self.num_inputs, delta, scale)

    @property
    def assumption(self) -> Assumption:
        r"""Inputs count by themselves, in a number fixed beforehand or in their order."""
        counted = "in the order in which they were first observed"
        if self.num_inputs is not None:
            counted = f"{self.num_inputs} of them, fixed beforehand"
        statement = f"each input is counted by itself as well ({counted})"
        return Assumption("replicates", statement, Status.GIVEN)

    def contradiction(
        self, band: LimitedBand, whole: ConfidenceSet, limits: Pointwise
    ) -> Assumption | None:
        r"""The norm, where an input's outcomes lie outside the band there."""
        if band.observed is None:
            return None
        lower, upper = whole.bounds(band.observed)
        alone = limits.limits(band.observed)
        apart = (alone.lower > upper) | (alone.upper < lower)
        if not bool(apart.any()) or whole.assumptions.violated:
            return None
        row = [coordinate(each) for each in band.observed[apart][0].tolist()]
        statement = (
            f"{whole.assumptions['norm'].statement}; the outcomes at ({', '.join(row)}) "
            "alone contradict this: their mean lies outside the band (or noise_std is too "
            "small)"
        )
        item = Assumption("norm", statement, Status.VIOLATED)
        announce(item, "The outcomes' own interval is used there.")
        return item


@dataclass(frozen=True)
class DesignSource(Source):
    r"""Limits from batches whose inputs were chosen without a look at their outcomes.

    Attributes:
        num_runs: Sizes of the batches, from the first observation on.
        domain: ``N x d`` points, or the ``2 x d`` limits of a box.
        is_box: Whether ``domain`` holds the limits of a box.
        norm: Norm bound for which the weights are chosen, prior units; fixed before the
            outcomes, whatever norm bound is used afterwards.
    """

    num_runs: tuple[int, ...] = ()
    domain: tuple[tuple[float, ...], ...] = ()
    is_box: bool = False
    norm: Number = 0.0
    theorem = "intervals of a fixed design (Vakili et al. 2021; docs/mathematics.md)"

    def limits(self, band: LimitedBand, delta: float) -> FixedDesign:
        given = band.required_noise
        data = given.data
        if sum(self.num_runs) > len(data.train_targets):
            raise ValueError(
                f"num_runs counts {sum(self.num_runs)} runs, and there are "
                f"{len(data.train_targets)} observations."
            )
        if self.is_box and not data.prior.bounds_changes():
            raise UnsupportedError(
                "How far points of a box are from each other is not known for this kernel, "
                "mean or input transform; give the points as candidates."
            )
        factor = given.factor * self.noise_factor
        # Weights are the best for the noise that was expected; the factor comes afterwards.
        ends, noise = [0, *accumulate(self.num_runs)], data.noise_std / factor
        batches = [
            KernelRegression.from_data(
                data._replace(
                    train_inputs=data.train_inputs[first:last],
                    train_targets=data.train_targets[first:last],
                    noise_std=noise[first:last],
                )
            )
            for first, last in pairwise(ends)
        ]
        domain = torch.tensor(self.domain, dtype=torch.float64).to(data.train_inputs.device)
        norm = float(self.norm)
        factors = float(band.required_norm) / norm, factor
        return FixedDesign(batches, norm, delta, domain, self.is_box, *factors)

    @property
    def assumption(self) -> Assumption:
        r"""Inputs chosen without a look at their own outcomes."""
        first = f"the inputs of the first {self.num_runs[0]} observations were chosen"
        if len(self.num_runs) > 1:
            sizes = ", ".join(map(str, self.num_runs))
            first = f"the inputs of each of the first batches (of {sizes}) were chosen"
        statement = (
            f"{first} without looking at their own outcomes, as many as planned, and are "
            "weighed for a norm bound that was fixed before"
        )
        return Assumption("design", statement, Status.GIVEN)


@dataclass(frozen=True)
class RangeSource(Source):
    r"""A range that holds the function everywhere, outcome units, at no ``delta``."""

    lower: float = -math.inf
    upper: float = math.inf
    is_range = True

    def limits(self, band: LimitedBand, delta: float = 0.0) -> KnownRange:
        ends = torch.tensor([float(self.lower), float(self.upper)], dtype=torch.float64)
        return KnownRange(*band.outcome_map.forward(ends).tolist())

    @property
    def assumption(self) -> Assumption:
        r"""The range, given or estimated."""
        limits = f"between {as_given(self.lower)} and {as_given(self.upper)}"
        if math.isinf(self.lower):
            limits = f"at most {as_given(self.upper)}"
        elif math.isinf(self.upper):
            limits = f"at least {as_given(self.lower)}"
        status = Status.of(self.lower, self.upper)
        return Assumption("range", f"f is {limits} everywhere", status)

    def within(
        self, band: LimitedBand, whole: ConfidenceSet, delta: float
    ) -> ConfidenceSet:
        r"""Cut the set to the range; a range that the data contradict changes no side."""
        values, item, inputs = self.limits(band), self.assumption, band.observed
        if inputs is None:  # inducing points stand for inputs that were not kept
            unchecked = "not compared with the data, whose inputs the bound does not know"
            item = replace(item, text=f"{item.text} ({unchecked})")
            inputs = torch.zeros(0, whole.regression.dimension, dtype=torch.float64)
        least, most = whole.bounds(inputs)
        if bool((least > values.upper).any() | (most < values.lower).any()):
            wrong = (
                f"{item.text}; the data contradict this: the band lies outside at an "
                "input that was observed (or norm bound or noise scale are too small)"
            )
            item = replace(item, text=wrong, status=Status.VIOLATED)
            announce(item, "The band is left as it was.")
            values = KnownRange(-math.inf, math.inf)
        assumptions = whole.assumptions.with_extra(item).with_item(item)
        return within(whole, values, assumptions)
