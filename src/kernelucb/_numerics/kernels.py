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

from kernelucb._numerics.arrays import safe_sqrt

_COMBINED: dict[Any, Callable[[Any, Any], Any]] = {AdditiveKernel: add, ProductKernel: mul}
# Stationary kernels, and the parameter beside the length scale.
_STATIONARY: dict[Any, str] = {RBFKernel: "", MaternKernel: "nu", RQKernel: "alpha"}


@torch.no_grad()
def read_kernel(
    kernel: Any, factor: float = 1.0
) -> "Stationary | Periodic | Combined | Library":
    r"""A factor times a kernel as plain numbers, read once: later ones are not followed.

    ``values(left, right)`` are those of ``n x d'`` and ``m x d'`` inputs, ``n x m``; a row
    does not depend on the other points on the left. With ``pairs=True`` they are ``n``
    values of pairs of inputs. ``variance`` is the value at two equal inputs, where it is
    known to be the same everywhere.
    """
    kind, columns = type(kernel), kernel.active_dims
    if len(kernel.batch_shape) > 0:
        return Library(kernel, factor)
    if kind is ScaleKernel:  # its columns are those of its base
        return read_kernel(kernel.base_kernel, factor * float(kernel.outputscale))
    if kind in _STATIONARY:
        shape = float(getattr(kernel, _STATIONARY[kind])) if _STATIONARY[kind] else 0.0
        return Stationary(kind, columns, kernel.lengthscale.clone(), shape, factor)
    if kind is PeriodicKernel:
        lengthscale, period = kernel.lengthscale.clone(), kernel.period_length.clone()
        return Periodic(columns, lengthscale[..., 0, :], period[..., 0, :], factor)
    if kind in _COMBINED:
        parts = tuple(map(read_kernel, kernel.kernels))
        return Combined(_COMBINED[kind], columns, parts, factor)
    return Library(kernel, factor)


class Stationary(NamedTuple):
    r"""A stationary kernel."""

    kind: type[Kernel]  # of the unscaled kernel
    columns: Tensor | None  # input columns that it takes; None for all
    lengthscale: Tensor  # 1 x d' or 1 x 1
    shape: float  # nu of a Matern kernel, alpha of a rational quadratic one
    variance: float

    def values(self, left: Tensor, right: Tensor, pairs: bool = False) -> Tensor:
        r"""See ``read_kernel``; twice differentiable."""
        left = _selected(left, self.columns) / self.lengthscale
        right = _selected(right, self.columns) / self.lengthscale
        if pairs:
            return self.of_squared((left - right).square().sum(-1))
        if torch.is_grad_enabled() and (left.requires_grad or right.requires_grad):
            return _StationaryValues.apply(self, left, right)
        return self.of_squared(_squared_distances(left, right))

    def of_squared(self, squared: Tensor) -> Tensor:
        r"""Values at scaled squared distances, whose memory may be used again."""
        if self.kind is RBFKernel:
            inplace = not squared.requires_grad
            exponent = squared.mul_(-0.5) if inplace else -0.5 * squared
            return self.variance * (exponent.exp_() if inplace else exponent.exp())
        if self.kind is RQKernel:
            base = 1.0 + squared / (2.0 * self.shape)
            return self.variance * base.pow(-self.shape)
        length = safe_sqrt(2.0 * self.shape * squared)
        if self.shape == 0.5:
            return self.variance * torch.exp(-length)
        factor = 1.0 + length
        if self.shape == 2.5:
            factor = factor + 5.0 / 3.0 * squared
        return self.variance * (factor * torch.exp(-length))

    def slopes(self, squared: Tensor) -> Tensor:
        r"""Derivatives in the scaled squared distances; zero where they are infinite."""
        if self.kind is RBFKernel:
            return (-0.5 * self.variance) * torch.exp(-0.5 * squared)
        if self.kind is RQKernel:
            base = 1.0 + squared / (2.0 * self.shape)
            return (-0.5 * self.variance) * base.pow(-self.shape - 1.0)
        length = safe_sqrt(2.0 * self.shape * squared)
        decay = (-self.shape * self.variance) * torch.exp(-length)
        if self.shape == 0.5:
            return torch.where(length > 0.0, decay / length.where(length > 0.0, 1.0), 0.0)
        return decay if self.shape == 1.5 else decay * (1.0 + length) / 3.0


class Periodic(NamedTuple):
    r"""From differences: GPyTorch subtracts after dividing, which costs digits far out."""

    columns: Tensor | None
    lengthscale: Tensor
    period: Tensor
    variance: float

    def values(self, left: Tensor, right: Tensor, pairs: bool = False) -> Tensor:
        r"""See ``read_kernel``."""
        left, right = _selected(left, self.columns), _selected(right, self.columns)
        if not pairs:
            left, right = left.unsqueeze(-2), right.unsqueeze(-3)
        squares = (math.pi * (left - right) / self.period).sin().square()
        return self.variance * torch.exp(-2.0 * (squares / self.lengthscale).sum(-1))


class Combined(NamedTuple):
    r"""A sum or a product of kernels, times a factor."""

    operation: Callable[[Any, Any], Any]
    columns: Tensor | None
    parts: tuple[Any, ...]
    factor: float

    @property
    def variance(self) -> float | None:
        r"""See ``read_kernel``."""
        variances = [part.variance for part in self.parts]
        if None in variances:
            return None
        return self.factor * reduce(self.operation, variances)

    def values(self, left: Tensor, right: Tensor, pairs: bool = False) -> Tensor:
        r"""See ``read_kernel``."""
        left, right = _selected(left, self.columns), _selected(right, self.columns)
        values = (part.values(left, right, pairs) for part in self.parts)
        return self.factor * reduce(self.operation, values)


class Library(NamedTuple):
    r"""A kernel that GPyTorch evaluates."""

    kernel: Any
    factor: float
    variance: None = None

    def values(self, left: Tensor, right: Tensor, pairs: bool = False) -> Tensor:
        r"""See ``read_kernel``."""
        if pairs:
            return self.factor * self.kernel(left, right, diag=True)
        # GPyTorch centres distances on its first argument: not on the queries, of which
        # one that is far away would round the values of all others.
        return self.factor * self.kernel(right, left).to_dense().mT


def constant_variance(kernel: Kernel) -> bool:
    r"""Whether values surely fall with the distance along each input, from a constant.

    GPyTorch's ``is_stationary`` is no proof: it only asks whether there is a lengthscale.
    """
    while type(kernel) is ScaleKernel:  # a subclass may be anything
        kernel = kernel.base_kernel
    if type(kernel) in _COMBINED:
        parts: Any = kernel
        return all(constant_variance(part) for part in parts.kernels)
    return type(kernel) in (CategoricalKernel, *_STATIONARY)


def _selected(inputs: Tensor, columns: Tensor | None) -> Tensor:
    return inputs if columns is None else inputs.index_select(-1, columns)


def _squared_distances(left: Tensor, right: Tensor) -> Tensor:
    mode = "donot_use_mm_for_euclid_dist"
    return torch.cdist(left, right, compute_mode=mode).square_()


class _StationaryValues(torch.autograd.Function):
    r"""Values of a stationary kernel at scaled inputs; gradients by matrix products."""

    @staticmethod
    def forward(ctx: Any, kernel: Stationary, left: Tensor, right: Tensor) -> Tensor:
        squared = _squared_distances(left, right)
        ctx.kernel = kernel
        ctx.save_for_backward(left, right, kernel.slopes(squared))
        return kernel.of_squared(squared)

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grad_outputs: Tensor
    ) -> tuple[Tensor | None, ...]:
        left, right, slopes = ctx.saved_tensors
        if torch.is_grad_enabled():  # for second derivatives, slopes are a function as well
            differences = left.unsqueeze(-2) - right.unsqueeze(-3)
            slopes = ctx.kernel.slopes(differences.square().sum(-1))
        return None, *_distance_gradients(
            left, right, grad_outputs[0] * slopes, ctx.needs_input_grad[1:]
        )


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
