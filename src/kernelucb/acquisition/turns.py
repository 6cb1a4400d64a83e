r"""Turns: which function plays which point of a block of points.

Where a band holds the function, the best of the points that maximise its upper side is
within the mean width of the band at them of the optimum, whatever plays the other points
(``docs/mathematics.md``, "Turns of the upper bound").
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeVar, get_args

import torch
from botorch.acquisition import analytic
from botorch.utils.sampling import draw_sobol_normal_samples
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor
from torch.nn import Module

from kernelucb._numerics.checks import one_of
from kernelucb._numerics.spread import place_at
from kernelucb.data.exact import KernelRegression, Projection

Turn = Literal["upper", "improvement", "mean"]
Each = TypeVar("Each")

# Difference of two values that is told apart, a priori: a share of the standard deviation
# of the outcomes. A turn of the mean keeps about this distance from chosen points, ...
_APART = 0.01
_REPEATED = 1.0 / 64.0  # ... and never less than the root of this share of it.
# A pending point costs up to a prior standard deviation within this share of one.
_NEAR = 0.3
_POSTERIOR = torch.ones((), dtype=torch.float64)  # regulariser of a GP's posterior
# An improvement is on so many points of largest mean, their values drawn so many times.
_BEST, _DRAWN = 16, 32
_JITTER, _LEAST_VARIANCE = 1e-8, 1e-12  # of a prior variance
# Of BoTorch, not public: log of phi(z) + z Phi(z) without loss far below zero.
_log_improvement: Any = analytic._log_ei_helper  # pyright: ignore[reportPrivateUsage]


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
    r"""Logarithm of the expected improvement on the best of the chosen points.

    The values at these are drawn from the posterior, and given them the rest is Gaussian,
    in closed form. Observed points count where their means are the largest 16, pending ones
    all. Values are logarithms of outcome units.

    Source: Letham et al. (2019), Bayesian Analysis 14(2); the logarithm of Ament et al.
    (2023). No guarantee.
    """

    inputs: Tensor  # `k x d'` chosen points as the kernel sees them
    factor: Tensor  # `k x k`, of their posterior covariance
    normal: Tensor  # `s x k` draws
    largest: Tensor  # `s` largest values of the chosen points, sign times outcome

    @torch.no_grad()
    def __init__(
        self, data: KernelRegression, sign: float, X_pending: Tensor | None
    ) -> None:
        super().__init__()
        self.data, self.sign = data, sign
        means = self._mean(data.project_inputs(data.distinct_inputs))
        inputs = data.distinct_inputs[means.topk(min(_BEST, len(means))).indices]
        if X_pending is not None:
            pending = data.prior.transform(X_pending.to(data.targets))
            inputs = torch.cat([inputs, pending])
        chosen = data.project_inputs(inputs)
        covariance = data.covariance_at(chosen, chosen, _POSTERIOR)
        covariance.diagonal().add_(_JITTER * data.prior_std**2)
        factor = psd_safe_cholesky(covariance)
        normal = draw_sobol_normal_samples(len(inputs), _DRAWN, seed=0).to(factor)
        largest = (self._mean(chosen) + normal @ factor.mT).amax(-1)
        parts = {"inputs": inputs, "factor": factor, "normal": normal, "largest": largest}
        for name, value in parts.items():
            self.register_buffer(name, value)

    def _mean(self, points: Projection) -> Tensor:
        return self.sign * (points.baseline + self.data.deviation_at(points, _POSTERIOR))

    def forward(self, X: Tensor) -> Tensor:
        r"""Value at ``n x d`` points, ``n`` numbers."""
        data, points = self.data, self.data.project(X)
        chosen = data.project_inputs(self.inputs)
        cross = data.covariance_at(points, chosen, _POSTERIOR)
        share = torch.linalg.solve_triangular(self.factor, cross.mT, upper=False)
        rest = data.variance_at(points, _POSTERIOR) - share.square().sum(0)
        std = rest.clamp_min(_LEAST_VARIANCE * data.prior_std**2).sqrt().unsqueeze(-1)
        gain = self._mean(points).unsqueeze(-1) + share.mT @ self.normal.mT - self.largest
        each = _log_improvement(gain / std) + std.log()
        return each.logsumexp(-1) - math.log(len(self.largest))


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
