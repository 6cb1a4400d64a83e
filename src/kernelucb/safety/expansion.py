r"""Widening a safe set where the objective alone would not."""

from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor

from kernelucb.safety.safe_set import SafeSet


class ConstraintWidth(AcquisitionFunction):
    r"""Width of the widest constraint band, in prior standard deviations.

    An upper confidence bound restricted to a safe set stops widening it once it knows a
    local optimum well and promises nothing more at the edge, whatever lies beyond. Where
    that matters, choose every other point by this instead: the safe point about which the
    constraints are least certain is mostly at the edge, and observing it moves the edge.

    Source: the uncertainty sampling of SafeOpt (Sui et al. 2015), over the safe set
    instead of its expanders and maximisers.

    Example:
        >>> acqf = objective if round_number % 2 == 0 else ConstraintWidth(safe_set)
        >>> x, _ = optimize_acqf_safely(acqf, safe_set, bounds)
    """

    def __init__(self, safe_set: SafeSet) -> None:
        r"""Width of a safe set's constraints.

        Args:
            safe_set: The safe set.
        """
        model: Any = getattr(safe_set.constraints[0].band, "model", None)
        super().__init__(model=model)
        self.constraints = safe_set.constraints

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Not supported: bands do not change before an outcome is there.

        Raises:
            UnsupportedError: If there are pending points.
        """
        if X_pending is not None:
            raise UnsupportedError(
                "ConstraintWidth does not take pending points; choose one point at a time."
            )

    def forward(self, X: Tensor) -> Tensor:
        r"""Width at candidate points.

        Args:
            X: A ``b x 1 x d``-dim tensor of candidate points.

        Returns:
            A ``b``-dim tensor.

        Raises:
            BotorchTensorDimensionError: If the shape is another.
        """
        if X.dim() != 3 or X.shape[-2] != 1:
            raise BotorchTensorDimensionError(
                f"X must be `b x 1 x d`, got shape {tuple(X.shape)}."
            )
        points = X.squeeze(-2).double()
        widths = [constraint.width(points) for constraint in self.constraints]
        return torch.stack(widths).amax(0).to(X.dtype)
