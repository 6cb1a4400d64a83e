r"""Functions that are only near the norm ball: how far, and what that costs."""

from dataclasses import replace
from typing import Self

from torch import Tensor

from kernelucb.confidence.base import ConfidenceSet, PointsT, StateT, Support
from kernelucb.confidence.norm.tracker import NormBound


def near_the_ball(norm: NormBound, model_error: float) -> NormBound:
    r"""The norm bound of a function nowhere farther than ``model_error`` from ``f``.

    ``model_error`` is in outcome units; with zero nothing changes.
    """
    if model_error == 0.0:
        return norm
    of_neighbour = norm.assumption.statement.replace("f - mean", "g - mean")
    statement = f"f is everywhere within {model_error:.6g} of a function g; {of_neighbour}"
    assumption = replace(norm.assumption, statement=statement)
    return NormBound(norm.value, assumption, model_error)


class ModelErrorSet(ConfidenceSet[StateT, PointsT]):
    r"""All functions nowhere farther than ``error`` from one of another set.

    Where that set was made for residuals that are larger by ``misfit_of_error``, it holds
    some ``g`` near ``f`` whenever the fit holds ``f``; so values of ``f`` are bounded by
    those of ``g`` plus ``error``, and differences of two values by those of ``g`` plus
    twice that.

    Source: ours; see ``docs/mathematics.md``.

    Args:
        neighbours: The other set.
        error: Largest distance at any point, outcome units.
    """

    def __init__(self, neighbours: ConfidenceSet[StateT, PointsT], error: float) -> None:
        super().__init__(neighbours.regression, neighbours.assumptions)
        self.neighbours, self.error = neighbours, error

    @property
    def norm(self) -> float | None:
        r"""That of the other set."""
        return self.neighbours.norm

    @property
    def model_error(self) -> float:
        r"""See ``ConfidenceSet``."""
        return self.error

    def project(self, X: Tensor) -> PointsT:
        r"""As the other set does."""
        return self.neighbours.project(X)

    def support(self, points: PointsT, sign: int) -> Support:
        r"""That of the other set, plus the error."""
        return self._widened(self.neighbours.support(points, sign))

    def majorant(self, points: PointsT, sign: int) -> Support:
        r"""That of the other set, plus the error."""
        return self._widened(self.neighbours.majorant(points, sign))

    def with_pending(self, X_pending: Tensor) -> Self:
        r"""See ``ConfidenceSet``."""
        return type(self)(self.neighbours.with_pending(X_pending), self.error)

    def max_gain_over(
        self, X: Tensor, reference: Tensor, sign: int = 1, cheap: bool = False
    ) -> Tensor:
        r"""That over the other set, plus twice the error, at the reference as well.

        There the gain is zero, but not the largest gain of points next to it, which branch
        and bound needs: the error may change by any amount from point to point.
        """
        gain = self.neighbours.max_gain_over(X, reference, sign, cheap)
        return gain + 2.0 * self.error

    def _widened(self, support: Support) -> Support:
        return support._replace(value=support.value + self.error)
