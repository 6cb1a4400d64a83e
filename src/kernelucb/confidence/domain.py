r"""Where an assumption was given: everywhere, or at listed points."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb.data.prior import Prior

_CLOSE = 1e-6  # of the shortest length scale: how near a listed point is that point


class Everywhere:
    r"""All points; a part of them is a subclass."""

    is_listed = False

    def covers(self, X: Tensor | None) -> bool:
        r"""Whether all of ``n x d`` points belong to it; None stands for a box."""
        return True

    def mask(self, X: Tensor) -> Tensor:
        r"""Which of ``... x d`` points belong to it, ``...`` booleans."""
        return torch.ones(X.shape[:-1], dtype=torch.bool, device=X.device)


@dataclass(frozen=True, eq=False)
class ListedPoints(Everywhere):
    r"""Listed points, and nothing between them.

    A point is a listed one if each of its kernel inputs is within a millionth of the
    kernel's shortest length scale (of 1, for a kernel without length scales).

    Attributes:
        inputs: ``N x d'`` kernel inputs, those of ``prior.transform``.
        prior: Gives kernel inputs and length scales.
    """

    inputs: Tensor
    prior: Prior

    is_listed = True

    @classmethod
    def of(cls, points: Tensor, prior: Prior) -> "ListedPoints":
        r"""A list of ``N x d`` raw points."""
        return cls(prior.transform(points.detach().double()), prior)

    @classmethod
    def common(cls, tasks: Sequence[Tensor], prior: Prior) -> "ListedPoints | None":
        r"""The points that several tasks share; None unless all have the same ones."""
        first, *others = [cls.of(points, prior) for points in tasks]
        same = (
            bool(first.mask_of_inputs(each.inputs).all())
            and bool(each.mask_of_inputs(first.inputs).all())
            for each in others
        )
        return first if all(same) else None

    def covers(self, X: Tensor | None) -> bool:
        return X is not None and bool(self.mask(X).all())

    def mask(self, X: Tensor) -> Tensor:
        rows = X.detach().reshape(-1, X.shape[-1]).double()
        return self.mask_of_inputs(self.prior.transform(rows)).reshape(X.shape[:-1])

    def mask_of_inputs(self, inputs: Tensor) -> Tensor:
        r"""``mask`` of ``n x d'`` kernel inputs."""
        listed = self.inputs.to(inputs)

        def nearest(part: Tensor) -> Tensor:
            return torch.cdist(part, listed, p=torch.inf).amin(-1)

        return in_parts(inputs, nearest) <= _CLOSE * self.prior.shortest_lengthscale


EVERYWHERE = Everywhere()
