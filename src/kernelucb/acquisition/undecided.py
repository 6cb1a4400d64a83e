r"""The next run for a level set or a front: where a band leaves most undecided."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from torch import Tensor
from torch.nn import ModuleList

from kernelucb._numerics.checks import finite_scalar, positive_scalar
from kernelucb.acquisition.ucb import BandUCB, model_of
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.band import BandLike, check_dimensions, joined_assumptions
from kernelucb.confidence.sets import Described
from kernelucb.data.from_model import per_output


class LevelSetAmbiguity(BandUCB):
    r"""How far a band reaches to either side of a threshold: ``min(U - t, t - L)``.

    Where it is negative, ``level_set`` is decided. Calling a point inside or outside by its
    longer side is wrong by at most this much. A band within a range is taken without the
    range.

    Source: the ambiguity of Gotovos et al. (2013), with the band's own theorem.

    Example:
        >>> acqf = LevelSetAmbiguity(MartingaleMixtureUCB(model, norm_bound=5.0), 80.0)
        >>> candidate, _ = optimize_acqf(acqf, bounds, q=1, num_restarts=8,
        ...                              raw_samples=256)

    Args:
        band: A band, or a bound of this package, of the outcome whose level is asked for.
        threshold: Outcome units.
        X_pending: ``p x d`` points under evaluation; variances are conditioned on them.

    Raises:
        ValueError: If the threshold is not finite.
        UnsupportedError: If ``band`` is no set of functions.
    """

    plays_upper = False

    def __init__(
        self, band: BandLike, threshold: float, X_pending: Tensor | None = None
    ) -> None:
        super().__init__(band, X_pending=X_pending, model=model_of(band))
        self.threshold = finite_scalar("threshold", threshold)
        level = torch.tensor(self.threshold, dtype=torch.float64)
        self._level = float(self.band.outcome_map.forward(level))

    def majorant(self, X: Tensor) -> Tensor:
        r"""``forward``: the smaller of two sides has no cheap upper bound of its own."""
        return self(X)

    def _value(self, X: Tensor, cheap: bool = False) -> Tensor:
        points, support = self._scoring.project(X), self._scoring.support
        above = points.baseline - self._level  # units of the set
        sides = above + support(points, 1), support(points, -1) - above
        return torch.minimum(*sides)


class _Width(BandUCB):
    plays_upper = False

    def _value(self, X: Tensor, cheap: bool = False) -> Tensor:
        support = self._scoring.majorant if cheap else self._scoring.support
        points = self._scoring.project(X)
        return support(points, 1) + support(points, -1)


class ParetoWidth(Described, AcquisitionFunction):
    r"""Width of the widest of several bands, in units of what does not matter.

    For the next run of a front, among the candidates that ``pareto_set`` calls
    ``undecided``. Where it is at most a half at all of these (and all are feasible), none
    of them is open.

    Source: the rule of epsilon-PAL (Zuluaga et al. 2016), with the bands' own theorems.

    Args:
        bands: As for ``pareto_set``.
        epsilon: As for ``pareto_set``, above 0: outcome units.
        X_pending: ``p x d`` points under evaluation; variances are conditioned on them.

    Raises:
        ValueError: If a number is out of its range.
        UnsupportedError: If a band is no set of functions.
        BotorchTensorDimensionError: If the bands' inputs differ in dimension.
    """

    def __init__(
        self,
        bands: Sequence[BandLike],
        epsilon: float | Sequence[float],
        X_pending: Tensor | None = None,
    ) -> None:
        levels = per_output("epsilon", epsilon, len(bands))
        super().__init__(model=cast(Model, None))
        self.epsilon = [positive_scalar("epsilon", each) for each in levels]
        self._widths: Any = ModuleList([_Width(each) for each in bands])
        check_dimensions("bands", [each.band for each in self._widths])
        self.set_X_pending(X_pending)

    @property
    def assumptions(self) -> Assumptions:
        r"""The joint assumptions of the bands."""
        named = {f"objective {i}": each.band for i, each in enumerate(self._widths, 1)}
        return joined_assumptions(named, "the bands of all objectives hold")

    @property
    def X_pending(self) -> Tensor | None:
        r"""``p x d`` points under evaluation. Assigning them is ``set_X_pending``."""
        return self._widths[0].X_pending

    @X_pending.setter
    def X_pending(self, X_pending: Tensor | None) -> None:
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Condition the variances of all bands on points under evaluation."""
        for each in self._widths:
            each.set_X_pending(X_pending)

    def forward(self, X: Tensor) -> Tensor:
        r"""Value to maximise at ``b x 1 x d`` points; ``b`` may be several dimensions."""
        pairs = zip(self._widths, self.epsilon, strict=True)
        return torch.stack([width(X) / epsilon for width, epsilon in pairs]).amax(0)
