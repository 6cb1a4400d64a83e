r"""Functions that are only near the norm ball: as users say it, and as bounds use it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernelucb._numerics.checks import nonnegative_scalar
from kernelucb.confidence.norm.tracker import NormBound, NormBoundLike


@dataclass(frozen=True)
class NearNormBall:
    r"""In place of a norm bound: ``f`` is only near a function of bounded norm.

    The band is wider by ``model_error`` on both sides, and the fit, in noise units, by up
    to ``model_error sqrt(n) / noise_std``; the noise scale must be known.

    Source: ours; see ``docs/mathematics.md``.

    Attributes:
        norm_bound: Bound on the RKHS norm of ``g - mean``, as a norm bound is given
            otherwise; for a family one for all kernels or one for each.
        model_error: How far ``f`` may lie, at any point, from ``g``, outcome units.

    Raises:
        ValueError: If the error is not a finite number of at least 0.
    """

    norm_bound: NormBoundLike | Sequence[float] = None
    model_error: float = 0.0

    def __post_init__(self) -> None:
        error = nonnegative_scalar("model_error", self.model_error)
        object.__setattr__(self, "model_error", error)


def ball_and_error(norm_bound: Any) -> tuple[Any, float]:
    r"""The norm bound, and how far ``f`` may lie from a function that keeps it."""
    if isinstance(norm_bound, NearNormBall):
        return norm_bound.norm_bound, norm_bound.model_error
    return norm_bound, 0.0


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
