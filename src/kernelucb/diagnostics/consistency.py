r"""Do the data contradict the norm bound, the noise scale or the kernel?"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from scipy.special import gammaincinv
from scipy.stats import chi2
from torch import Tensor

from kernelucb._numerics.checks import nonnegative_scalar, positive_scalar, probability
from kernelucb._numerics.digits import assumed, at_least, at_most
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.confidence.counts import least_norm_mode
from kernelucb.confidence.evidence import Ratio, log_evidence
from kernelucb.confidence.fit import ClosedForm, MixtureFit, data_fit, fit_of
from kernelucb.confidence.noise import NoiseGroup, log_densities
from kernelucb.confidence.norm import for_least_norm, is_resolved
from kernelucb.confidence.radius import (
    CovarianceScale,
    FitConstraint,
    Radius,
    misfit_of_error,
    mixture_radius,
    noise_energy_bound,
)
from kernelucb.regression import KernelRegression
from kernelucb.regression.counts import (
    LikelihoodRegression,
    PseudoRegression,
)
from kernelucb.regression.pooling import distinct_rows

Cause = Literal["norm", "noise", "noise by region", "kernel"]

# Factors by which noise scales may be too small, and length scales too large.
_NOISE_FACTORS = tuple(2.0 ** (0.25 * j) for j in range(25))
_LENGTHSCALE_FACTORS = tuple(2.0 ** (0.5 * j) for j in range(1, 11))
# Covariance scales: functions of norms up to a million, prior units.
_SCALES = tuple(4.0**j for j in range(-4, 21))
# The same for log odds and log rates, from small to very large.
_LATENT_SCALES = (0.125, 1.0, 8.0, 64.0, 512.0)
# Groups of replicates that are compared, by their mean outcome, and how many degrees of
# freedom each needs; noise that differs so much by chance is as rare as that.
_REGIONS, _LEAST_DEGREES, _CHANCE = 3, 10, 1e-3
# Log-evidence, in nats, that another scale must gain before it is named as the cause.
_GAIN = 5.0


@dataclass(frozen=True)
class ConsistencyCheck:
    r"""Whether the data contradict the assumptions of a bound.

    Attributes:
        consistent: False where no function of norm at most ``norm_bound`` explains the
            data. If all assumptions hold, the probability that any round gives False is at
            most ``delta``.
        least_consistent_norm: Smallest norm of a function that explains the data, outcome
            units; infinite where the noise scale is too small for any function.
        norm_bound: The norm bound that was checked, outcome units.
        cause: Likeliest cause of a contradiction: ``"norm"``, ``"noise"``,
            ``"noise by region"`` or ``"kernel"``; None without a contradiction. A guess, by
            replicates and log-evidence, not a certified statement.
        remedy: Advice in words.
        regions: Noise scales of replicates where outcomes are low, middle and high
            (``label`` is the mean outcome there), outcome units; empty where repeated
            inputs are few. ``plot_replicates`` draws them.
    """

    consistent: bool
    least_consistent_norm: float
    norm_bound: float
    cause: Cause | None
    remedy: str
    regions: tuple[NoiseGroup, ...] = ()


def check_consistency(
    model: Model | KernelRegression | LikelihoodRegression,
    norm_bound: float,
    noise_std: float | Tensor | None = None,
    delta: float = 0.05,
    fit: ClosedForm = "filters",
    model_error: float = 0.0,
    covariance_scale: CovarianceScale | None = None,
) -> ConsistencyCheck:
    r"""Check kernel, norm bound and noise scale against the data, at any time.

    A contradiction is reported when no function of norm at most ``norm_bound`` fits the
    data. The fit includes the energy of the noise, which does not depend on the kernel, so
    that outcomes which a wrong kernel cannot explain are detected. Pass the norm bound that
    you believe: the estimate of a ``NormTracker`` grows with the data, so only the noise
    scale could be contradicted. Successes and counts are checked by their likelihood; the
    cause is then the norm or the kernel.

    Source: a mixture of filters (ours). For ``fit="martingale"`` Flynn & Reeb (2024), Lemma
    4.2, at ``delta / 2``; and Ville's inequality at ``delta / 2`` for a mixture of
    ``prod_s sqrt(1 - l) exp(l eps_s^2 / (2 sigma_s^2))`` over ``l`` in (0, 1),
    supermartingales for conditionally sub-Gaussian noise. For successes and counts see
    ``LikelihoodUCB``.

    Args:
        model: A single-output exact GP, a ``KernelRegression``, or a
            ``LikelihoodRegression``, for which ``noise_std`` and ``model_error`` have no
            meaning.
        norm_bound: Bound on the RKHS norm of ``f - mean``, outcome units.
        noise_std: Noise scale in outcome units; from the likelihood when absent.
        delta: Probability of a false alarm, over all rounds at which one may look.
        fit: See ``MartingaleMixtureUCB``; no choice for successes and counts.
        model_error: How far ``f`` may lie from a function of that norm, outcome units; see
            ``MartingaleMixtureUCB``.
        covariance_scale: See ``MartingaleMixtureUCB``, for counts ``LikelihoodUCB``.

    Raises:
        ValueError: If a scalar is out of its range.
        UnsupportedError: If the model cannot be represented, or it is the ``regression``
            of a ``LikelihoodUCB`` in place of its ``data``.
    """
    probability("delta", delta)
    norm_bound = positive_scalar("norm_bound", norm_bound)
    model_error = nonnegative_scalar("model_error", model_error)
    chosen, regions, differ = fit_of(fit, covariance_scale), (), ""
    of_noise = noise_std is not None or model_error > 0.0
    of_noise |= not isinstance(chosen, MixtureFit)
    data = data_of(model, noise_std, of_noise)
    if isinstance(data, LikelihoodRegression):
        least = least_norm_mode(data, Ratio.of(delta, chosen).level(data)).norm
    else:
        if isinstance(chosen, MixtureFit) and not chosen.filters:
            # Needs the energy of the noise beside it.
            radius = mixture_radius(data, 0.5 * delta, chosen.scales)
            energy = noise_energy_bound(data.num_observations, 0.5 * delta)
            energy = Radius.of(energy, data, radius.tau_ref)
            radius = min(radius, energy, key=lambda each: each.slack)
            radius = radius.widened(data, misfit_of_error(data, model_error))
            fitted = FitConstraint(data, radius)
        else:
            fitted = data_fit(chosen, data, delta, model_error=model_error)
        least = for_least_norm(fitted).norm * data.outcome_scale
        regions = noise_regions(data.train_inputs, data.train_targets)
        differ = _difference(regions, data)
    least = EstimatedNumber(least)
    if least <= norm_bound:
        remedy = (
            f"No contradiction: functions of norm {at_most(least)} explain the data, the "
            f"norm bound is {assumed(norm_bound)}. That does not show that it is large "
            f"enough.{differ}"
        )
        return ConsistencyCheck(True, least, norm_bound, None, remedy, regions)
    if isinstance(data, LikelihoodRegression):
        cause, remedy = _likely_cause(data, least, norm_bound)
    else:
        cause, remedy = _diagnosis(data, least, norm_bound, delta)
        given = float(data.noise_scales.max())
        if differ and max(each.estimate for each in regions) > given:
            cause, remedy = "noise by region", f"{differ.strip()} {remedy}"
    return ConsistencyCheck(False, least, norm_bound, cause, remedy, regions)


def noise_regions(train_X: Tensor, train_Y: Tensor) -> tuple[NoiseGroup, ...]:
    r"""Noise scales of repeated inputs with low, middle and high mean outcomes.

    Of Gaussian noise the scatter of an input's outcomes does not depend on their mean, so
    one scale gives three estimates of the same number. ``train_X`` is ``n x d``,
    ``train_Y`` has ``n`` outcomes; empty where repeats are few.
    """
    _, index = distinct_rows(train_X)
    counts = torch.bincount(index).to(train_Y)
    means = torch.zeros_like(counts).index_add(0, index, train_Y) / counts
    squares = torch.zeros_like(counts)
    squares = squares.index_add(0, index, (train_Y - means[index]).square())
    order = means.argsort()
    order = order[counts[order] > 1.0]
    degrees = (counts[order] - 1.0).cumsum(0)
    if len(order) == 0 or float(degrees[-1]) < _REGIONS * _LEAST_DEGREES:
        return ()
    region = ((degrees - 0.5) * _REGIONS / degrees[-1]).long()
    groups: list[NoiseGroup] = []
    for each in range(_REGIONS):
        some = order[region == each]
        freedom, total = int((counts[some] - 1.0).sum()), float(squares[some].sum())
        if freedom < _LEAST_DEGREES or not total > 0.0:
            return ()
        scale = EstimatedNumber(math.sqrt(total / freedom))
        groups.append(NoiseGroup(float(means[some].mean()), freedom, scale))
    return tuple(groups)


def _difference(regions: tuple[NoiseGroup, ...], data: KernelRegression) -> str:
    r"""That the noise differs by region, and what to do; empty where that may be chance.

    By Bartlett's statistic; scales that were given one for each run are not compared.
    """
    if not regions or not data.has_one_noise_scale:
        return ""
    degrees = sum(each.degrees for each in regions)
    pooled = sum(each.degrees * each.estimate**2 for each in regions) / degrees
    parts = (n * math.log(pooled / scale**2) for _, n, scale in regions)
    if chi2.sf(sum(parts), len(regions) - 1) >= _CHANCE:
        return ""
    scales = ", ".join(f"{each.estimate:.3g}" for each in regions)
    where = ", ".join(f"{each.label:.3g}" for each in regions)
    given = float(data.noise_scales[0])
    return (
        f" The noise differs by region: replicates scatter {scales} where outcomes are "
        f"about {where} (given {assumed(given)} everywhere). Give noise_std as a function "
        "of the inputs, a ReplicateNoise with groups, or model a transformed outcome (Log)."
    )


def data_of(
    model: Model | KernelRegression | LikelihoodRegression,
    noise_std: float | Tensor | None,
    of_noise: bool,
) -> KernelRegression | LikelihoodRegression:
    r"""The data as they were observed; ``of_noise`` if an argument is about the noise."""
    if isinstance(model, PseudoRegression):
        raise UnsupportedError(
            "This regression has pseudo-outcomes in place of the successes or counts that "
            "were observed: pass the LikelihoodRegression itself, which is acqf.band.data."
        )
    if not isinstance(model, LikelihoodRegression):
        return KernelRegression.of(model, noise_std)
    if of_noise:
        raise ValueError(
            "Successes and counts have no noise scale of their own: leave out noise_std, "
            "fit and model_error."
        )
    return model


def _diagnosis(
    regression: KernelRegression, least: float, norm_bound: float, delta: float
) -> tuple[Cause, str]:
    r"""The likeliest reason of a contradiction, and what to do about it.

    More noise, shorter length scales, or neither: then the norm bound is too small. The
    data contradict all of them together, so the norm that would be enough is named as well.
    Repeated inputs may show that the noise scale is too small, or that it is not.
    """
    distinct = len(regression.distinct_inputs)
    repeats = regression.num_observations - distinct
    rest = regression.targets[: len(regression.targets) - distinct]
    scatter = float(rest.square().sum())  # noise units
    ratio = math.sqrt(scatter / max(repeats, 1))
    given = float(regression.noise_scales.max())
    larger_noise = "Give a larger one, or noise_std=UnknownNoise()."
    scattered = f"repeated inputs scatter {ratio:.3g} times as much as noise_std says"
    if repeats and scatter > noise_energy_bound(repeats, delta):
        return "noise", (
            f"noise_std is too small: {scattered}, so about {ratio * given:.3g} (given "
            f"{assumed(given)}). {larger_noise}"
        )
    base = float(_log_evidence(regression, (1.0,))[0])
    noise = _log_evidence(regression, _NOISE_FACTORS) - base
    noise_gain, factor = float(noise.max()), _NOISE_FACTORS[int(noise.argmax())]
    # Normal noise of the larger scale seldom scatters less than this.
    if repeats and scatter < 2.0 * gammaincinv(0.5 * repeats, delta) * factor**2:
        noise_gain = 0.0
    length_gain, shorter = -math.inf, 1.0
    if regression.prior.has_constant_variance:  # its length scales are known
        states = map(regression.with_shorter_lengthscales, _LENGTHSCALE_FACTORS)
        lengths = [float(_log_evidence(state, (1.0,))[0]) - base for state in states]
        length_gain, shorter = max(zip(lengths, _LENGTHSCALE_FACTORS, strict=True))
    norm = least / regression.outcome_scale
    finite = is_resolved(regression, norm, float(regression.num_observations))
    enough = f"norm_bound must be at least {at_most(least)} (given {assumed(norm_bound)})."
    if_right = f" If it is right, {enough}" if finite else ""
    if max(noise_gain, length_gain) < _GAIN and finite:
        doubt = f"; {scattered}" if repeats else ". If it is right, noise_std is too small"
        return "norm", (
            "norm_bound is too small for this noise_std: the data allow no function of "
            f"norm below {at_least(least)} (given {assumed(norm_bound)}). Give a larger "
            f"one, or none to have it estimated{doubt}."
        )
    if max(noise_gain, length_gain) < _GAIN and repeats:
        return "kernel", (
            f"The kernel explains these data at no norm, and {scattered}. Use a rougher "
            "kernel, or shorter length scales."
        )
    if length_gain > noise_gain:
        return "kernel", (
            "The kernel is too smooth for these data: length scales about "
            f"{shorter:.2g} times shorter explain them better. Fit the model again, or fix "
            f"a shorter one.{if_right}"
        )
    which = "noise_std or norm_bound" if finite else "noise_std"
    return "noise", (
        f"{which} is too small: a noise_std of about {factor * given:.3g} (given "
        f"{assumed(given)}) explains the data better. {larger_noise}{if_right}"
    )


def _log_evidence(regression: KernelRegression, factors: tuple[float, ...]) -> Tensor:
    r"""Log-evidence with the noise scales multiplied by each factor, up to a constant.

    The covariance scale is the best one for each.
    """
    variances = torch.tensor(factors).to(regression.eigenvalues).square()
    return log_densities(regression, _SCALES, variances)[0].amax(0)


def _likely_cause(
    data: LikelihoodRegression, least: float, norm_bound: float
) -> tuple[Cause, str]:
    r"""The same for successes and counts."""
    base, best, shorter = log_evidence(data, _LATENT_SCALES), -math.inf, 1.0
    for factor in _LENGTHSCALE_FACTORS:
        state = data.with_shorter_lengthscales(factor)
        gain = -math.inf if state is None else log_evidence(state, _LATENT_SCALES) - base
        best, shorter = max((best, shorter), (gain, factor))
    if best < _GAIN:
        return "norm", (
            "norm_bound is too small, or the outcomes do not follow the likelihood (more "
            f"scatter than it allows): the least norm is {at_least(least)} (given "
            f"{assumed(norm_bound)}). Give a larger one, or none to have it estimated."
        )
    return "kernel", (
        "The kernel is too smooth for these outcomes: length scales about "
        f"{shorter:.2g} times shorter explain them better. "
        f"Fix a shorter one. If it is right, norm_bound must be at least "
        f"{at_most(least)} (given {assumed(norm_bound)})."
    )
