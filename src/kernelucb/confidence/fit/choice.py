r"""The fit: how the distance between function and data is bounded, as users choose it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb.confidence.fit.filters import FILTERS_SOURCE, FilterMixture
from kernelucb.confidence.fit.prequential import PrequentialRadius
from kernelucb.confidence.fit.radius import (
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
from kernelucb.regression.sketch import DTCRegression

DataFit = FitConstraint[KernelRegression] | FilterMixture


@dataclass(frozen=True)
class MixtureFit:
    r"""A fit by a martingale mixture, whose scale is fixed before the data.

    Attributes:
        covariance_scale: Scale ``c`` of the mixture ``N(0, c K)`` relative to the model's
            prior. Several numbers, or ``"mixture"`` for 17 powers of two from 1/256 to 256,
            mix over ``J`` scales with equal weights: anytime as well, with a squared radius
            (noise units) at most ``2 ln J`` above that of the best scale in hindsight. With
            None the bound takes its default: 1, ``"mixture"`` for unknown noise, 1/16 to 16
            for counts, and a scale tied to the norm bound for a family of kernels.

    Raises:
        ValueError: If a scale is not a finite number above zero, or there is none.
    """

    covariance_scale: CovarianceScale | None = None

    def __post_init__(self) -> None:
        scales, given = self.scales, self.covariance_scale
        if isinstance(given, Sequence | Tensor) and not isinstance(given, str):
            object.__setattr__(self, "covariance_scale", scales)

    @property
    def scales(self) -> tuple[float, ...]:
        r"""The covariance scales; ``(1.0,)`` if none is given."""
        given = self.covariance_scale
        return covariance_scales(1.0 if given is None else given)


@dataclass(frozen=True)
class Filters(MixtureFit):
    r"""A mixture of e-processes that weigh directions of the data, anytime.

    Each e-process weighs a direction by how much the kernel explains of it; the mixture's
    weights are chosen for a narrow band. ``covariance_scale`` belongs to one member of the
    mixture, Flynn & Reeb's martingale mixture.

    Attributes:
        every_norm: Whether the mixture is the same for all norm bounds, instead of tied to
            the norm bound in use. Bands of several norm bounds then hold together at one
            ``delta``, and are a little wider. Used by ``breakdown``.
        noise_factor: Noise scale in use over the noise scale that the mixture was fixed
            for. Bands of several factors then hold together at one ``delta``.

    Source: ours; proven in ``docs/mathematics.md``.

    Raises:
        ValueError: If ``noise_factor`` is not above 0; for other errors see ``MixtureFit``.
    """

    every_norm: bool = False
    noise_factor: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_scalar("noise_factor", self.noise_factor)


@dataclass(frozen=True)
class MartingaleMixture(MixtureFit):
    r"""The closed form of the martingale mixture, anytime.

    Source: Flynn & Reeb (2024), Eq. (8).
    """


ClosedForm = Literal["filters", "martingale"] | Filters | MartingaleMixture
Fit = ClosedForm | PrequentialRadius
_NAMED = {"filters": Filters(), "martingale": MartingaleMixture()}


def fit_of(
    fit: Fit, default_scale: CovarianceScale = 1.0
) -> Filters | MartingaleMixture | PrequentialRadius:
    r"""The fit from its name or as given, with ``default_scale`` where it has no scale."""
    if isinstance(fit, PrequentialRadius):
        return fit
    if isinstance(fit, str) and fit in _NAMED:
        fit = _NAMED[fit]
    if not isinstance(fit, Filters | MartingaleMixture):
        raise ValueError(
            'fit must be "filters", "martingale", Filters(...), MartingaleMixture(...) or '
            f"a PrequentialRadius, got {fit!r}."
        )
    if fit.covariance_scale is None and default_scale != 1.0:
        return replace(fit, covariance_scale=default_scale)
    return fit


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
    if isinstance(fit, Filters):
        own = fit.every_norm, fit.noise_factor
        return FilterMixture(regression, delta, fit.scales, norm, misfit, *own)
    if isinstance(fit, MartingaleMixture):
        radius = mixture_radius(regression, delta, fit.scales)
    else:
        radius = fit.radius(regression)
    return FitConstraint(regression, radius.widened(regression, misfit))


def fit_source(fit: Fit, model_error: float = 0.0) -> str:
    r"""The theorem of ``data_fit``."""
    fit, source = fit_of(fit), FILTERS_SOURCE
    if not isinstance(fit, Filters):
        mixture = isinstance(fit, MartingaleMixture)
        source = mixture_source(fit.scales) if mixture else fit.source
    return f"{source}, with a model error (ours)" if model_error else source


def sketched_fit(
    fit: Fit, state: NystromRegression | DTCRegression, delta: float
) -> tuple[Radius, str]:
    r"""As ``data_fit`` without the spectrum of the kernel matrix: radius and theorem.

    ``Filters`` are reduced to the members that need no spectrum: the martingale mixture,
    bounded from above, and the energy of the noise.
    """
    fit = fit_of(fit)
    if isinstance(fit, PrequentialRadius):
        return fit.radius(state), fit.source
    radius = sketched_radius(state, delta, fit.scales)
    source = f"{mixture_source(fit.scales)}, bounded from above (ours)"
    if isinstance(fit, MartingaleMixture):
        return radius, source
    squared = with_energy(radius.squared(state), state.num_observations, delta)
    return Radius.of(squared, state, radius.tau_ref), energy_source(source)
