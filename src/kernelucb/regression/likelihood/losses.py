r"""Successes and counts, and their negative log-likelihoods in the latent values."""

import math
from abc import ABC, abstractmethod
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import torch
from botorch.exceptions import InputDataError
from torch import Tensor
from torch.nn.functional import logsigmoid

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
_SHORT = 1.0
_NODES = 10


class Expectation(NamedTuple):
    r"""Means under Gaussian latent values, ``u`` values each.

    Attributes:
        value: Of the loss, or a little more.
        slope: Of its first derivative.
        curvature: Of its second.
    """

    value: Tensor
    slope: Tensor
    curvature: Tensor


class Loss(ABC):
    r"""``l_i(f) = -ln p(outcomes at input i | f)``, without terms that no ``f`` changes.

    Convex in the latent value ``f``. Tensors of latent values have ``u`` columns, one for
    each input.
    """

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
    def expected(self, mean: Tensor, variance: Tensor) -> Expectation:
        r"""Means under ``N(mean, variance)`` at each input, to be searched over."""

    def expected_bound(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""Upper bound on the mean of the loss, ``u`` values."""
        return self.expected(mean, variance).value

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
    r"""``N softplus(f) - s f`` for ``s`` successes in ``N`` trials; ``f`` is the log odds.

    Args:
        successes: ``u`` numbers.
        trials: ``u`` numbers, above zero.
    """

    def __init__(self, successes: Tensor, trials: Tensor) -> None:
        self.successes, self.trials = successes, trials

    def value(self, latent: Tensor) -> Tensor:
        r"""See ``Loss``."""
        failures = self.trials - self.successes
        return -self.successes * logsigmoid(latent) - failures * logsigmoid(-latent)

    def slope(self, latent: Tensor) -> Tensor:
        r"""See ``Loss``."""
        failures = self.trials - self.successes
        return failures * latent.sigmoid() - self.successes * (-latent).sigmoid()

    def curvature(self, latent: Tensor) -> Tensor:
        r"""See ``Loss``."""
        return self.trials * latent.sigmoid() * (-latent).sigmoid()

    def expected(self, mean: Tensor, variance: Tensor) -> Expectation:
        r"""See ``Loss``; by quadrature."""
        grid, weights = (part.to(mean) for part in _gauss_hermite())
        latent = mean + variance.sqrt() * grid
        each = self.value(latent), self.slope(latent), self.curvature(latent)
        return Expectation(*(weights @ part for part in each))

    def expected_bound(self, mean: Tensor, variance: Tensor) -> Tensor:
        r"""See ``Loss``; by the trapezoidal rule, plus what that may miss."""
        grid, weights = (part.to(mean) for part in _trapezoid())
        deviation = variance.sqrt()
        value = weights @ self.value(mean + deviation * grid)
        return value + self.trials * _trapezoid_error(mean, deviation)

    def log_independent(self, mean: Tensor) -> float | None:
        r"""See ``Loss``; each probability is drawn from ``Beta(1/2, 1/2)``."""
        failures = self.trials - self.successes
        parts = torch.lgamma(self.successes + 0.5) + torch.lgamma(failures + 0.5)
        parts = parts - torch.lgamma(self.trials + 1.0) - math.log(math.pi)
        return float(parts.sum())

    def _excess(self, centre: Tensor, step: Tensor) -> Tensor:
        flip = torch.where(centre > 0.0, -1.0, 1.0)  # the same from the other side
        start, step = flip * centre, flip * step
        rise = logsigmoid(-start) - logsigmoid(-start - step)
        return self.trials * (rise - start.sigmoid() * step)


class PoissonLoss(Loss):
    r"""``E exp(f) - y f`` for a count ``y`` at exposure ``E``; ``f`` is the log rate.

    Args:
        counts: ``u`` numbers.
        exposure: ``u`` numbers, above zero.
    """

    def __init__(self, counts: Tensor, exposure: Tensor) -> None:
        self.counts, self.exposure = counts, exposure

    def value(self, latent: Tensor) -> Tensor:
        r"""See ``Loss``."""
        return self.exposure * latent.exp() - self.counts * latent

    def slope(self, latent: Tensor) -> Tensor:
        r"""See ``Loss``."""
        return self.exposure * latent.exp() - self.counts

    def curvature(self, latent: Tensor) -> Tensor:
        r"""See ``Loss``."""
        return self.exposure * latent.exp()

    def expected(self, mean: Tensor, variance: Tensor) -> Expectation:
        r"""See ``Loss``; in closed form."""
        rate = self.exposure * (mean + 0.5 * variance).exp()
        return Expectation(rate - self.counts * mean, rate - self.counts, rate)

    def log_independent(self, mean: Tensor) -> float | None:
        r"""See ``Loss``; each rate is drawn from ``Gamma(1/2)`` of mean ``exp(mean)``."""
        shape = 0.5
        rate = shape * (-mean).exp()
        gained = torch.lgamma(shape + self.counts) - math.lgamma(shape)
        parts = shape * rate.log() - (shape + self.counts) * (rate + self.exposure).log()
        return float((gained + parts).sum())

    def _excess(self, centre: Tensor, step: Tensor) -> Tensor:
        return self.exposure * centre.exp() * (step.expm1() - step)


class Outcomes(NamedTuple):
    r"""Outcomes, and how much was tried for each.

    Attributes:
        kind: Their distribution given the latent value.
        counts: ``n`` successes or counts.
        amounts: ``n`` numbers of trials, or exposures.
    """

    kind: Likelihood
    counts: Tensor
    amounts: Tensor

    @classmethod
    def of(
        cls,
        likelihood: Likelihood,
        counts: Tensor,
        num_trials: float | Tensor | None,
        exposure: float | Tensor | None,
    ) -> "Outcomes":
        r"""From what the user gave, ``n`` finite outcomes.

        Raises:
            ValueError: If an argument is missing, or has no meaning for the likelihood.
            InputDataError: If an outcome is impossible.
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
        name, amount = "num_trials", 1.0 if num_trials is None else num_trials
        if likelihood == "poisson":
            name, amount = "exposure", 1.0 if exposure is None else exposure
        amounts = positive_values(name, amount, len(counts)).to(counts)
        outcomes = cls(likelihood, counts, amounts)
        outcomes._check()
        return outcomes

    def _check(self) -> None:
        r"""Refuse outcomes that the likelihood gives no probability."""
        if self.kind != "poisson":
            _check_whole("num_trials", self.amounts)
        if self.kind == "bernoulli" and bool(
            ((self.counts != 0.0) & (self.counts != 1.0)).any()
        ):
            raise InputDataError(
                'train_Y must be 0 or 1 for likelihood="bernoulli"; for numbers of '
                'successes use "binomial" with num_trials, for counts "poisson".'
            )
        _check_whole("train_Y", self.counts)
        if self.kind == "binomial" and bool((self.counts > self.amounts).any()):
            raise InputDataError(
                "train_Y has more successes than num_trials; train_Y must be numbers of "
                "successes (not proportions), of num_trials each."
            )

    def pooled_loss(self, index: Tensor, count: int) -> Loss:
        r"""The loss at ``count`` inputs; outcome ``i`` was observed at ``index[i]``."""
        zeros = self.counts.new_zeros(count)
        sums = (zeros.index_add(0, index, part) for part in self[1:])
        return (PoissonLoss if self.kind == "poisson" else BinomialLoss)(*sums)


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


_SEARCHED_NODES = 24


@cache
def _gauss_hermite() -> tuple[Tensor, Tensor]:
    r"""Nodes as a column, and weights, for the mean under ``N(0, 1)``."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(_SEARCHED_NODES)
    return as_double(nodes).unsqueeze(-1), as_double(weights / weights.sum())


_STEP, _REACH = 0.125, 9.0


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
