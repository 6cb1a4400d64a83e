r"""A norm bound in outcome units: range, changes and slopes; and a check by the data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, NamedTuple, cast

import torch
from botorch.exceptions import BotorchTensorDimensionError, InputDataError
from botorch.models.model import Model
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from kernelucb._numerics.checks import as_double, positive_scalar, probability
from kernelucb._numerics.digits import (
    assumed,
    at_least,
    at_most,
    between,
    coordinate,
    one_minus,
)
from kernelucb._numerics.domains import check_one_domain, checked_box, checked_points
from kernelucb._numerics.estimates import EstimatedNumber, is_estimate
from kernelucb._numerics.kernels import Combined
from kernelucb.diagnostics.consistency import ConsistencyCheck, check_consistency, data_of
from kernelucb.regression import KernelRegression
from kernelucb.regression.counts import LINKS, Likelihood, LikelihoodRegression
from kernelucb.regression.prior import Prior

# Points at which priors that vary over the domain are looked at.
_SCAN = 1024
_MOST_CORNERS = 1024

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
_MOST_HALVINGS = 60
# Above this share at the smallest step, the length scale is smaller than that step.
_SATURATED = 0.5


class InputChange(NamedTuple):
    r"""How much ``f - m`` can change along one input, outcome units.

    The slope is None where it has no bound because the kernel has no derivative (Matern
    1/2), infinite where the length scale is too small to see across the domain.
    """

    name: str
    step: float  # raw units
    over_step: float  # largest change over that step
    over_side: float  # largest change over the side of the domain
    side: float  # raw units
    slope: float | None  # largest slope, outcome units per raw unit

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

    largest: float  # largest observed |y - m|
    noise_reach: float  # all the noise stays below it with probability `1 - delta`
    delta: float

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
        norm_bound: The norm bound that is described.
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

    @property
    def _beside(self) -> str:
        r"""What the fit rests on beside kernel and mean."""
        return "noise" if isinstance(self.observed, NoisyOutcomes) else "likelihood"

    def __str__(self) -> str:
        counted, rate = isinstance(self.observed, CountedOutcomes), False
        where = f", in {self.outcome_unit}"
        if isinstance(self.observed, CountedOutcomes):
            rate = self.observed.kind == "poisson"
            where = f" for f, the {'log rate' if rate else 'log odds'}"
        subject, mean = "f - m", "m(x), which varies"
        if self.prior_mean is not None:
            low, high = self.prior_mean - self.range, self.prior_mean + self.range
            centre, ends = coordinate(self.prior_mean), " and ".join(between(low, high))
            subject, mean = "f", f"{centre}: between {ends}"
        means = [f"f(x) is within {at_most(self.range)} of the prior mean {mean}"]
        if counted and self.outcome_range is not None:
            ends = " and ".join(between(*self.outcome_range))
            means.append(f"so the {self.outcome_unit} is between {ends}")
        between_two = f"{subject} changes by at most {at_most(self.across)} between any two"
        means += [f"{between_two} points; along", *(f"  {each}" for each in self.inputs)]
        if not self.everywhere:
            means.append(
                "these are the largest values at points of the domain, not proven between "
                "them: this prior differs from place to place"
            )
        if counted:
            odds = "rate" if rate else "odds p / (1 - p)"
            means.append(f"adding c to f multiplies the {odds} by exp(c)")
        says = self.observed, self._least_norm(), self.consistency.remedy
        lines = [
            self.summary,
            f"What a norm of at most {assumed(self.norm_bound)} means{where}:",
            *(f"  {line}" for line in means),
            "What the data say:",
            *(f"  {line}" for line in says),
            "No data can show that a norm bound is large enough: whether it is rests on "
            "what you know of the range and the slope above.",
        ]
        return "\n".join(lines)

    def _least_norm(self) -> str:
        least = self.consistency.least_consistent_norm
        if least == 0.0:
            return "least consistent norm 0: the data say nothing about the norm yet"
        if math.isinf(least):
            noisy = self._beside == "noise"
            at = "at this noise scale" if noisy else "under this kernel and likelihood"
            return f"no norm is consistent with the data {at}"
        given = f"if kernel, mean and {self._beside} are as given"
        status = f"certified with probability {one_minus(self.delta)} {given}"
        if self.estimated:
            status = f"not certified: {', '.join(self.estimated)} estimated"
        times = f"the norm bound is {self.ratio:.3g} times that"
        return f"least consistent norm {at_least(least)}, {status}; {times}"


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
        input_names: ``d`` names of the inputs, for the text.
        outcome_unit: Name of the outcome's unit, for the text, which adds the transform
            that the model's outcomes went through (Log, Power, Bilog), if any. For
            successes and counts the name of the probability or the rate.

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
    prior, inputs = data.prior, data.train_inputs
    box, points = (each.to(inputs) for each in _domain(bounds, candidates, data.dimension))
    sides = (box[1] - box[0]).tolist()
    usual = [f"input {i}" for i in range(len(sides))]
    names = _one_each("input_names", "names", input_names, usual)
    lengths = _one_each("steps", "numbers", steps, [0.1 * side for side in sides])
    means = prior.mean(torch.cat([prior.transform(points), inputs]))
    ball = _Ball(prior, float(norm_bound) / prior.scale, box, points)
    largest = ball.norm * math.sqrt(ball.variance)
    across = 2.0 * largest
    if prior.is_stationary:  # then the ends of the box differ most
        across = ball.norm * float(prior.metric(*prior.transform(box).split(1)))
    unit = outcome_unit or "outcome units"
    if isinstance(data, LikelihoodRegression):
        observed = _counted(data)
        rate = "probability of a success"
        if observed.kind == "poisson":
            rate = "rate for each unit of exposure"
        unit = outcome_unit or rate
    else:
        unit += data.outcome_map.after
        residuals = data.train_targets - prior.mean(inputs)
        tail = math.log(2.0 * data.num_observations / delta)
        reach = math.sqrt(2.0 * tail) * float(data.noise_scales.max())
        reach = EstimatedNumber(reach) if "noise" in data.estimated else reach
        observed = NoisyOutcomes(EstimatedNumber(residuals.abs().max()), reach, delta)
    return NormDescription(
        norm_bound=norm_bound,
        range=largest,
        across=across,
        inputs=tuple(map(ball.change, range(len(sides)), names, lengths, sides)),
        everywhere=prior.is_stationary,
        prior_mean=float(means[0]) if bool((means == means[0]).all()) else None,
        observed=observed,
        consistency=check_consistency(data, norm_bound, delta=delta),
        estimated=tuple(sorted(data.estimated)) + ("norm",) * is_estimate(norm_bound),
        delta=delta,
        outcome_unit=unit,
    )


def _counted(data: LikelihoodRegression) -> CountedOutcomes:
    counts, amounts = data.loss.counts, data.loss.amounts
    pairs = list(zip(counts.tolist(), amounts.tolist(), strict=True))
    # Of equal rates the one from more trials or exposure.
    lowest = min(pairs, key=lambda pair: (pair[0] / pair[1], -pair[1]))
    highest = max(pairs, key=lambda pair: (pair[0] / pair[1], pair[1]))
    total = float(counts.sum()), float(amounts.sum())
    return CountedOutcomes(data.loss.kind, total, lowest, highest)


def _one_each(name: str, kind: str, given: Any, default: list[Any]) -> list[Any]:
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

    def __init__(self, prior: Prior, norm: float, box: Tensor, points: Tensor) -> None:
        self.prior, self.norm, self.box = prior, norm, box
        # Where the prior is the same everywhere, one point stands for all.
        self.points = box[:1] if prior.is_stationary else points
        self.variance = float(prior.variance(prior.transform(self.points)).max())

    def change(self, column: int, name: str, step: float, side: float) -> InputChange:
        r"""How much ``f - m`` can change along one input, over a step or all of it."""
        length = positive_scalar("Every one of steps", step)
        if length > side:
            raise ValueError(
                f"steps must lie within the domain: {length:.6g} is longer than its side "
                f"of {side:.6g}."
            )
        over_step, over_side = (self.norm * self._metric(column, h) for h in (length, side))
        return InputChange(name, length, over_step, over_side, side, self._slope(column))

    def _slope(self, column: int, part: Any = None) -> float | None:
        r"""Largest slope of ``f - m`` along one input; see ``InputChange``.

        ``B sqrt(d^2 k(x, x') / dx dx')`` at ``x' = x``: the limit of
        ``B d_k(x, x + h) / h`` for small ``h``, extrapolated from two steps and rounded up
        by 1e-6 of itself. For a kernel that depends on ``x - x'`` alone no quotient exceeds
        the limit: ``d_k^2 = 2 int (1 - cos(w h)) dF(w) <= h^2 int w^2 dF(w)`` with its
        spectral measure ``F``. So ``f - m`` changes over any step by at most the slope
        times the step. The squared slopes of a sum add: a small rough part is not hidden.
        """
        kernel: Any = self.prior.plain.kernel if part is None else part
        is_sum = isinstance(kernel, Combined) and kernel.operation is add
        if is_sum and kernel.columns is None:
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
            return self.norm * across / side
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
        return self.norm * math.sqrt(limit) * (1.0 + _MARGIN)

    def _metric(self, column: int, step: float, part: Any = None) -> float:
        r"""Largest kernel metric over a step along one input, at most its side."""
        left = self.points.clone()
        left[:, column] = left[:, column].clamp(max=float(self.box[1, column]) - step)
        right = left.clone()
        right[:, column] += step
        inputs = self.prior.transform(left), self.prior.transform(right)
        return float(self.prior.metric(*inputs, part).max())
