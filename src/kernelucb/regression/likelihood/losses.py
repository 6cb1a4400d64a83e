r"""Successes and counts, and their negative log-likelihoods in the latent values."""

import math
from abc import ABC, abstractmethod
from functools import cache
from typing import Literal, Self

import numpy as np
import torch
from botorch.exceptions import InputDataError
from torch import Tensor
from torch.nn.functional import logsigmoid

from kernelucb._numerics.arrays import safe_sqrt
from kernelucb._numerics.checks import as_double, one_of, positive_values
from kernelucb.regression.outcome_map import OutcomeMap, Step

Likelihood = Literal["bernoulli", "binomial", "poisson"]
LINKS = {
    "bernoulli": OutcomeMap((Step("Logit"),)),
    "binomial": OutcomeMap((Step("Logit"),)),
    "poisson": OutcomeMap((Step("Log"),)),
}
# Larger counts have no neighbours among 64-bit numbers.
_LARGEST_COUNT = 2.0**53
# Below this step a secant comes from an integral: the difference would cancel. Nearest
# poles are pi away, so ten nodes leave 1e-15.
_SHORT, _NODES = 1.0, 10
# Of the quadrature that is searched over, and of the one that gives a bound.
_SEARCHED_NODES, _STEP, _REACH = 24, 0.125, 9.0


class Loss(ABC):
    r"""Outcomes at ``n`` inputs: ``l_i(f) = -ln p(outcome i | f)``.

    Without terms that no ``f`` changes. Convex in the latent value ``f``; tensors of latent
    values have ``n`` columns, one for each input.

    Attributes:
        counts: ``n`` numbers of successes, or counts.
        amounts: ``n`` numbers of trials, or exposures.
        kind: The distribution of an outcome given the latent value.
    """

    def __init__(self, counts: Tensor, amounts: Tensor, kind: Likelihood) -> None:
        self.counts, self.amounts = counts, amounts
        self.kind: Likelihood = kind

    def pooled(self, index: Tensor, count: int) -> Self:
        r"""The sums at ``count`` inputs; outcome ``i`` was observed at ``index[i]``."""
        zeros = self.counts.new_zeros(count)
        counts = zeros.index_add(0, index, self.counts)
        return type(self)(counts, zeros.index_add(0, index, self.amounts), self.kind)

    @abstractmethod
    def value(self, latent: Tensor) -> Tensor:
        r"""The loss at each input, as the shape of ``latent``."""

    @abstractmethod
    def slope(self, latent: Tensor) -> Tensor:
        r"""Its first derivative."""

    @abstractmethod
    def curvature(self, latent: Tensor) -> Tensor:
        r"""Its second derivative, not negative."""

    @abstractmethod
    def expected(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Mean of the loss under ``N(mean, variance)`` at each input, nearly; ``n``."""

    def expected_bound(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Upper bound on that, ``n`` values."""
        return self.expected(mean, variance)

    def log_independent(self, mean: Tensor) -> float | None:
        r"""Log-evidence if the value at each input were drawn on its own, without a kernel.

        From the conjugate prior of Jeffreys' shape, around ``mean`` where that needs a
        scale; None if there is none.
        """
        return None

    @abstractmethod
    def _excess(self, centre: Tensor, step: Tensor) -> Tensor:
        r"""``l(centre + step)`` above the tangent at ``centre``, for steps above 1."""

    def secant(self, centre: Tensor, end: Tensor) -> Tensor:
        r"""Curvature of the parabola that touches at ``centre`` and meets at ``end``.

        ``2 (l(end) - l(centre) - l'(centre) (end - centre)) / (end - centre)^2``, which is
        ``2 int_0^1 (1 - t) l''(centre + t (end - centre)) dt``.
        """
        step = end - centre
        short = step.abs() < _SHORT
        far = torch.where(short, _SHORT, step)
        times, weights = (part.to(step) for part in _unit_interval())
        near = torch.where(short, step, 0.0)
        values = self.curvature(centre + times.reshape(-1, *[1] * near.dim()) * near)
        integral = torch.tensordot(weights, values.expand(len(times), *near.shape), 1)
        return torch.where(short, integral, 2.0 * self._excess(centre, far) / far.square())

    def least_secant(self, centre: Tensor, lower: Tensor, upper: Tensor) -> Tensor:
        r"""Least secant curvature from ``centre`` to a point between two ends.

        It is at an end: the second derivative rises and then falls along any ray from
        ``centre`` (or does one of both), and so does its mean with weights
        ``(1 - t)``, since that kernel is totally positive. See ``docs/mathematics.md``.
        """
        ends = (self.secant(centre, end) for end in (lower, upper))
        return torch.fmin(*ends)  # where a rate overflows the other end has the least


class BinomialLoss(Loss):
    r"""``N softplus(f) - s f``: ``s`` successes in ``N`` trials, ``f`` the log odds."""

    @property
    def failures(self) -> Tensor:
        r"""``n`` numbers."""
        return self.amounts - self.counts

    def value(self, latent: Tensor) -> Tensor:
        r"""See ``Loss``."""
        return -self.counts * logsigmoid(latent) - self.failures * logsigmoid(-latent)

    def slope(self, latent: Tensor) -> Tensor:
        r"""See ``Loss``."""
        return self.failures * latent.sigmoid() - self.counts * (-latent).sigmoid()

    def curvature(self, latent: Tensor) -> Tensor:
        r"""See ``Loss``."""
        return self.amounts * latent.sigmoid() * (-latent).sigmoid()

    def expected(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""See ``Loss``; by quadrature."""
        grid, weights = (part.to(mean) for part in _gauss_hermite())
        return weights @ self.value(mean + safe_sqrt(variance) * grid)

    def expected_bound(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""See ``Loss``; by the trapezoidal rule, plus what that may miss."""
        grid, weights = (part.to(mean) for part in _trapezoid())
        deviation = variance.sqrt()
        value = weights @ self.value(mean + deviation * grid)
        return value + self.amounts * _trapezoid_error(mean, deviation)

    def log_independent(self, mean: Tensor) -> float | None:
        r"""See ``Loss``; each probability is drawn from ``Beta(1/2, 1/2)``."""
        parts = torch.lgamma(self.counts + 0.5) + torch.lgamma(self.failures + 0.5)
        parts = parts - torch.lgamma(self.amounts + 1.0) - math.log(math.pi)
        return float(parts.sum())

    def _excess(self, centre: Tensor, step: Tensor) -> Tensor:
        flip = torch.where(centre > 0.0, -1.0, 1.0)  # the same from the other side
        start, step = flip * centre, flip * step
        rise = logsigmoid(-start) - logsigmoid(-start - step)
        return self.amounts * (rise - start.sigmoid() * step)


class PoissonLoss(Loss):
    r"""``E exp(f) - y f``: a count ``y`` at exposure ``E``, ``f`` the log rate."""

    def value(self, latent: Tensor) -> Tensor:
        r"""See ``Loss``."""
        return self.amounts * latent.exp() - self.counts * latent

    def slope(self, latent: Tensor) -> Tensor:
        r"""See ``Loss``."""
        return self.amounts * latent.exp() - self.counts

    def curvature(self, latent: Tensor) -> Tensor:
        r"""See ``Loss``."""
        return self.amounts * latent.exp()

    def expected(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""See ``Loss``; in closed form."""
        return self.amounts * (mean + 0.5 * variance).exp() - self.counts * mean

    def log_independent(self, mean: Tensor) -> float | None:
        r"""See ``Loss``; each rate is drawn from ``Gamma(1/2)`` of mean ``exp(mean)``."""
        shape = 0.5
        rate = shape * (-mean).exp()
        gained = torch.lgamma(shape + self.counts) - math.lgamma(shape)
        parts = shape * rate.log() - (shape + self.counts) * (rate + self.amounts).log()
        return float((gained + parts).sum())

    def _excess(self, centre: Tensor, step: Tensor) -> Tensor:
        return self.amounts * centre.exp() * (step.expm1() - step)


def checked_outcomes(
    likelihood: Likelihood,
    counts: Tensor,
    num_trials: float | Tensor | None,
    exposure: float | Tensor | None,
) -> Loss:
    r"""From what the user gave, ``n`` finite outcomes.

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
    if not poisson:
        _check_whole("num_trials", amounts)
    if likelihood == "bernoulli" and bool(((counts != 0.0) & (counts != 1.0)).any()):
        raise InputDataError(
            'train_Y must be 0 or 1 for likelihood="bernoulli"; for numbers of '
            'successes use "binomial" with num_trials, for counts "poisson".'
        )
    _check_whole("train_Y", counts)
    if not poisson and bool((counts > amounts).any()):
        raise InputDataError(
            "train_Y has more successes than num_trials; train_Y must be numbers of "
            "successes (not proportions), of num_trials each."
        )
    return (PoissonLoss if poisson else BinomialLoss)(counts, amounts, likelihood)


def _check_whole(name: str, values: Tensor) -> None:
    whole = (values == values.round()) & (values >= 0.0) & (values <= _LARGEST_COUNT)
    if not bool(whole.all()):
        wrong = float(values[~whole][0])
        raise InputDataError(
            f"{name} must hold whole numbers from 0 to 2^53, got {wrong:g}."
        )


@cache
def _unit_interval() -> tuple[Tensor, Tensor]:
    r"""Nodes in [0, 1] and weights of ``int 2 (1 - t) g(t) dt``, by Gauss and Legendre."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    times = 0.5 * (nodes + 1.0)
    return as_double(times), as_double(weights * (1.0 - times))


@cache
def _gauss_hermite() -> tuple[Tensor, Tensor]:
    r"""Nodes as a column, and weights, for the mean under ``N(0, 1)``."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_SEARCHED_NODES)
    return as_double(nodes).unsqueeze(-1), as_double(weights / weights.sum())


@cache
def _trapezoid() -> tuple[Tensor, Tensor]:
    r"""The same by the trapezoidal rule, which is far better for wide Gaussians."""
    count = round(2.0 * _REACH / _STEP) + 1
    grid = torch.linspace(-_REACH, _REACH, count, dtype=torch.float64)
    weights = _STEP / math.sqrt(2.0 * math.pi) * (-0.5 * grid.square()).exp()
    return grid.unsqueeze(-1), weights


def _trapezoid_error(mean: Tensor, deviation: Tensor) -> Tensor:
    r"""Upper bound on what the rule misses of the mean of ``softplus`` and of its mirror.

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
