r"""Bounds from the regression of an exact GP: a builder of the band, and its class."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb._numerics.estimates import Estimate, estimated_parts
from kernelucb.acquisition.turns import SEARCH_TURNS, Turn
from kernelucb.acquisition.ucb import BandUCB
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.band import Band, Noise, check_points, inputs_of, rebuildable
from kernelucb.confidence.dual import ExactSet
from kernelucb.confidence.fit import Fit, fit_of
from kernelucb.confidence.mixture import (
    Form,
    Witness,
    attaining_function,
    confidence_set,
)
from kernelucb.confidence.noise import (
    NoiseScale,
    ReplicateNoise,
    UnknownNoise,
    as_noise,
)
from kernelucb.confidence.norm import (
    NearNormBall,
    NormBoundLike,
    NormLike,
    as_norm,
)
from kernelucb.confidence.radius import CovarianceScale
from kernelucb.confidence.sets import ConfidenceSet
from kernelucb.confidence.tasks import NormFromTasks
from kernelucb.data import KernelRegression
from kernelucb.data.exact import data_of
from kernelucb.data.from_model import ModelData, NoiseStd
from kernelucb.data.kernel_family import (
    Lengths,
    NamedKernel,
    fixed_mean,
)


def with_named_kernel(
    model: Model | KernelRegression,
    kernel: str | None,
    lengthscale: Lengths | None,
    outputscale: float,
    mean: float,
    **options: object,
) -> dict[str, Any]:
    r"""Arguments of a ``RegressionUCB`` from those of its ``from_model``."""
    if kernel is None:
        if lengthscale is not None or outputscale != 1.0 or mean != 0.0:
            raise ValueError(
                "lengthscale, outputscale and mean go with the name of a kernel; give "
                'one, such as kernel="matern52", or leave them out.'
            )
        return {"model": model, **options}
    noise: Any = options.get("noise_std")
    scales = None if isinstance(noise, NoiseScale) else noise
    named = NamedKernel.of(kernel, lengthscale, outputscale)
    data = data_of(model, scales)
    chosen, module = named.fitting(data.train_inputs), fixed_mean(mean)
    # The model's kernel and mean are not used, so their training does not count; a learned
    # scaling of the inputs does.
    prior = data.prior.replaced(chosen, module, data.train_inputs)
    estimated = data.estimated_anyway | estimated_parts(chosen, module)
    data = data._replace(prior=prior, estimated=estimated)
    return {"model": KernelRegression.from_data(data), **options}


class RegressionUCB(BandUCB):
    r"""Base of the bounds from an exact GP, with a kernel and mean by name."""

    arguments_from_model = staticmethod(with_named_kernel)

    @classmethod
    def from_model(
        cls,
        model: Model | KernelRegression,
        *,
        kernel: str | None = None,
        lengthscale: Lengths | None = None,
        outputscale: float = 1.0,
        mean: float = 0.0,
        **options: object,
    ) -> Self:
        r"""Build the bound from a model, optionally with another kernel and mean.

        With a ``kernel`` the bound takes only the data from the model. So the model may be
        refitted in every round for a search, while the bound's prior stays fixed.

        Args:
            model: A single-output exact GP (``SingleTaskGP``) or a ``KernelRegression``.
            kernel: ``"rbf"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``; when absent
                kernel and mean are those of the model.
            lengthscale: With a kernel: one number, or one for each column of the model's
                inputs, in their units after its input transform.
            outputscale: Prior variance, outcome units squared.
            mean: Prior mean, outcome units.
            options: Further arguments of the class.

        Raises:
            ValueError: If the kernel is unknown or without length scale, a number is out of
                its range, or length scale, output scale or mean come without a kernel.
            BotorchTensorDimensionError: If there is another number of length scales.
        """
        prior = kernel, lengthscale, outputscale, mean
        return cls(**cls.arguments_from_model(model, *prior, **options))


def of_state(whole: ConfidenceSet, state: KernelRegression, **fields: object) -> Band:
    r"""The band of a set from a state whose noise scales are numbers."""
    fields = {"noise": Noise(state.data), **fields}
    return Band(whole, data=state, observed=inputs_of(state.data), **fields)


def relaxed_numbers(
    band: Band, norm_factor: float, noise_factor: float, lengthscale: float | None = None
) -> dict[str, Any]:
    r"""Multiples of the norm bound in use and of noise scales, as arguments of a builder.

    ``lengthscale`` is for families of kernels; other bands do not change by it.

    Raises:
        ValueError: If a factor is out of its range.
        UnsupportedError: If the band has no noise scale that could be larger.
    """
    factor = positive_scalar("norm_factor", norm_factor)
    changes: dict[str, Any] = {"norm_bound": factor * band.norm_bounds[0]}
    if noise_factor == 1.0:
        return changes
    if not noise_factor > 1.0:
        raise ValueError(f"noise_factor must be at least 1, got {noise_factor}.")
    if band.noise is None or not band.noise.relaxed:
        raise UnsupportedError(
            "This band has no noise scale of its own that could be larger; only its norm "
            "bound can be."
        )
    noise = noise_factor * band.noise.data.noise_std
    given = band.assumptions["noise"].status is Status.GIVEN
    return changes | {"noise_std": noise if given else Estimate(noise)}


def _relaxed_mixture(
    band: Band, norm_factor: float, noise_factor: float, lengthscale: float | None
) -> dict[str, Any]:
    changes = relaxed_numbers(band, norm_factor, noise_factor)
    given = band.arguments
    norm = as_norm(given.get("norm_bound"))
    fit = fit_of(given.get("fit", "filters"), given.get("covariance_scale"))
    # The fit has the covariance scale in it, and takes no second one.
    return changes | {
        "norm_bound": norm.at(changes["norm_bound"]),
        "fit": fit.relaxed(noise_factor),
        "covariance_scale": None,
    }


@rebuildable()
def martingale_mixture(
    model: Model | ModelData | KernelRegression,
    norm_bound: NormLike = None,
    noise_std: NoiseStd | NoiseScale = None,
    delta: float = 0.05,
    fit: Fit = "filters",
    covariance_scale: CovarianceScale | None = None,
    form: Form = "dual",
) -> Band:
    r"""The band of ``MartingaleMixtureUCB``; arguments and errors as there."""
    probability("delta", delta)
    norm, noise = as_norm(norm_bound), as_noise(noise_std)
    left = norm.left_of(delta)
    chosen = fit_of(fit, covariance_scale, None, left, noise_std)
    seen = noise.seen(model, chosen, left)
    problem = noise.problem(seen, norm)
    state = problem.state
    known = norm.before_data
    assumptions = noise.stated(problem.assumptions, left, model, state)
    problem = problem._replace(assumptions=norm.stated(assumptions, state))
    return of_state(
        norm.around(confidence_set(problem, form)),
        state,
        noise=None if chosen.has_own_noise else noise.of_band(seen),
        # Designs are weighed for it, so it must not depend on outcomes.
        given_norm=known and known / state.outcome_scale,
        norm_bounds=(problem.norm_bound,),
        least_norms=(Estimate(problem.least_consistent_norm),),
        noise_interval=problem.noise_interval,
        relaxation=_relaxed_mixture,
        function_constraints=problem.constraints,
    )


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
    ``band.noise_interval`` the noise scale. No state is kept from round to round.

    Norms and noise scales that come from the data count as estimated when given to another
    bound, and so do their multiples.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike | NearNormBall | NormFromTasks = None,
        noise_std: NoiseStd | UnknownNoise | ReplicateNoise = None,
        delta: float = 0.05,
        fit: Fit = "filters",
        covariance_scale: CovarianceScale | None = None,
        form: Form = "dual",
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        turns: Sequence[Turn] | None = None,
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
                ``assumptions`` says so; a ``NormTracker`` keeps the estimate from
                falling in later rounds, and ``inflation`` makes it larger. Give a
                ``NearNormBall`` if ``f`` is only near a function of bounded norm, and
                what ``norm_from_tasks`` makes of earlier tasks.
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
            turns: See ``BandUCB``. By default ``("upper",)`` where ``norm_bound`` is given;
                ``("upper", "improvement", "mean")`` where it is estimated and no theorem
                speaks of the upper bound.

        Raises:
            ValueError: If a scalar is out of its range, or ``fit`` has other observations.
            UnsupportedError: If the model or the transform cannot be represented.
            InputDataError: If the model's data are empty or not finite.
        """
        band = martingale_mixture(
            model, norm_bound, noise_std, delta, fit, covariance_scale, form
        )
        if turns is None:
            is_estimate = "norm" in band.assumptions.estimated
            turns = SEARCH_TURNS if is_estimate else ("upper",)
        super().__init__(band, maximize, posterior_transform, X_pending, model, turns)

    def witness(self, X: Tensor, upper: bool = True) -> Witness:
        r"""The function that attains the set's upper (or lower) bound at a ``1 x d`` point.

        The witness maps ``n x d`` points to ``n`` values on the scale of ``latent_bounds``,
        has attributes for its norm and its distance to the data, and belongs to the exact
        set (``form="dual"``) whatever the form. With a ``model_error`` the witness is a
        function of bounded norm near ``f``, which attains the bound up to this error.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``1 x d``.
        """
        state: Any = self.band.required_set.regression  # of one model
        check_points("X", X, state.dimension)
        if len(X) != 1:
            raise BotorchTensorDimensionError(
                f"X must be `1 x {state.dimension}`, got {tuple(X.shape)}."
            )
        constraints = self.band.function_constraints
        # Whatever the form: the others bound the set without a function that attains it.
        exact = ExactSet(state, constraints, self.assumptions)
        with torch.no_grad():
            return attaining_function(exact, exact.project(X), 1 if upper else -1)
