r"""Martingale-mixture upper confidence bound (Flynn & Reeb 2024)."""

from dataclasses import replace
from typing import Any, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import probability
from kernelucb._numerics.estimates import EstimatedNumber, plain
from kernelucb.acquisition.base import RegressionUCB, relaxed_numbers
from kernelucb.confidence.combined import CombinedSet, PlusError
from kernelucb.confidence.dual import ExactSet
from kernelucb.confidence.fit import Fit, MixtureFit, check_fit, fit_of
from kernelucb.confidence.forms import Form, Witness, attaining_function, confidence_set
from kernelucb.confidence.mixture import (
    known_noise_problem,
    unknown_noise_problem,
)
from kernelucb.confidence.noise import ReplicateNoise, UnknownNoise
from kernelucb.confidence.norm import NearNormBall, NormBoundLike, ball_and_error
from kernelucb.confidence.radius import CovarianceScale
from kernelucb.regression import KernelRegression
from kernelucb.regression.exact import FilteredRegression
from kernelucb.regression.from_model import NoiseStd, observed_inputs


class MartingaleMixtureUCB(RegressionUCB):
    r"""Largest value over the functions that explain the data, anytime.

    ``UCB(x) = max f(x)`` over all functions of norm at most ``norm_bound`` that fit the
    data, by a mixture of filters or within Flynn & Reeb's radius. Both rest on the same
    assumptions; the mixture's band is usually narrower. If the assumptions are true, the
    band ``bounds(X)`` holds the true function at every point and every round at once with
    probability ``1 - delta``, for inputs chosen from the past by any rule. ``assumptions``
    lists the given and the estimated ones.

    Source: Flynn & Reeb (2024), Lemma 4.2 with Theorem 4.5 (``form="dual"``), Eq. (12) on
    a grid, Corollary 4.6 (``"analytic"``) or Theorem 4.4 (``"convex"``); the
    mixture of filters (proven in ``docs/mathematics.md``), several scales and
    ``UnknownNoise`` are ours. Assumes a kernel, mean and norm bound fixed before the data,
    conditionally sub-Gaussian noise of scale ``noise_std``,
    ``||f - mean||_H <= norm_bound``, and outcomes that are reported whatever their noise.

    Example:
        >>> acqf = MartingaleMixtureUCB(model, norm_bound=10.0, noise_std=0.1)
        >>> candidate, value = optimize_acqf(acqf, bounds, q=1, num_restarts=8,
        ...                                  raw_samples=256)
        >>> lower, upper = acqf.bounds(X)

    With ``UnknownNoise`` the set holds pairs of a function and a noise scale, for
    independent Gaussian noise of one scale: no noise scale need be given, and with
    probability ``1 - delta``, at every round at once, the band holds the true function and
    ``noise_interval`` holds the noise scale. No state is kept from round to round.

    Attributes:
        fit: The fit, as given; so is ``covariance_scale``.
        model_error: Largest distance of ``f`` from the functions of the set at any point,
            outcome units.
        norm_bound: The norm bound in use, outcome units; larger than the given norm bound
            where the data contradict the given one.
        least_consistent_norm: Lower bound on the norm, outcome units, under all assumptions
            but the assumption on the norm.
        noise_interval: Lower and upper bound on the noise scale, outcome units; None where
            the noise scale was given.

    Norms and noise scales that come from the data count as estimated when given to another
    bound, and so do numbers computed from these norms and noise scales.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike | NearNormBall = None,
        noise_std: NoiseStd | UnknownNoise | ReplicateNoise = None,
        delta: float = 0.05,
        fit: Fit = "filters",
        covariance_scale: CovarianceScale | None = None,
        form: Form = "dual",
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Martingale-mixture upper confidence bound.

        Args:
            model: A single-output exact GP (``SingleTaskGP``, or an ``ExactGP`` of GPyTorch
                whose ``forward`` is made of ``mean_module`` and ``covar_module``), or a
                ``KernelRegression``. With ``Log``, ``Power`` or ``Bilog`` as its outcome
                transform (``Standardize`` last, if at all) "outcome units" below are those
                after it, where the noise is additive; only ``bounds`` maps back.
            norm_bound: Bound on the RKHS norm of ``f - mean`` for the model's
                ``covar_module`` as it stands, outcome units; fixed before the data, the
                same number in every round, since the mixture of filters is tied to it: try
                several by ``relaxed``. By default estimated from the data, and
                ``assumptions`` says so; ``"cautious"`` is a larger estimate, and a
                ``NormTracker`` keeps the estimate from falling in later rounds. Give a
                ``NearNormBall`` if ``f`` is only near a function of bounded norm.
            noise_std: Sub-Gaussian noise scale, outcome units, one number or one per
                observation, or a function that maps ``n x d`` inputs to ``n`` scales and
                was known beforehand; from the likelihood (or ``train_Yvar``) when absent. A
                ``ReplicateNoise`` is an upper limit from repeated runs. With
                ``UnknownNoise()`` the noise is Gaussian, with one scale, and the set is
                tight for scales of 0.001 to 10 prior standard deviations; with its two
                limits only scales between them count.
            delta: Failure probability.
            fit: What bounds the distance to the data: ``"filters"``, a mixture of
                e-processes that weigh directions of the data by how much the kernel
                explains of them, with weights for a narrow band; ``"martingale"``, the
                closed form of Flynn & Reeb's martingale mixture, one of its members; or a
                ``PrequentialRadius`` of the same observations in the same order, from
                predictions by refitted models; noise and ``delta`` are then those of the
                radius. With unknown noise the first two are the same.
            covariance_scale: Scale ``c`` of the martingale mixture ``N(0, c K)`` relative
                to the model's prior, fixed before the data; 1 by default. Several numbers,
                or ``"mixture"`` for 17 powers of two from 1/256 to 256 (the default for
                unknown noise), mix over ``J`` scales with equal weights: anytime as well,
                with a squared radius (noise units) at most ``2 ln J`` above that of the
                best scale in hindsight. The filters' other members have their own scales.
            form: ``"dual"`` is the minimum over every ridge parameter; several numbers are
                a grid of ridge parameters (outcome units squared, relative to the largest
                noise variance), and ``"grid"`` is Flynn & Reeb's grid of five around
                ``noise_std^2 / covariance_scale``. One number is the closed form at this
                ridge parameter, ``"analytic"`` at that of the narrowest band at observed
                inputs, among twelve; for ``fit="martingale"`` at ``noise_std^2 /
                covariance_scale`` (of several, of the scale that explains the data best).
                ``"convex"`` is the same as ``"dual"`` through a cone program (but
                ``"dual"`` for a set that was empty and had to be widened).
            maximize: If False, the value is minus the lower bound.
            posterior_transform: A ``ScalarizedPosteriorTransform`` with one weight.
            X_pending: ``p x d`` points under evaluation; variances are conditioned on them.

        Raises:
            ValueError: If a scalar is out of its range, or ``fit`` has other observations.
            UnsupportedError: If the model or the transform cannot be represented.
            InputDataError: If the model's data are empty or not finite.
        """
        probability("delta", delta)
        check_fit(fit, delta, noise_std=noise_std)
        ball, error = ball_and_error(norm_bound)
        chosen = fit_of(fit, covariance_scale)
        replicates = noise_std if isinstance(noise_std, ReplicateNoise) else None
        whole, data = delta, self._taken(model)
        if replicates is not None:
            noise_std = plain(replicates.scales(observed_inputs(data), whole))
            chosen, delta = replicates.applied(chosen, whole)
        if isinstance(noise_std, UnknownNoise):
            if error > 0.0:
                raise ValueError(
                    "model_error needs a known noise scale, which says how much of the "
                    "misfit is noise; give noise_std as a number, or leave out model_error."
                )
            state, mixture = KernelRegression.of(data), fit_of(chosen, None, "mixture")
            scale = cast(MixtureFit, mixture).scales
            problem = unknown_noise_problem(state, ball, noise_std, delta, scale)
        else:
            state = KernelRegression.of(data, cast(NoiseStd, noise_std))
            problem = known_noise_problem(state, ball, chosen, delta, model_error=error)
        if replicates is not None:
            runs = observed_inputs(data), state.train_targets
            known = replicates.assumptions(
                problem.assumptions, whole, *runs, state.outcome_map
            )
            problem = problem._replace(assumptions=known)
        band = confidence_set(problem, form)
        if error > 0.0:
            band = CombinedSet([band], PlusError(error), band.assumptions)
        super().__init__(model, band, maximize, posterior_transform, X_pending)
        self.function_constraints = problem.constraints
        self.fit: Fit = fit
        self.covariance_scale: CovarianceScale | None = covariance_scale
        self.form, self.model_error = form, error
        self.norm_bound = problem.norm_bound
        self.least_consistent_norm = EstimatedNumber(problem.least_consistent_norm)
        self.noise_interval = problem.noise_interval

    @property
    def regression(self) -> KernelRegression:
        r"""The data and the prior, without the filter by which the set weighs the data."""
        state: Any = self.confidence_set.regression
        return state.state if isinstance(state, FilteredRegression) else state

    def _relaxation(
        self, norm_factor: float, noise_factor: float, lengthscale: float | None
    ) -> dict[str, Any]:
        changes = relaxed_numbers(self, norm_factor, noise_factor)
        fit = fit_of(self.fit, self.covariance_scale)
        if isinstance(fit, MixtureFit) and fit.filters:
            factor = fit.noise_factor * noise_factor
            changes["fit"] = replace(fit, every_norm=True, noise_factor=factor)
        if self.model_error > 0.0:
            changes["norm_bound"] = NearNormBall(changes["norm_bound"], self.model_error)
        return changes

    def witness(self, X: Tensor, upper: bool = True) -> Witness:
        r"""The function that attains the set's upper (or lower) bound at a ``1 x d`` point.

        The witness maps ``n x d`` points to ``n`` values on the scale of ``latent_bounds``,
        has attributes for its norm and its distance to the data, and belongs to the exact
        set (``form="dual"``) whatever the form. With a ``model_error`` the witness is a
        function of bounded norm near ``f``, which attains the bound up to this error.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``1 x d``.
            UnsupportedError: If the function is known to lie in a range, which the witness
                might leave.
        """
        if self.outcome_range is not None:
            raise UnsupportedError(
                "The band lies within a range, which the function that attains the bound "
                "without a range may leave; ask the band without it (leave out "
                "band.within)."
            )
        if X.shape != (1, self.regression.dimension):
            raise BotorchTensorDimensionError(
                f"X must be `1 x {self.regression.dimension}`, got {tuple(X.shape)}."
            )
        self._check_points("X", X, "n x d")
        state = self.confidence_set.regression
        exact = ExactSet(state, self.function_constraints, self.assumptions)
        with torch.no_grad():
            return attaining_function(exact, exact.project(X), 1 if upper else -1)
