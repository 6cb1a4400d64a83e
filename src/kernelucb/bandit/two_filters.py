r"""The mixture of filters in a bandit: the first member and one hybrid."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from kernelucb.bandit.resolvents import Ratio
from kernelucb.confidence.fit.e_processes import Hybrids, first_ball, first_price
from kernelucb.confidence.fit.filters import FilterMixture
from kernelucb.confidence.norm.least import least_norm

# A filter costs a fifth of a round, so it must narrow the band by so much beside the ball.
_LEAST_GAIN = 0.01
# Of the norm bound, that the filtered set must leave when the filter is chosen.
_MOST_NEEDED = 0.99


class TwoFilters(NamedTuple):
    r"""Weights of the first member and of one hybrid; see ``EProcesses``.

    Weights may depend on the data and change at any time: chosen where the whole spectrum
    is at hand, they are kept until it is again. So is the slope of the first member's
    tangent. Prices are those of all observations.

    Attributes:
        share: Weight of the first member, between 0 and 1; the hybrid has the rest.
        slope: Of its tangent, at most 1.
        index: Of the hybrid.
    """

    share: float
    slope: float
    index: int

    @classmethod
    def of(cls, mixture: FilterMixture, norm: float) -> "TwoFilters | None":
        r"""Those of a narrow band, for a norm bound in prior units.

        None where the first member alone is about as good, or the data nearly contradict
        the norm bound.
        """
        found = mixture.two_for_band(norm)
        if found.gain < _LEAST_GAIN:
            return None
        if least_norm(*mixture.constraint(found.weights)) > _MOST_NEEDED * norm:
            return None
        share, index = float(found.weights[0]), int(found.weights[1:].argmax())
        return cls(share, mixture.e_processes.level, index)

    @classmethod
    def saved(cls, values: Sequence[float], hybrids: Hybrids) -> "TwoFilters":
        r"""From the values as ``list`` gives them.

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
        return cls(share, slope, int(index))

    def corner(self, hybrids: Hybrids) -> float:
        r"""``g`` of the hybrid."""
        return float(hybrids.corners[self.index])

    def ratio(self, hybrids: Hybrids) -> Ratio:
        r"""The filter of both."""
        level, rest = self.share * self.slope, 1.0 - self.share
        corner, floor = self.corner(hybrids), float(hybrids.floors[self.index])
        return Ratio(level + rest, (level + rest * floor) * corner, corner)

    def squared_radius(
        self, hybrids: Hybrids, predicted: float, log_det: float, count: int, delta: float
    ) -> float:
        r"""``b + 2 ln(1/delta)`` after ``count`` observations.

        Args:
            hybrids: The grid that ``index`` refers to.
            predicted: Squared radius of Flynn & Reeb's member.
            log_det: ``ln det(I + K_w / g)`` at the ``corner``.
            count: Number of observations.
            delta: Failure probability.
        """
        ball = first_ball(predicted, count, delta)
        first = first_price(ball, self.slope, predicted, count, delta)
        floor = float(hybrids.floors[self.index])
        hybrid = log_det - count * math.log1p(-floor) + hybrids.prior_price
        rest = 1.0 - self.share
        entropy = self.share * math.log(self.share) + rest * math.log(rest)
        mixed = self.share * first + rest * hybrid + 2.0 * entropy
        return mixed + 2.0 * math.log(1.0 / delta)
