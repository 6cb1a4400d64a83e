r"""The mixture of filters in a bandit: the first member and one hybrid."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from kernelucb.bandit.resolvents import Ratio
from kernelucb.confidence.fit.e_processes import (
    ALONE,
    Hybrids,
    first_ball,
    first_price,
)
from kernelucb.confidence.fit.filters import FilterMixture
from kernelucb.confidence.norm.least import least_norm

# A filter costs a fifth of a round, so it must narrow the band by so much beside the ball.
_LEAST_GAIN = 0.01
# Of the norm bound, that the filtered set must leave when the filter is chosen.
_MOST_NEEDED = 0.99
_FEWEST = 32  # observations; with fewer it gains nothing
# Eigenvalues that count as zero, at most in corners of the filter.
_SMALL = 1e-5


class TwoFilters(NamedTuple):
    r"""Weights of the first member and of one hybrid; see ``EProcesses``.

    Weights may depend on the data and change at any time: chosen where the whole spectrum
    is at hand, they are kept until it is again. So is the slope of the first member's
    tangent. Prices are those of all observations.

    Source: ours; see ``docs/mathematics.md``.

    Attributes:
        share: Weight of the first member, between 0 and 1; the hybrid has the rest.
        slope: Of its tangent, at most 1.
        hybrid: Its index in the grid.
        corner: Its ``g``.
        floor: Its ``l``.
    """

    share: float
    slope: float
    hybrid: int
    corner: float
    floor: float

    @classmethod
    def of(cls, mixture: FilterMixture, norm: float) -> "TwoFilters | None":
        r"""Those of a narrow band, for a norm bound in prior units.

        None where the first member alone is about as good, as it is early, where the data
        nearly contradict the norm bound, or where what counts as zero is not small beside
        the hybrid's corner.
        """
        if mixture.regression.num_observations < _FEWEST:
            return None
        found = mixture.two_for_band(norm)
        if found.gain < _LEAST_GAIN:
            return None
        constraint = mixture.constraint(found.weights)
        cutoff = mixture.regression.eigenvalue_cutoff
        if least_norm(*constraint) > _MOST_NEEDED * norm:
            return None
        share, index = float(found.weights[0]), int(found.weights[1:].argmax())
        e_processes = mixture.e_processes
        filters = cls._of(share, e_processes.level, index, e_processes.hybrids)
        return filters if cutoff <= _SMALL * filters.corner else None

    @classmethod
    def _of(cls, share: float, slope: float, index: int, hybrids: Hybrids) -> "TwoFilters":
        corner, floor = float(hybrids.corners[index]), float(hybrids.floors[index])
        return cls(share, slope, index, corner, floor)

    @property
    def values(self) -> list[float]:
        r"""Three numbers for a saved state."""
        return [self.share, self.slope, float(self.hybrid)]

    @classmethod
    def saved(cls, values: Sequence[float], hybrids: Hybrids) -> "TwoFilters":
        r"""From their ``values`` and the grid.

        Raises:
            ValueError: If they are no such weights.
        """
        if len(values) != 3:
            raise ValueError("there must be three values")
        share, slope, index = values
        if not (0.0 < share < 1.0 and 0.0 < slope <= 1.0):
            raise ValueError("share and slope must lie between 0 and 1")
        if index not in range(len(hybrids.floors)):
            raise ValueError("the index must be that of a hybrid")
        return cls._of(share, slope, int(index), hybrids)

    @property
    def ratio(self) -> Ratio:
        r"""The filter of both."""
        level, rest = self.share * self.slope, 1.0 - self.share
        foot = (level + rest * self.floor) * self.corner
        return Ratio(level + rest, foot, self.corner)

    def squared_radius(
        self, predicted: float, log_det: float, count: int, delta: float
    ) -> float:
        r"""``b + 2 ln(1/delta)`` after ``count`` observations.

        Args:
            predicted: Squared radius of Flynn & Reeb's member.
            log_det: ``ln det(I + K_w / g)`` at the ``corner``.
            count: Number of observations.
            delta: Failure probability.
        """
        ball = first_ball(predicted, count, delta)
        first = first_price(ball, self.slope, predicted, count, delta)
        hybrid = log_det - count * math.log1p(-self.floor) + ALONE.hybrid_prior
        rest = 1.0 - self.share
        entropy = self.share * math.log(self.share) + rest * math.log(rest)
        mixed = self.share * first + rest * hybrid + 2.0 * entropy
        return mixed + 2.0 * math.log(1.0 / delta)
