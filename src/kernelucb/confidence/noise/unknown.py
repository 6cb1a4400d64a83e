r"""Noise whose scale is not known, given instead of a number."""

import math

from kernelucb._numerics.checks import positive_scalar
from kernelucb._numerics.estimates import is_estimate
from kernelucb._numerics.values import value_object
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.regression import KernelRegression

# Smallest and largest noise scale where no limits are given, in prior standard deviations.
_DEFAULT_SPAN = (1e-3, 10.0)


@value_object
class UnknownNoise:
    r"""One unknown noise scale for all observations, to be given as ``noise_std``.

    The model's own noise is not used then.

    Example:
        >>> MartingaleMixtureUCB(model, norm_bound=10.0, noise_std=UnknownNoise())
        >>> StreamingKernelUCB(model, norm_bound=10.0, noise_std=UnknownNoise(0.01, 1.0))

    Attributes:
        lower: Smallest possible noise scale, above 0, outcome units; None if not known.
        upper: Largest possible one; None if not known. A limit that was estimated makes
            the noise an estimate.

    Raises:
        ValueError: If a limit is not a finite number above 0, or ``lower`` is above
            ``upper``.
    """

    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            if getattr(self, name) is not None:
                positive_scalar(f"{name} of UnknownNoise", getattr(self, name))
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(
                f"UnknownNoise takes (lower, upper), got {self.lower:g} above "
                f"{self.upper:g}."
            )

    @property
    def limits(self) -> tuple[float, float] | None:
        r"""Both limits; None where none is given.

        Raises:
            ValueError: If only one is.
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

        The default assumes nothing: it only sets where the mixture puts its weights.

        Raises:
            ValueError: If there are none and the prior variance of the first observation
                is 0, or there is only one.
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
        if self.limits is not None:
            words += " between {:.6g} and {:.6g}".format(*self.limits)
        return Assumption("noise", words, self.status)
