r"""The fit: how the distance between function and data is bounded, as users choose it.

By a mixture fixed before the data, or by predictions made one step ahead, by any model.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from botorch.models.utils import gpt_posterior_settings
from botorch.posteriors import TransformedPosterior
from gpytorch.models import ExactGP
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import finite, one_of, positive_values, probability, tensor
from kernelucb._numerics.estimates import Estimate, Number, is_estimate, plain
from kernelucb.confidence.assumptions import (
    Assumption,
    Assumptions,
    Status,
    rkhs_assumptions,
)
from kernelucb.confidence.filters import FILTERS_SOURCE, FilterMixture
from kernelucb.confidence.least_norm import DataFit, FitConstraint
from kernelucb.confidence.radius import (
    CovarianceScale,
    Radius,
    covariance_scales,
    energy_source,
    misfit_of_error,
    mixture_radius,
    mixture_source,
    sketched_radius,
    with_energy,
)
from kernelucb.data import KernelRegression, NystromRegression, RidgeState
from kernelucb.data.nystrom import DTCRegression

PREDICTED = Assumption(
    "predictions",
    "the predictions behind the radius were made before their outcomes arrived, and the "
    "noise scales were not fitted to these",
    Status.GIVEN,
)


class _Record(NamedTuple):
    r"""Predictions, outcomes and raw inputs, ``n`` of each."""

    means: Tensor
    variances: Tensor
    outcomes: Tensor
    noise_std: Tensor
    inputs: Tensor


class PrequentialRadius:
    r"""Radius of the fit that stays valid when the predicting model is refitted, anytime.

    Every outcome is predicted before it arrives, from earlier data by any rule: by a latent
    mean ``m_s`` and a latent variance ``v_s`` at its input. With probability ``1 - delta``,
    for all rounds at once, the true function's values at the inputs lie within ``r`` noise
    units of the outcomes, with ``r^2`` at most 0.45 above

        ``sum_s [ (y_s - m_s)^2 / (noise_s^2 + v_s) + ln(1 + v_s / noise_s^2) ]
        + 2 ln(1/delta)``

    and close to the energy of the noise where the predictions are bad. No theorem covers
    the closed form of a kernel that was refitted to the same data. The norm bound refers to
    a kernel fixed in advance: give ``MartingaleMixtureUCB`` a model with the fixed kernel
    and all data, and this radius. The refitted model predicts, and may choose the points.

    Source: Flynn & Reeb (2024), Theorem 4.1 with the sequence of predictive distributions
    as the mixture (ours); for predictions by a fixed kernel scaled by ``c`` the sum is
    their Eq. (8). Assumes conditionally sub-Gaussian noise of the scales ``noise_s``, and
    predictions from earlier data only.

    Example:
        >>> radius = PrequentialRadius(delta=0.05)
        >>> for _ in range(rounds):
        ...     radius.observe(refitted_model, x, y, noise_std=0.1)  # fitted without y
        ...     acqf = MartingaleMixtureUCB(
        ...         KernelRegression(X, Y, fixed_kernel, 0.1), norm_bound=B, fit=radius
        ...     )

    Attributes:
        delta: Failure probability.
    """

    source = energy_source(
        "Flynn & Reeb (2024), Theorem 4.1, for predictions one step ahead"
    )

    def __init__(self, delta: float = 0.05) -> None:
        r"""Radius before any observation, for a failure probability."""
        self.delta = probability("delta", delta)
        nothing = torch.zeros(0, dtype=torch.float64)
        self._record = _Record(*5 * [nothing])
        self._estimated = False  # whether a noise scale was

    @property
    def num_observations(self) -> int:
        r"""Number of observations so far."""
        return len(self._record.outcomes)

    @property
    def squared(self) -> float:
        r"""``r^2``, noise units."""
        return with_energy(self.predicted, self.num_observations, self.delta)

    @property
    def predicted(self) -> float:
        r"""``r^2`` by the predictions alone, before it is mixed with the energy."""
        # Chain rule: the log-density of all outcomes is a sum over predictions, so a sum of
        # one-step losses replaces a kernel's log-determinant and quadratic form.
        means, variances, outcomes, noise, _ = self._record
        squares = noise.square()
        terms = (outcomes - means).square() / (squares + variances)
        terms = terms + torch.log1p(variances / squares)
        return float(terms.sum()) + 2.0 * math.log(1.0 / self.delta)

    @property
    def noise_std(self) -> Tensor | Estimate:
        r"""Noise scales of the observations, in order, outcome units."""
        noise = self._record.noise_std.clone()
        return Estimate(noise) if self._estimated else noise

    def observe_predictions(
        self,
        mean: float | Tensor,
        variance: float | Tensor,
        outcome: float | Tensor,
        noise_std: float | Tensor,
        X: Tensor,
    ) -> None:
        r"""Add ``n`` outcomes with the predictions made before the outcomes arrived.

        Args:
            mean: Predicted latent means, ``n`` values or one number, outcome units.
            variance: Predicted *latent* variances, without noise, outcome units squared.
            outcome: Outcomes, outcome units.
            noise_std: Sub-Gaussian noise scale, one number or one per outcome; known, not
                fitted to these outcomes.
            X: ``n x d`` raw inputs of the outcomes, or ``d`` numbers for one input. The
                radius is for data with the same inputs in the same order.

        Raises:
            BotorchTensorDimensionError: If the numbers of values differ.
            InputDataError: If a value is not finite.
            ValueError: If a variance is negative or a noise scale not above 0.
        """
        given = {"mean": mean, "variance": variance, "outcome": outcome}
        means, variances, outcomes = (
            finite(name, torch.as_tensor(plain(value)).detach().double().cpu().reshape(-1))
            for name, value in given.items()
        )
        if not len(means) == len(variances) == len(outcomes):
            raise BotorchTensorDimensionError(
                f"There are {len(means)} means, {len(variances)} variances and "
                f"{len(outcomes)} outcomes; give one of each for every observation."
            )
        if bool((variances < 0.0).any()):
            raise ValueError("variance must not be negative.")
        # Kept on the CPU: models of several rounds may live on several devices.
        noise = positive_values("noise_std", noise_std, len(outcomes)).cpu()
        inputs, earlier = _rows(X).detach().double().cpu(), self._record.inputs
        width = earlier.shape[-1] if len(earlier) else inputs.shape[-1]
        if inputs.shape != (len(outcomes), width):
            raise BotorchTensorDimensionError(
                f"X must be `n x d` with n = {len(outcomes)} and d = {width}, got shape "
                f"{tuple(X.shape)}."
            )
        new = _Record(means, variances, outcomes, noise, inputs)
        if len(earlier):
            new = _Record(*map(torch.cat, zip(self._record, new, strict=True)))
        self._record = new
        self._estimated |= is_estimate(noise_std)

    @torch.no_grad()
    def observe(
        self, model: Model, X: Tensor, Y: Tensor, noise_std: float | Tensor
    ) -> None:
        r"""Add outcomes predicted by a BoTorch model that has not seen them.

        Args:
            model: Fitted to earlier data only; its latent posterior is the prediction.
            X: ``n x d`` inputs that were chosen together, or ``d`` numbers for one input.
            Y: ``n x 1`` or ``n`` outcomes.
            noise_std: As for ``observe_predictions``.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit each other or the model.
            InputDataError: If a value is not finite.
            UnsupportedError: If the model does not predict the value of one function.
        """
        rows = _rows(X)
        means, variances = in_parts(rows, lambda part: _predicted(model, part))
        # By rounding GPyTorch's variances may lie below zero.
        self.observe_predictions(means, variances.clamp_min(0.0), Y, noise_std, rows)

    has_own_noise = True  # so outcomes alone give no limits
    is_tied = False  # to a norm bound of its kernels, which would then be fixed before

    def chosen(
        self,
        covariance_scale: CovarianceScale | None,
        default_scale: CovarianceScale | None,
        delta: float | None,
        noise_std: object,
    ) -> "PrequentialRadius":
        r"""The radius; scales, noise scales and another ``delta`` beside it are refused."""
        if covariance_scale is not None:
            raise ValueError("A PrequentialRadius takes no covariance_scale.")
        if noise_std is not None:
            raise ValueError(
                "A PrequentialRadius has its own noise scales; leave out noise_std."
            )
        if delta not in (None, self.delta):
            raise ValueError(
                f"delta is {delta}, but fit has delta {self.delta}; give the same."
            )
        return self

    def relaxed(self, noise_factor: float) -> "PrequentialRadius":
        r"""The radius is one event for all norm bounds."""
        return self

    def for_noise(self, noise_factor: float) -> "PrequentialRadius":
        r"""The radius has its own noise scales."""
        return self

    def whitened(self, regression: KernelRegression) -> KernelRegression:
        r"""The data at the noise scales of the predictions."""
        same = self.num_observations == regression.num_observations
        return regression.with_noise_std(self.noise_std) if same else regression

    def stated(self, given: Assumptions) -> Assumptions:
        r"""The assumptions of a band, with those on the predictions."""
        if self._estimated:
            noise = replace(given["noise"], status=Status.ESTIMATED)
            given = given.with_item(noise)
        return given.with_extra(PREDICTED)

    def constraint(
        self, regression: KernelRegression, delta: float, norm: float | None, misfit: float
    ) -> FitConstraint:
        r"""Functions within the radius, wider by the misfit of a model error."""
        return FitConstraint(
            regression, self.radius(regression).widened(regression, misfit)
        )

    def sketched(
        self, state: NystromRegression | DTCRegression, delta: float
    ) -> tuple[Radius, str]:
        r"""Radius and theorem without the spectrum of the kernel matrix."""
        return self.radius(state), self.source

    def radius(self, regression: RidgeState) -> Radius:
        r"""The radius for a state of the same observations under the norm bound's kernel.

        Raises:
            ValueError: If number, order, noise scales, inputs or outcomes differ.
        """
        noise, observed = regression.noise_scales.cpu(), self._record.noise_std
        if not (len(noise) == len(observed) and torch.equal(noise, observed)):
            raise ValueError(
                f"fit holds {len(observed)} observations and the model {len(noise)}, or "
                "their noise scales differ; give both the same observations, in order."
            )
        if not regression.holds(self._record.inputs, self._record.outcomes):
            raise ValueError(
                "fit and the model hold different inputs or outcomes; give both the same "
                "observations, in order."
            )
        return Radius.of(self.squared, regression, tau_ref=1.0)


def _rows(X: Tensor) -> Tensor:
    r"""``n x d`` inputs, or a single one of ``d`` numbers, as rows."""
    if tensor("X", X).dim() == 0 or X.numel() == 0:
        raise BotorchTensorDimensionError(f"X must be `n x d`, got shape {tuple(X.shape)}.")
    return finite("X", X.reshape(-1, X.shape[-1]))


def _predicted(model: object, X: Tensor) -> Tensor:
    r"""``2 x n`` latent means and variances of a model at ``n x d`` inputs.

    Raises:
        UnsupportedError: If they are not Gaussian in outcome units.
    """
    if isinstance(model, Model):
        posterior: Any = model.posterior(X)
    elif isinstance(model, ExactGP):  # GPyTorch calls its posterior this
        model.eval()  # in training mode the call gives the prior
        with gpt_posterior_settings():
            posterior = model(X)
    else:
        raise UnsupportedError(
            f"{type(model).__name__} is no BoTorch model; give one, or give predictions "
            "to observe_predictions."
        )
    if isinstance(posterior, TransformedPosterior):
        raise UnsupportedError(
            "The model predicts outcomes through an outcome transform such as Log, and the "
            "radius is of Gaussian predictions. Give those of the transformed outcome to "
            "observe_predictions."
        )
    mean, variance = posterior.mean.reshape(-1), posterior.variance.reshape(-1)
    if len(mean) != len(X):
        raise BotorchTensorDimensionError(
            f"The model predicts {len(mean)} values at {len(X)} inputs; it must predict "
            "one outcome."
        )
    return torch.stack([mean, variance])


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

    has_own_noise = False

    @property
    def is_tied(self) -> bool:
        r"""Whether a family's fit depends on its norm bounds, which are fixed before."""
        of_filters = self.filters and not self.every_norm
        return of_filters or self.covariance_scale is None

    def chosen(
        self, given: CovarianceScale | None, default: CovarianceScale | None, *_: object
    ) -> "MixtureFit":
        r"""The fit with the scales given, else with its own, else with the default ones."""
        given = self.covariance_scale if given is None else given
        scale = default if given is None else given
        scales = None if scale is None else covariance_scales(scale)
        return replace(self, covariance_scale=scales)

    @property
    def source(self) -> str:
        r"""The theorem."""
        return FILTERS_SOURCE if self.filters else mixture_source(self.scales)

    def relaxed(self, noise_factor: float) -> "MixtureFit":
        r"""The fit as one event for all norm bounds and noise scales."""
        # Weights that no norm bound enters, else each norm bound had an event of its own.
        tied = replace(self, every_norm=True, noise_factor=self.noise_factor * noise_factor)
        return tied if self.filters else self

    def for_noise(self, noise_factor: float) -> "MixtureFit":
        r"""The fit for scales that are a multiple of those it was fixed for."""
        return replace(self, noise_factor=noise_factor) if self.filters else self

    def whitened(self, regression: KernelRegression) -> KernelRegression:
        r"""The data at their own noise scales."""
        return regression

    def stated(self, given: Assumptions) -> Assumptions:
        r"""A mixture that was fixed before the data needs nothing more."""
        return given

    def constraint(
        self, regression: KernelRegression, delta: float, norm: float | None, misfit: float
    ) -> DataFit:
        r"""The mixture of filters, or the radius, wider by the misfit of a model error."""
        if self.filters:
            fixed = self.every_norm, self.noise_factor
            return FilterMixture(regression, delta, self.scales, norm, misfit, *fixed)
        radius = mixture_radius(regression, delta, self.scales)
        return FitConstraint(regression, radius.widened(regression, misfit))

    def sketched(
        self, state: NystromRegression | DTCRegression, delta: float
    ) -> tuple[Radius, str]:
        r"""Radius and theorem without the spectrum of the kernel matrix.

        Filters are reduced to the members that need no spectrum: the martingale mixture,
        bounded from above, and the energy of the noise.
        """
        radius = sketched_radius(state, delta, self.scales)
        source = f"{mixture_source(self.scales)}, bounded from above (ours)"
        if not self.filters:
            return radius, source
        squared = with_energy(radius.squared(state), state.num_observations, delta)
        return Radius.of(squared, state, radius.tau_ref), energy_source(source)


FixedFit = MixtureFit | PrequentialRadius
ClosedForm = Literal["filters", "martingale"] | MixtureFit
Fit = ClosedForm | PrequentialRadius


def fit_of(
    fit: Fit,
    covariance_scale: CovarianceScale | None = None,
    default_scale: CovarianceScale | None = None,
    delta: float | None = None,
    noise_std: object = None,
) -> FixedFit:
    r"""The fit of a name, or as given, with its scales or else the default ones.

    Raises:
        ValueError: If the name is unknown, a scale not a finite number above zero, or
            there are scales, noise scales or another ``delta`` beside a
            ``PrequentialRadius``.
    """
    if not isinstance(fit, MixtureFit | PrequentialRadius):
        fit = MixtureFit(one_of("fit", fit, "filters", "martingale") == "filters")
    return fit.chosen(covariance_scale, default_scale, delta, noise_std)


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
    misfit = misfit_of_error(regression, model_error)
    return fit_of(fit).constraint(regression, delta, norm, misfit)


def mixture_assumptions(
    fit: FixedFit,
    regression: RidgeState,
    delta: float,
    norm: Assumption,
    model_error: Number = 0.0,
    source: str | None = None,
) -> Assumptions:
    r"""The assumptions of a set with known noise; ``source`` replaces the fit's theorem."""
    source = source or f"{fit.source}{', with a model error (ours)' * (model_error > 0.0)}"
    assumptions = rkhs_assumptions(source, regression, delta, norm)
    return fit.stated(assumptions)
