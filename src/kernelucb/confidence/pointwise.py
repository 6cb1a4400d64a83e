r"""Limits on single values, beside a set: a known range, replicates, a fixed design."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.quasirandom import SobolEngine

from kernelucb.confidence.radius import noise_energy_bound
from kernelucb.data import KernelRegression, Projection
from kernelucb.data.exact import runs_by_input
from kernelucb.data.from_model import ModelData
from kernelucb.data.prior import Prior

# `rho` of the normal mixture, over the noise's precision: narrow at 1 to 20 replicates.
_RHO = 8.0
# Regularisers among which each point takes its own.
_REGULARIZERS = 10.0 ** torch.linspace(-4.0, 4.0, 33, dtype=torch.float64)
# Nets of a box that are tried, by kernel metric over prior standard deviation.
_DISTANCES = tuple(2.0**-power for power in range(1, 13))
_TRIED = 64  # points at which they are compared
_OF_ENERGY = 0.1  # share of the failure probability that the energy of the noise takes
_TINY = 1e-300  # instead of zero below a fraction
# Norm bound for which runs are weighed where none was given, prior units.
DEFAULT_NORM = 10.0


class Limits(NamedTuple):
    r"""Lower and upper limits at ``b`` points; infinite where no limit is known."""

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
        alone: Whether the limits of a point say nothing of points next to it, but by the
            norm of the function: with a model error the function may jump in between.
    """

    searched = alone = True

    @abstractmethod
    def limits(self, X: Tensor) -> Limits:
        r"""The limits at ``b x d`` raw points."""

    def end(self, sign: int) -> float:
        r"""Upper bound on ``sign * f`` everywhere; infinite where not known."""
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
    alone = False

    def limits(self, X: Tensor) -> Limits:
        r"""The range, ``b`` times."""
        ends = X.new_tensor([[self.lower], [self.upper]], dtype=torch.float64)
        return Limits(*ends.expand(2, len(X)))

    def end(self, sign: int) -> float:
        r"""The upper end of the range for ``sign * f``."""
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
    product = rho * precision  # of many inputs at once; `pairs` has it without torch
    return ((1.0 + 1.0 / product) * (torch.log1p(product) + 2.0 * level) / precision).sqrt()


class Replicates(Pointwise):
    r"""Anytime intervals for the means of observed inputs, each from its own outcomes.

    Each of ``N`` inputs that were fixed beforehand takes ``delta / N``; without a number
    fixed beforehand the ``k``-th new input takes ``delta / (k (k + 1))``. The next input
    may depend on all earlier outcomes. No kernel and no norm is assumed.

    Source: Robbins (1970) with a union bound over inputs. Assumes conditionally
    sub-Gaussian noise of known scale.
    """

    def __init__(
        self, data: ModelData, num_inputs: int | None, delta: float, scale: float
    ) -> None:
        r"""Intervals of all inputs in the data; ``scale`` is a noise scale for ``rho``."""
        self.prior: Prior = data.prior
        targets = data.train_targets
        runs = runs_by_input(data.train_inputs, targets, data.noise_std.to(targets))
        precision, means = runs.precision, runs.means
        self.inputs = data.train_inputs[runs.first]
        order = torch.arange(1, len(means) + 1).to(means)
        count = order * (order + 1.0) if num_inputs is None else 0.0 * order + num_inputs
        half = half_width(precision, _RHO * scale**2, (count / delta).log())
        self.intervals = Limits(means - half, means + half)
        # An input counts as observed only where it is the same to the digit.
        self._rows = {tuple(row): i for i, row in enumerate(self.inputs.tolist())}

    @torch.no_grad()
    def limits(self, X: Tensor) -> Limits:
        r"""The intervals of inputs that were observed; infinite elsewhere."""
        inputs = self.prior.transform(X.to(self.inputs))
        found = [self._rows.get(tuple(row), -1) for row in inputs.tolist()]
        index = torch.tensor(found, dtype=torch.long, device=inputs.device)
        elsewhere, (lower, upper) = index < 0, self.intervals
        return Limits(
            lower[index].masked_fill(elsewhere, -torch.inf),
            upper[index].masked_fill(elsewhere, torch.inf),
        )


class Net:
    r"""``N`` grid points of a ``2 x d`` box, the centres of equal cells.

    The points are not listed: the nearest point is found by rounding. Intervals on the net
    are valid whatever the spacing; ``distance`` decides only how wide they are.

    Args:
        prior: Prior whose kernel metric measures distances.
        bounds: ``2 x d`` limits of the box.
        distance: Largest kernel metric from the centre to a corner of a cell, in prior
            standard deviations, measured at the middle of the box.
    """

    def __init__(self, prior: Prior, bounds: Tensor, distance: float) -> None:
        self.lower, width = bounds[0], bounds[1] - bounds[0]
        self.counts, centre = torch.ones_like(width), bounds.mean(0, keepdim=True)
        sides = torch.eye(len(width)).to(width)
        most = distance * float(prior.variance(prior.transform(centre)).sqrt())

        def change(part: Tensor) -> Tensor:
            halves = part * (0.5 * width / self.counts)
            middle = centre.expand_as(halves)
            return prior.metric(prior.transform(middle), prior.transform(middle + halves))

        while float(change(torch.ones_like(centre))) > most:
            # The column along which a cell is longest, by the metric, is cut finer.
            self.counts[change(sides).where(width > 0.0, -1.0).argmax()] *= 1.25
        self.counts = self.counts.ceil()
        self.spacing = width / self.counts
        self.log_size = float(self.counts.log().sum())

    def nearest(self, X: Tensor) -> Tensor:
        r"""The point of the net that is nearest to each of ``b x d`` points."""
        cell = ((X - self.lower) / self.spacing.clamp_min(_TINY)).floor()
        cell = torch.minimum(cell.clamp_min(0.0), self.counts - 1.0)
        return self.lower + (cell + 0.5) * self.spacing


class _Estimate(NamedTuple):
    r"""Weighted means of the outcomes at ``b`` points; see ``FixedDesign``."""

    points: Projection
    weights: Tensor  # of the outcomes, in the eigenbasis
    sections: Tensor  # coordinates of `phi`
    deviation: Tensor  # how many times `||a sigma||` the noise may be, `b` values


class FixedDesign(Pointwise):
    r"""Intervals from outcomes whose inputs were chosen without looking at outcomes.

    For weights ``a(x)`` that depend on inputs alone the error of ``a^T (y - m)`` as an
    estimate of ``f(x) - m`` is a bias, at most ``B ||k_x - phi||`` with
    ``phi = sum_i a_i k_{x_i}``, and noise within ``||a sigma|| sqrt(2 ln(2 N / delta))``
    for ``N`` points at once. So ``<f - m, phi>`` lies in an interval, and the value at
    ``x`` is bounded by the ball of radius ``B`` cut to that interval. In a box the noise at
    ``x`` is compared with the noise at the nearest point of a net, whose weights are of
    the same regulariser: between the unit vectors along both weights lies at most their
    distance times the length of the noise, which is bounded by its energy.

    Source: Vakili et al. (2021), for each point; ``N`` points, the cut ball, nets and
    batches are ours (``docs/mathematics.md``). Assumes sub-Gaussian noise of known scale,
    independent of the design.
    """

    def __init__(
        self,
        batches: Sequence[KernelRegression],
        norm: float,
        delta: float,
        domain: Tensor,
        is_box: bool = False,
        norm_factor: float = 1.0,
        noise_factor: float = 1.0,
    ) -> None:
        r"""Intervals from batches, each fixed given earlier ones; ``norm``: prior units.

        ``domain`` is ``N x d`` points or the ``2 x d`` limits of a box. The weights are the
        best for the norm and the noise of ``batches``; the factors are how much larger both
        may be.
        """
        self.batches, self.norm = list(batches), norm
        self._ball, self.noise_factor = norm_factor * norm, noise_factor
        self.searched = not is_box  # a step at the edge of each cell has no gradient
        self.share = delta / len(self.batches)
        self.net: Net | None = None
        self._points: set[tuple[float, ...]] = set()
        if is_box:
            self.net = self._best_net(domain)
        else:
            self._points = {tuple(row) for row in domain.tolist()}

    @property
    def factor(self) -> float:
        r"""Bound on the noise over ``||a sigma||``, for ``N`` points at once."""
        share, log_size = self.share, math.log(max(len(self._points), 1))
        if self.net is not None:
            share, log_size = (1.0 - _OF_ENERGY) * share, self.net.log_size
        return math.sqrt(2.0 * (math.log(2.0 / share) + log_size))

    def _best_net(self, bounds: Tensor) -> Net:
        r"""The net with the narrowest intervals at 64 Sobol points.

        Chosen from inputs alone, as everything that a fixed design may use.
        """
        sobol = SobolEngine(bounds.shape[1]).draw(_TRIED, dtype=torch.float64).to(bounds)
        X = bounds[0] + (bounds[1] - bounds[0]) * sobol
        state, found = self.batches[0], list[tuple[float, Net]]()
        for distance in _DISTANCES:
            self.net = Net(state.prior, bounds, distance)
            means = self._estimate(state, X)
            noise = means.weights.norm(dim=-1) * means.deviation
            found.append((float(noise.mean()), self.net))
        return min(found, key=lambda each: each[0])[1]

    @torch.no_grad()
    def limits(self, X: Tensor) -> Limits:
        r"""The narrowest of the batches' intervals; infinite outside the domain."""
        found = [self._of_batch(state, X.to(state.eigenvalues)) for state in self.batches]
        lower = torch.stack([each.lower for each in found]).amax(0)
        upper = torch.stack([each.upper for each in found]).amin(0)
        if self.net is not None:
            ends = self.net.lower, self.net.lower + self.net.counts * self.net.spacing
            near = X.to(lower)
            inside = ((near >= ends[0]) & (near <= ends[1])).all(-1)
        else:
            rows = [tuple(row) in self._points for row in X.double().tolist()]
            inside = torch.tensor(rows, dtype=torch.bool, device=lower.device)
        return Limits(
            lower.masked_fill(~inside, -torch.inf), upper.masked_fill(~inside, torch.inf)
        )

    def _estimate(self, state: KernelRegression, X: Tensor) -> _Estimate:
        r"""Weighted means at ``b x d`` points, each by its net point's regulariser."""
        points = state.project(X)
        centre = points if self.net is None else state.project(self.net.nearest(X))
        lam, v = state.eigenvalues, centre.features
        # Each point takes the regulariser at which bias and noise are least together.
        share = lam / (lam + _REGULARIZERS.to(lam).unsqueeze(-1))  # t x r
        weights = share / lam.sqrt().where(lam > 0.0, torch.inf)
        noise = (v.square() @ weights.square().mT).sqrt()  # b x t
        rest = v.square() @ (1.0 - share).square().mT + centre.residual_variance[:, None]
        best = (self.norm * rest.sqrt() + self.factor * noise).argmin(-1)
        share, weights = share[best], weights[best]
        here = points.features * weights
        deviation = torch.full_like(centre.baseline, self.factor)
        if self.net is not None:
            energy = noise_energy_bound(state.num_observations, _OF_ENERGY * self.share)
            # A union bound covers the net; from the net to the point itself the noise moves
            # by at most its length times the distance of both unit weight vectors.
            there = v * weights
            apart = normalize(here, dim=-1, eps=_TINY) - normalize(there, dim=-1, eps=_TINY)
            deviation = deviation + math.sqrt(energy) * apart.norm(dim=-1)
        return _Estimate(points, here, points.features * share, deviation)

    def _of_batch(self, state: KernelRegression, X: Tensor) -> Limits:
        points, weights, sections, deviation = self._estimate(state, X)
        estimate = weights @ state.targets
        # Round-off may hide so much of `phi`.
        hidden = math.sqrt(state.eigenvalue_cutoff) * self._ball
        half = weights.norm(dim=-1) * (self.noise_factor * deviation + hidden)
        length = sections.norm(dim=-1).clamp_min(_TINY)
        along = (points.features * sections).sum(-1) / length
        across = (points.prior_variance - along.square()).clamp_min(0.0).sqrt()
        ends = torch.stack([estimate - half, estimate + half]) / length
        ends = ends.clamp(-self._ball, self._ball)
        # The largest value of `along v + across sqrt(B^2 - v^2)` for v between the ends:
        # the ball of radius B is cut to a slab, as `v = <f - m, phi> / |phi|` is bounded.
        peak = self._ball * along / points.prior_variance.clamp_min(_TINY).sqrt()
        sides: list[Tensor] = []
        for sign in (-1.0, 1.0):
            v_best = torch.minimum(torch.maximum(sign * peak, ends[0]), ends[1])
            height = (self._ball**2 - v_best.square()).clamp_min(0.0).sqrt()
            sides.append(points.baseline + along * v_best + sign * across * height)
        return Limits(*sides)
