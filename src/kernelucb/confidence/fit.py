r"""The fit: how the distance between function and data is bounded, as users choose it."""

from dataclasses import dataclass, replace
from typing import Literal

from kernelucb._numerics.checks import one_of
from kernelucb.confidence.filters import FILTERS_SOURCE, FilterMixture
from kernelucb.confidence.prequential import PrequentialRadius
from kernelucb.confidence.radius import (
    CovarianceScale,
    FitConstraint,
    Radius,
    covariance_scales,
    energy_source,
    misfit_of_error,
    mixture_radius,
    mixture_source,
    sketched_radius,
    with_energy,
)
from kernelucb.regression import KernelRegression, NystromRegression
from kernelucb.regression.nystrom import DTCRegression

DataFit = FitConstraint | FilterMixture


@dataclass(frozen=True)
class MixtureFit:
    r"""A fit by a mixture that was fixed before the data, from its name.

    Attributes:
        filters: Whether it is the mixture of filters, else Flynn & Reeb's martingale
            mixture alone.
        covariance_scale: Scales ``c`` of the martingale mixture ``N(0, c K)``; None where a
            bound takes its default.
        every_norm: Whether the mixture of filters is the same for all norm bounds. Bands of
            several norm bounds then hold together at one ``delta``.
        noise_factor: Noise scale in use over the noise scale that the mixture was fixed
            for. Bands of several factors then hold together at one ``delta``.
    """

    filters: bool
    covariance_scale: tuple[float, ...] | None = None
    every_norm: bool = False
    noise_factor: float = 1.0

    @property
    def scales(self) -> tuple[float, ...]:
        r"""The covariance scales; ``(1.0,)`` if none is given."""
        return self.covariance_scale or (1.0,)


ClosedForm = Literal["filters", "martingale"] | MixtureFit
Fit = ClosedForm | PrequentialRadius


def fit_of(
    fit: Fit,
    covariance_scale: CovarianceScale | None = None,
    default_scale: CovarianceScale | None = None,
) -> MixtureFit | PrequentialRadius:
    r"""The fit of a name, or as given, with its scales or else the default ones.

    Raises:
        ValueError: If the name is unknown, a scale not a finite number above zero, or there
            is one beside a ``PrequentialRadius``.
    """
    if isinstance(fit, PrequentialRadius):
        if covariance_scale is not None:
            raise ValueError("A PrequentialRadius takes no covariance_scale.")
        return fit
    if not isinstance(fit, MixtureFit):
        fit = MixtureFit(one_of("fit", fit, "filters", "martingale") == "filters")
    given = fit.covariance_scale if covariance_scale is None else covariance_scale
    scale = default_scale if given is None else given
    scales = None if scale is None else covariance_scales(scale)
    return replace(fit, covariance_scale=scales)


def check_fit(fit: Fit, delta: float, noise_std: object = None) -> None:
    r"""Refuse noise scales or another ``delta`` beside a ``PrequentialRadius``."""
    if not isinstance(fit, PrequentialRadius):
        return
    if noise_std is not None:
        raise ValueError(
            "A PrequentialRadius has its own noise scales; leave out noise_std."
        )
    if delta != fit.delta:
        raise ValueError(f"delta is {delta}, but fit has delta {fit.delta}; give the same.")


def data_fit(
    fit: Fit,
    regression: KernelRegression,
    delta: float,
    norm: float | None = None,
    model_error: float = 0.0,
) -> DataFit:
    r"""The constraint or mixture of a fit, for given data.

    ``norm`` is the norm bound in prior units to which a mixture of filters is tied, or None
    if there is no norm bound. The mixture is fixed before the data if the norm bound is.
    With a ``model_error`` (outcome units) the constraint is for functions within this
    distance of the true function.
    """
    fit = fit_of(fit)
    misfit = misfit_of_error(regression, model_error) if model_error else 0.0
    if isinstance(fit, PrequentialRadius):
        radius = fit.radius(regression)
    elif fit.filters:
        known = fit.every_norm, fit.noise_factor
        return FilterMixture(regression, delta, fit.scales, norm, misfit, *known)
    else:
        radius = mixture_radius(regression, delta, fit.scales)
    return FitConstraint(regression, radius.widened(regression, misfit))


def fit_source(fit: Fit, model_error: float = 0.0) -> str:
    r"""The theorem of ``data_fit``."""
    fit = fit_of(fit)
    if isinstance(fit, PrequentialRadius):
        source = fit.source
    else:
        source = FILTERS_SOURCE if fit.filters else mixture_source(fit.scales)
    return f"{source}, with a model error (ours)" if model_error else source


def sketched_fit(
    fit: Fit, state: NystromRegression | DTCRegression, delta: float
) -> tuple[Radius, str]:
    r"""As ``data_fit`` without the spectrum of the kernel matrix: radius and theorem.

    Filters are reduced to the members that need no spectrum: the martingale mixture,
    bounded from above, and the energy of the noise.
    """
    fit = fit_of(fit)
    if isinstance(fit, PrequentialRadius):
        return fit.radius(state), fit.source
    radius = sketched_radius(state, delta, fit.scales)
    source = f"{mixture_source(fit.scales)}, bounded from above (ours)"
    if not fit.filters:
        return radius, source
    squared = with_energy(radius.squared(state), state.num_observations, delta)
    return Radius.of(squared, state, radius.tau_ref), energy_source(source)
