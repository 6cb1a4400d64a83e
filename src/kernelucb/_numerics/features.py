r"""Features of ``k(x, .)`` on a set of sections, and the variance outside their span."""

import torch
from torch import Tensor


def nearest_section(
    inputs: Tensor,
    whole: Tensor,
    covariance: Tensor,
    sections: Tensor,
    section_variance: Tensor,
) -> Tensor:
    r"""Squared distance of ``k(x, .)`` to the nearest training section, ``b`` values.

    Exactly zero at a repeated input, where the difference would be round-off.

    Args:
        inputs: ``b x d'`` kernel inputs.
        whole: ``b`` values of ``k(x, x)``.
        covariance: ``b x n`` prior covariances with the training inputs.
        sections: ``n x d'`` kernel inputs of the training sections.
        section_variance: ``n`` prior variances there.
    """
    nearest, index = (section_variance - 2.0 * covariance).min(-1)
    repeated = (inputs == sections[index]).all(-1)
    return torch.where(repeated, 0.0, nearest + whole)


def split_variance(
    raw_features: Tensor, whole: Tensor, nearest: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Features and unexplained variance, consistent with each other.

    Args:
        raw_features: ``b x n`` features as computed.
        whole: ``b`` values of ``k(x, x)``.
        nearest: ``b`` squared distances of ``k(x, .)`` to the nearest training section.
            The rest is at most that; at an input it is exact, where the difference of
            ``whole`` and the squared features is round-off.
    """
    features = raw_features
    squared = features.square().sum(-1)
    excessive = squared > whole
    if bool(excessive.any()):
        rows = raw_features[excessive]
        rows = rows * _room_factors(rows, whole[excessive])
        features = features.index_put((excessive,), rows)
        squared = features.square().sum(-1)
    rest = (whole - squared).clamp_min(0.0)
    return features, torch.minimum(rest, nearest.clamp_min(0.0))


@torch.no_grad()
def _room_factors(features: Tensor, whole: Tensor) -> Tensor:
    r"""Factors that keep the squared features of each row from exceeding the whole.

    Features are ordered as the eigenvalues, ascending. Those of the smallest, near the
    resolution of the ``eigh``, carry large relative errors; they are reduced to what the
    others leave.
    """
    squares = features.square()
    larger = squares.flip(-1).cumsum(-1).flip(-1) - squares
    rounding = 8.0 * features.shape[-1] * torch.finfo(features.dtype).eps
    room = ((1.0 + rounding) * whole.unsqueeze(-1) - larger).clamp_min(0.0)
    return torch.where(squares > room, (room / squares).sqrt(), 1.0)
