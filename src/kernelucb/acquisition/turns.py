r"""Turns: which function plays which point of a block of points.

Where a band holds the function, the best of the points that maximise its upper side is
within the mean width of the band at them of the optimum, whatever plays the other points
(``docs/mathematics.md``, "Turns of the upper bound").
"""

from collections.abc import Sequence
from typing import Literal, TypeVar, get_args

import torch
from botorch.utils.safe_math import log_fatplus, logmeanexp
from botorch.utils.sampling import draw_sobol_normal_samples
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.checks import one_of
from kernelucb._numerics.spread import place_at
from kernelucb.data.exact import KernelRegression, Projection

Turn = Literal["upper", "improvement", "mean"]
Each = TypeVar("Each")

# Of a bound whose norm is an estimate: no theorem speaks of its upper side.
SEARCH_TURNS: tuple[Turn, ...] = ("upper", "improvement", "mean")

# Difference of two values that is told apart, a priori: a share of the standard deviation
# of the outcomes. A turn of the mean keeps about this distance from chosen points, ...
_APART = 0.01
_REPEATED = 1.0 / 64.0  # ... and never less than the root of this share of it.
# A pending point costs up to a prior standard deviation within this share of one.
_NEAR = 0.3
_POSTERIOR = torch.ones((), dtype=torch.float64)  # regulariser of a GP's posterior
_LEAST_VARIANCE, _JITTER = 1e-12, 1e-8  # of a prior variance: round-off
_BEST, _SAMPLES = 16, 128  # observed points on which to improve, samples of their values
_SMOOTH = 1e-6  # prior standard deviations: as BoTorch smooths an improvement


def checked_turns(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    r"""Turns of a bound as a tuple.

    Raises:
        ValueError: If there are none, or one is another word.
    """
    if isinstance(turns, str) or len(turns) == 0:
        raise ValueError(f'turns must be words such as ("upper", "mean"), got {turns!r}.')
    for each in turns:
        one_of("Each of turns", each, *get_args(Turn))
    return tuple(turns)


def turn_at(turns: Sequence[Each], count: int) -> Each:
    r"""Return the turn of the point after ``count`` observed and pending ones.

    Each block begins at another place, so no batch size always meets the same turn.
    """
    if len(turns) == 1:
        return turns[0]
    block, place = divmod(count, len(turns))
    return turns[(place - place_at(block, len(turns))) % len(turns)]


def is_upper_turn(every: int | None, count: int) -> bool:
    r"""Whether that point is the one in its block of ``every`` points; never for None."""
    return every is not None and turn_at(range(every), count) == 0


class Improvement(Module):
    r"""Logarithm of the noisy expected improvement, sample by sample of what is known.

    ``log E max(f(x) - max f(B), 0)``, outcome units: ``B`` are the distinct observed points
    of largest mean and the pending points; the expectation is over ``f(B)`` and ``f(x)``
    jointly, with variances conditioned on pending points. Where hardly a sample improves,
    the value falls as slowly as BoTorch's.

    Source: Letham et al. (2019); the logarithm and the slow fall Ament et al. (2023):
    BoTorch's ``qLogNoisyExpectedImprovement`` of one point. No guarantee.
    """

    inputs: Tensor  # `k x d'`, as the kernel sees them
    weights: Tensor  # `r x k`: what the data explain of the covariance with values there
    factor: Tensor  # Cholesky factor of the covariance of values there
    numbers: Tensor  # normal, `samples x k` there, ...
    last: Tensor  # ... and `samples` at `x`
    best: Tensor  # largest value there by sample

    @torch.no_grad()
    def __init__(self, data: KernelRegression, sign: int, X_pending: Tensor | None) -> None:
        super().__init__()
        self.data, self.sign = data, sign
        self.larger = data if X_pending is None else data.with_pending(X_pending)
        observed = data.project_inputs(data.distinct_inputs)
        order = self._mean(observed).topk(min(_BEST, len(data.distinct_inputs))).indices
        inputs = data.distinct_inputs[order]
        if X_pending is not None:
            pending = data.prior.transform(X_pending.to(data.targets))
            inputs = torch.cat([inputs, pending])
        points = self.larger.project_inputs(inputs)
        known = self.larger.covariance_at(points, points, _POSTERIOR)
        known.diagonal().add_(_JITTER * data.prior_std**2)
        factor = psd_safe_cholesky(known)
        # Other numbers in every round, the same when it is asked again
        seed = data.num_observations + len(inputs)
        numbers = draw_sobol_normal_samples(len(inputs) + 1, _SAMPLES, seed=seed)
        numbers, mean = sign * numbers.to(known), self._mean(data.project_inputs(inputs))
        lam = self.larger.eigenvalues
        self.register_buffer("inputs", inputs)
        self.register_buffer("weights", (points.features * (lam / (lam + 1.0))).mT)
        self.register_buffer("factor", factor)
        self.register_buffer("numbers", numbers[:, :-1])
        self.register_buffer("last", numbers[:, -1])
        self.register_buffer("best", (mean + self.numbers @ factor.mT).amax(-1))

    def forward(self, X: Tensor) -> Tensor:
        r"""Value at ``n x d`` points, ``n`` numbers."""
        larger, scale = self.larger, self.data.prior_std
        points = self.data.project(X)
        mean = self._mean(points)
        if larger is not self.data:
            points = larger.project(X)
        prior = larger.prior.covariance(points.inputs, self.inputs)
        shared = prior - points.features @ self.weights
        shares = torch.linalg.solve_triangular(self.factor, shared.mT, upper=False).mT
        rest = larger.variance_at(points, _POSTERIOR) - shares.square().sum(-1)
        std = rest.clamp_min(_LEAST_VARIANCE * scale**2).sqrt()
        values = mean[:, None] + shares @ self.numbers.mT + std[:, None] * self.last
        return logmeanexp(log_fatplus(values - self.best, _SMOOTH * scale), dim=-1)

    def _mean(self, points: Projection) -> Tensor:
        deviation = self.data.deviation_at(points, _POSTERIOR)
        return self.sign * (points.baseline + deviation)


def mean_and_repeats(
    data: KernelRegression, points: Projection, X_pending: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Turn of the mean at ``b`` projected points, three times ``b`` values.

    The posterior mean and what it loses near observed and pending points, outcome units;
    and whether a point repeats one of these: the kernel does not tell their values apart.
    """
    mean, chosen = data.deviation_at(points, _POSTERIOR), data.distinct_inputs
    loss = torch.zeros_like(mean)
    if X_pending is not None:
        pending = data.prior.transform(X_pending.to(data.targets))
        chosen = torch.cat([chosen, pending])
        near = _squared_distance(data, points, pending) / (_NEAR * data.prior_std) ** 2
        loss = data.prior_std * (1.0 - near).clamp_min(0.0).square()
    # Equal outcomes have no spread.
    apart = _APART * (float(data.train_targets.std(correction=0)) or data.prior_std)
    share = _squared_distance(data, points, chosen) / apart**2
    # At the edge as gentle as the mean itself, further in as steep as it takes: a search by
    # gradients soon ends about this far from a chosen point. A steep edge costs ten times
    # as many steps.
    edge = 0.25 * norm_of_mean(data) * apart**2 / data.prior_std
    wall = (1.0 / share.clamp_min(_REPEATED) - 1.0).clamp_min(0.0).square()
    return points.baseline + mean, loss + edge * wall, share.detach() < _REPEATED


def norm_of_mean(data: KernelRegression) -> Tensor:
    r"""RKHS norm of posterior minus prior mean, prior standard deviations."""
    return (data.mean_terms / (data.eigenvalues + 1.0)).norm()


def _squared_distance(data: KernelRegression, points: Projection, inputs: Tensor) -> Tensor:
    r"""Squared kernel metric to the nearest of some inputs, ``b`` values.

    The prior variance of the difference of two values, outcome units squared.
    """
    products = data.prior.covariance(points.inputs, inputs)
    squared = points.prior_variance[:, None] - 2.0 * products
    return (squared + data.prior.variance(inputs)).amin(-1)
