r"""What a norm bound means in outcome units, and what the data say about it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import as_double, positive_scalar, probability
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.diagnostics.consistency import ConsistencyCheck, check_consistency, data_of
from kernelucb.diagnostics.norm_ball import Data, InputChange, NormBall
from kernelucb.regression import KernelRegression
from kernelucb.regression.likelihood.losses import LINKS, Likelihood
from kernelucb.regression.likelihood.regression import LikelihoodRegression

_CAVEAT = (
    "No data can show that a norm bound is large enough: whether it is rests on what you "
    "know of the range and the slope above."
)


class NoisyOutcomes(NamedTuple):
    r"""How far noisy outcomes ``y`` lie from the prior mean ``m``, outcome units.

    Attributes:
        largest: Largest observed ``|y - m|``.
        noise_reach: With probability ``1 - delta`` the noise stays below this in all
            observed outcomes.
        delta: Failure probability of ``noise_reach``.
    """

    largest: float
    noise_reach: float
    delta: float

    def __str__(self) -> str:
        return (
            f"the largest |y - prior mean| is {self.largest:.3g}; noise alone stays below "
            f"{self.noise_reach:.3g} with probability {1 - self.delta:.6g}"
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


class CountedOutcomes(NamedTuple):
    r"""Successes or counts: all of them, and at the inputs with extreme rates.

    Attributes:
        kind: ``"bernoulli"``, ``"binomial"`` or ``"poisson"``.
        total: All outcomes together.
        lowest: Outcomes at the input where the proportion, or rate, is smallest.
        highest: Outcomes at the input where it is largest.
    """

    kind: Likelihood
    total: Tally
    lowest: Tally
    highest: Tally

    def __str__(self) -> str:
        words, between = "{:.0f} of {:.10g} trials succeeded", "{:.0f} of {:.10g}"
        if self.kind == "poisson":
            words = "{:.0f} counted in an exposure of {:.10g}"
            between = "{:.0f} in {:.10g}"
        low, high = between.format(*self.lowest), between.format(*self.highest)
        rate = f"({self.total.rate:.3g})"
        return f"{words.format(*self.total)} {rate}; input by input from {low} to {high}"


@dataclass(frozen=True, kw_only=True)
class NormDescription:
    r"""What a norm bound means for a model; ``print`` it.

    ``f`` has outcome units and ``m`` is the prior mean. For successes and counts ``f`` is
    the latent function, the log odds of a success or the log of a rate, and ``m`` its mean.
    Range and changes are those of the functions whose norm is at most ``norm_bound``,
    whether or not the true function is one of them.

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
        observed: The outcomes: ``NoisyOutcomes``, or ``CountedOutcomes`` for successes and
            counts, which have no noise scale.
        consistency: The least consistent norm, and whether the norm bound is below it.
        estimated: Which of kernel, mean and noise may come from the same data.
        delta: Failure probability of each statement about the data.
        outcome_unit: Name of the outcome's unit, for the text; of the probability or rate
            for successes and counts.
    """

    norm_bound: float
    range: float
    across: float
    inputs: tuple[InputChange, ...]
    everywhere: bool
    prior_mean: float | None
    observed: NoisyOutcomes | CountedOutcomes
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
    def outcome_range(self) -> tuple[float, float] | None:
        r"""Least and largest outcome without noise, or probability, or rate.

        Over all functions of norm at most ``norm_bound``. None where the prior mean varies.
        """
        if self.prior_mean is None:
            return None
        ends = self.prior_mean - self.range, self.prior_mean + self.range
        if isinstance(self.observed, NoisyOutcomes):
            return ends
        low, high = LINKS[self.observed.kind].inverse(as_double(ends))
        return float(low), float(high)

    @property
    def summary(self) -> str:
        r"""What is estimated or contradicted, in one line."""
        if not self.consistency.consistent:
            doubted = f"the norm bound, the kernel or the {self._beside}"
            return f"no guarantee: the data contradict {doubted}"
        if self.estimated:
            return f"heuristic: {', '.join(self.estimated)} estimated"
        return f"kernel, mean and {self._beside} given; the norm bound is yours to justify"

    def __str__(self) -> str:
        where = f", in {self.outcome_unit}"
        if isinstance(self.observed, CountedOutcomes):
            latent = "log rate" if self.observed.kind == "poisson" else "log odds"
            where = f" for f, the {latent}"
        lines = [
            self.summary,
            f"What a norm of at most {self.norm_bound:.4g} means{where}:",
            *(f"  {line}" for line in self._meaning()),
            "What the data say:",
            *(f"  {line}" for line in (self.observed, self._least_norm())),
            f"  {self.consistency.remedy}",
            _CAVEAT,
        ]
        return "\n".join(lines)

    @property
    def _beside(self) -> str:
        r"""Kernel, mean and this: what the fit rests on."""
        return "noise" if isinstance(self.observed, NoisyOutcomes) else "likelihood"

    def _meaning(self) -> list[str]:
        subject, reach = "f - m", f"f(x) is within {self.range:.3g} of the prior mean"
        lines = [f"{reach} m(x), which varies"]
        if self.prior_mean is not None:
            mean = self.prior_mean
            low, high = mean - self.range, mean + self.range
            subject = "f"
            lines = [f"{reach} {mean:.4g}: between {low:.4g} and {high:.4g}"]
            if isinstance(self.observed, CountedOutcomes):
                low, high = self.outcome_range or (low, high)
                unit = self.outcome_unit
                lines.append(f"so the {unit} is between {low:.4g} and {high:.4g}")
        lines += [
            f"{subject} changes by at most {self.across:.3g} between any two points; along",
            *(f"  {change}" for change in self.inputs),
        ]
        if not self.everywhere:
            lines.append(
                "these are the largest values at points of the domain, not proven between "
                "them: this prior differs from place to place"
            )
        if isinstance(self.observed, CountedOutcomes):
            odds = "rate" if self.observed.kind == "poisson" else "odds p / (1 - p)"
            lines.append(f"adding c to f multiplies the {odds} by exp(c)")
        return lines

    def _least_norm(self) -> str:
        least = self.consistency.least_consistent_norm
        if least == 0.0:
            return "least consistent norm 0: the data say nothing about the norm yet"
        if math.isinf(least):
            at = "at this noise scale"
            if isinstance(self.observed, CountedOutcomes):
                at = "under this kernel and likelihood"
            return f"no norm is consistent with the data {at}"
        status = f"not certified: {', '.join(self.estimated)} estimated"
        if not self.estimated:
            status = (
                f"certified with probability {1 - self.delta:.6g} if kernel, mean and "
                f"{self._beside} are as given"
            )
        return (
            f"least consistent norm {least:.4g}, {status}; the norm bound is "
            f"{self.ratio:.3g} times that"
        )


@torch.no_grad()
def describe_norm_bound(
    model: Model | KernelRegression | LikelihoodRegression,
    norm_bound: float,
    noise_std: float | Tensor | None = None,
    *,
    bounds: Tensor | None = None,
    candidates: Tensor | None = None,
    steps: Sequence[float] | Tensor | None = None,
    delta: float = 0.05,
    input_names: Sequence[str] | None = None,
    outcome_unit: str | None = None,
) -> NormDescription:
    r"""Say what a norm bound means: range, slope, and what the data say about it.

    Compare range and slope with what you know of the process. A function of norm at most
    ``B`` obeys ``|f(x) - m(x)| <= B sqrt(k(x, x))``, and ``f - m`` changes between two
    points by at most ``B d_k(x, x')`` with the kernel metric
    ``d_k = ||k(x, .) - k(x', .)||``. Some function of norm ``B`` attains each.

    For successes and counts (a ``LikelihoodRegression``) ``f`` is the log odds or the log
    rate, and the text adds the probabilities or rates between which functions of that norm
    stay, where the prior mean is constant.

    Source: Cauchy-Schwarz in the RKHS; ``check_consistency`` for what the data say; for
    ``noise_reach`` the sub-Gaussian tail ``2 exp(-u^2 / 2)`` and a union bound over the
    observations, for their present number and not anytime.

    Example:
        >>> box = torch.tensor([[20.0, 1.0], [100.0, 6.0]], dtype=torch.float64)
        >>> print(describe_norm_bound(model, 30.0, bounds=box, steps=[10.0, 0.5]))

    Args:
        model: A single-output exact GP, a ``KernelRegression``, or a
            ``LikelihoodRegression``, for which ``noise_std`` has no meaning.
        norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units; of log odds or
            log rates for successes and counts.
        noise_std: Noise scale in outcome units; from the likelihood when absent.
        bounds: ``2 x d`` lower and upper limits of a box. Either these or ``candidates``.
        candidates: ``n x d`` points, all of the domain.
        steps: ``d`` steps, one along each input, for which the largest change is given;
            raw units. By default a tenth of the domain.
        delta: Failure probability of each statement about the data.
        input_names: ``d`` names of the inputs, for the text.
        outcome_unit: Name of the outcome's unit, for the text, which adds the transform
            that the model's outcomes went through (Log, Power, Bilog), if any. For
            successes and counts the name of the probability or the rate, such as "number
            of pores per metre".

    Returns:
        The description, a text and its numbers.

    Raises:
        ValueError: If a scalar is out of its range, not exactly one of ``bounds`` and
            ``candidates`` is given, or ``noise_std`` is given for a
            ``LikelihoodRegression``.
        BotorchTensorDimensionError: If a shape or a number of names does not fit.
        InputDataError: If a value is not finite.
        UnsupportedError: If the model cannot be represented, or it is the ``regression``
            of a ``LikelihoodUCB`` in place of its ``data``.
    """
    norm_bound = positive_scalar("norm_bound", norm_bound)
    probability("delta", delta)
    data = data_of(model, noise_std, noise_std is not None)
    ball = NormBall(data, float(norm_bound) / data.prior.scale, bounds, candidates)
    if isinstance(data, LikelihoodRegression):
        observed = _counted(data)
        rate = "rate for each unit of exposure"
        usual = rate if observed.kind == "poisson" else "probability of a success"
        unit = usual if outcome_unit is None else outcome_unit
    else:
        observed = _noisy(data, delta)
        unit = "outcome units" if outcome_unit is None else outcome_unit
        unit += data.outcome_map.after
    return NormDescription(
        norm_bound=norm_bound,
        range=ball.range,
        across=ball.across,
        inputs=ball.changes(steps, input_names),
        everywhere=ball.everywhere,
        prior_mean=_constant_mean(data, ball.domain),
        observed=observed,
        consistency=check_consistency(data, norm_bound, delta=delta),
        estimated=tuple(x for x in ("kernel", "mean", "noise") if x in data.estimated),
        delta=delta,
        outcome_unit=unit,
    )


def _noisy(regression: KernelRegression, delta: float) -> NoisyOutcomes:
    residuals = regression.train_targets - regression.prior.mean(regression.train_inputs)
    tail = math.log(2.0 * regression.num_observations / delta)
    reach = math.sqrt(2.0 * tail) * float(regression.noise_scales.max())
    return NoisyOutcomes(
        EstimatedNumber(residuals.abs().max()),
        EstimatedNumber(reach) if "noise" in regression.estimated else reach,
        delta,
    )


def _counted(data: LikelihoodRegression) -> CountedOutcomes:
    kind, counts, amounts = data.outcomes
    zeros = data.mean.new_zeros(len(data.mean))
    pooled = (zeros.index_add(0, data.index, part).tolist() for part in (counts, amounts))
    at_inputs = [Tally(*pair) for pair in zip(*pooled, strict=True)]
    # Of equal rates the one from more trials or exposure.
    lowest = min(at_inputs, key=lambda tally: (tally.rate, -tally.amount))
    highest = max(at_inputs, key=lambda tally: (tally.rate, tally.amount))
    total = Tally(float(counts.sum()), float(amounts.sum()))
    return CountedOutcomes(kind, total, lowest, highest)


def _constant_mean(data: Data, points: Tensor) -> float | None:
    r"""The prior mean if it is the same at all points of the domain and the data."""
    prior, inputs = data.prior, data.train_inputs
    means = prior.mean(torch.cat([prior.transform(points), inputs]))
    return float(means[0]) if bool((means == means[0]).all()) else None
