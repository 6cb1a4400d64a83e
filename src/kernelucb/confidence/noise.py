r"""The noise where its scale is not known, or known from repeated runs."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import torch
from botorch.exceptions import InputDataError, UnsupportedError
from scipy.special import lambertw
from scipy.stats import chi2
from torch import Tensor

from kernelucb._numerics.checks import (
    finite,
    positive_scalar,
    probability,
    training_targets,
)
from kernelucb._numerics.digits import as_given, at_most
from kernelucb._numerics.estimates import Estimate, Number, is_estimate
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Status,
    rkhs_assumptions,
)
from kernelucb.confidence.fit import FixedFit, MixtureFit, fit_of
from kernelucb.confidence.least_norm import least_misfit
from kernelucb.confidence.limits import Noise
from kernelucb.confidence.mixture import (
    MixtureProblem,
    known_noise_problem,
    mixture_problem,
)
from kernelucb.confidence.norm import Norm
from kernelucb.confidence.radius import CovarianceScale, Radius, covariance_scales
from kernelucb.data import KernelRegression
from kernelucb.data.exact import Regressed, runs_by_input
from kernelucb.data.from_model import NoiseStd, observed_inputs

JOINT_SOURCE = "Ville's inequality for a mixture over noise scales (ours)"

# Smallest and largest noise scale where no limits are given, in prior standard deviations.
_DEFAULT_SPAN = (1e-3, 10.0)
# Ten noise scales of the mixture per factor of two: a true one midway between two of them
# costs (ln(2) / 20)^2 = 0.0012 nats for each observation.
_SCALES_PER_OCTAVE = 10
_LARGEST_EXPONENT = 600.0  # nats; e^709 is the largest float64, and squares are taken
_TINY = torch.finfo(torch.float64).tiny  # stands for a misfit of zero under a logarithm


class NoiseSeen(NamedTuple):
    r"""Data under what is said of their noise, and what is left for the fit."""

    state: KernelRegression
    fit: FixedFit
    delta: float
    factor: float = 1.0  # the scales over those for which the fit is fixed


class NoiseScale(ABC):
    r"""What is said of the noise scale: how a band sees its data, and what that rests on.

    A new kind of statement is a new class; ``as_noise`` makes one of an argument.
    """

    @abstractmethod
    def seen(self, model: Regressed, fit: FixedFit, delta: float) -> NoiseSeen:
        r"""The data of a model, with the fit and ``delta`` that are left for them."""

    def problem(self, seen: NoiseSeen, norm: Norm) -> MixtureProblem:
        r"""The problem of ``MartingaleMixtureUCB`` under this statement and a norm's."""
        return known_noise_problem(seen.state, norm, seen.fit, seen.delta)

    def stated(
        self, given: Assumptions, delta: float, model: Regressed, state: KernelRegression
    ) -> Assumptions:
        r"""The assumptions of a band at ``delta``, from those with given noise scales."""
        return given

    def of_band(self, seen: NoiseSeen) -> Noise | None:
        r"""Noise scales from which outcomes alone give limits; None without numbers."""
        return Noise(seen.state.data)


class GivenNoise(NoiseScale):
    r"""Noise scales of the user's, or with None those of the model's likelihood."""

    def __init__(self, noise_std: NoiseStd) -> None:
        self.noise_std = noise_std

    def seen(self, model: Regressed, fit: FixedFit, delta: float) -> NoiseSeen:
        return NoiseSeen(KernelRegression.of(model, self.noise_std), fit, delta)


def as_noise(noise_std: "NoiseStd | NoiseScale") -> NoiseScale:
    r"""The statement of an argument ``noise_std``."""
    return noise_std if isinstance(noise_std, NoiseScale) else GivenNoise(noise_std)


@dataclass(frozen=True)
class UnknownNoise(NoiseScale):
    r"""One unknown noise scale for all observations, to be given as ``noise_std``.

    The noise scale of the model's likelihood is then not used.

    Example:
        >>> MartingaleMixtureUCB(model, norm_bound=10.0, noise_std=UnknownNoise())
        >>> StreamingKernelUCB(model, norm_bound=10.0, noise_std=UnknownNoise(0.01, 1.0))

    Attributes:
        lower: Smallest possible noise scale, above 0, outcome units; None if not known.
        upper: Largest possible noise scale, outcome units; None if not known. If a limit
            was estimated, the noise counts as estimated.

    Raises:
        ValueError: If a limit is not a finite number above 0, or ``lower`` is above
            ``upper``.
    """

    lower: Number | None = None
    upper: Number | None = None

    def __post_init__(self) -> None:
        for name, limit in {"lower": self.lower, "upper": self.upper}.items():
            if limit is not None:
                positive_scalar(f"{name} of UnknownNoise", limit)
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(
                f"UnknownNoise takes (lower, upper), got {self.lower:g} above "
                f"{self.upper:g}."
            )

    @property
    def limits(self) -> tuple[float, float] | None:
        r"""Both limits, outcome units, or None if neither is known.

        Raises:
            ValueError: If only one limit is known.
        """
        if self.lower is None and self.upper is None:
            return None
        if self.lower is None or self.upper is None:
            raise ValueError(
                f"{self} has one limit; a joint confidence set takes both or none. With "
                "a lower limit alone, use StreamingKernelUCB."
            )
        return float(self.lower), float(self.upper)

    def seen(self, model: Regressed, fit: FixedFit, delta: float) -> NoiseSeen:
        return NoiseSeen(KernelRegression.of(model), fit, delta)

    def problem(self, seen: NoiseSeen, norm: Norm) -> MixtureProblem:
        if norm.model_error > 0.0:
            raise ValueError(
                "model_error needs a known noise scale, which says how much of the "
                "misfit is noise; give noise_std as a number, or leave out model_error."
            )
        scales = cast(MixtureFit, fit_of(seen.fit, None, "mixture")).scales
        return unknown_noise_problem(seen.state, norm, self, seen.delta, scales)

    def of_band(self, seen: NoiseSeen) -> None:
        return None

    def assumption(self, words: str) -> Assumption:
        r"""The condition on the noise, in words and with its limits."""
        if self.upper is not None and self.lower is not None:
            words += f" between {as_given(self.lower)} and {as_given(self.upper)}"
        elif self.lower is not None:
            words += f" above {as_given(self.lower)}"
        return Assumption("noise", words, Status.of(self.lower, self.upper))


def check_one_noise_scale(regression: KernelRegression) -> None:
    r"""Raise ``UnsupportedError`` for data with one noise scale for each observation."""
    if not regression.has_one_noise_scale:
        raise UnsupportedError(
            "UnknownNoise is one scale for all observations, and the model has one noise "
            "scale for each observation (train_Yvar). Leave out train_Yvar, or use a bound "
            "that takes it, such as MartingaleMixtureUCB without noise_std."
        )


class JointSet(NamedTuple):
    r"""Functions and noise scales that explain the data well enough, anytime.

    ``{ (f, s) : |f - y|^2 <= 2 s^2 (budget - n ln(s)), ||f - m||_H <= norm }`` for the
    values of ``f`` at the inputs, in units of ``regression.noise_scales``. The largest
    radius over all ``s`` is the radius of the set's projection on ``f``, so the exact bound
    with the largest radius is the exact bound of the joint set.

    Source: ours. Ville's inequality for the ratio of the data's likelihoods under a mixture
    of Gaussian processes (equal weights, over noise scales and covariance scales) and
    under the truth. Assumes independent Gaussian noise of one scale.
    """

    regression: KernelRegression  # in units of the noise scale where the radius is largest
    budget: float  # ln(1/delta) - ln q(y) - n ln(2 pi) / 2, q the mixture's density
    tau_ref: float  # ridge regulariser of the likeliest part of the mixture
    noise: UnknownNoise

    @classmethod
    def of(
        cls,
        regression: KernelRegression,
        delta: float,
        covariance_scale: CovarianceScale,
        noise: UnknownNoise,
    ) -> "JointSet":
        r"""The joint set of data in any unit of noise, with one scale for all.

        Raises:
            UnsupportedError: If the model has several noise scales.
        """
        check_one_noise_scale(regression)
        unit, count = float(regression.noise_scales[0]), regression.num_observations
        lower, upper = noise.limits or _span(regression)
        octaves = _SCALES_PER_OCTAVE * math.log2(upper / lower)
        steps = torch.arange(math.ceil(octaves) + 1).double()
        variances = lower**2 * 2.0 ** (2.0 * steps / _SCALES_PER_OCTAVE)
        variances = variances.to(regression.eigenvalues) / unit**2
        scales = covariance_scales(covariance_scale)
        parts, log_ratios = log_densities(regression, scales, variances)
        mixture = float(torch.logsumexp(parts.flatten(), 0)) - math.log(parts.numel())
        budget = math.log(1.0 / delta) - mixture
        tau_ref = math.exp(-float(log_ratios.flatten()[parts.argmax()]))
        least, most = math.log(lower / unit), math.log(upper / unit)
        log_scale = min(max(budget / count - 0.5, least), most)
        return cls(
            regression.with_noise_std(Estimate(unit * math.exp(log_scale))),
            budget - count * log_scale,
            tau_ref * math.exp(-2.0 * log_scale),
            noise,
        )

    def radius(self, norm: float) -> Radius:
        r"""Squared radius of the projection on ``f``, units of ``regression.noise_scales``.

        Cut off where the radius no longer constrains functions of at most ``norm``, prior
        units.
        """
        regression, count = self.regression, self.regression.num_observations
        # At s = 1, the largest radius between the limits (`of` chose the unit) ...
        squared = 2.0 * self.budget
        if self.noise.limits is None:
            # ... or over all s, at ln(s) = budget / n - 1/2.
            squared = count * math.exp(min(squared / count - 1.0, _LARGEST_EXPONENT))
        size, largest = regression.targets.norm(), regression.eigenvalues[-1].sqrt()
        farthest = float(size + largest * norm)
        return Radius.of(min(squared, farthest**2), regression, self.tau_ref)

    def noise_interval(self, norm: float) -> tuple[float, float]:
        r"""Smallest and largest noise scale in the set, outcome units.

        Both solve ``2 s^2 (budget - n ln(s)) = M``, with ``M`` the least squared misfit of
        functions of at most ``norm`` (prior units): the real branches of Lambert's ``W``.
        """
        regression, count = self.regression, self.regression.num_observations
        unit = float(regression.noise_scales[0])
        misfit = max(least_misfit(regression, norm), _TINY)
        # The misfit over the largest squared radius; above one where the set was empty.
        log_share = math.log(misfit / count) - 2.0 * self.budget / count + 1.0
        share = math.exp(max(min(log_share, 0.0), -_LARGEST_EXPONENT))
        interval = [0.0, math.inf]
        for index, branch in enumerate((-1, 0)):
            root = float(lambertw(-share / math.e, branch).real)
            exponent = self.budget / count + 0.5 * root
            if exponent < _LARGEST_EXPONENT:
                interval[index] = unit * math.exp(exponent)
        if self.noise.limits is not None:
            lower, upper = self.noise.limits
            interval = [min(max(scale, lower), upper) for scale in interval]
        return interval[0], interval[1]


def _span(regression: KernelRegression) -> tuple[float, float]:
    r"""Noise scales of the mixture without limits: 0.001 to 10 prior standard deviations.

    No assumption: outside the span the set is valid, and wider.
    """
    # Of the first observation: a mixture must be fixed before the outcomes.
    first = regression.train_inputs[:1]
    deviation = math.sqrt(float(regression.prior.variance(first)))
    if deviation == 0.0:
        raise ValueError(
            "The prior variance of the first observation is 0; give UnknownNoise both "
            "limits, the smallest and the largest noise scale to expect."
        )
    lower, upper = _DEFAULT_SPAN
    return lower * deviation, upper * deviation


def log_densities(
    regression: KernelRegression, scales: tuple[float, ...], variances: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Log-densities of the whitened outcomes under Gaussian processes, ``c x v``.

    Up to ``-n ln(2 pi) / 2``, of ``N(0, v (I + r K_w))`` with ``r = c / v``, for each
    covariance scale ``c`` and noise variance ``v``; and ``ln r``, ``c x v``. Densities with
    the same ``r`` share their determinant and quadratic form.
    """
    lam, z = regression.eigenvalues, regression.targets
    log_scales = torch.tensor(scales, dtype=torch.float64).to(lam).log()
    # Rounded, so that ratios which are equal up to round-off are found equal.
    log_ratios = (log_scales.unsqueeze(-1) - variances.log()).round(decimals=9)
    distinct, index = torch.unique(log_ratios, return_inverse=True)
    signal = distinct.exp().unsqueeze(-1) * lam
    log_det = torch.log1p(signal).sum(-1)[index]
    form = (z.square() / (1.0 + signal)).sum(-1)[index]
    noise = regression.num_observations * variances.log()
    return -0.5 * (noise + log_det + form / variances), log_ratios


_STEP = 1.1  # ratio of the levels to which the limits of several groups are rounded up
# Share of a column's largest value within which a run is one of a model's: a model may hold
# single-precision copies.
_ROUNDED = 1e-5


class NoiseGroup(NamedTuple):
    r"""The replicates of one group of inputs.

    Attributes:
        label: Number that ``groups`` assigns to the inputs of this group.
        degrees: Degrees of freedom: number of runs minus number of different inputs.
        estimate: Root of the pooled variance, outcome units; counts as estimated when given
            to a band, as the limits do.
    """

    label: float
    degrees: int
    estimate: Estimate

    def __str__(self) -> str:
        return (
            f"group {self.label:.4g}: noise scale about {self.estimate:.3g} "
            f"({self.degrees} degrees of freedom)"
        )

    def limits(self, delta: float) -> tuple[Estimate, Estimate]:
        r"""Lower and upper confidence limit, each at ``delta``, outcome units."""
        ends = self.degrees / chi2.ppf([1.0 - delta, delta], self.degrees)
        lower, upper = (float(end) * self.estimate for end in np.sqrt(ends))
        return lower, upper


class ReplicateNoise(NoiseScale):
    r"""Upper limits on the noise scale from repeated runs, one for each group of inputs.

    Given as ``noise_std``, the upper confidence limits replace the noise scale and take a
    ``share`` of the band's ``delta``, so the noise scale counts as given. The repeated runs
    may be outcomes of the band as well, if ``between`` names two scales between which the
    noise was expected before the data: the fit is fixed for these. Without ``between`` it
    is fixed for the limits, so they must be other, earlier runs, such as a pilot study; if
    they are the band's, the noise counts as estimated. Numbers taken out of this object
    count as estimated.

    Source: the chi-square limit of a pooled variance, and a union bound over groups.
    Assumes independent Gaussian noise of one scale in each group, and a number of
    replicates that was fixed beforehand. With one group the band's sets are nested in the
    scale, at no further cost; with several groups the limits are rounded up to levels of
    ratio 1.1, which share ``delta`` (``docs/mathematics.md``). The limits are one event for
    all later rounds; limits from more replicates than planned are not covered.

    Example:
        >>> noise = ReplicateNoise(X, Y, between=(1.0, 20.0))
        >>> MartingaleMixtureUCB(model, norm_bound=100.0, noise_std=noise)

    Args:
        train_X: ``n x d`` inputs, in which rows are repeated, as the model takes them.
        train_Y: ``n`` or ``n x 1`` outcomes, on the scale on which the noise is Gaussian.
        between: Two noise scales, outcome units, fixed before the data. With one group the
            upper limit may lie outside, and the band is wider; with several groups an upper
            limit above raises ``ValueError``.
        groups: Maps ``n x d`` inputs to ``n`` numbers, one number for each group; fixed
            before the data. One group when absent.
        share: Share of the band's ``delta`` that the limits take, between 0 and 1.

    Raises:
        InputDataError: If a group has no repeated input, or a value is not finite.
        ValueError: If a number is out of its range.
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        *,
        between: tuple[float, float] | None = None,
        groups: Callable[[Tensor], Tensor] | None = None,
        share: float = 0.1,
    ) -> None:
        targets = finite("train_Y", training_targets(train_X, train_Y))
        self._runs = torch.cat([train_X.detach().to(targets), targets.unsqueeze(-1)], -1)
        self._groups, self.share = groups, probability("share", share)
        self.between: tuple[float, float] | None = None
        self._guessed = False
        if between is not None:
            low, high = (positive_scalar("between", each) for each in between)
            if not low < high:
                raise ValueError(f"between must be two increasing scales, got {between}.")
            self.between = low, high
            self._guessed = any(map(is_estimate, between))
        runs = runs_by_input(train_X.detach().double(), targets)
        labels = self._labels(train_X)
        self.groups: tuple[NoiseGroup, ...] = ()
        for label in labels.unique().tolist():
            group = labels == label
            degrees = int(group.sum()) - int((labels[runs.first] == label).sum())
            total = float(runs.squares[group].sum())
            if degrees < 1 or not total > 0.0:
                raise InputDataError(
                    f"Group {label:g} has no repeated input whose outcomes differ; merge "
                    "it with another group, or give noise_std as a number."
                )
            estimate = Estimate(math.sqrt(total / degrees))
            self.groups += (NoiseGroup(label, degrees, estimate),)
        # Vectors of levels that share the band's delta. Sets of a band with one group are
        # nested in its scale, and need one.
        self.num_levels = 1
        if self.between is not None and len(self.groups) > 1:
            low, high = self.between
            steps = math.ceil(math.log(high / low) / math.log(_STEP)) + 1
            self.num_levels = steps ** len(self.groups)

    def _labels(self, X: Tensor) -> Tensor:
        if self._groups is None:
            return torch.zeros(len(X), dtype=torch.float64)
        return torch.as_tensor(self._groups(X), dtype=torch.float64).reshape(len(X))

    def limits(self, delta: float) -> dict[float, tuple[Estimate, Estimate]]:
        r"""Lower and upper limits of the groups' scales by their labels, outcome units.

        All upper limits hold at once with probability ``1 - delta``, and so do all lower
        ones. They count as estimated when given to a band, which knows of no such delta.
        """
        part = probability("delta", delta) / len(self.groups)
        return {group.label: group.limits(part) for group in self.groups}

    def scales(self, X: Tensor, delta: float) -> Estimate:
        r"""Noise scales at ``n x d`` inputs for a band at ``delta``, ``n`` values.

        They count as estimated when given to a band, which knows of no such ``delta``.

        Raises:
            ValueError: If a limit is above ``between``, or an input is of a group without
                replicates.
        """
        low, high = self.between or (0.0, math.inf)
        scale_of: dict[float, float] = {}
        for label, (_, limit) in self.limits(self.share * delta).items():
            scale_of[label] = upper = float(limit)
            if self.num_levels > 1:
                level = max(0, math.ceil(math.log(upper / low) / math.log(_STEP)))
                scale_of[label] = low * _STEP**level
                if upper > high:
                    raise ValueError(
                        f"The noise scale of group {label:g} may be {upper:.4g}, and "
                        f"between ends at {high:.4g}; give limits that were known "
                        "beforehand, or fewer groups."
                    )
        labels = self._labels(X).tolist()
        if unknown := set(labels) - scale_of.keys():
            raise ValueError(
                f"There are no replicates of the groups {sorted(unknown)}, in which there "
                "are inputs."
            )
        values = [scale_of[label] for label in labels]
        return Estimate(torch.tensor(values, dtype=torch.float64))

    def seen(self, model: Regressed, fit: FixedFit, delta: float) -> NoiseSeen:
        r"""The data at the upper limits, and what these leave of ``delta``."""
        factor, left = 1.0, (1.0 - self.share) * delta / self.num_levels
        if self.between is not None and self.num_levels == 1:
            ((_, upper),) = self.limits(self.share * delta).values()
            factor = float(upper) / math.sqrt(self.between[0] * self.between[1])
        state = KernelRegression.of(model, self.scales(observed_inputs(model), delta))
        return NoiseSeen(state, fit.for_noise(factor), left, factor)

    def of_band(self, seen: NoiseSeen) -> Noise:
        return Noise(seen.state.data, self.num_levels, seen.factor, relaxed=False)

    def _of_these(self, X: Tensor, Y: Tensor) -> bool:
        r"""True if most of the runs are among ``n x d`` inputs and their ``n`` outcomes."""
        rows, runs = torch.cat([X.to(Y), Y.unsqueeze(-1)], -1), self._runs.to(Y)
        if rows.shape[-1] != runs.shape[-1]:
            return False
        near = _ROUNDED * runs.abs().amax(0)
        found = ((rows.unsqueeze(1) - runs).abs() <= near).all(-1)
        # Most, not any: outcomes with few digits agree by chance.
        return float(max(found.any(0).double().mean(), found.any(1).double().mean())) > 0.5

    def stated(
        self, given: Assumptions, delta: float, model: Regressed, state: KernelRegression
    ) -> Assumptions:
        X, Y, outcome_map = observed_inputs(model), state.train_targets, state.outcome_map
        if not outcome_map.is_identity and self._of_these(X, outcome_map.inverse(Y)):
            raise ValueError(
                "The replicates are outcomes before the model's outcome transform, and the "
                f"noise is additive{outcome_map.after}: transform them too, as Y.log()."
            )
        limits = [float(upper) for _, upper in self.limits(self.share * delta).values()]
        scales = " and ".join(map(at_most, limits))
        degrees = " and ".join(str(group.degrees) for group in self.groups)
        where = "" if len(limits) == 1 else " in its group"
        which = "that may be outcomes of the band"
        status = Status.ESTIMATED if self._guessed else Status.GIVEN
        if self.between is None:
            which = "that are no outcomes of the band, and came before these"
            if self._of_these(X, Y):
                status = Status.ESTIMATED
                which = "that are outcomes of the band, whose fit was fixed after them"
        statement = (
            f"the noise is independent and Gaussian{where}, with scales of at most "
            f"{scales}: upper limits from replicates {which}, with {degrees} degrees of "
            "freedom that were fixed beforehand"
        )
        if status is Status.ESTIMATED:
            statement += " (give between, or replicates that are no outcomes of the band)"
        if self.num_levels > 1 and self.between is not None:
            low, high = self.between
            statement += f"; expected between {as_given(low)} and {as_given(high)}"
        spent = delta - (given.delta or 0.0)
        return given.spending("chi-square limits of the noise", spent).with_item(
            Assumption("noise", statement, status)
        )

    def __repr__(self) -> str:
        groups = ", ".join(
            f"{each.estimate:.4g} ({each.degrees} degrees of freedom)"
            for each in self.groups
        )
        return f"ReplicateNoise({groups})"


def unknown_noise_problem(
    regression: KernelRegression,
    norm_bound: Norm,
    noise: UnknownNoise,
    delta: float,
    covariance_scale: CovarianceScale,
) -> MixtureProblem:
    r"""The problem of ``MartingaleMixtureUCB`` for a noise scale that is not given."""
    joint = JointSet.of(regression, delta, covariance_scale, noise)
    regression = joint.regression
    norm = norm_bound.resolve(regression, joint.radius(math.inf))
    radius = joint.radius(norm.value)
    radius = radius.beside_hidden(regression.hidden_part(norm.value))
    claim = "holds for every point, the noise scale and"
    assumptions = rkhs_assumptions(
        JOINT_SOURCE, regression, delta, norm.assumption, claim=claim
    ).with_item(
        noise.assumption("the noise is independent, Gaussian and of one unknown scale")
    )
    problem = mixture_problem(regression, radius, norm, assumptions)
    ends = joint.noise_interval(problem.constraints.ball)
    lower, upper = map(Estimate, ends)
    return problem._replace(noise_interval=(lower, upper))
