r"""Mean and covariance of task vectors, and norms under that covariance."""

import math
from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

# Largest share of a vector that round-off leaves outside a span that contains it, with room
# for directions that were dropped as unresolved.
_OUTSIDE = 1e-9


class TaskMoments(NamedTuple):
    r"""Unbiased mean and covariance of ``N`` task vectors of length ``M``.

    Source: Wang, Kim & Kaelbling (2018), Section 4: ``mu = Y^T 1 / N`` and
    ``k = (Y - 1 mu^T)^T (Y - 1 mu^T) / (N - 1)``.

    Attributes:
        mean: ``M`` values.
        root: ``r x M`` matrix with ``covariance = root^T root`` and orthogonal rows; ``r``
            is the rank.
        leverages: ``N`` diagonal entries of the hat matrix of the centred tasks.
    """

    mean: Tensor
    root: Tensor
    leverages: Tensor

    @classmethod
    def of(cls, values: Tensor) -> "TaskMoments":
        r"""Moments of ``N x M`` complete values.

        Raises:
            InputDataError: If there are fewer than two tasks.
        """
        count = len(values)
        if count < 2:
            raise InputDataError(
                f"A covariance needs at least 2 training tasks, got {count}."
            )
        mean = values.mean(0)
        left, singular, right = torch.linalg.svd(values - mean, full_matrices=False)
        # Relative to the values, not to the deviations: the mean is rounded at their size.
        size = float(torch.linalg.matrix_norm(values, 2)) if values.numel() else 0.0
        cutoff = max(values.shape) * torch.finfo(values.dtype).eps * size
        rank = int((singular > cutoff).sum())
        root = singular[:rank, None] * right[:rank] / math.sqrt(count - 1)
        return cls(mean, root, left[:, :rank].square().sum(-1))

    @property
    def num_tasks(self) -> int:
        r"""``N``."""
        return len(self.leverages)

    @property
    def rank(self) -> int:
        r"""Rank ``r`` of the covariance."""
        return len(self.root)

    def norms(self, values: Tensor) -> Tensor:
        r"""Norm of each vector's deviation from the mean, in the space of the covariance.

        ``sqrt((y - mu)^T k^+ (y - mu))``: the RKHS norm under the estimated kernel.

        Args:
            values: ``n x M`` vectors.

        Returns:
            ``n`` norms; infinite where the deviation is not in the range of the covariance.
        """
        deviations = values - self.mean
        squared_lengths = self.root.square().sum(-1)
        products = deviations @ self.root.mT
        coordinates = products / squared_lengths
        outside = (deviations - coordinates @ self.root).norm(dim=-1)
        norms = (products * coordinates / squared_lengths).sum(-1).sqrt()
        scale = deviations.norm(dim=-1)
        return torch.where(outside > _OUTSIDE * scale, torch.inf, norms)

    def leave_one_out_norms(self) -> Tensor:
        r"""Norm of each training task under the prior estimated from the others.

        With ``a = N / (N - 1)`` and leverage ``q``, removing a task gives the squared norm
        ``(N - 2) a^2 q / (1 - a q)`` (Sherman-Morrison). Infinite where no other task
        reaches a direction of this one.
        """
        count = self.num_tasks
        ratio = count / (count - 1)
        rest = 1.0 - ratio * self.leverages
        squared = (count - 2) * ratio**2 * self.leverages / rest
        return torch.where(rest > _OUTSIDE, squared, torch.inf).sqrt()


def conformal_quantile(norms: Tensor, probability: float) -> float:
    r"""Value that one more exchangeable norm stays below with at least this probability.

    The ``ceil((n + 1) probability)``-th smallest of ``n`` norms (split conformal
    prediction, e.g. Lei et al. 2018, Theorem 2.1); nothing is assumed about their law.

    Raises:
        InputDataError: If there are too few norms for this probability, or too many are
            infinite.
    """
    position = math.ceil((len(norms) + 1) * probability - 1e-12)
    if position > len(norms):
        needed = math.ceil(probability / (1.0 - probability) - 1e-12)
        raise InputDataError(
            f"A norm bound that holds with probability {probability:g} needs at least "
            f"{needed} tasks, got {len(norms)}."
        )
    value = float(norms.sort().values[position - 1])
    if math.isinf(value):
        share = float(norms.isinf().double().mean())
        raise InputDataError(
            f"{share:.0%} of the tasks are not in the span of the others, so no norm bound "
            f"holds with probability {probability:g} under this prior. Use more training "
            "tasks, fewer candidates or features, or a lower probability."
        )
    return value
