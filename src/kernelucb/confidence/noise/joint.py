r"""A joint confidence set for the function and the scale of Gaussian noise."""

import math
from typing import NamedTuple

import torch
from botorch.exceptions import UnsupportedError
from scipy.special import lambertw
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.confidence.fit.mixture import (
    CovarianceScale,
    Radius,
    covariance_scales,
)
from kernelucb.confidence.norm.least import least_misfit
from kernelucb.regression import KernelRegression

# Ten noise scales of the mixture to a factor of two: with the best of them midway between
# two, an observation costs (ln(2) / 20)^2 = 0.0012 nats.
_SCALES_PER_OCTAVE = 10
# Where no bounds are given: what the mixture covers, in prior standard deviations.
_DEFAULT_SPAN = (1e-3, 10.0)
_LARGEST_EXPONENT = 600.0
_TINY = torch.finfo(torch.float64).tiny


class NoiseBounds(NamedTuple):
    r"""Bounds on the noise scale, outcome units.

    Attributes:
        lower: Smallest scale that the mixture covers.
        upper: Largest one.
        assumed: Whether the true scale is known to lie between them. Otherwise they only
            say where the set is tight.
    """

    lower: float
    upper: float
    assumed: bool

    @classmethod
    def of(
        cls, regression: KernelRegression, noise_bounds: tuple[float, float] | None
    ) -> "NoiseBounds":
        r"""The bounds given, or a wide span around the prior that assumes nothing.

        Args:
            regression: The data.
            noise_bounds: Smallest and largest noise scale in outcome units, or None.

        Raises:
            ValueError: If they are no two positive numbers in this order, or absent and
                the prior variance of the first observation is zero.
        """
        if noise_bounds is None:
            # Of the first observation: a mixture must be fixed before the outcomes.
            first = regression.train_inputs[:1]
            deviation = math.sqrt(float(regression.prior.variance(first)))
            if deviation == 0.0:
                raise ValueError(
                    "The prior variance of the first observation is 0; give noise_bounds, "
                    "the smallest and the largest noise scale to expect."
                )
            lower, upper = (factor * deviation for factor in _DEFAULT_SPAN)
            return cls(lower, upper, assumed=False)
        lower = positive_scalar("The lower one of noise_bounds", noise_bounds[0])
        upper = positive_scalar("The upper one of noise_bounds", noise_bounds[1])
        if lower > upper:
            raise ValueError(
                f"noise_bounds must be (lower, upper), got {lower:g} above {upper:g}."
            )
        return cls(lower, upper, assumed=True)

    def grid(self, unit: float) -> Tensor:
        r"""Noise variances of the mixture, multiples of ``unit^2``."""
        octaves = math.log2(self.upper / self.lower)
        steps = torch.arange(math.ceil(_SCALES_PER_OCTAVE * octaves) + 1).double()
        return (self.lower / unit) ** 2 * 2.0 ** (2.0 * steps / _SCALES_PER_OCTAVE)

    def assumption(self) -> Assumption:
        r"""The condition on the noise."""
        words = "the noise is independent, Gaussian and of one unknown scale"
        if self.assumed:
            words += f" between {self.lower:.6g} and {self.upper:.6g}"
        return Assumption("noise", words, Status.GIVEN)


class JointSet(NamedTuple):
    r"""Functions and noise scales that explain the data well enough, anytime.

    ``{ (f, s) : |f - y|^2 <= 2 s^2 (budget - n ln(s)), ||f - m||_H <= norm }`` for the
    values of ``f`` at the inputs, in units of ``regression.noise_std``. The largest of
    these radii is that of the set's projection on ``f``: the exact bound at that radius is
    the exact bound of the joint set.

    Source: Ville's inequality for the ratio of the data's likelihoods under a mixture of
    Gaussian processes (equal weights, over noise scales and covariance scales) and under
    the truth. Assumes independent Gaussian noise of one scale.

    Attributes:
        regression: The data, in units of the scale within the bounds at which the radius
            is largest.
        budget: ``ln(1/delta) - ln q(y) - n ln(2 pi) / 2``, ``q`` the mixture's density.
        tau_ref: Ridge regulariser ``tau`` of the likeliest part of the mixture.
        bounds: Bounds on the noise scale.
    """

    regression: KernelRegression
    budget: float
    tau_ref: float
    bounds: NoiseBounds

    @classmethod
    def of(
        cls,
        regression: KernelRegression,
        delta: float,
        covariance_scale: CovarianceScale,
        bounds: NoiseBounds,
    ) -> "JointSet":
        r"""The joint set of the data.

        Args:
            regression: The data, in any unit of noise.
            delta: Failure probability.
            covariance_scale: Scale ``c`` of the mixture, several, or ``"mixture"``.
            bounds: Bounds on the noise scale.

        Raises:
            UnsupportedError: If the model has several noise scales.
        """
        if not regression.has_one_noise_scale:
            raise UnsupportedError(
                'noise_std="unknown" is one scale for all observations, but the model has '
                "several (train_Yvar): leave out noise_std to use those, or build the "
                "model without them."
            )
        unit, count = float(regression.noise_std[0]), regression.num_observations
        variances = bounds.grid(unit).to(regression.eigenvalues)
        scales = covariance_scales(covariance_scale)
        log_density, tau_ref = _mixture(regression, scales, variances)
        budget = math.log(1.0 / delta) - log_density
        lower, upper = math.log(bounds.lower / unit), math.log(bounds.upper / unit)
        log_scale = min(max(budget / count - 0.5, lower), upper)
        return cls(
            regression.with_noise_std(unit * math.exp(log_scale)),
            budget - count * log_scale,
            tau_ref * math.exp(-2.0 * log_scale),
            bounds,
        )

    def radius(self, norm: float) -> Radius:
        r"""Squared radius of the projection on ``f``, units of ``regression.noise_std``.

        Args:
            norm: Norm bound, prior units. Only so much of the radius is kept as makes a
                difference to functions of at most this norm.
        """
        regression, count = self.regression, self.regression.num_observations
        squared = 2.0 * self.budget
        if not self.bounds.assumed:
            squared = count * math.exp(min(squared / count - 1.0, _LARGEST_EXPONENT))
        farthest = float(regression.targets.norm() + regression.singular_values[-1] * norm)
        form = float(regression.quadratic_form(self.tau_ref))
        return Radius(self.tau_ref, min(squared, farthest**2) - form)

    def noise_interval(self, norm: float) -> tuple[float, float]:
        r"""Smallest and largest noise scale in the set, outcome units.

        With ``M`` the least squared misfit of functions within the norm bound, the scales
        solve ``2 s^2 (budget - n ln(s)) = M``: both real branches of Lambert's ``W``.

        Args:
            norm: Norm bound, prior units.
        """
        count, unit = self.regression.num_observations, float(self.regression.noise_std[0])
        misfit = max(least_misfit(self.regression, norm), _TINY)
        # Share of the largest radius; above one the set was empty and has been relaxed.
        log_share = math.log(misfit / count) - 2.0 * self.budget / count + 1.0
        share = math.exp(max(min(log_share, 0.0), -_LARGEST_EXPONENT))
        interval = [0.0, math.inf]
        for index, branch in enumerate((-1, 0)):
            root = float(lambertw(-share / math.e, branch).real)
            exponent = self.budget / count + 0.5 * root
            if exponent < _LARGEST_EXPONENT:
                interval[index] = unit * math.exp(exponent)
        if self.bounds.assumed:
            interval = [min(max(s, self.bounds.lower), self.bounds.upper) for s in interval]
        return interval[0], interval[1]


def _mixture(
    regression: KernelRegression, scales: tuple[float, ...], variances: Tensor
) -> tuple[float, float]:
    r"""The mixture's log-density of the whitened outcomes, and its likeliest ridge.

    Up to ``-n ln(2 pi) / 2``. Its parts are ``N(0, v (I + r K_w))`` with ``r = c / v``, for
    each noise variance ``v`` and covariance scale ``c``; parts with the same ``r`` share
    their determinant and quadratic form.
    """
    lam, z = regression.eigenvalues, regression.targets
    log_scales = torch.tensor(scales, dtype=torch.float64).to(lam).log()
    log_ratios = (log_scales.unsqueeze(-1) - variances.log()).round(decimals=9)
    distinct, index = torch.unique(log_ratios, return_inverse=True)
    signal = distinct.exp().unsqueeze(-1) * lam
    log_det = torch.log1p(signal).sum(-1)[index]
    form = (z.square() / (1.0 + signal)).sum(-1)[index]
    parts = -0.5 * (
        regression.num_observations * variances.log() + log_det + form / variances
    )
    log_density = float(torch.logsumexp(parts.flatten(), 0)) - math.log(parts.numel())
    return log_density, math.exp(-float(log_ratios.flatten()[parts.argmax()]))
