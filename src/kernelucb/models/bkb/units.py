r"""Outcome units per unit of a model."""

import math

import torch
from botorch.exceptions import UnsupportedError
from botorch.models.transforms.outcome import OutcomeTransform
from torch import Tensor


def affine_scale(transform: OutcomeTransform, like: Tensor) -> float:
    r"""What one unit of the model is in outcome units.

    Args:
        transform: Trained outcome transform.
        like: A tensor of the type and device that it takes.

    Raises:
        UnsupportedError: If the transform is not affine.
    """
    probe = torch.tensor([[0.0], [1.0], [2.0]]).to(like)
    values = transform.untransform(probe)[0].squeeze(-1)
    scale, again = values.diff().tolist()
    if not math.isclose(scale, again, rel_tol=1e-9):
        raise UnsupportedError(
            f"The outcome transform {type(transform).__name__} is not affine, so a bound "
            "in outcome units has no meaning under it. Use Standardize or none."
        )
    return scale
