r"""An ellipsoid cut by tangents of the losses at functions found beforehand."""

from typing import Any, Self

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from kernelucb._numerics.safe_math import safe_sqrt
from kernelucb.confidence.base import QueryPoints, RidgePoints, Support
from kernelucb.confidence.likelihood.ellipsoid import ELLIPSOID
from kernelucb.confidence.likelihood.search import SearchedSet
from kernelucb.confidence.likelihood.tangents import TINY, Tangents, unknown_gap
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.regression import Projection, RidgeState

# In two dimensions bands of rates are up to 9 % wider than the set; with 64 points a fifth.
_POINTS = 256
# A bound that is larger by so small a share, seen from the centre, has a weight that is
# smaller by a factor e. With weights of 0 and 1 the gradient jumps, and a search for the
# largest bound evaluates it more often.
SHARE = 0.01


class CutEllipsoid(SearchedSet):
    r"""The ellipsoid around the set, and tangents that touch at functions found once.

    Those functions are near to the largest and the smallest at 256 points, spread as the
    inputs are. A mean of tangents is one as well: the bound at a point is by that with
    smooth weights, of which all but the lowest there have little. From the ellipsoid's to
    this one the bound changes smoothly. For a difference of values, which these tangents
    say little of, a function is searched.

    Source: ours; ``docs/mathematics.md``. Args: see ``TangentSet``; ``cuts`` are the
    tangents for largest and smallest values, ``2 x k``, where they are known.
    """

    slopes: Tensor
    squares: Tensor
    limits: Tensor
    hidden_parts: Tensor
    source = f"{ExactSet.source}; {ELLIPSOID}; tangents of the losses (ours)"

    def __init__(self, *args: Any, cuts: Tangents | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        cuts = self._searched_cuts() if cuts is None else cuts
        self.register_buffer("slopes", cuts.slopes)
        self.register_buffer("squares", cuts.slopes.square().sum(-1))
        self.register_buffer("limits", cuts.limit)
        self.register_buffer("hidden_parts", cuts.hidden)

    @property
    def cuts(self) -> Tangents:
        r"""Tangents for largest and smallest values, ``2 x k``."""
        return Tangents(self.slopes, self.limits, self.hidden_parts)

    def with_design(self, design: RidgeState, **known: Any) -> Self:
        r"""See ``TangentSet``."""
        return super().with_design(design, cuts=self.cuts, **known)

    def majorant(self, points: RidgePoints, sign: int) -> Support:
        r"""The bound itself: no search makes it dear."""
        return self.support(points, sign)

    def touching(self, points: Projection, sign: int) -> tuple[Tangents, Tensor]:
        r"""The mean of those that are the lowest at each point."""
        side = 0 if sign > 0 else 1
        cuts = Tangents(*(part[side] for part in self.cuts))
        product = sign * (points.features @ cuts.slopes.mT)
        square, variance = self.squares[side], points.prior_variance.unsqueeze(-1)
        with torch.no_grad():  # the gradient is that at the minimising multiple
            multiple = self.multiple_of(product, square, cuts.limit, variance)
        length = variance - multiple * (2.0 * product - multiple * square)
        values = self.constraints.norm * safe_sqrt(length) + multiple * cuts.limit
        above = values - self.centred(points, sign).unsqueeze(-1)
        weights = torch.softmax(-above.clamp_min(TINY).log() / SHARE, -1)
        return Tangents(*(weights @ part for part in cuts)), unknown_gap(points)

    def bounded(
        self, points: Projection, sign: int, tangents: Tangents, gap: Tensor
    ) -> Support:
        r"""Nearly the smaller one, and never above the ellipsoid's."""
        found = self.ellipsoid.support(QueryPoints(points, points), sign)
        gain = (found.value - self.bound(points, sign, tangents)).clamp_min(0.0)
        above = found.value - self.centred(points, sign)
        bend = SHARE * above.clamp_min(TINY)
        gain = gain * -torch.expm1(-gain / bend)
        return found._replace(value=found.value - gain, gap=gap)

    @torch.no_grad()
    def _searched_cuts(self) -> Tangents:
        points = points_among(self._data.distinct_inputs, _POINTS)
        seen = self.regression.project_inputs(points)
        sides = [self.searched(seen, sign)[0] for sign in (1, -1)]
        return Tangents(*map(torch.stack, zip(*sides, strict=True)))


def points_among(inputs: Tensor, count: int) -> Tensor:
    r"""At most ``count`` distinct points that are spread as ``n x d`` inputs are.

    Each coordinate has the distribution of those of the inputs, interpolated; they are
    combined by a Sobol sequence.
    """
    engine = SobolEngine(inputs.shape[-1])
    engine.fast_forward(1)  # its first point is zero
    ranks = engine.draw(count, dtype=torch.float64).to(inputs) * (len(inputs) - 1)
    below, above = ranks.floor().long(), ranks.ceil().long()
    ordered = inputs.sort(0).values
    low, high = ordered.gather(0, below), ordered.gather(0, above)
    return torch.lerp(low, high, ranks - below).unique(dim=0)
