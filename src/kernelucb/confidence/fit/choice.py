r"""What bounds the distance between function and data, as users choose it."""

from typing import Any, Literal

from kernelucb.confidence.fit.e_processes import ALONE, EProcesses, Shares
from kernelucb.confidence.fit.energy import energy_source, with_energy
from kernelucb.confidence.fit.filters import FILTERS_SOURCE, FilterMixture
from kernelucb.confidence.fit.mixture import (
    CovarianceScale,
    FitConstraint,
    Radius,
    misfit_of_error,
    mixture_radius,
    mixture_source,
    sketched_radius,
    sketched_source,
)
from kernelucb.confidence.fit.prequential import PrequentialRadius
from kernelucb.regression import KernelRegression, NystromRegression
from kernelucb.regression.lowrank.ridge import DTCRegression

ClosedForm = Literal["filters", "martingale"]
Fit = ClosedForm | PrequentialRadius
DataFit = FitConstraint[KernelRegression] | FilterMixture


def check_fit(fit: Fit, delta: float, **needless: Any) -> None:
    r"""Refuse what contradicts a radius that brings its own noise scales and ``delta``.

    Raises:
        ValueError: If an argument in ``needless``, which has no meaning beside a
            ``PrequentialRadius``, is not None, or that radius has another ``delta``.
    """
    if not isinstance(fit, PrequentialRadius):
        return
    given = [name for name, value in needless.items() if value is not None]
    if given:
        raise ValueError(
            "A PrequentialRadius has its own noise scales and no covariance scale; leave "
            f"out {' and '.join(given)}."
        )
    if delta != fit.delta:
        raise ValueError(f"delta is {delta}, but fit has delta {fit.delta}; give the same.")


def data_fit(
    fit: Fit,
    regression: KernelRegression,
    delta: float,
    covariance_scale: CovarianceScale = 1.0,
    norm: float | None = None,
    model_error: float = 0.0,
    shares: Shares = ALONE,
) -> DataFit:
    r"""The fit that was chosen, for the data.

    ``norm`` is a norm bound in prior units, to which a mixture of filters is tied, or None
    while there is none. The mixture is fixed before the data where the norm bound is. With
    a ``model_error`` (outcome units) the fit is one of functions nowhere farther than that
    from the true one. ``shares`` are the prior weights of the mixture.
    """
    misfit = misfit_of_error(regression, model_error)
    if fit == "filters":
        return FilterMixture(
            EProcesses(regression, delta, covariance_scale, norm, misfit, shares)
        )
    radius = (
        fit.radius(regression)
        if isinstance(fit, PrequentialRadius)
        else mixture_radius(regression, delta, covariance_scale)
    )
    return FitConstraint(regression, radius.widened(regression, misfit))


def fit_source(
    fit: Fit, covariance_scale: CovarianceScale, model_error: float = 0.0
) -> str:
    r"""The theorem of ``data_fit``."""
    if isinstance(fit, PrequentialRadius):
        source = fit.source
    else:
        source = FILTERS_SOURCE if fit == "filters" else mixture_source(covariance_scale)
    return f"{source}, with a model error (ours)" if model_error else source


def sketched_fit(
    fit: Fit,
    state: NystromRegression | DTCRegression,
    delta: float,
    covariance_scale: CovarianceScale = 1.0,
) -> Radius:
    r"""As ``data_fit`` where the spectrum of the kernel matrix is not known.

    Of the mixture of filters, its members that need no kernel: the energy of the noise
    beside the martingale mixture.
    """
    if isinstance(fit, PrequentialRadius):
        return fit.radius(state)
    radius = sketched_radius(state, delta, covariance_scale)
    if fit == "martingale":
        return radius
    form = float(state.quadratic_form(radius.tau_ref))
    squared = with_energy(form + radius.slack, state.num_observations, delta)
    return Radius(radius.tau_ref, squared - form)


def sketched_fit_source(fit: Fit, covariance_scale: CovarianceScale) -> str:
    r"""The theorem of ``sketched_fit``."""
    if isinstance(fit, PrequentialRadius):
        return fit.source
    source = sketched_source(covariance_scale)
    return energy_source(source) if fit == "filters" else source


def with_noise_of(fit: Fit, regression: KernelRegression) -> KernelRegression:
    r"""The data with the noise scales of a ``PrequentialRadius``, if it is the fit."""
    if not isinstance(fit, PrequentialRadius):
        return regression
    same = regression.num_observations == fit.num_observations
    return regression.with_noise_std(fit.noise_std) if same else regression
