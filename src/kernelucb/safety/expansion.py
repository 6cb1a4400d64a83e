r"""Widening a safe set where the objective alone would not."""

from typing import Any

import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor
from torch.nn import Module, ModuleList

from kernelucb._numerics.checks import tensor
from kernelucb._numerics.domains import rows_of
from kernelucb.acquisition.base import BuiltOnce
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.safety.safe_set import SafeSet


class ConstraintWidth(BuiltOnce):
    r"""Width of the widest constraint band, in prior standard deviations.

    An upper confidence bound restricted to a safe set stops widening it once it knows a
    local optimum well and the edge promises no more. If better points may lie beyond,
    choose every other point by this: the constraints are mostly least certain at the edge.

    Source: the uncertainty sampling of SafeOpt (Sui et al. 2015), over the safe set
    instead of its expanders and maximisers.

    Example:
        >>> acqf = objective if round_number % 2 == 0 else ConstraintWidth(safe_set)
        >>> x, _ = optimize_acqf_safely(acqf, safe_set, bounds)
    """

    def __init__(self, safe_set: SafeSet) -> None:
        model: Any = getattr(safe_set.constraints[0].band, "model", None)
        super().__init__(model=model)
        self.safe_set = safe_set
        bands = safe_set.outcome_constraints.bands.values()
        self._bands = ModuleList([band for band in bands if isinstance(band, Module)])

    @property
    def assumptions(self) -> Assumptions:
        r"""What the safe set rests on."""
        return self.safe_set.assumptions

    @property
    def X_pending(self) -> None:
        r"""None: bands do not change before an outcome is there.

        Raises:
            UnsupportedError: If points are assigned, or given to ``set_X_pending``.
        """

    @X_pending.setter
    def X_pending(self, X_pending: Tensor | None) -> None:
        if X_pending is not None:
            raise UnsupportedError(
                "ConstraintWidth does not take pending points; choose one point at a time."
            )

    def _settings(self) -> Any:
        return self.safe_set.outcome_constraints.settings

    def forward(self, X: Tensor) -> Tensor:
        r"""Width at ``b x 1 x d`` candidate points, a tensor of shape ``b``.

        Raises:
            BotorchTensorDimensionError: If the shape is not ``b x 1 x d``; ``q`` must be 1.
            InputDataError: If a value is not finite.
        """
        if tensor("X", X).dim() < 2 or X.shape[-2] != 1:
            raise BotorchTensorDimensionError(
                f"X must be `b x 1 x d`, got shape {tuple(X.shape)}."
            )
        batch_shape = X.shape[:-2] if X.dim() > 2 else X.shape[:1]
        points = rows_of(X)
        widths = [constraint.width(points) for constraint in self.safe_set.constraints]
        return torch.stack(widths).amax(0).reshape(batch_shape).to(X.dtype)
