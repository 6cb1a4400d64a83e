r"""What is known of values at single points beside a set: range, replicates, design."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.regression import KernelRegression
from kernelucb.regression.from_model import ModelData
from kernelucb.regression.pooling import distinct_rows
from kernelucb.regression.prior import Prior

# `rho` of the normal mixture, over the noise's precision: narrow at 1 to 20 replicates.
_RHO = 8.0
# Regularisers among which each point takes its own.
_REGULARIZERS = 10.0 ** torch.linspace(-4.0, 4.0, 33, dtype=torch.float64)
# A function changes by this share of a noise scale from a point of the net to its cell.
_NET = 0.01
_TINY = 1e-300


class Limits(NamedTuple):
    r"""Least and largest values at ``b`` points; infinite where none is known."""

    lower: Tensor
    upper: Tensor

    def rows(self, mask: Tensor) -> "Limits":
        r"""The points where ``mask`` is true."""
        return Limits(self.lower[mask], self.upper[mask])

    def oriented(self, sign: int) -> "Limits":
        r"""Limits on ``sign`` times the values."""
        return self if sign > 0 else Limits(-self.upper, -self.lower)


class Pointwise(ABC):
    r"""Limits on the values of a function at points, on the scale of a set.

    Attributes:
        searched: Whether an acquisition function ranks points within the limits.
    """

    searched = True

    @abstractmethod
    def limits(self, X: Tensor) -> Limits:
        r"""The limits at ``b x d`` raw points."""

    def end(self, sign: int) -> float:
        r"""What ``sign * f`` is at most anywhere; infinite where that is not known."""
        return math.inf


@dataclass(frozen=True)
class KnownRange(Pointwise):
    r"""The same two limits everywhere.

    Attributes:
        lower: Least value; minus infinity for none.
        upper: Largest value.
    """

    lower: float
    upper: float
    searched = False  # points whose bounds reach the end of a range would all be equal

    def limits(self, X: Tensor) -> Limits:
        r"""The range, ``b`` times."""
        ends = X.new_tensor([[self.lower], [self.upper]], dtype=torch.float64)
        return Limits(*ends.expand(2, len(X)))

    def end(self, sign: int) -> float:
        r"""The end of the range."""
        return self.upper if sign > 0 else -self.lower


def half_width(precision: Tensor, rho: float | Tensor, level: float | Tensor) -> Tensor:
    r"""Half-width of an anytime interval for a mean, from outcomes of one setting.

    ``sqrt((1 + 1 / (rho V)) (ln(1 + rho V) + 2 level) / V)``.

    Source: Robbins (1970), the normal mixture, for conditionally sub-Gaussian noise.

    Args:
        precision: ``V``, the sum of ``1 / noise_std^2`` over the outcomes.
        rho: Variance of the mixture, outcome units squared; fixed before the outcomes.
        level: ``ln(1 / delta)``.
    """
    product = rho * precision
    return ((1.0 + 1.0 / product) * (torch.log1p(product) + 2.0 * level) / precision).sqrt()


class Replicates(Pointwise):
    r"""Each observed input by itself: an anytime interval for the mean of its outcomes.

    Of ``N`` inputs that were fixed beforehand each takes ``delta / N``; of unknown ones the
    ``k``-th that is observed takes ``delta / (k (k + 1))``. Which input is observed next
    may depend on all that was seen. No kernel and no norm.

    Source: Robbins (1970) with a union bound over inputs. Assumes conditionally
    sub-Gaussian noise of known scale.
    """

    def __init__(
        self, data: ModelData, num_inputs: int | None, delta: float, scale: float
    ) -> None:
        r"""Intervals of all inputs in the data; ``scale`` is a noise scale for ``rho``."""
        self.prior: Prior = data.prior
        first, index = distinct_rows(data.train_inputs)
        self.inputs = data.train_inputs[first]
        weights = data.noise_std.to(data.train_targets).square().reciprocal()
        zero = weights.new_zeros(len(first))
        precision = zero.index_add(0, index, weights)
        means = zero.index_add(0, index, weights * data.train_targets) / precision
        order = torch.arange(1, len(first) + 1).to(zero)
        count = order * (order + 1.0) if num_inputs is None else zero + num_inputs
        half = half_width(precision, _RHO * scale**2, (count / delta).log())
        self.known = Limits(means - half, means + half)
        self._rows = {tuple(row): i for i, row in enumerate(self.inputs.tolist())}

    @torch.no_grad()
    def limits(self, X: Tensor) -> Limits:
        r"""The intervals of inputs that were observed; infinite elsewhere."""
        inputs = self.prior.transform(X.to(self.inputs))
        found = [self._rows.get(tuple(row), -1) for row in inputs.tolist()]
        index = torch.tensor(found, dtype=torch.long, device=inputs.device)
        unknown, (lower, upper) = index < 0, self.known
        return Limits(
            lower[index].masked_fill(unknown, -torch.inf),
            upper[index].masked_fill(unknown, torch.inf),
        )


class Net:
    r"""``N`` points of a box, such that every point of the box is near one of them.

    The spacing of each column is a share of its side, at which a function of norm ``norm``
    changes by little. The points are not listed: the nearest one is found by rounding.
    """

    def __init__(self, prior: Prior, bounds: Tensor, norm: float, change: float) -> None:
        self.lower, width = bounds[0], bounds[1] - bounds[0]
        counts = torch.ones_like(width)
        centre = bounds.mean(0, keepdim=True)
        while True:
            halves = (0.5 * width / counts).unsqueeze(0)
            whole = prior.change_in_cells(norm, centre, halves)
            if float(whole) <= change:
                break
            # The column that changes most is cut finer.
            sides = torch.eye(len(width)).to(width)
            single = prior.change_in_cells(
                norm, centre.expand_as(sides), halves * sides
            ).where(width > 0.0, -torch.inf)
            counts[single.argmax()] *= 1.25
        self.counts = counts.ceil()
        self.spacing = width / self.counts
        self.log_size = float(self.counts.log().sum())

    def nearest(self, X: Tensor) -> Tensor:
        r"""The point of the net that is nearest to each of ``b x d`` points."""
        cell = ((X - self.lower) / self.spacing.clamp_min(_TINY)).floor()
        cell = torch.minimum(cell.clamp_min(0.0), self.counts - 1.0)
        return self.lower + (cell + 0.5) * self.spacing


class FixedDesign(Pointwise):
    r"""Intervals from outcomes whose inputs were chosen without looking at outcomes.

    For weights ``a(x)`` that depend on inputs alone the error of ``a^T (y - m)`` as an
    estimate of ``f(x) - m`` is a bias, at most ``B ||k_x - phi||`` with
    ``phi = sum_i a_i k_{x_i}``, and noise within ``||a sigma|| sqrt(2 ln(2 N / delta))``
    for ``N`` points at once. So ``<f - m, phi>`` lies in an interval, and the value at
    ``x`` is bounded by the ball of radius ``B`` cut to that interval.

    Source: Vakili et al. (2021), for each point; ``N`` points, the cut ball, nets and
    batches are ours (``docs/mathematics.md``). Assumes sub-Gaussian noise of known scale,
    independent of the design.
    """

    def __init__(
        self,
        batches: Sequence[KernelRegression],
        norm: float,
        delta: float,
        domain: Tensor | Net,
        norm_factor: float = 1.0,
        noise_factor: float = 1.0,
    ) -> None:
        r"""Intervals from batches, each fixed given earlier ones; ``norm``: prior units.

        ``domain`` is ``N x d`` points or the net of a box. The weights are the best for the
        norm and the noise of ``batches``; the factors are how much larger both may be.
        """
        self.batches, self.norm, self.domain = list(batches), norm, domain
        self.ball, self.noise_factor = norm_factor * norm, noise_factor
        is_net = isinstance(domain, Net)
        self.searched = not is_net  # a step at the edge of each cell has no gradient
        log_size = domain.log_size if is_net else math.log(len(domain))
        level = math.log(2.0 * len(self.batches) / delta) + log_size
        self.factor = math.sqrt(2.0 * level)
        self._points: set[tuple[float, ...]] = set()
        if not is_net:
            self._points = {tuple(row) for row in domain.tolist()}

    @torch.no_grad()
    def limits(self, X: Tensor) -> Limits:
        r"""The narrowest of the batches' intervals; infinite outside the domain."""
        found = [self._of_batch(state, X) for state in self.batches]
        lower = torch.stack([each.lower for each in found]).amax(0)
        upper = torch.stack([each.upper for each in found]).amin(0)
        if isinstance(self.domain, Net):
            return Limits(lower, upper)
        rows = X.to(self.domain).tolist()
        known = torch.tensor([tuple(row) in self._points for row in rows], dtype=torch.bool)
        return Limits(
            lower.masked_fill(~known, -torch.inf), upper.masked_fill(~known, torch.inf)
        )

    def _of_batch(self, state: KernelRegression, X: Tensor) -> Limits:
        X = X.to(state.eigenvalues)
        near = self.domain.nearest(X) if isinstance(self.domain, Net) else X
        points = state.project(near)
        lam, v = state.eigenvalues, points.features
        # Each point takes the regulariser at which bias and noise are least together.
        share = lam / (lam + _REGULARIZERS.to(lam).unsqueeze(-1))  # t x r
        weights = share / lam.sqrt().where(lam > 0.0, torch.inf)
        noise = (v.square() @ weights.square().mT).sqrt()  # b x t
        rest = v.square() @ (1.0 - share).square().mT + points.residual_variance[:, None]
        # Round-off may hide so much of `phi`.
        distance = rest.sqrt() + math.sqrt(state.eigenvalue_cutoff) * noise
        best = (self.norm * distance + self.factor * noise).argmin(-1)
        share, weights = share[best], weights[best]
        hidden = math.sqrt(state.eigenvalue_cutoff) * self.ball
        estimate = (v * weights) @ state.targets
        spread = self.noise_factor * self.factor + hidden
        half = (v * weights).square().sum(-1).sqrt() * spread
        length = (v * share).square().sum(-1).sqrt().clamp_min(_TINY)
        along = (v.square() * share).sum(-1) / length
        across = (points.prior_variance - along.square()).clamp_min(0.0).sqrt()
        ends = torch.stack([estimate - half, estimate + half]) / length
        ends = ends.clamp(-self.ball, self.ball)
        # The largest value of `along v + across sqrt(B^2 - v^2)` for v between the ends.
        peak = self.ball * along / points.prior_variance.clamp_min(_TINY).sqrt()
        sides: list[Tensor] = []
        for sign in (-1.0, 1.0):
            v_best = torch.minimum(torch.maximum(sign * peak, ends[0]), ends[1])
            height = (self.ball**2 - v_best.square()).clamp_min(0.0).sqrt()
            sides.append(along * v_best + sign * across * height)
        lower, upper = (points.baseline + side for side in sides)
        if near is X:
            return Limits(lower, upper)
        there = state.prior.transform(X)
        change = self.ball * state.prior.metric(points.inputs, there)
        shift = state.prior.mean(there) - points.baseline
        return Limits(lower + shift - change, upper + shift + change)


@dataclass(frozen=True)
class Source(ABC):
    r"""Knowledge of values beside a band's set, at a share of the failure probability.

    Attributes:
        ratio: Its failure probability over that of the set.
        noise_factor: How much larger the noise is than where it was stated.
    """

    ratio: float
    noise_factor: float = 1.0

    @abstractmethod
    def limits(self, data: ModelData, norm: float | None, delta: float) -> Pointwise:
        r"""The limits that follow from data, for a norm bound in prior units."""

    @property
    @abstractmethod
    def assumption(self) -> Assumption:
        r"""What it rests on beside noise and norm."""

    @property
    @abstractmethod
    def theorem(self) -> str:
        r"""Where the limits come from."""


@dataclass(frozen=True)
class ReplicateSource(Source):
    r"""Each observed input by itself.

    Attributes:
        num_inputs: How many inputs may be observed; None where that was not fixed.
    """

    num_inputs: int | None = None

    def limits(self, data: ModelData, norm: float | None, delta: float) -> Replicates:
        r"""See ``Replicates``."""
        distinct = len(distinct_rows(data.train_inputs)[0])
        if self.num_inputs is not None and distinct > self.num_inputs:
            raise ValueError(
                f"num_inputs is {self.num_inputs}, and {distinct} different inputs were "
                "observed; give the number of all inputs that may be observed, or None."
            )
        scale = float(data.noise_std[0]) / self.noise_factor
        return Replicates(data, self.num_inputs, delta, scale)

    @property
    def assumption(self) -> Assumption:
        r"""How the inputs are counted."""
        counted = "in the order in which they were first observed"
        if self.num_inputs is not None:
            counted = f"{self.num_inputs} of them, fixed beforehand"
        statement = f"each input is counted by itself as well ({counted})"
        return Assumption("replicates", statement, Status.GIVEN)

    @property
    def theorem(self) -> str:
        r"""Robbins' mixture."""
        return "each input's outcomes alone (Robbins 1970)"


@dataclass(frozen=True)
class DesignSource(Source):
    r"""Batches whose inputs were chosen without looking at their outcomes.

    Attributes:
        num_runs: Their sizes, from the first observation on.
        domain: ``N x d`` points, or the ``2 x d`` limits of a box.
        is_box: Whether it is a box.
        norm: Norm bound that the weights are the best for, prior units.
        norm_factor: How much larger the norm bound is now.
    """

    num_runs: tuple[int, ...] = ()
    domain: tuple[tuple[float, ...], ...] = ()
    is_box: bool = False
    norm: float = 0.0

    def limits(self, data: ModelData, norm: float | None, delta: float) -> FixedDesign:
        r"""See ``FixedDesign``."""
        assert norm is not None
        if sum(self.num_runs) > len(data.train_targets):
            raise ValueError(
                f"num_runs counts {sum(self.num_runs)} runs, and there are "
                f"{len(data.train_targets)} observations."
            )
        ends = torch.tensor([0, *self.num_runs]).cumsum(0).tolist()
        noise = data.noise_std / self.noise_factor
        batches = [
            KernelRegression.from_data(
                data._replace(
                    train_inputs=data.train_inputs[first:last],
                    train_targets=data.train_targets[first:last],
                    noise_std=noise[first:last],
                )
            )
            for first, last in pairwise(ends)
        ]
        domain: Tensor | Net = torch.tensor(self.domain).to(data.train_inputs)
        if self.is_box:
            if not data.prior.bounds_changes():
                raise UnsupportedError(
                    "How much functions change over a box is not known for this kernel, "
                    "mean or input transform; give the points as candidates."
                )
            domain = Net(
                data.prior, domain, self.norm, _NET * float(noise[: ends[-1]].min())
            )
        factors = norm / self.norm, self.noise_factor
        return FixedDesign(batches, self.norm, delta, domain, *factors)

    @property
    def assumption(self) -> Assumption:
        r"""That nobody looked."""
        first = f"the inputs of the first {self.num_runs[0]} observations were"
        if len(self.num_runs) > 1:
            sizes = ", ".join(map(str, self.num_runs))
            first = f"the inputs of each of the first batches (of {sizes}) were"
        statement = f"{first} chosen without looking at the outcomes of the same batch"
        return Assumption("design", statement, Status.GIVEN)

    @property
    def theorem(self) -> str:
        r"""Fixed weights."""
        return "intervals of a fixed design (Vakili et al. 2021; docs/mathematics.md)"
