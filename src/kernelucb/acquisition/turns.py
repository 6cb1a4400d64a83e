r"""Turns: which function plays which point of a block of points.

Where a band holds the function, the best of the points that maximise its upper side is
within the mean width of the band at them of the optimum, whatever plays the other points
(``docs/mathematics.md``, "Turns of the upper bound").
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeVar, get_args

import torch
from botorch.acquisition import analytic
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
_LEAST_VARIANCE = 1e-12  # of a prior variance: round-off
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
    r"""Logarithm of the expected improvement on the observed point of the best mean.

    ``log E max(f(x) - f(r), 0)`` by the joint posterior of both, outcome units: near ``r``
    there is nothing to gain, whatever the noise left of its value. Variances are
    conditioned on pending points.

    Source: the logarithm of Ament et al. (2023), here on a value that is uncertain as well.
    No guarantee.
    """

    best: Tensor  # `1 x d'`, as the kernel sees it

    @torch.no_grad()
    def __init__(self, data: KernelRegression, sign: int, X_pending: Tensor | None) -> None:
        super().__init__()
        self.data, self.sign = data, sign
        self.larger = None if X_pending is None else data.with_pending(X_pending)
        observed = data.project_inputs(data.distinct_inputs)
        mean = sign * (observed.baseline + data.deviation_at(observed, _POSTERIOR))
        best = data.distinct_inputs[mean.argmax()].unsqueeze(0)
        self.register_buffer("best", best)

    def forward(self, X: Tensor) -> Tensor:
        r"""Value at ``n x d`` points, ``n`` numbers."""
        data, gain = self.data, self._gain(self.data, X)
        mean = self.sign * (gain.baseline + data.deviation_at(gain, _POSTERIOR))
        if self.larger is not None:
            data, gain = self.larger, self._gain(self.larger, X)
        variance = data.variance_at(gain, _POSTERIOR)
        std = variance.clamp_min(_LEAST_VARIANCE * data.prior_std**2).sqrt()
        return _log_improvement(mean / std) + std.log()

    def _gain(self, data: KernelRegression, X: Tensor) -> Projection:
        best = data.project_inputs(self.best)
        return data.difference(data.project(X), best, cheap=True)


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
