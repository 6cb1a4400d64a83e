r"""Bounds from the regression of an exact GP: a builder of the band, and its class."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability
from kernelucb._numerics.estimates import Estimate, plain
from kernelucb.acquisition.turns import Turn
from kernelucb.acquisition.ucb import BandUCB
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.band import Band, Noise, check_points, inputs_of, rebuildable
from kernelucb.confidence.combined import PlusError
from kernelucb.confidence.dual import ExactSet
from kernelucb.confidence.fit import (
    Fit,
    MixtureFit,
    PrequentialRadius,
    fit_of,
)
from kernelucb.confidence.mixture import (
    Form,
    Witness,
    attaining_function,
    confidence_set,
    known_noise_problem,
    unknown_noise_problem,
)
from kernelucb.confidence.noise import ReplicateNoise, UnknownNoise
from kernelucb.confidence.norm import (
    NearNormBall,
    NormBound,
    NormBoundLike,
    ball_and_error,
    norm_bound_under_prior,
)
from kernelucb.confidence.radius import CovarianceScale
from kernelucb.confidence.ridge import (
    FiniteDomain,
    Theorem,
    abbasi_yadkori_theorem,
    fixed_ridge_band,
    igp_ucb_theorem,
    wang_de_freitas_band,
)
from kernelucb.confidence.sets import ConfidenceSet
from kernelucb.confidence.streaming import StreamingNoiseTracker, streaming_band
from kernelucb.confidence.tasks import NormFromTasks
from kernelucb.data import KernelRegression
from kernelucb.data.exact import FilteredRegression, data_of
from kernelucb.data.from_model import NoiseStd, observed_inputs
from kernelucb.data.kernel_family import (
    Lengths,
    NamedKernel,
    fixed_mean,
)


class RegressionUCB(BandUCB):
    r"""Base of the bounds from an exact GP, with a kernel and mean by name."""

    @classmethod
    def from_model(
        cls,
        model: Model | KernelRegression,
        *,
        kernel: str | None = None,
        lengthscale: Lengths | None = None,
        outputscale: float = 1.0,
        mean: float = 0.0,
        **options: Any,
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
        if kernel is None:
            if lengthscale is not None or outputscale != 1.0 or mean != 0.0:
                raise ValueError(
                    "lengthscale, outputscale and mean go with the name of a kernel; give "
                    'one, such as kernel="matern52", or leave them out.'
                )
            return cls(model=model, **options)
        noise = options.get("noise_std")
        scales = None if isinstance(noise, UnknownNoise | ReplicateNoise) else noise
        named = NamedKernel.of(kernel, lengthscale, outputscale)
        data = data_of(model, scales)
        chosen = named.fitting(data.train_inputs)
        # The model's kernel and mean are not used, so their training does not count; a
        # learned scaling of the inputs does.
        prior = data.prior.replaced(chosen, fixed_mean(mean), data.train_inputs)
        data = data._replace(prior=prior, estimated=data.estimated_anyway)
        return cls(model=KernelRegression.from_data(data), **options)


def _of_state(whole: ConfidenceSet, state: KernelRegression, **fields: Any) -> Band:
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


def relaxed_fit(fit: Fit, noise_factor: float) -> Fit:
    r"""A fit that is one event for all norm bounds and noise scales."""
    chosen = fit_of(fit)
    if isinstance(chosen, PrequentialRadius) or not chosen.filters:
        return chosen
    factor = chosen.noise_factor * noise_factor
    # Weights that no norm bound enters, else each norm bound had an event of its own.
    return replace(chosen, every_norm=True, noise_factor=factor)


def _relaxed_mixture(
    band: Band, norm_factor: float, noise_factor: float, lengthscale: float | None
) -> dict[str, Any]:
    changes = relaxed_numbers(band, norm_factor, noise_factor)
    given = cast(Any, band.rebuild).keywords
    ball = given.get("norm_bound")
    _, error = ball_and_error(ball)
    if isinstance(ball, NormFromTasks):
        in_use = float(changes["norm_bound"])  # larger where the bound was contradicted
        changes["norm_bound"] = ball.relaxed(in_use / float(ball.norm_bound))
    elif error > 0.0:
        changes["norm_bound"] = NearNormBall(changes["norm_bound"], error)
    fit = fit_of(given.get("fit", "filters"), given.get("covariance_scale"))
    # The fit has the covariance scale in it, and takes no second one.
    return changes | {"fit": relaxed_fit(fit, noise_factor), "covariance_scale": None}


@rebuildable()
def martingale_mixture(
    model: Any,
    norm_bound: NormBoundLike | NearNormBall | NormFromTasks = None,
    noise_std: NoiseStd | UnknownNoise | ReplicateNoise = None,
    delta: float = 0.05,
    fit: Fit = "filters",
    covariance_scale: CovarianceScale | None = None,
    form: Form = "dual",
) -> Band:
    r"""The band of ``MartingaleMixtureUCB``; arguments and errors as there."""
    probability("delta", delta)
    ball, error = ball_and_error(norm_bound)
    tasks = norm_bound if isinstance(norm_bound, NormFromTasks) else None
    if tasks is not None:
        ball, error = tasks.norm_bound, tasks.model_error
        delta = tasks.left_of(delta)
    chosen = fit_of(fit, covariance_scale, None, delta, noise_std)
    replicates = noise_std if isinstance(noise_std, ReplicateNoise) else None
    scales: Any = noise_std
    whole, levels, factor = delta, 1, 1.0
    if replicates is not None:
        inputs, levels = observed_inputs(model), replicates.num_levels
        scales, chosen, delta, factor = replicates.applied(inputs, chosen, whole)
    if isinstance(noise_std, UnknownNoise):
        if error > 0.0:
            raise ValueError(
                "model_error needs a known noise scale, which says how much of the "
                "misfit is noise; give noise_std as a number, or leave out model_error."
            )
        state, mixture = KernelRegression.of(model), fit_of(chosen, None, "mixture")
        scale = cast(MixtureFit, mixture).scales
        problem = unknown_noise_problem(state, ball, noise_std, delta, scale)
    else:
        state = KernelRegression.of(model, scales)
        problem = known_noise_problem(state, ball, chosen, delta, model_error=error)
    used: Any = problem.regression
    # What ``at`` and claims read: data and prior without the filter that weighs them.
    used = used.state if isinstance(used, FilteredRegression) else used
    assumptions = problem.assumptions
    if replicates is not None:
        runs = observed_inputs(model), state.train_targets
        assumptions = replicates.assumptions(assumptions, whole, *runs, state.outcome_map)
        problem = problem._replace(assumptions=assumptions)
    if tasks is not None:
        tasks.check_prior(used.prior, used.dimension)
        rests = tasks.assumptions(problem.assumptions, used.train_inputs)
        problem = problem._replace(assumptions=rests)
    found = confidence_set(problem, form)
    if error > 0.0:
        found = PlusError(found, plain(error))
    numbers = not isinstance(noise_std, UnknownNoise) and not isinstance(
        fit, PrequentialRadius
    )
    noise = Noise(state.data, levels, factor, replicates is None) if numbers else None
    # Designs are weighed for it, so it must not depend on outcomes.
    is_number = tasks is not None or isinstance(ball, float | int | Tensor)
    return _of_state(
        found,
        used,
        noise=noise,
        given_norm=cast(Any, ball) / state.outcome_scale if is_number else None,
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
                ``assumptions`` says so; ``"cautious"`` is a larger estimate, and a
                ``NormTracker`` keeps the estimate from falling in later rounds. Give a
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
                ``("upper", "mean")`` where it is estimated and no theorem speaks of the
                upper bound.

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
            turns = ("upper", "mean") if is_estimate else ("upper",)
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


def _ridge(
    model: Any,
    norm_bound: NormBoundLike,
    noise_std: NoiseStd,
    delta: float,
    one_scale: bool,
) -> tuple[KernelRegression, NormBound]:
    r"""The data, at their largest noise scale for ``one_scale``, and the norm bound."""
    probability("delta", delta)
    state = KernelRegression.of(model, noise_std)
    # Noise of a smaller scale is sub-Gaussian of the largest one as well.
    state = state.with_largest_noise() if one_scale else state
    return state, norm_bound_under_prior(norm_bound, state, delta)


@rebuildable()
def abbasi_yadkori(
    model: Any,
    norm_bound: NormBoundLike,
    noise_std: NoiseStd,
    delta: float,
    alpha: float | None,
) -> Band:
    r"""The band of ``AbbasiYadkoriUCB``."""
    state, norm = _ridge(model, norm_bound, noise_std, delta, one_scale=False)
    noise_variance = float(state.noise_scales.max()) ** 2
    tau = 1.0 if alpha is None else positive_scalar("alpha", alpha) / noise_variance
    whole = abbasi_yadkori_theorem(delta, tau).band(state, norm)
    return _of_state(whole, state, norm_bounds=(norm.in_outcome_units(state),))


class AbbasiYadkoriUCB(RegressionUCB):
    r"""Self-normalised bound of Abbasi-Yadkori, anytime.

    ``mean_alpha +- (B + noise_std sqrt(log_det + 2 ln(1/delta)) / sqrt(alpha)) sd_alpha``.

    Source: Abbasi-Yadkori (2012), Theorem 3.11; Durand et al. (2018), Theorem 1. Assumes
    a kernel and mean fixed before the data, conditionally sub-Gaussian noise,
    ``||f - mean||_H <= norm_bound``, and outcomes that are reported whatever their noise.
    Looser than ``MartingaleMixtureUCB(fit="martingale", form="analytic")`` at the same
    ridge parameter.

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Args:
        alpha: Ridge parameter, outcome units squared; ``noise_std^2`` when absent. With one
            noise scale per observation, relative to the largest noise variance.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: NoiseStd = None,
        delta: float = 0.05,
        alpha: float | None = None,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = abbasi_yadkori(model, norm_bound, noise_std, delta, alpha)
        super().__init__(band, maximize, posterior_transform, X_pending, model)


@rebuildable()
def igp(
    model: Any, norm_bound: NormBoundLike, noise_std: NoiseStd, delta: float, horizon: int
) -> Band:
    r"""The band of ``IGPUCB``."""
    positive_scalar("horizon", horizon)
    state, norm = _ridge(model, norm_bound, noise_std, delta, one_scale=True)
    if state.num_observations > horizon:
        raise ValueError(
            f"horizon is {horizon}, but there are {state.num_observations} "
            "observations already; the bound holds up to the horizon only."
        )
    noise = float(state.noise_scales[0]) / state.outcome_scale
    whole = igp_ucb_theorem(delta, noise, horizon).band(state, norm)
    return _of_state(whole, state, norm_bounds=(norm.in_outcome_units(state),))


class IGPUCB(RegressionUCB):
    r"""Improved GP-UCB, valid for all rounds up to a horizon.

    Source: Chowdhury & Gopalan (2017), Theorem 2, with ``eta = 2 / horizon`` and
    ``t eta`` taken as 2. Assumptions as for ``AbbasiYadkoriUCB``; one noise scale for all
    observations (the largest, where the model has several).

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Args:
        horizon: Number of rounds ``T`` that the bound must hold for; at least the number of
            observations.

    Raises:
        ValueError: If there are more observations than ``horizon``.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: NoiseStd = None,
        delta: float = 0.05,
        horizon: int = 1000,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = igp(model, norm_bound, noise_std, delta, horizon)
        super().__init__(band, maximize, posterior_transform, X_pending, model)


@rebuildable()
def wang_de_freitas(
    model: Any,
    norm_bound: NormBoundLike,
    noise_std: NoiseStd,
    delta: float,
    fixed_design: bool,
) -> Band:
    r"""The band of ``WangDeFreitasUCB``."""
    state, norm = _ridge(model, norm_bound, noise_std, delta, one_scale=True)
    whole = wang_de_freitas_band(state, norm, delta, fixed_design)
    return _of_state(whole, state, norm_bounds=(norm.in_outcome_units(state),))


class WangDeFreitasUCB(RegressionUCB):
    r"""Bound of Wang & de Freitas, for a fixed design and each round alone (not anytime).

    Source: Wang & de Freitas (2014), Proposition 1, as Lemma 3 of Durand et al. (2018) with
    its last term corrected (see ``wang_de_freitas_band``). Assumptions as for
    ``AbbasiYadkoriUCB``, and inputs that were fixed before the noise: inputs that an
    acquisition function chose from earlier outcomes are not covered, so in a search this is
    a heuristic, and ``assumptions`` says so unless ``fixed_design`` is set. One noise scale
    for all observations (the largest, where the model has several).

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Args:
        delta: Failure probability of one round.
        fixed_design: Whether the inputs were fixed before any outcome was seen.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: NoiseStd = None,
        delta: float = 0.05,
        fixed_design: bool = False,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = wang_de_freitas(model, norm_bound, noise_std, delta, fixed_design)
        super().__init__(band, maximize, posterior_transform, X_pending, model)


_FINITE_DOMAIN = FiniteDomain()


@rebuildable()
def srinivas(
    model: Any, noise_std: NoiseStd, delta: float, theorem: Theorem, scale: float
) -> Band:
    r"""The band of ``SrinivasUCB``."""
    probability("delta", delta)
    positive_scalar("scale", scale)
    chosen: Any = theorem
    if not isinstance(chosen, Theorem):
        raise UnsupportedError(
            "theorem must be an instance of FiniteDomain, CompactDomain or "
            f"BoundedNorm, got {theorem!r}."
        )
    state = KernelRegression.of(model, noise_std)
    used, beta, assumptions = theorem.terms(state, delta)
    if scale < 1.0:
        assumptions = assumptions.without_guarantee(
            f"beta is multiplied by {scale:g}; no theorem covers that"
        )
    width = math.sqrt(scale * float(beta))  # the papers' beta is of variances
    whole = fixed_ridge_band(used, 1.0, width, assumptions)
    return _of_state(whole, state, constants={"beta": beta})


class SrinivasUCB(RegressionUCB):
    r"""GP-UCB with the betas of Srinivas et al. (2010), anytime.

    ``posterior mean +- sqrt(scale * beta_t) * posterior sd`` with ``t`` the round about to
    be played (observations plus one), and ``beta_t`` by Theorem 1 (``FiniteDomain``: at the
    points of the domain), Theorem 2 (``CompactDomain``: at the points played) or Theorem 3
    (``BoundedNorm``: at every point). ``band.constants["beta"]`` is ``beta_t``.

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Example:
        >>> acqf = SrinivasUCB(model, theorem=FiniteDomain(size=1000))

    Args:
        theorem: ``FiniteDomain(...)``, ``CompactDomain(...)`` or ``BoundedNorm(...)``.
        scale: Factor of ``beta_t``. A factor below 1 (the paper's experiments use 0.2) has
            no guarantee, and ``assumptions`` says so.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        noise_std: NoiseStd = None,
        delta: float = 0.05,
        theorem: Theorem = _FINITE_DOMAIN,
        scale: float = 1.0,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = srinivas(model, noise_std, delta, theorem, scale)
        super().__init__(band, maximize, posterior_transform, X_pending, model)


@rebuildable()
def streaming(
    model: Any,
    norm_bound: NormBoundLike,
    noise_std: UnknownNoise,
    delta: float,
    tracker: StreamingNoiseTracker | None = None,
) -> Band:
    r"""The band of ``StreamingKernelUCB``."""
    state = KernelRegression.of(model)
    whole, tracker = streaming_band(state, tracker, norm_bound, noise_std, delta)
    interval = tracker.lower, tracker.upper
    norm = whole.assumptions["norm"].number(tracker.norm_bound)
    prior_norm = float(tracker.norm_bound) / state.outcome_scale
    return _of_state(
        whole,
        state,
        noise=None,
        norm_bounds=(norm,),
        noise_interval=interval,
        constants={"alpha": Estimate((float(interval[1]) / prior_norm) ** 2)},
    )


class StreamingKernelUCB(RegressionUCB):
    r"""Kernel UCB with unknown noise and adaptive regularisation, anytime.

    ``f_alpha +- sqrt(k_alpha / alpha) (sqrt(alpha) B + noise_upper sqrt(D))`` with
    ``alpha = noise_upper^2 / B^2``, where ``noise_upper``, an upper bound on the noise
    scale, comes from the data.

    With a ``tracker`` the noise interval is the interval of Corollary 1, a running maximum
    and minimum over all rounds so far. Without a tracker the corollary takes one step for
    each observation, every step on all data: valid, since the noise bounds hold for every
    regulariser on the same event, but the interval may widen again in the next round.
    ``band.noise_interval`` holds the bounds on the noise scale, outcome units (the upper
    one is infinite while no limit is given and data are few), and
    ``band.constants["alpha"]`` the ridge parameter, outcome units squared.

    Source: Durand, Maillard & Pineau (2018), Corollary 1 at ``delta / 4`` (their Kernel
    UCB, Theorem 4). Assumes a kernel and mean fixed before the data, noise that is
    conditionally sub-Gaussian and second-order sub-Gaussian of one scale (Gaussian noise
    is), ``||f - mean||_H <= norm_bound``, and outcomes that are reported whatever their
    noise. The noise of the model's likelihood is not used.

    Other arguments and errors: see ``MartingaleMixtureUCB``.

    Example:
        >>> acqf = StreamingKernelUCB(
        ...     model, norm_bound=5.0, noise_std=UnknownNoise(0.01, 1.0)
        ... )

    Args:
        norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units. By default the
            norm bound of the ``tracker``; estimated without a ``tracker``, or with a
            ``NormTracker``.
        noise_std: Limits of the noise scale: a lower limit, which is required, and an upper
            limit or None.
        delta: Failure probability of the band and the noise interval together.
        tracker: Bounds on the noise so far, built with the same limits and norm bound and
            at most this ``delta``. It is updated with the model's data.

    Raises:
        ValueError: If the tracker has other limits, a larger ``delta`` or more observations
            than the model.
        UnsupportedError: If the model has one noise scale for each observation.
    """

    def __init__(
        self,
        model: Model | KernelRegression,
        *,
        norm_bound: NormBoundLike = None,
        noise_std: UnknownNoise,
        delta: float = 0.05,
        tracker: StreamingNoiseTracker | None = None,
        maximize: bool = True,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        band = streaming(model, norm_bound, noise_std, delta, tracker)
        super().__init__(band, maximize, posterior_transform, X_pending, model)
