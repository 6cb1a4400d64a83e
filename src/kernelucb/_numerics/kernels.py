r"""Kernel values whose accuracy does not depend on the other points of the call.

GPyTorch expands squared distances around the mean of all points in the call, so one far
point costs the others their digits. The standard stationary kernels, and scalings, sums
and products of them, are evaluated here from differences; other kernels by GPyTorch, with
the points on the right first, around whose mean it expands.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import add, mul
from typing import Any, NamedTuple

import torch
from botorch.exceptions import UnsupportedError
from botorch.models.kernels import CategoricalKernel
from gpytorch.kernels import (
    AdditiveKernel,
    Kernel,
    MaternKernel,
    PeriodicKernel,
    ProductKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)
from torch import Tensor
from torch.autograd.function import once_differentiable

from kernelucb._numerics.arrays import safe_sqrt

_Distance = Callable[[Tensor, Tensor], Tensor]
_COMBINED = {AdditiveKernel: add, ProductKernel: mul}


def covariance(kernel: Kernel, left: Tensor, right: Tensor) -> Tensor:
    r"""Kernel values of ``n x d'`` and ``m x d'`` inputs, ``n x m``.

    A row does not depend on the other points on the left.
    """
    return _values(kernel, left, right, _squared_distances)


def diagonal(kernel: Kernel, left: Tensor, right: Tensor) -> Tensor:
    r"""Kernel values of ``n`` pairs of inputs, both ``n x d'``."""
    return _values(kernel, left, right, _squared_lengths)


class Stationary(NamedTuple):
    r"""A stationary kernel as plain numbers, read once: later ones are not followed."""

    kind: type[Kernel]  # of the unscaled kernel
    columns: Tensor | None  # input columns that it takes; None for all
    lengthscale: Tensor  # 1 x d' or 1 x 1
    shape: float  # nu of a Matern kernel, alpha of a rational quadratic one
    variance: float  # kernel value of two equal inputs

    @classmethod
    @torch.no_grad()
    def of(cls, kernel: Any) -> "Stationary | None":
        r"""The kernel's numbers; None if it is none of these, which take any scaling."""
        if not _is_own(kernel):
            return None
        variance, columns = 1.0, kernel.active_dims
        while type(kernel) is ScaleKernel:
            variance *= float(kernel.outputscale)
            kernel = kernel.base_kernel
        kind = type(kernel)
        if kind not in _STATIONARY:
            return None
        shape = float(getattr(kernel, _SHAPES[kind])) if kind in _SHAPES else 0.0
        return cls(kind, columns, kernel.lengthscale.clone(), shape, variance)

    def covariance(self, left: Tensor, right: Tensor) -> Tensor:
        r"""Values of ``n x d'`` and ``m x d'`` inputs, ``n x m``; differentiable once."""
        left, right = self._scaled(left), self._scaled(right)
        if torch.is_grad_enabled() and (left.requires_grad or right.requires_grad):
            return _StationaryValues.apply(self, left, right)
        return self.variance * self._of(_squared_distances(left, right))

    def diagonal(self, left: Tensor, right: Tensor) -> Tensor:
        r"""Values of ``n`` pairs of inputs, both ``n x d'``."""
        left, right = self._scaled(left), self._scaled(right)
        return self.variance * self._of(_squared_lengths(left, right))

    def slopes(self, squared: Tensor) -> Tensor:
        r"""Derivatives in the scaled squared distances; zero where they are infinite."""
        if self.kind is RBFKernel:
            return (-0.5 * self.variance) * torch.exp(-0.5 * squared)
        if self.kind is RQKernel:
            base = 1.0 + squared / (2.0 * self.shape)
            return (-0.5 * self.variance) * base.pow(-self.shape - 1.0)
        length = (2.0 * self.shape * squared).sqrt()
        decay = (-self.shape * self.variance) * torch.exp(-length)
        if self.shape == 0.5:
            return torch.where(length > 0.0, decay / length, 0.0)
        return decay if self.shape == 1.5 else decay * (1.0 + length) / 3.0

    def scaled(self, factor: float) -> "Stationary":
        r"""The kernel times a factor."""
        return self._replace(variance=factor * self.variance)

    def _scaled(self, inputs: Tensor) -> Tensor:
        if self.columns is not None:
            inputs = inputs.index_select(-1, self.columns)
        return inputs / self.lengthscale

    def _of(self, squared: Tensor) -> Tensor:
        return _STATIONARY[self.kind](self.shape, squared)


def constant_variance(kernel: Kernel) -> bool:
    r"""Whether the prior variance is known to be the same everywhere.

    GPyTorch's ``is_stationary`` is no proof: it only asks whether there is a lengthscale.
    """
    while type(kernel) is ScaleKernel:  # a subclass may be anything
        kernel = kernel.base_kernel
    if type(kernel) in _COMBINED:
        parts: Any = kernel
        return all(constant_variance(part) for part in parts.kernels)
    return type(kernel) in (CategoricalKernel, *_STATIONARY)


@torch.no_grad()
def check_fits(kernel: Any, mean: Any, inputs: Tensor) -> None:
    r"""Check that a kernel and a mean (or None) take such inputs and give one value each.

    Of the ``n x d'`` inputs, only the first one is tried.

    Raises:
        UnsupportedError: If they do not take them, or give several values.
    """
    point = inputs[:1]
    parts = {
        "kernel": (kernel, lambda: covariance(kernel, point, point), (1, 1)),
        "kernel's diagonal": (kernel, lambda: diagonal(kernel, point, point), (1,)),
        "mean": (mean, lambda: point[:, 0] if mean is None else mean(point), (1,)),
    }
    for name, (module, value, wanted) in parts.items():
        try:
            shape = tuple(value().shape)
        except (RuntimeError, IndexError) as error:
            raise UnsupportedError(
                f"{type(module).__name__} does not take inputs of {point.shape[-1]} "
                f"columns: {error}"
            ) from error
        if len(point) and shape != wanted:
            raise UnsupportedError(
                f"The {name} {type(module).__name__} gives shape {shape} for one point, "
                f"not {wanted}; a bound is for one value for each pair of points (no "
                "derivatives, no tasks, no batches)."
            )


def _values(kernel: Any, left: Tensor, right: Tensor, distance: _Distance) -> Tensor:
    if kernel.active_dims is not None and _is_own(kernel):
        left = left.index_select(-1, kernel.active_dims)
        right = right.index_select(-1, kernel.active_dims)
    return _on_active_columns(kernel, left, right, distance)


def _on_active_columns(
    kernel: Any, left: Tensor, right: Tensor, distance: _Distance
) -> Tensor:
    if not _is_own(kernel):
        if distance is _squared_lengths:
            return kernel(left, right, diag=True)
        return kernel(right, left).to_dense().mT
    kind = type(kernel)
    if kind is ScaleKernel:  # its columns are those of its base
        base = _on_active_columns(kernel.base_kernel, left, right, distance)
        return kernel.outputscale * base
    if kind in _COMBINED:
        parts = (_values(part, left, right, distance) for part in kernel.kernels)
        return reduce(_COMBINED[kind], parts)
    if kind is PeriodicKernel:
        return _periodic(kernel, left, right, distance)
    shape = getattr(kernel, _SHAPES[kind]) if kind in _SHAPES else 0.0
    lengthscale = kernel.lengthscale
    return _STATIONARY[kind](shape, distance(left / lengthscale, right / lengthscale))


def _is_own(kernel: Any) -> bool:
    r"""Whether the outermost kernel is evaluated here."""
    if len(kernel.batch_shape) > 0:
        return False
    if type(kernel) is ScaleKernel:
        return _is_own(kernel.base_kernel)
    return type(kernel) in {PeriodicKernel, *_COMBINED, *_STATIONARY}


def _periodic(kernel: Any, left: Tensor, right: Tensor, distance: _Distance) -> Tensor:
    r"""From differences: GPyTorch subtracts after dividing, which costs digits far out."""
    if distance is _squared_distances:
        left, right = left.unsqueeze(-2), right.unsqueeze(-3)
    turns = math.pi * (left - right) / kernel.period_length[..., 0, :]
    return torch.exp(-2.0 * (turns.sin().square() / kernel.lengthscale[..., 0, :]).sum(-1))


def _rbf(_: Any, squared: Tensor) -> Tensor:
    if squared.requires_grad:
        return torch.exp(-0.5 * squared)
    return squared.mul_(-0.5).exp_()


def _matern(nu: float, squared: Tensor) -> Tensor:
    length = safe_sqrt(2.0 * nu * squared)
    if nu == 0.5:
        return torch.exp(-length)
    factor = 1.0 + length
    if nu == 2.5:
        factor = factor + 5.0 / 3.0 * squared
    return factor * torch.exp(-length)


def _rational_quadratic(alpha: Any, squared: Tensor) -> Tensor:
    return (1.0 + squared / (2.0 * alpha)).pow(-alpha)


_STATIONARY: dict[Any, Callable[[Any, Tensor], Tensor]] = {
    RBFKernel: _rbf,
    MaternKernel: _matern,
    RQKernel: _rational_quadratic,
}
_SHAPES: dict[Any, str] = {MaternKernel: "nu", RQKernel: "alpha"}


def _squared_lengths(left: Tensor, right: Tensor) -> Tensor:
    return (left - right).square().sum(-1)


def _squared_distances(left: Tensor, right: Tensor) -> Tensor:
    return _SquaredDistances.apply(left, right)


class _SquaredDistances(torch.autograd.Function):
    r"""Squared distances by differences, twice differentiable by matrix products."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(left, right)
        mode = "donot_use_mm_for_euclid_dist"
        return torch.cdist(left, right, compute_mode=mode).square_()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (grad,), (left, right) = grad_outputs, ctx.saved_tensors
        return _distance_gradients(left, right, grad, ctx.needs_input_grad)


def _distance_gradients(
    left: Tensor, right: Tensor, grad: Tensor, needed: Sequence[bool]
) -> tuple[Tensor | None, Tensor | None]:
    r"""Gradients of squared distances in both points, where they are needed."""
    centre = right.mean(-2, keepdim=True)
    left, right = left - centre, right - centre
    left_grad = right_grad = None
    if needed[0]:
        left_grad = 2.0 * (left * grad.sum(-1, keepdim=True) - grad @ right)
    if needed[1]:
        right_grad = 2.0 * (right * grad.sum(-2).unsqueeze(-1) - grad.mT @ left)
    return left_grad, right_grad


class _StationaryValues(torch.autograd.Function):
    r"""Values of a stationary kernel at scaled inputs, in one step."""

    @staticmethod
    def forward(ctx: Any, kernel: Stationary, left: Tensor, right: Tensor) -> Tensor:
        squared = _squared_distances(left, right)
        ctx.save_for_backward(left, right, kernel.slopes(squared))
        return kernel.variance * _STATIONARY[kernel.kind](kernel.shape, squared)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        left, right, slopes = ctx.saved_tensors
        needed = ctx.needs_input_grad[1:]
        return None, *_distance_gradients(left, right, grad_outputs[0] * slopes, needed)
