r"""Successes or counts: their log-likelihoods, and a prior of what they depend on."""

import math
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal, NamedTuple, Self, cast

import torch
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models.model import Model
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import BernoulliLikelihood
from gpytorch.likelihoods.poisson_likelihood import PoissonLikelihood
from gpytorch.means import Mean
from gpytorch.models import GP, ApproximateGP
from torch import Tensor
from torch.nn.functional import logsigmoid

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.checks import one_of, positive_values, training_targets
from kernelucb._numerics.estimates import estimated_parts, learns
from kernelucb.data.exact import KernelRegression, Pooled, distinct_rows
from kernelucb.data.from_model import (
    ModelData,
    Source,
    approximate_gp,
    prior_is_as_read,
    read_model,
    source_of,
)
from kernelucb.data.kernel_family import (
    Lengths,
    NamedKernel,
    fixed_mean,
)
from kernelucb.data.outcome_map import OutcomeMap, Step
from kernelucb.data.prior import Prior

Likelihood = Literal["bernoulli", "binomial", "poisson"]
LINKS = {
    "bernoulli": OutcomeMap((Step("Logit"),)),
    "binomial": OutcomeMap((Step("Logit"),)),
    "poisson": OutcomeMap((Step("Log"),)),
}
_LIKELIHOODS: dict[type, Likelihood] = {
    BernoulliLikelihood: "bernoulli",
    PoissonLikelihood: "poisson",
}
# Larger counts have no neighbours among 64-bit numbers.
_LARGEST_COUNT = 2.0**53
# Standardize and decimal files round outcomes.
_ROUNDED = 1e-6  # of a count, relative
_ROUNDED_RATES = 1e-3  # of a count from a rate, absolute
# The trapezoidal rule, in standard deviations: coarse for a search, fine for a bound.
_SEARCHED = (0.5, 6.0)  # step and reach
_STEP = 0.125
_REACH = 9.0  # beyond it a Gaussian has less than exp(-40) of its weight
# Newton's method for a mode.
_MOST_STEPS = 200
_MOST_HALVINGS = 44  # of a step, to 6e-14 of it
_CONVERGED = 1e-13  # gain of a step, relative to the objective


@dataclass(frozen=True, eq=False)
class Loss:
    r"""Outcomes at ``n`` inputs: ``l_i(f) = -ln p(outcome i | f)``.

    Without terms that no ``f`` changes: ``N softplus(f) - s f`` for ``s`` successes in
    ``N`` trials with log odds ``f``; ``E exp(f) - y f`` for a count ``y`` at exposure ``E``
    with log rate ``f``. Convex in the latent value ``f``; tensors of latent values have
    ``n`` columns, one for each input.

    Attributes:
        counts: ``n`` numbers of successes, or counts.
        amounts: ``n`` numbers of trials, or exposures.
        kind: The distribution of an outcome given the latent value.
    """

    counts: Tensor
    amounts: Tensor
    kind: Likelihood

    def pooled(self, index: Tensor, count: int) -> Self:
        r"""The sums at ``count`` inputs; outcome ``i`` was observed at ``index[i]``."""
        zeros = self.counts.new_zeros(count)
        counts = zeros.index_add(0, index, self.counts)
        return replace(self, counts=counts, amounts=zeros.index_add(0, index, self.amounts))

    def value(self, latent: Tensor) -> Tensor:
        r"""Loss at each input, in the shape of ``latent``."""
        if self.kind == "poisson":
            return self.amounts * latent.exp() - self.counts * latent
        failures = self.amounts - self.counts
        return -self.counts * logsigmoid(latent) - failures * logsigmoid(-latent)

    def slope(self, latent: Tensor) -> Tensor:
        r"""First derivative of the loss in the latent value."""
        if self.kind == "poisson":
            return self.amounts * latent.exp() - self.counts
        failures = self.amounts - self.counts
        return failures * latent.sigmoid() - self.counts * (-latent).sigmoid()

    def curvature(self, latent: Tensor) -> Tensor:
        r"""Second derivative of the loss, never negative."""
        if self.kind == "poisson":
            return self.amounts * latent.exp()
        return self.amounts * latent.sigmoid() * (-latent).sigmoid()

    def expected(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Mean of the loss under ``N(mean, variance)`` at each input, nearly; ``n``."""
        if self.kind == "poisson":
            return self.amounts * (mean + 0.5 * variance).exp() - self.counts * mean
        return self._mean_value(mean, safe_sqrt(variance), *_SEARCHED)

    def expected_bound(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Upper bound on ``expected``, ``n`` values: with the error of the rule."""
        if self.kind == "poisson":
            return self.expected(mean, variance)
        deviation = variance.sqrt()
        value = self._mean_value(mean, deviation, _STEP, _REACH)
        return value + self.amounts * _trapezoid_error(mean, deviation)

    def _mean_value(
        self, mean: Tensor, deviation: Tensor, step: float, reach: float
    ) -> Tensor:
        # The trapezoidal rule is far better for wide Gaussians than Gauss and Hermite's.
        grid, weights = (part.to(mean) for part in _trapezoid(step, reach))
        return weights @ self.value(mean + deviation * grid)

    def log_independent(self, mean: Tensor) -> float:
        r"""Log-evidence if the value at each input were drawn on its own, without a kernel.

        From the conjugate prior of Jeffreys' shape: ``Beta(1/2, 1/2)`` of a probability,
        ``Gamma(1/2)`` with the mean ``exp(mean)`` of a rate.
        """
        if self.kind == "poisson":
            rate = 0.5 * (-mean).exp()
            parts = torch.lgamma(self.counts + 0.5) - 0.5 * math.log(math.pi)
            parts = parts + 0.5 * rate.log()
            return float((parts - (self.counts + 0.5) * (rate + self.amounts).log()).sum())
        failures = self.amounts - self.counts
        parts = torch.lgamma(self.counts + 0.5) + torch.lgamma(failures + 0.5)
        return float((parts - torch.lgamma(self.amounts + 1.0) - math.log(math.pi)).sum())


def checked_outcomes(
    likelihood: Likelihood,
    counts: Tensor,
    num_trials: float | Tensor | None,
    exposure: float | Tensor | None,
) -> Loss:
    r"""Check ``n`` finite outcomes against their likelihood; their ``Loss``.

    Raises:
        ValueError: If an argument is missing, or has no meaning for the likelihood.
        InputDataError: If the likelihood gives an outcome no probability.
    """
    one_of("likelihood", likelihood, *LINKS)
    if exposure is not None and likelihood != "poisson":
        raise ValueError('exposure is for likelihood="poisson"; leave it out.')
    if num_trials is not None and likelihood != "binomial":
        raise ValueError('num_trials is for likelihood="binomial"; leave it out.')
    if num_trials is None and likelihood == "binomial":
        raise ValueError(
            'likelihood="binomial" needs num_trials, one number or one for each '
            'outcome; for outcomes that are 0 or 1 use "bernoulli".'
        )
    poisson = likelihood == "poisson"
    name, given = ("exposure", exposure) if poisson else ("num_trials", num_trials)
    amounts = positive_values(name, 1.0 if given is None else given, len(counts)).to(counts)
    if likelihood == "bernoulli" and bool(((counts != 0.0) & (counts != 1.0)).any()):
        raise InputDataError(
            'train_Y must be 0 or 1 for likelihood="bernoulli"; for numbers of '
            'successes use "binomial" with num_trials, for counts "poisson".'
        )
    for name, values in {"num_trials": amounts, "train_Y": counts}.items():
        whole = (values == values.round()) & (values >= 0.0) & (values <= _LARGEST_COUNT)
        if not bool(whole.all()) and not (poisson and values is amounts):
            raise InputDataError(
                f"{name} must hold whole numbers from 0 to 2^53, got "
                f"{float(values[~whole][0]):g}."
            )
    if not poisson and bool((counts > amounts).any()):
        raise InputDataError(
            "train_Y has more successes than num_trials; train_Y must be numbers of "
            "successes (not proportions), of num_trials each."
        )
    return Loss(counts, amounts, likelihood)


@cache
def _trapezoid(step: float, reach: float) -> tuple[Tensor, Tensor]:
    r"""Nodes as a column, and weights, for the mean under ``N(0, 1)``."""
    count = round(2.0 * reach / step) + 1
    grid = torch.linspace(-reach, reach, count, dtype=torch.float64)
    weights = step / math.sqrt(2.0 * math.pi) * (-0.5 * grid.square()).exp()
    return grid.unsqueeze(-1), weights


def _trapezoid_error(mean: Tensor, deviation: Tensor) -> Tensor:
    r"""Upper bound on the error of the rule for ``softplus`` and for its mirror.

    By the Poisson sum ``2 q / (1 - q)`` times the integral along the line that is ``eta``
    away, ``q = exp(-2 pi eta / step)``: at most ``4 q exp(eta^2 / 2) (|mean| + deviation +
    6)`` while ``q`` is at most a half. By the total variation also ``step`` times the
    bracket, which is the smaller one elsewhere. What lies beyond the ends is below
    ``exp(-reach^2 / 2)`` times the bracket. See ``docs/mathematics.md``.
    """
    eta = (0.9 * math.pi / deviation.clamp_min(1e-3)).clamp_max(2.0 * math.pi / _STEP)
    size = mean.abs() + deviation + 6.0
    missed = 4.0 * (0.5 * eta.square() - 2.0 * math.pi * eta / _STEP).exp()
    return size * (missed.clamp_max(_STEP) + math.exp(-0.5 * _REACH**2))


class Mode(NamedTuple):
    r"""The function with the least sum of loss and penalty, at the distinct inputs."""

    latent: Tensor  # `u` values
    weights: Tensor  # `u` coefficients of the kernel sections in `f - mean`
    loss: float  # sum of the loss
    norm: float  # RKHS norm of `f - mean`, prior units


class PseudoRegression(KernelRegression):
    r"""A ``KernelRegression`` of pseudo-outcomes; noise scales stand for curvatures."""

    @property
    def pending_noise_std(self) -> Tensor:
        r"""Noise scale of the mean precision: where the loss is flat, none is a limit."""
        return self.noise_scales.square().reciprocal().mean().rsqrt()


class LikelihoodRegression:
    r"""Successes or counts, with a prior of the latent function behind them.

    The counterpart of ``KernelRegression``: frozen data and prior. Given the past, the
    outcome at ``x`` is 1 with probability ``sigmoid(f(x))`` (``"bernoulli"``), a number of
    successes in ``num_trials`` with that probability each (``"binomial"``), or a Poisson
    count of mean ``exposure * exp(f(x))`` (``"poisson"``). Kernel and mean are those of
    ``f``, the log odds or the log rate. Outcomes at repeated inputs are added up, which
    loses no information.

    Example:
        >>> data = LikelihoodRegression(X, survived, kernel, likelihood="bernoulli")
        >>> check_consistency(data, norm_bound=3.0)

    Attributes:
        dimension: Number of raw input columns ``d``.
        outcomes: The outcomes, in the order in which they came.
        loss: The same, added up at the ``u`` distinct inputs.
        prior: Frozen prior of the latent function; its ``outcome_map`` is the link.
        estimated: Which of ``"kernel"`` and ``"mean"`` may have been fitted to these data.
        num_observations: Number of outcomes ``n``.
    """

    def __init__(
        self,
        train_X: Tensor,
        train_Y: Tensor,
        covar_module: Kernel,
        *,
        likelihood: Likelihood = "bernoulli",
        num_trials: float | Tensor | None = None,
        exposure: float | Tensor | None = None,
        mean_module: float | Mean | None = None,
    ) -> None:
        r"""Data and prior from tensors and a GPyTorch kernel.

        Args:
            train_X: ``n x d`` inputs.
            train_Y: ``n x 1`` or ``n`` outcomes: 0 or 1, numbers of successes, or counts.
            covar_module: Kernel of the latent function, output scale included. Trainable
                parameters count as estimated: freeze (``requires_grad_(False)``) what was
                fixed before the data.
            likelihood: ``"bernoulli"``, ``"binomial"`` or ``"poisson"``.
            num_trials: For ``"binomial"``, one number or ``n``.
            exposure: For ``"poisson"``, one number or ``n``, above 0; 1 when absent. Time,
                area or number of items: ``bounds`` are rates for each unit of it.
            mean_module: Known mean of the latent function, a number or a frozen GPyTorch
                mean; zero when absent.

        Raises:
            BotorchTensorDimensionError: If the shapes do not fit together.
            InputDataError: If there are no data, they are not finite, or an outcome is
                impossible.
            ValueError: If ``num_trials`` or ``exposure`` is missing or out of place.
        """
        counts, mean = training_targets(train_X, train_Y), fixed_mean(mean_module)
        outcomes = checked_outcomes(likelihood, counts, num_trials, exposure)
        prior = Prior(covar_module, mean, outcome_map=LINKS[likelihood])
        inputs = train_X.detach().to(torch.float64, copy=True)
        estimated = estimated_parts(covar_module, mean)
        self._set(prior, inputs, outcomes, train_X.shape[-1], estimated)

    @classmethod
    def from_parts(
        cls,
        prior: Prior,
        inputs: Tensor,
        outcomes: Loss,
        dimension: int,
        estimated: frozenset[str],
    ) -> Self:
        r"""From prior, kernel inputs (``n x d'``), outcomes, ``d`` and what was fitted."""
        data = cls.__new__(cls)
        data._set(prior, inputs, outcomes, dimension, estimated)
        return data

    @torch.no_grad()
    def _set(
        self,
        prior: Prior,
        inputs: Tensor,
        outcomes: Loss,
        dimension: int,
        estimated: frozenset[str],
    ) -> None:
        self.outcomes, self.dimension, self.estimated = outcomes, dimension, estimated
        self.prior, self.train_inputs = prior.to(inputs.device), inputs
        prior.check_fits(inputs)
        self.num_observations = len(inputs)
        positions, self.index = distinct_rows(inputs)
        self.distinct_inputs = distinct = inputs[positions]
        self.loss = outcomes.pooled(self.index, len(distinct))
        self.mean, self.variance = prior.mean(distinct), prior.variance(distinct)
        self.kernel_matrix = prior.gram(distinct)

    @classmethod
    def from_model(
        cls,
        model: "LikelihoodRegression | Model | ApproximateGP",
        *,
        likelihood: Likelihood | None = None,
        num_trials: float | Tensor | None = None,
        exposure: float | Tensor | None = None,
        outcomes: Literal["counts", "rates"] = "counts",
        kernel: Kernel | str | None = None,
        lengthscale: Lengths | None = None,
        outputscale: float = 1.0,
        mean: float | Mean | None = None,
        train_X: Tensor | None = None,
        train_Y: Tensor | None = None,
    ) -> "LikelihoodRegression":
        r"""From a variational GP, or from an exact GP that holds the data.

        From a ``SingleTaskVariationalGP`` or ``ApproximateGP`` data, kernel and mean are
        taken, which count as estimated unless frozen; the variational posterior and the
        inducing points are not used. GPyTorch's ``BernoulliLikelihood`` has another link
        (probit): here kernel and mean are those of the log odds. From an exact GP
        (``SingleTaskGP`` of 0 and 1, as in Ax) only the data are taken.

        Args:
            model: The model; a ``LikelihoodRegression`` is given back.
            likelihood: ``"bernoulli"``, ``"binomial"`` or ``"poisson"``; by default that of
                the model's likelihood.
            num_trials: See the class.
            exposure: See the class.
            outcomes: ``"counts"``, or ``"rates"`` where the outcomes are proportions of
                ``num_trials``, or counts over ``exposure``.
            kernel: A kernel, or ``"rbf"``, ``"matern52"``, ``"matern32"``, ``"matern12"``;
                by default that of a variational model.
            lengthscale: Length scale of a kernel given by name, in units of the kernel's
                inputs; one number, or one for each input.
            outputscale: Prior variance of a kernel given by name.
            mean: Prior mean of the log odds or log rate, a number or a frozen GPyTorch
                mean; by default that of a variational model, or zero.
            train_X: ``n x d`` inputs, for a variational model that does not keep its data.
            train_Y: ``n x 1`` or ``n`` outcomes, for the same case.

        Raises:
            UnsupportedError: If the model cannot be read, or has no kernel of log odds or
                log rates and none is given.
            InputDataError: If it keeps no outcomes, or they are impossible.
            ValueError: If an argument is missing or out of place.
        """
        one_of("outcomes", outcomes, "counts", "rates")
        asked = _asked_kernel(kernel, lengthscale, outputscale)
        if isinstance(model, LikelihoodRegression):
            described = likelihood, num_trials, exposure, kernel, mean, train_X, train_Y
            if any(each is not None for each in described):
                raise ValueError(
                    "The model is a LikelihoodRegression, which holds outcomes, "
                    "likelihood, kernel and mean; leave out what describes them."
                )
            return model
        gp = approximate_gp(model)
        data = (
            read_model(model) if gp is None else _variational(model, gp, train_X, train_Y)
        )
        read, module = data.prior, fixed_mean(mean)
        likelihood = likelihood or _LIKELIHOODS.get(
            type(getattr(model, "likelihood", None))
        )
        if likelihood is None:
            raise UnsupportedError(
                "The model does not say what its outcomes are; give "
                'likelihood="bernoulli", "binomial" or "poisson".'
            )
        if not read.outcome_map.is_identity:
            raise UnsupportedError(
                f"The model is of the outcome{read.outcome_map.after}; give one of the "
                "outcomes as they were reported (outcome_transform=None or Standardize)."
            )
        if asked is not None:
            chosen = asked.fitting(data.train_inputs)
        elif gp is not None:
            chosen, module = read.covar_module, read.mean_module if mean is None else module
        else:
            raise UnsupportedError(
                f"The kernel of {type(model).__name__} is one of outcomes, not of log odds "
                "or log rates; give kernel=..., fixed before the data."
            )
        amount = exposure if num_trials is None else num_trials
        counts = _counts(data.train_targets, outcomes == "rates", amount)
        checked = checked_outcomes(likelihood, counts, num_trials, exposure)
        # An input transform that was fitted makes any kernel behind it an estimate.
        learned = frozenset({"kernel"} if data.learned_inputs else ())
        estimated = estimated_parts(chosen, module) | learned
        transform: Any = read.input_transform
        prior = Prior(chosen, module, transform, outcome_map=LINKS[likelihood])
        return cls.from_parts(prior, data.train_inputs, checked, data.dimension, estimated)

    @property
    def observed_inputs(self) -> Tensor | None:
        r"""``n x d`` raw inputs up to round-off; None if the transform has no inverse."""
        return self.prior.untransformed(self.train_inputs)

    @property
    def estimated_anyway(self) -> frozenset[str]:
        r"""Parts that stay estimated under another prior; see ``ModelData``."""
        transformed = self.prior.input_transform is not None
        return self.estimated & {"kernel"} if transformed else frozenset[str]()

    def with_shorter_lengthscales(self, factor: float) -> "LikelihoodRegression | None":
        r"""The same outcomes under a kernel with length scales divided by ``factor``.

        That is the same kernel at inputs multiplied by ``factor``. None for kernels and
        means of which that is not known.
        """
        if not self.prior.has_constant_variance or self.prior.plain.mean is None:
            return None
        inputs, rest = factor * self.train_inputs, (self.dimension, self.estimated)
        return self.from_parts(self.prior, inputs, self.outcomes, *rest)

    @cached_property
    def most_probable(self) -> Mode:
        r"""The mode of the prior as it stands, with the outcomes: ``mode(1)``."""
        return self.mode(1.0)

    @torch.no_grad()
    def mode(self, regularizer: float, start: Mode | None = None) -> Mode:
        r"""Minimiser of ``sum_i l_i(f) + regularizer |f - mean|^2 / 2``.

        Newton's method with halved steps, in the coefficients of the kernel sections:
        Rasmussen & Williams (2006), Algorithm 3.1. It begins at ``start``.
        """

        def objective(mode: Mode) -> float:
            return mode.loss + 0.5 * regularizer * mode.norm**2

        best = self.at(torch.zeros_like(self.mean) if start is None else start.weights)
        for _ in range(_MOST_STEPS):
            before, step = best, self._newton_step(best, regularizer)
            halved = (
                self.at(before.weights + 0.5**i * step) for i in range(_MOST_HALVINGS)
            )
            # Not above the value before: NaN and infinity fail this.
            lower = (mode for mode in halved if objective(mode) <= objective(before))
            best = next(lower, before)
            gain = objective(before) - objective(best)
            if gain <= _CONVERGED * (1.0 + abs(objective(best))):
                break
        return best

    @torch.no_grad()
    def at(self, weights: Tensor) -> Mode:
        r"""The function with ``u`` coefficients of the kernel sections."""
        deviation = self.kernel_matrix @ weights
        latent = self.mean + deviation
        norm = float((weights @ deviation).clamp_min(0.0).sqrt())
        return Mode(latent, weights, float(self.loss.value(latent).sum()), norm)

    def _newton_step(self, mode: Mode, regularizer: float) -> Tensor:
        slope, curvature = self.loss.slope(mode.latent), self.loss.curvature(mode.latent)
        roots = curvature.sqrt()
        system = roots.unsqueeze(-1) * self.kernel_matrix * roots / regularizer
        target = curvature * (mode.latent - self.mean) - slope
        shift = roots * (self.kernel_matrix @ target) / regularizer
        # Cholesky's factor would not exist where round-off hides the unit part.
        solved = torch.linalg.solve(system + torch.eye(len(roots)).to(system), shift)
        return (target - roots * solved) / regularizer - mode.weights

    @torch.no_grad()
    def linearised(self, latent: Tensor, curvature: Tensor) -> PseudoRegression:
        r"""The regression of parabolas in place of the losses.

        They touch the losses at ``latent`` (``u`` values) with the ``u`` curvatures: that
        is, noisy observations ``latent - l' / curvature`` with the variances
        ``1 / curvature``. Those at one input are shared by the outcomes there, so that
        state and data have the same observations.
        """
        targets = latent - self.loss.slope(latent) / curvature
        noise, counts = curvature.rsqrt(), self.index.bincount().to(latent)
        deviations = targets - self.mean
        pooled = Pooled(self.distinct_inputs, deviations, noise, None)
        # No noise scale of an outcome: a bound that took it for one must not say so.
        estimated = self.estimated | {"noise"}
        seen = targets[self.index], (noise * counts.sqrt())[self.index]
        data = ModelData(self.prior, self.train_inputs, *seen, self.dimension, estimated)
        return PseudoRegression.from_data(data, pooled)


def _asked_kernel(
    kernel: Kernel | str | None, lengthscale: Lengths | None, outputscale: float
) -> NamedKernel | None:
    r"""A kernel that was given, or a name with its numbers; None without either."""
    if isinstance(kernel, str):
        return NamedKernel.of(kernel, lengthscale, outputscale)
    if lengthscale is not None or outputscale != 1.0:
        raise ValueError(
            "lengthscale and outputscale go with the name of a kernel; give one, such "
            'as kernel="rbf", or leave them out.'
        )
    return None if kernel is None else NamedKernel(kernel, 1)


def _variational(
    model: Model | GP, gp: ApproximateGP, train_X: Tensor | None, train_Y: Tensor | None
) -> ModelData:
    r"""The data, kernel and mean of a variational GP, which may not keep its outcomes.

    Its noise scale is none; ``model`` holds the ``gp``, or is it.
    """
    name, inner = type(model.eval()).__name__, cast(Any, gp)
    source, of_gp = (cast(Source, source_of(each)) for each in (model, gp))
    transform = source.input_transform
    if source.outcome_transform is not None or source.num_outputs != 1:
        raise UnsupportedError(
            f"{name} must have one output and no outcome transform: successes and counts "
            "are taken as they are."
        )
    inputs, targets, raw = train_X, train_Y, train_X
    if inputs is None or targets is None:
        kept = of_gp.kept_inputs
        targets = getattr(inner, "train_targets", None)
        # What a transform with parameters made of the inputs may be something else now.
        moves = transform is not None and any(True for _ in transform.parameters())
        if targets is None or kept is None or moves:
            raise InputDataError(
                f"{name} does not keep its outcomes, or only what its input transform made "
                "of the inputs; give train_X and train_Y as well."
            )
        inputs, raw = kept, None
        targets = training_targets(inputs, targets)
    else:
        targets = training_targets(inputs, targets)
        inputs = inputs if transform is None else transform(inputs)
    inputs = inputs.detach().to(torch.float64, copy=True)
    with torch.no_grad():
        rows = inputs.to(next(iter(inner.covar_module.parameters()), inputs).dtype)
        if not prior_is_as_read(inner, rows):
            raise UnsupportedError(
                f"{name} has a `forward` that is not made of `mean_module` and "
                "`covar_module`; give kernel and data to a LikelihoodRegression."
            )
    prior = Prior(inner.covar_module, inner.mean_module, transform)
    raw = prior.untransformed(inputs) if raw is None else raw.detach().to(inputs)
    raw = inputs if raw is None else raw
    learned = learns(prior.input_transform, raw)
    noise = torch.ones_like(targets)  # none: asked by nobody
    return ModelData(prior, inputs, targets, noise, raw.shape[-1], frozenset(), learned)


def _counts(targets: Tensor, of_rates: bool, amount: float | Tensor | None) -> Tensor:
    r"""Whole numbers from outcomes that rounding may have touched."""
    scale = amount if of_rates and amount is not None else 1.0
    values = targets * torch.as_tensor(scale, dtype=torch.float64).to(targets).reshape(-1)
    whole = values.round()
    far = (values - whole).abs()
    allowed = _ROUNDED_RATES if of_rates else _ROUNDED * (1.0 + whole.abs())
    if not bool((far <= allowed).all()):
        kind = "counts over num_trials or exposure" if of_rates else "whole numbers"
        worst = float(values[far.argmax()])
        raise InputDataError(f"The outcomes must be {kind}; one is a count of {worst:g}.")
    return whole
