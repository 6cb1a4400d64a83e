r"""Noise of an unknown scale, and the joint set of function and noise scale."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from botorch.exceptions import UnsupportedError
from scipy.special import lambertw
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb._numerics.digits import as_given
from kernelucb._numerics.estimates import is_estimate
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.fit.radius import CovarianceScale, Radius, covariance_scales
from kernelucb.confidence.norm.least import least_misfit
from kernelucb.regression import KernelRegression

JOINT_SOURCE = "Ville's inequality for a mixture over noise scales (ours)"

# Smallest and largest noise scale where no limits are given, in prior standard deviations.
_DEFAULT_SPAN = (1e-3, 10.0)
# Ten noise scales of the mixture per factor of two: a true one midway between two of them
# costs (ln(2) / 20)^2 = 0.0012 nats for each observation.
_SCALES_PER_OCTAVE = 10
_LARGEST_EXPONENT = 600.0
_TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True)
class UnknownNoise:
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

    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        for name, limit in {"lower": self.lower, "upper": self.upper}.items():
            if limit is not None:
                number = positive_scalar(f"{name} of UnknownNoise", limit)
                object.__setattr__(self, name, number)
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

    def span(self, regression: KernelRegression) -> tuple[float, float]:
        r"""The limits, or by default 0.001 and 10 prior standard deviations.

        The default is no assumption: it sets where the mixture puts its weights, and the
        set is valid, but wider, for noise scales outside.
        """
        if self.limits is not None:
            return self.limits
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

    @property
    def status(self) -> Status:
        r"""Whether a limit was estimated."""
        estimated = is_estimate(self.lower) or is_estimate(self.upper)
        return Status.ESTIMATED if estimated else Status.GIVEN

    def assumption(self) -> Assumption:
        r"""The condition on the noise for a joint confidence set."""
        words = "the noise is independent, Gaussian and of one unknown scale"
        return Assumption("noise", words + self.known, self.status)

    @property
    def known(self) -> str:
        r"""``" between 0.1 and 5"``, ``" above 0.1"``, or nothing."""
        if self.lower is None:
            return ""
        if self.upper is None:
            return f" above {as_given(self.lower)}"
        return f" between {as_given(self.lower)} and {as_given(self.upper)}"


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
        if not regression.has_one_noise_scale:
            raise UnsupportedError(
                "UnknownNoise is one scale for all observations, but the model has several "
                "(train_Yvar): leave out noise_std to use those, or build the model "
                "without them."
            )
        unit, count = float(regression.noise_scales[0]), regression.num_observations
        lower, upper = noise.span(regression)
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
            regression.with_noise_std(unit * math.exp(log_scale)),
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
        squared = 2.0 * self.budget
        if self.noise.limits is None:
            squared = count * math.exp(min(squared / count - 1.0, _LARGEST_EXPONENT))
        farthest = float(
            regression.targets.norm() + regression.eigenvalues[-1].sqrt() * norm
        )
        form = float(regression.quadratic_form(self.tau_ref))
        return Radius(self.tau_ref, min(squared, farthest**2) - form)

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
    log_ratios = (log_scales.unsqueeze(-1) - variances.log()).round(decimals=9)
    distinct, index = torch.unique(log_ratios, return_inverse=True)
    signal = distinct.exp().unsqueeze(-1) * lam
    log_det = torch.log1p(signal).sum(-1)[index]
    form = (z.square() / (1.0 + signal)).sum(-1)[index]
    noise = regression.num_observations * variances.log()
    return -0.5 * (noise + log_det + form / variances), log_ratios
