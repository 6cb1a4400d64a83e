r"""What bounds the distance between function and data, as users choose it."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from kernelucb.confidence.fit.mixture import CovarianceScale, Radius
from kernelucb.confidence.fit.prequential import PrequentialRadius
from kernelucb.regression import KernelRegression, RidgeState

Fit = Literal["martingale"] | PrequentialRadius
State = TypeVar("State", bound=RidgeState)


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


def fit_radius(
    fit: Fit,
    regression: State,
    delta: float,
    covariance_scale: CovarianceScale,
    closed_form: Callable[[State, float, CovarianceScale], Radius],
) -> Radius:
    r"""Squared radius of the fit: that of the choice, or the martingale mixture's.

    ``closed_form`` computes the latter for states of this type.
    """
    if isinstance(fit, PrequentialRadius):
        return fit.radius(regression)
    return closed_form(regression, delta, covariance_scale)


def fit_source(fit: Fit, closed_form: str) -> str:
    r"""The theorem of ``fit_radius``, from that of its closed form."""
    return fit.source if isinstance(fit, PrequentialRadius) else closed_form


def with_noise_of(fit: Fit, regression: KernelRegression) -> KernelRegression:
    r"""The data with the noise scales of a ``PrequentialRadius``, if it is the fit."""
    if not isinstance(fit, PrequentialRadius):
        return regression
    same = regression.num_observations == fit.num_observations
    return regression.with_noise_std(fit.noise_std) if same else regression
