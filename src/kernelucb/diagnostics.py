r"""Diagnostics, which are no bounds: norms in words, consistency, information gain.

Do the data contradict the norm bound, the noise scale or the kernel? What does a norm bound
mean, and how much can points tell?
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import add
from typing import Literal, NamedTuple, TypeVar, cast, get_args

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models.model import Model
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import Kernel
from scipy.special import gammaincinv
from scipy.stats import chi2
from torch import Tensor

from kernelucb._numerics import checks
from kernelucb._numerics.digits import (
    assumed,
    at_least,
    at_most,
    between,
    coordinate,
    one_minus,
)
from kernelucb._numerics.domains import check_one_domain, checked_box, checked_points
from kernelucb._numerics.estimates import (
    Estimate,
    Number,
    estimated_parts,
    is_estimate,
    with_noise,
)
from kernelucb._numerics.kernels import Combined, Reading
from kernelucb._numerics.spectral import kernel_spectrum
from kernelucb.confidence.counts import least_norm_mode, likelihood_level, log_evidence
from kernelucb.confidence.fit import data_fit
from kernelucb.confidence.least_norm import is_resolved
from kernelucb.confidence.noise import NoiseGroup, log_densities
from kernelucb.confidence.radius import noise_energy_bound
from kernelucb.data import KernelRegression
from kernelucb.data.counts import LINKS, Likelihood, LikelihoodRegression, PseudoRegression
from kernelucb.data.exact import runs_by_input
from kernelucb.data.prior import Prior

Of = TypeVar("Of")
Cause = Literal["norm", "noise", "noise by region", "kernel"]

# Factors by which noise scales may be too small (up to 64), length scales too large (32).
_NOISE_FACTORS = tuple(2.0 ** (0.25 * j) for j in range(25))
_LENGTHSCALE_FACTORS = tuple(2.0 ** (0.5 * j) for j in range(1, 11))
# Covariance scales: functions of norms up to a million, prior units.
_SCALES = tuple(4.0**j for j in range(-4, 21))
# The same for log odds and log rates, from small to very large.
_LATENT_SCALES = (0.125, 1.0, 8.0, 64.0, 512.0)
_REGIONS = 3  # groups of replicates that are compared: low, middle and high mean outcomes
_LEAST_DEGREES = 10  # of freedom of each group; its scale is then good to a quarter
_CHANCE = 1e-3  # how rarely one noise scale is said to differ by region
# Log-evidence, in nats, that another scale must gain before it is named as the cause.
_GAIN = 5.0


@dataclass(frozen=True)
class ConsistencyCheck:
    r"""Whether the data contradict the assumptions of a bound.

    Attributes:
        consistent: False where no function of norm at most ``norm_bound`` explains the
            data. If all assumptions hold, the probability that any round gives False is at
            most ``delta``.
        least_consistent_norm: Smallest norm of a function that explains the data, outcome
            units; infinite where the noise scale is too small for any function.
        norm_bound: The norm bound that was checked, outcome units, as given.
        cause: Likeliest cause of a contradiction: ``"norm"``, ``"noise"``,
            ``"noise by region"`` or ``"kernel"``; None without a contradiction. A guess, by
            replicates and log-evidence, not a certified statement.
        remedy: Advice in words.
        regions: Noise scales of replicates where outcomes are low, middle and high
            (``label`` is the mean outcome there), outcome units; empty where repeated
            inputs are few. ``plot_replicates`` draws them.
    """

    consistent: bool
    least_consistent_norm: Estimate
    norm_bound: Number
    cause: Cause | None
    remedy: str
    regions: tuple[NoiseGroup, ...] = ()

    def __str__(self) -> str:
        found = "" if self.consistent else "The data contradict the assumptions. "
        return found + self.remedy


def check_consistency(
    model: Model | KernelRegression | LikelihoodRegression,
    norm_bound: Number,
    noise_std: float | Tensor | None = None,
    delta: float = 0.05,
    model_error: float = 0.0,
) -> ConsistencyCheck:
    r"""Check kernel, norm bound and noise scale against the data, at any time.

    A contradiction is reported when no function of norm at most ``norm_bound`` fits the
    data. The fit includes the energy of the noise, which does not depend on the kernel, so
    that outcomes which a wrong kernel cannot explain are detected. Pass the norm bound that
    you believe: the estimate of a ``NormTracker`` grows with the data, so only the noise
    scale could be contradicted. Successes and counts are checked by their likelihood; the
    cause is then the norm or the kernel.

    Source: a mixture of filters (ours); for successes and counts see ``LikelihoodUCB``.

    Args:
        model: A single-output exact GP, a ``KernelRegression``, or a
            ``LikelihoodRegression``, for which ``noise_std`` and ``model_error`` have no
            meaning.
        norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units.
        noise_std: Noise scale in outcome units; from the likelihood when absent.
        delta: Probability of a false alarm, over all rounds at which one may look.
        model_error: How far ``f`` may lie from a function of that norm, outcome units; see
            ``MartingaleMixtureUCB``.

    Raises:
        ValueError: If a scalar is out of its range.
        UnsupportedError: If the model cannot be represented, or it is the ``regression``
            of a ``LikelihoodUCB`` in place of its ``data``.
    """
    checks.probability("delta", delta)
    norm = checks.positive_number("norm_bound", norm_bound)
    model_error = checks.nonnegative_scalar("model_error", model_error)
    seen = _observed(model, noise_std, model_error)
    least = seen.least_norm(delta)
    if not least <= norm:
        cause, remedy = seen.diagnosis(least, norm, delta)
        return ConsistencyCheck(False, Estimate(least), norm, cause, remedy, seen.regions)
    remedy = (
        f"No contradiction: functions of norm {at_most(least)} explain the data, the "
        f"norm bound is {assumed(norm)}. That does not show that it is large enough."
    )
    remedy = " ".join([remedy, *seen.differences])
    return ConsistencyCheck(True, Estimate(least), norm, None, remedy, seen.regions)


def noise_regions(train_X: Tensor, train_Y: Tensor) -> tuple[NoiseGroup, ...]:
    r"""Noise scales of repeated inputs with low, middle and high mean outcomes.

    Of Gaussian noise the scatter of an input's outcomes does not depend on their mean, so
    one scale gives three estimates of the same number. ``train_X`` is ``n x d``,
    ``train_Y`` has ``n`` outcomes; empty where repeats are few.
    """
    runs = runs_by_input(train_X, train_Y)
    counts, means, squares = runs.precision, runs.means, runs.total(runs.squares)
    order = means.argsort()
    order = order[counts[order] > 1.0]
    degrees = (counts[order] - 1.0).cumsum(0)
    if len(order) == 0 or float(degrees[-1]) < _REGIONS * _LEAST_DEGREES:
        return ()
    # Regions of about as many degrees of freedom each, whatever their outcomes.
    region = ((degrees - 0.5) * _REGIONS / degrees[-1]).long()
    groups: list[NoiseGroup] = []
    for each in range(_REGIONS):
        some = order[region == each]
        freedom, total = int((counts[some] - 1.0).sum()), float(squares[some].sum())
        if freedom < _LEAST_DEGREES or not total > 0.0:
            return ()
        scale = Estimate(math.sqrt(total / freedom))
        groups.append(NoiseGroup(float(means[some].mean()), freedom, scale))
    return tuple(groups)


@dataclass(frozen=True)
class _Noisy:
    r"""Outcomes with noise, as they were observed."""

    data: KernelRegression
    model_error: float

    def least_norm(self, delta: float) -> float:
        r"""Least norm that explains the data, outcome units."""
        fitted = data_fit("filters", self.data, delta, model_error=self.model_error)
        return fitted.for_least_norm()[1] * self.data.outcome_scale

    @cached_property
    def regions(self) -> tuple[NoiseGroup, ...]:
        r"""Noise scales where outcomes are low, middle and high."""
        return noise_regions(self.data.train_inputs, self.data.train_targets)

    @cached_property
    def differences(self) -> tuple[str, ...]:
        r"""A sentence if noise differs by region, none where that may be chance.

        By Bartlett's statistic; scales that were given one for each run are not compared.
        """
        if not self.regions or not self.data.has_one_noise_scale:
            return ()
        degrees = sum(each.degrees for each in self.regions)
        squares = sum(each.degrees * float(each.estimate) ** 2 for each in self.regions)
        pooled = squares / degrees
        parts = (n * math.log(pooled / float(scale) ** 2) for _, n, scale in self.regions)
        if chi2.sf(sum(parts), len(self.regions) - 1) >= _CHANCE:
            return ()
        scales = ", ".join(f"{each.estimate:.3g}" for each in self.regions)
        where = ", ".join(f"{each.label:.3g}" for each in self.regions)
        given = float(self.data.noise_scales[0])
        return (
            f"The noise differs by region: replicates scatter {scales} where outcomes are "
            f"about {where} (given {assumed(given)} everywhere). Give noise_std as a "
            "function of the inputs, a ReplicateNoise with groups, or model a transformed "
            "outcome (Log).",
        )

    def diagnosis(
        self, least: float, norm_bound: Number, delta: float
    ) -> tuple[Cause, str]:
        r"""The likeliest reason of a contradiction, and what to do about it."""
        cause, remedy = _likeliest(self.data, least, norm_bound, delta)
        largest = max((float(each.estimate) for each in self.regions), default=0.0)
        if self.differences and largest > float(self.data.noise_scales.max()):
            return "noise by region", " ".join([*self.differences, remedy])
        return cause, remedy

    def outcomes(self, delta: float) -> "NoisyOutcomes":
        r"""How far the outcomes lie from the prior mean."""
        data = self.data
        residuals = data.train_targets - data.prior.mean(data.train_inputs)
        tail = math.log(2.0 * data.num_observations / delta)
        reach = math.sqrt(2.0 * tail) * float(data.noise_scales.max())
        largest = Estimate(float(residuals.abs().max()))
        is_given = "noise" not in data.estimated
        return NoisyOutcomes(largest, reach if is_given else Estimate(reach), delta)

    def unit(self, name: str | None) -> str:
        r"""Name of the outcomes' unit, with the transform that they went through."""
        return f"{name or 'outcome units'}{self.data.outcome_map.after}"


@dataclass(frozen=True)
class _Counted:
    r"""Successes or counts, as they were observed."""

    data: LikelihoodRegression

    regions = differences = ()

    def least_norm(self, delta: float) -> float:
        r"""Least norm of a function that explains the data, of log odds or log rates."""
        return least_norm_mode(self.data, likelihood_level(self.data, delta)).norm

    def diagnosis(
        self, least: float, norm_bound: Number, delta: float
    ) -> tuple[Cause, str]:
        r"""The likeliest reason of a contradiction, and what to do about it."""
        base, gain, shorter = log_evidence(self.data, _LATENT_SCALES), -math.inf, 1.0
        for factor in _LENGTHSCALE_FACTORS:
            state = self.data.with_shorter_lengthscales(factor)
            if state is not None:
                found = log_evidence(state, _LATENT_SCALES) - base
                gain, shorter = max((gain, shorter), (found, factor))
        if gain < _GAIN:
            return "norm", (
                "norm_bound is too small, or the outcomes do not follow the likelihood "
                f"(more scatter than it allows): the least norm is {at_least(least)} "
                f"(given {assumed(norm_bound)}). Give a larger one, or none to have it "
                "estimated."
            )
        return "kernel", (
            "The kernel is too smooth for these outcomes: length scales about "
            f"{shorter:.2g} times shorter explain them better. "
            f"Fix a shorter one. If it is right, norm_bound must be at least "
            f"{at_most(least)} (given {assumed(norm_bound)})."
        )

    def outcomes(self, delta: float) -> "CountedOutcomes":
        r"""All of them, and at the inputs with extreme rates."""
        counts, amounts = self.data.loss.counts, self.data.loss.amounts
        pairs = list(zip(counts.tolist(), amounts.tolist(), strict=True))
        # Of equal rates the one from more trials or exposure.
        lowest = min(pairs, key=lambda pair: (pair[0] / pair[1], -pair[1]))
        highest = max(pairs, key=lambda pair: (pair[0] / pair[1], pair[1]))
        total = float(counts.sum()), float(amounts.sum())
        return CountedOutcomes(self.data.loss.kind, total, lowest, highest)

    def unit(self, name: str | None) -> str:
        r"""Name of the probability or the rate."""
        rates = {"poisson": "rate for each unit of exposure"}
        return name or rates.get(self.data.loss.kind, "probability of a success")


def _observed(
    model: Model | KernelRegression | LikelihoodRegression,
    noise_std: float | Tensor | None,
    model_error: float = 0.0,
) -> _Noisy | _Counted:
    r"""The data as they were observed."""
    if isinstance(model, PseudoRegression):
        raise UnsupportedError(
            "This regression has pseudo-outcomes in place of the successes or counts that "
            "were observed: pass the LikelihoodRegression itself, which is acqf.band.data."
        )
    if not isinstance(model, LikelihoodRegression):
        return _Noisy(KernelRegression.of(model, noise_std), model_error)
    if noise_std is not None or model_error > 0.0:
        raise ValueError(
            "Successes and counts have no noise scale of their own: leave out noise_std "
            "and model_error."
        )
    return _Counted(model)


def _likeliest(
    regression: KernelRegression, least: float, norm_bound: Number, delta: float
) -> tuple[Cause, str]:
    r"""The likeliest reason of a contradiction, and what to do about it.

    More noise, shorter length scales, or neither: then the norm bound is too small. The
    data contradict all of them together, so the norm that would be enough is named as well.
    Repeated inputs may show that the noise scale is too small, or that it is not.
    """
    distinct = len(regression.distinct_inputs)
    repeats = regression.num_observations - distinct
    rest = regression.targets[: len(regression.targets) - distinct]
    scatter = float(rest.square().sum())  # noise units
    ratio = math.sqrt(scatter / max(repeats, 1))
    given = float(regression.noise_scales.max())
    larger_noise = "Give a larger one, or noise_std=UnknownNoise()."
    scattered = f"repeated inputs scatter {ratio:.3g} times as much as noise_std says"
    if repeats and scatter > noise_energy_bound(repeats, delta):
        return "noise", (
            f"noise_std is too small: {scattered}, so about {ratio * given:.3g} (given "
            f"{assumed(given)}). {larger_noise}"
        )
    base = float(_log_evidence(regression, (1.0,))[0])
    noise = _log_evidence(regression, _NOISE_FACTORS) - base
    noise_gain, factor = float(noise.max()), _NOISE_FACTORS[int(noise.argmax())]
    # Normal noise of the larger scale seldom scatters less than this.
    if repeats and scatter < 2.0 * gammaincinv(0.5 * repeats, delta) * factor**2:
        noise_gain = 0.0
    length_gain, shorter = -math.inf, 1.0
    if regression.prior.has_constant_variance:  # its length scales are known
        states = map(regression.with_shorter_lengthscales, _LENGTHSCALE_FACTORS)
        lengths = [float(_log_evidence(state, (1.0,))[0]) - base for state in states]
        length_gain, shorter = max(zip(lengths, _LENGTHSCALE_FACTORS, strict=True))
    norm = least / regression.outcome_scale
    finite = is_resolved(regression, norm, float(regression.num_observations))
    enough = f"norm_bound must be at least {at_most(least)} (given {assumed(norm_bound)})."
    if_right = f" If it is right, {enough}" if finite else ""
    if max(noise_gain, length_gain) < _GAIN and finite:
        doubt = f"; {scattered}" if repeats else ". If it is right, noise_std is too small"
        return "norm", (
            "norm_bound is too small for this noise_std: the data allow no function of "
            f"norm below {at_least(least)} (given {assumed(norm_bound)}). Give a larger "
            f"one, or none to have it estimated{doubt}."
        )
    if max(noise_gain, length_gain) < _GAIN and repeats:
        return "kernel", (
            f"The kernel explains these data at no norm, and {scattered}. Use a rougher "
            "kernel, or shorter length scales."
        )
    if length_gain > noise_gain:
        return "kernel", (
            "The kernel is too smooth for these data: length scales about "
            f"{shorter:.2g} times shorter explain them better. Fit the model again, or fix "
            f"a shorter one.{if_right}"
        )
    which = "noise_std or norm_bound" if finite else "noise_std"
    return "noise", (
        f"{which} is too small: a noise_std of about {factor * given:.3g} (given "
        f"{assumed(given)}) explains the data better. {larger_noise}{if_right}"
    )


def _log_evidence(regression: KernelRegression, factors: tuple[float, ...]) -> Tensor:
    r"""Log-evidence with the noise scales multiplied by each factor, up to a constant.

    The covariance scale is the best one for each.
    """
    variances = torch.tensor(factors).to(regression.eigenvalues).square()
    return log_densities(regression, _SCALES, variances)[0].amax(0)


# Where priors that vary over the domain are looked at.
_SCAN = 1024  # Sobol points
_MOST_CORNERS = 1024  # of a box, which has 2^d: all corners up to ten inputs

# Slopes are measured over steps with this squared kernel metric, as a share of the prior
# variance: about 1e-3 length scales, which leaves relative errors of h^2 = 1e-6 after
# extrapolation and 16 eps / 1e-6 = 4e-9 from round-off.
_SMALL = 1e-6
_MARGIN = 1e-6
# Below this share round-off hides any change across the domain.
_UNSEEN = 1e-12
# Halving the step multiplies the squared slope by 1 where the kernel has a derivative,
# and by 2 for Matern 1/2.
_DIVERGES = 1.5
_MOST_HALVINGS = 60  # of a step: to 1e-18 of the side
# Above this share at the smallest step, the length scale is smaller than that step.
_SATURATED = 0.5


class InputChange(NamedTuple):
    r"""How much ``f - m`` can change along one input, outcome units.

    Estimates where the norm bound is one.
    The slope is None where it has no bound because the kernel has no derivative (Matern
    1/2), infinite where the length scale is too small to see across the domain.
    """

    name: str
    step: float  # raw units
    over_step: Number  # largest change over that step
    over_side: Number  # largest change over the side of the domain
    side: float  # raw units
    slope: Number | None  # largest slope, outcome units per raw unit

    def __str__(self) -> str:
        if self.slope is None:
            slope = "slope without bound (the kernel has no derivative)"
        elif math.isinf(self.slope):
            slope = "the length scale is too small to see across the domain"
        else:
            slope = f"slope at most {at_most(self.slope)} per unit"
        over_step, over_side = at_most(self.over_step), at_most(self.over_side)
        return (
            f"{self.name}: at most {over_step} over a step of {coordinate(self.step)}, "
            f"{over_side} over all {coordinate(self.side)}; {slope}"
        )


class NoisyOutcomes(NamedTuple):
    r"""How far noisy outcomes ``y`` lie from the prior mean ``m``, outcome units."""

    largest: Estimate  # largest observed |y - m|
    noise_reach: Number  # all the noise stays below it with probability `1 - delta`
    delta: float

    fit, at_fit = "noise", "at this noise scale"  # of what a function must explain

    def scale(self, unit: str) -> str:
        r"""The scale of the function, in words."""
        return f", in {unit}"

    def range(self, ends: tuple[float, float]) -> tuple[float, float]:
        r"""Values of the outcome without noise, between two of the function."""
        return ends

    def range_in_words(self, ends: tuple[float, float] | None, unit: str) -> list[str]:
        r"""The same, where that is not the function itself."""
        return []

    @property
    def change(self) -> list[str]:
        r"""What a change of the function means, where it is not the outcome."""
        return []

    def __str__(self) -> str:
        return (
            f"the largest |y - prior mean| is {self.largest:.4g}; noise alone stays below "
            f"{at_most(self.noise_reach)} with probability {one_minus(self.delta)}"
        )


class CountedOutcomes(NamedTuple):
    r"""Successes or counts: all of them, and at the inputs with extreme rates.

    Each a number of successes among trials, or of counts in an exposure, added up.
    """

    kind: Likelihood
    total: tuple[float, float]
    lowest: tuple[float, float]
    highest: tuple[float, float]

    fit, at_fit = "likelihood", "under this kernel and likelihood"

    def scale(self, unit: str) -> str:
        r"""The scale of the function, in words."""
        return f" for f, the {'log rate' if self.kind == 'poisson' else 'log odds'}"

    def range(self, ends: tuple[float, float]) -> tuple[float, float]:
        r"""Probability or rate, between two values of the function."""
        low, high = LINKS[self.kind].inverse(checks.as_double(ends))
        return float(low), float(high)

    def range_in_words(self, ends: tuple[float, float] | None, unit: str) -> list[str]:
        r"""The same, if known."""
        if ends is None:
            return []
        return [f"so the {unit} is between {' and '.join(between(*ends))}"]

    @property
    def change(self) -> list[str]:
        r"""What a change of the function means for the probability or the rate."""
        odds = "rate" if self.kind == "poisson" else "odds p / (1 - p)"
        return [f"adding c to f multiplies the {odds} by exp(c)"]

    def __str__(self) -> str:
        words, between = "{:.0f} of {:.10g} trials succeeded", "{:.0f} of {:.10g}"
        if self.kind == "poisson":
            words = "{:.0f} counted in an exposure of {:.10g}"
            between = "{:.0f} in {:.10g}"
        low, high = between.format(*self.lowest), between.format(*self.highest)
        rate = self.total[0] / self.total[1]
        return (
            f"{words.format(*self.total)} ({rate:.3g}); input by input from {low} to {high}"
        )


@dataclass(frozen=True, kw_only=True)
class NormDescription:
    r"""The meaning of a norm bound for a model; ``print`` shows the text.

    ``f`` has outcome units and ``m`` is the prior mean. For successes and counts ``f`` is
    the latent function, the log odds of a success or the log of a rate, and ``m`` its mean.
    Range and changes describe every function of norm at most ``norm_bound``, whether or
    not the true function has so small a norm.

    Attributes:
        norm_bound: The norm bound that is described; as an estimate, so are the numbers
            that follow from it.
        range: Largest ``|f(x) - m(x)|`` over the domain.
        across: Largest change of ``f - m`` between any two points of the domain.
        inputs: Changes along each input.
        everywhere: Whether range and changes hold at every point of the domain: for RBF,
            Matern and rational quadratic kernels, without input transform or behind
            ``Normalize``. Otherwise range and changes are the largest over the candidates,
            or over Sobol points and corners of the box.
        prior_mean: The prior mean where it is constant; None where it varies.
        observed: ``NoisyOutcomes``, or ``CountedOutcomes`` for successes and counts.
        consistency: The least consistent norm, and whether the norm bound is below it.
        estimated: Those of kernel, mean, noise and norm that may come from the same data.
        delta: Failure probability of each statement about the data.
        outcome_unit: Name of the outcome's unit, for the text; of the probability or rate
            for successes and counts.
    """

    norm_bound: Number
    range: Number
    across: Number
    inputs: tuple[InputChange, ...]
    everywhere: bool
    prior_mean: float | None
    observed: NoisyOutcomes | CountedOutcomes
    consistency: ConsistencyCheck
    estimated: tuple[str, ...]
    delta: float
    outcome_unit: str

    @property
    def ratio(self) -> Estimate:
        r"""The norm bound over the least consistent norm; infinite where that is zero."""
        least = self.consistency.least_consistent_norm
        return Estimate(float(self.norm_bound) / float(least) if least else math.inf)

    @property
    def outcome_range(self) -> tuple[float, float] | None:
        r"""Least and largest outcome without noise, or probability, or rate.

        Over all functions of norm at most ``norm_bound``. None where the prior mean varies.
        """
        if self.prior_mean is None:
            return None
        return self.observed.range(self._around(self.prior_mean))

    def _around(self, mean: float) -> tuple[float, float]:
        return mean - float(self.range), mean + float(self.range)

    @property
    def summary(self) -> str:
        r"""Contradictions, else estimates, else what is left to justify, in one line."""
        if not self.consistency.consistent:
            doubted = f"the norm bound, the kernel or the {self.observed.fit}"
            return f"no guarantee: the data contradict {doubted}"
        if self.estimated:
            return f"heuristic: {', '.join(self.estimated)} estimated"
        given = f"kernel, mean and {self.observed.fit} given"
        return f"{given}; the norm bound is yours to justify"

    def __str__(self) -> str:
        where = self.observed.scale(self.outcome_unit)
        subject, mean = "f - m", "m(x), which varies"
        if self.prior_mean is not None:
            low, high = self._around(self.prior_mean)
            centre, ends = coordinate(self.prior_mean), " and ".join(between(low, high))
            subject, mean = "f", f"{centre}: between {ends}"
        means = [f"f(x) is within {at_most(self.range)} of the prior mean {mean}"]
        means += self.observed.range_in_words(self.outcome_range, self.outcome_unit)
        between_two = f"{subject} changes by at most {at_most(self.across)} between any two"
        means += [f"{between_two} points; along", *(f"  {each}" for each in self.inputs)]
        if not self.everywhere:
            means.append(
                "these are the largest values at points of the domain, not proven between "
                "them: this prior differs from place to place"
            )
        means += self.observed.change
        says = self.observed, self._least_norm(), self.consistency.remedy
        lines = [
            self.summary,
            f"What a norm of at most {assumed(self.norm_bound)} means{where}:",
            *(f"  {line}" for line in means),
            "What the data say:",
            *(f"  {line}" for line in says),
            "No data can show that a norm bound is large enough. If you know of a larger "
            "range or slope than above, it is too small; if not, it may still be.",
        ]
        return "\n".join(lines)

    def _least_norm(self) -> str:
        least = self.consistency.least_consistent_norm
        if least == 0.0:
            return "least consistent norm 0: the data say nothing about the norm yet"
        if math.isinf(least):
            return f"no norm is consistent with the data {self.observed.at_fit}"
        given = f"if kernel, mean and {self.observed.fit} are as given"
        status = f"certified with probability {one_minus(self.delta)} {given}"
        if self.estimated:
            status = f"not certified: {', '.join(self.estimated)} estimated"
        times = f"the norm bound is {self.ratio:.3g} times that"
        return f"least consistent norm {at_least(least)}, {status}; {times}"


@torch.no_grad()
def describe_norm_bound(
    model: Model | KernelRegression | LikelihoodRegression,
    norm_bound: Number,
    noise_std: float | Tensor | None = None,
    *,
    bounds: Tensor | None = None,
    candidates: Tensor | None = None,
    steps: Sequence[float] | Tensor | None = None,
    delta: float = 0.05,
    names: Sequence[str] | None = None,
    outcome: str = "the outcome",
    units: Mapping[str, str] | None = None,
) -> NormDescription:
    r"""Say what a norm bound means: range, slope, and what the data say about it.

    Compare range and slope with what you know of the process. A function of norm at most
    ``B`` obeys ``|f(x) - m(x)| <= B sqrt(k(x, x))``, and ``f - m`` changes between two
    points by at most ``B d_k(x, x')`` with the kernel metric
    ``d_k = ||k(x, .) - k(x', .)||``. Some function of norm ``B`` attains each. For
    successes and counts ``f`` is the log odds or the log rate, and the text adds
    probabilities or rates, where the prior mean is constant.

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
        bounds: ``2 x d`` lower and upper limits of a box. Exactly one of ``bounds`` and
            ``candidates``.
        candidates: ``n x d`` points, all points of the domain.
        steps: ``d`` steps, one along each input, for which the largest change is given;
            raw units. By default a tenth of the domain.
        delta: Failure probability of each statement about the data.
        names: ``d`` names of the inputs, for the text.
        outcome: Name of the outcome.
        units: Units by the names of inputs and outcome, for the text, which adds the
            transform that the model's outcomes went through (Log, Power, Bilog), if any.
            For successes and counts the outcome's is that of the probability or the rate.

    Raises:
        ValueError: If a scalar is out of its range, not exactly one of ``bounds`` and
            ``candidates`` is given, or ``noise_std`` is given for a
            ``LikelihoodRegression``.
        BotorchTensorDimensionError: If a shape or a number of names does not fit.
        InputDataError: If a value is not finite.
        UnsupportedError: If the model cannot be represented, or it is the ``regression``
            of a ``LikelihoodUCB`` in place of its ``data``.
    """
    norm = checks.positive_number("norm_bound", norm_bound)
    checks.probability("delta", delta)
    seen = _observed(model, noise_std)
    data, prior, inputs = seen.data, seen.data.prior, seen.data.train_inputs
    box, points = (each.to(inputs) for each in _domain(bounds, candidates, data.dimension))
    sides = (box[1] - box[0]).tolist()
    usual = [f"input {i}" for i in range(len(sides))]
    units, names = units or {}, _one_each("names", "names", names, usual)
    labels = [f"{name} ({units[name]})" if name in units else name for name in names]
    lengths = _one_each("steps", "numbers", steps, [0.1 * side for side in sides])
    means = prior.mean(torch.cat([prior.transform(points), inputs]))
    ball = _Ball(prior, norm / prior.scale, box, points)
    largest = ball.norm * math.sqrt(ball.variance)
    across = 2.0 * largest
    if prior.is_stationary:  # then the ends of the box differ most
        across = ball.norm * float(prior.metric(*prior.transform(box).split(1)))
    return NormDescription(
        norm_bound=norm,
        range=largest,
        across=across,
        inputs=tuple(map(ball.change, range(len(sides)), labels, lengths, sides)),
        everywhere=prior.is_stationary,
        prior_mean=float(means[0]) if bool((means == means[0]).all()) else None,
        observed=seen.outcomes(delta),
        consistency=check_consistency(data, norm, delta=delta),
        estimated=tuple(sorted(data.estimated)) + ("norm",) * is_estimate(norm),
        delta=delta,
        outcome_unit=seen.unit(units.get(outcome)),
    )


def _one_each(
    name: str, kind: str, given: Iterable[Of] | None, default: list[Of]
) -> list[Of]:
    r"""A list with one entry for each input."""
    values = default if given is None else list(given)
    if len(values) != len(default):
        raise BotorchTensorDimensionError(
            f"{name} must be {len(default)} {kind}, one for each input, got {values}."
        )
    return values


def _domain(
    bounds: Tensor | None, candidates: Tensor | None, dimension: int
) -> tuple[Tensor, Tensor]:
    r"""The box of a domain, and points in it for priors that vary over the domain."""
    check_one_domain(candidates=candidates, bounds=bounds)
    if bounds is not None:
        box = checked_box(bounds, dimension)
        scan = draw_sobol_samples(box, n=_SCAN, q=1, seed=0).squeeze(-2)
        corners = box
        if 2**dimension <= _MOST_CORNERS:
            corners = torch.cartesian_prod(*box.unbind(-1)).reshape(-1, dimension)
        return box, torch.cat([scan, corners])
    points = checked_points("candidates", cast(Tensor, candidates), dimension)
    box = torch.stack([points.amin(0), points.amax(0)])
    if flat := (box[0] == box[1]).nonzero().flatten().tolist():
        raise InputDataError(
            f"All candidates have the same value in column {flat[0]}; give bounds instead, "
            "with the limits between which it may vary."
        )
    return box, points


class _Ball:
    r"""All functions ``f`` with ``||f - m|| <= norm`` (prior units), over a domain."""

    def __init__(self, prior: Prior, norm: Number, box: Tensor, points: Tensor) -> None:
        self.prior, self.norm, self.box = prior, norm, box
        # Where the prior is the same everywhere, one point stands for all.
        self.points = box[:1] if prior.is_stationary else points
        self.variance = float(prior.variance(prior.transform(self.points)).max())

    def change(
        self, column: int, name: str, step: float | Tensor, side: float
    ) -> InputChange:
        r"""How much ``f - m`` can change along one input, over a step or all of it."""
        length = checks.positive_scalar("Every one of steps", step)
        if length > side:
            raise ValueError(
                f"steps must lie within the domain: {length:.6g} is longer than its side "
                f"of {side:.6g}."
            )
        over_step, over_side = (self.norm * self._metric(column, h) for h in (length, side))
        slope = self._slope(column)
        slope = None if slope is None else self.norm * slope
        return InputChange(name, length, over_step, over_side, side, slope)

    def _slope(self, column: int, part: Reading | None = None) -> float | None:
        r"""Largest slope along one input of a function of norm 1; None or inf as there.

        ``sqrt(d^2 k(x, x') / dx dx')`` at ``x' = x``: the limit of
        ``d_k(x, x + h) / h`` for small ``h``, extrapolated from two steps and rounded up
        by 1e-6 of itself. For a kernel that depends on ``x - x'`` alone no quotient exceeds
        the limit: ``d_k^2 = 2 int (1 - cos(w h)) dF(w) <= h^2 int w^2 dF(w)`` with its
        spectral measure ``F``. So ``f - m`` changes over any step by at most the slope
        times the step. The squared slopes of a sum add: a small rough part is not hidden.
        """
        kernel = self.prior.plain.kernel if part is None else part
        is_combined = isinstance(kernel, Combined)
        if is_combined and kernel.operation is add and kernel.columns is None:
            slopes = [self._slope(column, each) for each in kernel.parts]
            if None in slopes:
                return None
            return math.sqrt(kernel.factor * sum(slope**2 for slope in slopes if slope))
        variance, side = self.variance, float(self.box[1, column] - self.box[0, column])
        if part is not None:
            inputs = self.prior.transform(self.points)
            variance = float(part.values(inputs, inputs, pairs=True).max())
        across = self._metric(column, side, part)
        if across**2 <= _UNSEEN * variance:
            return across / side
        # Shorter ones would be rounded by more than the margin.
        largest = float(self.points[:, column].abs().max())
        shortest = 2.0 * torch.finfo(self.points.dtype).eps / _MARGIN * largest
        step, squared = side, across**2
        for _ in range(_MOST_HALVINGS):
            if squared <= _SMALL * variance or step <= shortest:
                break
            step *= 0.5
            squared = self._metric(column, step, part) ** 2
        half = self._metric(column, 0.5 * step, part) ** 2
        if half > _SATURATED * variance:
            return math.inf
        coarse, fine = squared / step**2, half / (0.5 * step) ** 2
        if fine > _DIVERGES * coarse:
            return None
        if squared > _SMALL * variance:
            return math.inf
        # The error of the squared quotient is of order h for Matern 3/2, else of order h^2.
        limit = max(2.0 * fine - coarse, fine)
        return math.sqrt(limit) * (1.0 + _MARGIN)

    def _metric(self, column: int, step: float, part: Reading | None = None) -> float:
        r"""Largest kernel metric over a step along one input, at most its side."""
        left = self.points.clone()
        left[:, column] = left[:, column].clamp(max=float(self.box[1, column]) - step)
        right = left.clone()
        right[:, column] += step
        inputs = self.prior.transform(left), self.prior.transform(right)
        return float(self.prior.metric(*inputs, part=part).max())


Method = Literal["exact", "upper_bound"]


@torch.no_grad()
def information_gain(
    model: Model | Kernel | KernelRegression,
    X: Tensor | None = None,
    *,
    noise_std: float | None = None,
    num_points: int | None = None,
    method: Method = "exact",
) -> Number:
    r"""Information gain ``I(y; f) = 1/2 ln det(I + K / noise_std^2)``, or a bound on it.

    Source: ``"upper_bound"`` is the smaller of two. One is Srinivas et al. (2010), Eq.
    (8), without its factor ``1 / (1 - 1/e)`` (ours): theirs bounds what the greedy rule
    attains and is divided by that share, ours bounds the determinant of any choice. The
    other is along the greedy rule (Minoux 1978), never above their Eq. (5).

    Args:
        model: A kernel, or a model whose kernel (and noise) is used, in outcome units.
        X: ``n x d`` points: those observed (``"exact"``; the model's training inputs when
            absent) or the finite domain to choose from (the bounds).
        noise_std: Noise scale in outcome units; from the likelihood when absent (the
            largest where there are several).
        num_points: ``T``, how many points may be chosen, with repeats; ``n`` when absent.
        method: ``"exact"`` for the gain of ``X`` itself, ``"upper_bound"`` for a bound on
            the largest gain ``gamma_T`` of ``num_points`` points of ``X``.

    Returns:
        The gain in nats; as a number for ``BoundedNorm`` it counts as estimated where it is
        that of the model's own inputs, or its kernel or noise scale were estimated.

    Raises:
        ValueError: If a scalar is out of its range or missing.
        BotorchTensorDimensionError: If ``X`` is not ``n x d``.
        InputDataError: If ``X`` is empty or not finite.
        UnsupportedError: If the model cannot be represented.
    """
    checks.one_of("method", method, *get_args(Method))
    observed = X is None and method == "exact"
    if isinstance(model, Kernel):
        for name, given in {"noise_std": noise_std, "X": X}.items():
            if given is None:
                raise ValueError(f"{name} is needed when only a kernel is given.")
        prior, parts = Prior(model), estimated_parts(model)
        inputs, scale = torch.empty(0), 0.0  # both are given
    else:
        data = KernelRegression.of(model)
        prior, inputs, parts = data.prior, data.train_inputs, data.estimated
        scale = float(data.noise_scales.max())
    if noise_std is not None:
        scale = float(checks.positive_scalar("noise_std", noise_std))
        parts = with_noise(parts, noise_std)
    if X is not None:
        inputs = prior.transform(checked_points("X", X))
    count = (
        len(inputs) if num_points is None else checks.whole_number("num_points", num_points)
    )
    prior.check_fits(inputs)
    ratios = prior.covariance(inputs, inputs) / scale**2
    spectrum = kernel_spectrum(ratios)[0]
    if method == "exact":
        gain = 0.5 * float(torch.log1p(spectrum).sum())
    else:
        gain = min(_greedy_gain(ratios, count), _spectral_gain(spectrum, count))
    return Estimate(gain) if observed or parts & {"kernel", "noise"} else gain


def _greedy_gain(ratios: Tensor, num_points: int) -> float:
    r"""A bound from points chosen one by one, at the largest posterior variance.

    ``ratios`` is the ``n x n`` prior covariance over the noise variance; points may be
    chosen again.

    Source: Minoux (1978): by submodularity any ``T`` points add at most ``T`` times the
    largest gain of one point to a set, here to the one of each step. That largest gain
    only falls, and Eq. (5) of Srinivas et al. (2010) follows from these inequalities, so
    their smallest is never above it.
    """
    variance = ratios.diagonal().clone()
    rows = ratios.new_zeros(num_points, len(ratios))
    gain, bound = 0.0, math.inf
    for step in range(num_points):
        best = int(variance.argmax())
        largest = 0.5 * math.log1p(float(variance[best]))
        bound = min(bound, gain + num_points * largest)
        gain += largest
        covariance = ratios[best] - rows[:step, best] @ rows[:step]
        rows[step] = covariance / torch.sqrt(1.0 + variance[best])
        variance = (variance - rows[step].square()).clamp_min(0.0)
    return min(bound, gain + num_points * 0.5 * math.log1p(float(variance.max())))


def _spectral_gain(eigenvalues: Tensor, num_points: int) -> float:
    r"""``max 1/2 sum ln(1 + m_i lam_i)`` over ``m >= 0`` with ``sum m_i = num_points``.

    The maximum in Srinivas et al. (2010), Eq. (8), over real numbers, which can only
    enlarge it, as a bound on ``gamma_T`` itself (ours). Points chosen ``m_s`` times have
    the gain ``1/2 ln det(I + A M)`` with ``A`` the kernel matrix of the domain over the
    noise variance and ``M = diag(m)``. The products of the ``k`` largest eigenvalues of
    ``A M`` are at most those of ``A`` and ``M`` (Horn 1950), and ``ln(1 + e^u)`` is convex
    and increasing, so ``det(I + A M) <= prod_i (1 + lam_i m_i)``, both sorted. At most
    ``num_points`` of the ``m_s`` are not zero, so only as many eigenvalues count.
    Water-filling: ``m_i = max(level - 1/lam_i, 0)``, the level found by how many
    directions are active.
    """
    values = eigenvalues[eigenvalues > 0].sort(descending=True).values[:num_points]
    if len(values) == 0:
        return 0.0
    counts = torch.arange(1, len(values) + 1, dtype=values.dtype, device=values.device)
    levels = (num_points + (1.0 / values).cumsum(0)) / counts
    active = int((levels > 1.0 / values).nonzero().max()) + 1
    return 0.5 * float((levels[active - 1] * values[:active]).log().sum())
