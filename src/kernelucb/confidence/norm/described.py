r"""What a norm bound means and what the data say about it, in numbers and in words."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch

from kernelucb.confidence.misspecification import ConsistencyCheck
from kernelucb.confidence.norm.ball import InputChange
from kernelucb.regression.likelihood.outcomes import LINKS, Likelihood

_CAVEAT = (
    "No data can show that a norm bound is large enough: whether it is rests on what you "
    "know of the range and the slope above."
)


@dataclass(frozen=True, kw_only=True)
class _Description(ABC):
    r"""What all descriptions share; the attributes are those of ``NormDescription``."""

    _DATA: ClassVar[str]
    _DOUBTED: ClassVar[str]
    _NONE_FITS: ClassVar[str]

    norm_bound: float
    range: float
    across: float
    inputs: tuple[InputChange, ...]
    everywhere: bool
    prior_mean: float | None
    consistency: ConsistencyCheck
    estimated: tuple[str, ...]
    delta: float
    outcome_unit: str

    @property
    def ratio(self) -> float:
        r"""The norm bound over the least consistent norm; infinite where that is zero."""
        least = self.consistency.least_consistent_norm
        return math.inf if least == 0.0 else self.norm_bound / least

    @property
    def summary(self) -> str:
        r"""What is estimated or contradicted, in one line."""
        if not self.consistency.consistent:
            return f"no guarantee: the data contradict {self._DOUBTED}"
        if self.estimated:
            return f"heuristic: {', '.join(self.estimated)} estimated"
        return f"{self._DATA} given; the norm bound is yours to justify"

    def __str__(self) -> str:
        lines = [
            self.summary,
            f"What a norm of at most {self.norm_bound:.4g} means{self._where()}:",
            *(f"  {line}" for line in self._meaning()),
            "What the data say:",
            *(f"  {line}" for line in self._evidence()),
            _CAVEAT,
        ]
        return "\n".join(lines)

    @abstractmethod
    def _where(self) -> str:
        r"""Whose range and changes these are, or in which unit."""

    @abstractmethod
    def _observed(self) -> str:
        r"""The observed outcomes, in one line."""

    def _meaning(self) -> list[str]:
        subject, reach = "f", f"f(x) is within {self.range:.3g} of the prior mean"
        if self.prior_mean is None:
            subject, reach = "f - m", f"{reach} m(x), which varies"
        else:
            low, high = self.prior_mean - self.range, self.prior_mean + self.range
            reach += f" {self.prior_mean:.4g}: between {low:.4g} and {high:.4g}"
        lines = [
            reach,
            f"{subject} changes by at most {self.across:.3g} between any two points; along",
            *(f"  {change}" for change in self.inputs),
        ]
        if not self.everywhere:
            lines.append(
                "these are the largest values at points of the domain, not proven between "
                "them: this prior differs from place to place"
            )
        return lines

    def _evidence(self) -> list[str]:
        least = self.consistency.least_consistent_norm
        if least == 0.0:
            norm = "least consistent norm 0: the data say nothing about the norm yet"
        elif math.isinf(least):
            norm = self._NONE_FITS
        else:
            norm = f"least consistent norm {least:.4g}, {self._status()}; "
            norm += f"the norm bound is {self.ratio:.3g} times that"
        return [self._observed(), norm, self.consistency.remedy]

    def _status(self) -> str:
        if self.estimated:
            return f"not certified: {', '.join(self.estimated)} estimated"
        return (
            f"certified with probability {1 - self.delta:.6g} if {self._DATA} are as given"
        )


@dataclass(frozen=True, kw_only=True)
class NormDescription(_Description):
    r"""What a norm bound means for a model, outcome units; ``print`` it.

    ``m`` is the prior mean, ``y`` the observed outcomes. Range and changes are those of the
    functions whose norm is at most ``norm_bound``, whether or not the true function is one
    of them.

    Attributes:
        norm_bound: The norm bound that is described.
        range: Largest ``|f(x) - m(x)|`` over the domain.
        across: Largest change of ``f - m`` between any two points of the domain.
        inputs: Changes along each input.
        everywhere: Whether these hold at every point of the domain: for RBF, Matern and
            rational quadratic kernels, without input transform or behind ``Normalize``.
            Otherwise they are the largest over candidates, or over Sobol points and
            corners of the box.
        prior_mean: The prior mean where it is constant; None where it varies.
        largest_observed: Largest observed ``|y - m|``.
        noise_reach: With probability ``1 - delta`` the noise stays below this in all
            observed outcomes.
        consistency: The least consistent norm, and whether the norm bound is below it.
        estimated: Which of kernel, mean and noise may come from the same data.
        delta: Failure probability of ``noise_reach``, and of ``consistency``.
        outcome_unit: Name of the outcome's unit, for the text.
    """

    _DATA = "kernel, mean and noise"
    _DOUBTED = "the norm bound, the kernel or the noise"
    _NONE_FITS = "no norm is consistent with the data at this noise scale"

    largest_observed: float
    noise_reach: float

    def _where(self) -> str:
        return f", in {self.outcome_unit}"

    def _observed(self) -> str:
        return (
            f"the largest |y - prior mean| is {self.largest_observed:.3g}; noise alone "
            f"stays below {self.noise_reach:.3g} with probability {1 - self.delta:.6g}"
        )


class Tally(NamedTuple):
    r"""Successes or counts, added up.

    Attributes:
        number: Number of successes, or of what was counted.
        amount: The trials, or the exposure, that it comes from.
    """

    number: float
    amount: float

    @property
    def rate(self) -> float:
        r"""Proportion of successes, or number for each unit of exposure."""
        return self.number / self.amount

    def put(self, words: str) -> str:
        r"""Number and amount in the places that the words have for them."""
        return words.format(f"{self.number:.0f}", f"{self.amount:.10g}")


class _Words(NamedTuple):
    latent: str
    odds: str
    total: str
    part: str


_SUCCESSES = _Words("log odds", "odds p / (1 - p)", "{} of {} trials succeeded", "{} of {}")
_COUNTS = _Words("log rate", "rate", "{} counted in an exposure of {}", "{} in {}")


@dataclass(frozen=True, kw_only=True)
class LikelihoodNormDescription(_Description):
    r"""What a norm bound means for successes or counts; ``print`` it.

    Range and changes are those of the latent function ``f``, the log odds of a success or
    the log of a rate, and ``m`` is its mean. The other attributes are those of
    ``NormDescription``, without ``largest_observed`` and ``noise_reach``: such outcomes
    have no noise scale.

    Attributes:
        kind: ``"bernoulli"``, ``"binomial"`` or ``"poisson"``.
        total: All outcomes together.
        lowest: Those at the input where the observed proportion, or rate, is smallest.
        highest: Those at the input where it is largest.
        outcome_unit: Name of the probability or the rate, for the text.
    """

    _DATA = "kernel, mean and likelihood"
    _DOUBTED = "the norm bound, the kernel or the likelihood"
    _NONE_FITS = "no norm is consistent with the data under this kernel and likelihood"

    kind: Likelihood
    total: Tally
    lowest: Tally
    highest: Tally

    @property
    def outcome_range(self) -> tuple[float, float] | None:
        r"""Least and largest probability, or rate for each unit of exposure.

        Those that functions of norm at most ``norm_bound`` reach. None where the prior mean
        varies.
        """
        if self.prior_mean is None:
            return None
        ends = self.prior_mean - self.range, self.prior_mean + self.range
        low, high = LINKS[self.kind].inverse(torch.tensor(ends, dtype=torch.float64))
        return float(low), float(high)

    @property
    def _words(self) -> _Words:
        return _COUNTS if self.kind == "poisson" else _SUCCESSES

    def _where(self) -> str:
        return f" for f, the {self._words.latent}"

    def _meaning(self) -> list[str]:
        lines = super()._meaning()
        if self.outcome_range is not None:
            low, high = self.outcome_range
            reach = f"so the {self.outcome_unit} is between {low:.4g} and {high:.4g}"
            lines.insert(1, reach)
        return [*lines, f"adding c to f multiplies the {self._words.odds} by exp(c)"]

    def _observed(self) -> str:
        words = self._words
        ends = self.lowest.put(words.part), self.highest.put(words.part)
        return (
            f"{self.total.put(words.total)} ({self.total.rate:.3g}); input by input from "
            f"{ends[0]} to {ends[1]}"
        )
