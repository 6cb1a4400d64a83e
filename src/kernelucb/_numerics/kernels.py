r"""Kernel values whose accuracy does not depend on the other points of the call.

GPyTorch expands squared distances around the mean of all points in the call, so one far
point costs the others their digits. The standard stationary kernels, and scalings, sums
and products of them, are evaluated here from differences; other kernels by GPyTorch, with
the points on the right first, around whose mean it expands. ``fitting_reading`` compares
with GPyTorch, and takes GPyTorch's values where they differ.
"""

import math
import sys
from collections.abc import Callable
from functools import partial, reduce
from operator import add, attrgetter, mul
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import torch
from botorch.exceptions import InputDataError, UnsupportedError
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
from gpytorch.settings import lazily_evaluate_kernels
from torch import Tensor
from torch.autograd.function import BackwardCFunction

from kernelucb._numerics.arrays import safe_sqrt

_COMBINED: dict[Any, Callable[[Any, Any], Any]] = {AdditiveKernel: add, ProductKernel: mul}
# Stationary kernels, and their number beside the length scale, if any.
_STATIONARY: dict[Any, Callable[[Any], Any] | None] = {
    RBFKernel: None,
    MaternKernel: attrgetter("nu"),
    RQKernel: attrgetter("alpha"),
}

# Points at which readings are compared: rows of the data, as many mixed ones, and twice as
# many as there are steps. GPyTorch loses half the digits of distances beyond 25 of them.
_ROWS = 4
_STEPS = 8.0 ** np.arange(-6.0, 2.0)[:, None]  # in spreads of the data
# What modules of others raise at inputs that they do not take.
EVALUATION_ERRORS: tuple[type[Exception], ...] = (
    *(RuntimeError, LookupError, ValueError),
    *(TypeError, AttributeError, AssertionError),
)
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)  # its multiples modulo one are spread evenly
_EPS = float(np.finfo(np.float64).eps)


class Reading(Protocol):
    r"""A factor times a kernel as plain numbers, read once: later ones are not followed."""

    @property
    def variance(self) -> float | None:
        r"""The value at two equal inputs, where it is known to be the same everywhere."""
        ...

    @property
    def falls(self) -> bool:
        r"""Whether values surely fall with the distance along each input, from a constant.

        GPyTorch's ``is_stationary`` is no proof: it only asks whether there is a
        lengthscale.
        """
        ...

    @property
    def is_own(self) -> bool:
        r"""Whether the values are computed here, not by GPyTorch."""
        ...

    def values(self, left: Tensor, right: Tensor, pairs: bool = False) -> Tensor:
        r"""Values of ``n x d'`` and ``m x d'`` inputs, ``n x m``.

        A row does not depend on the other points on the left. With ``pairs`` the ``n``
        values of pairs of inputs.
        """
        ...


Reader = Callable[[Kernel, float], Reading]  # of a kernel and a factor


@torch.no_grad()
def read_kernel(kernel: Kernel, factor: float = 1.0) -> Reading:
    r"""The reading of a kernel: ours where we have one, else GPyTorch's values."""
    base: Any = kernel
    columns, scale = base.active_dims, factor
    if len(kernel.batch_shape) > 0:
        return Library(kernel, factor)
    while type(base) is ScaleKernel:  # the columns of its base are not selected
        base, scale = base.base_kernel, scale * float(base.outputscale)
    kind = type(base)
    if kind in _STATIONARY:
        shape_of = _STATIONARY[kind]
        shape = 0.0 if shape_of is None else float(shape_of(base))
        return Stationary(kind, columns, base.lengthscale.clone(), shape, scale)
    if kind is PeriodicKernel:
        lengthscale, period = base.lengthscale.clone(), base.period_length.clone()
        return Periodic(columns, lengthscale[..., 0, :], period[..., 0, :], scale)
    if kind is CategoricalKernel:
        return Categorical(columns, base.lengthscale.clone(), scale)
    if kind in _COMBINED:
        parts = tuple(map(read_kernel, base.kernels))
        return Combined(_COMBINED[kind], columns, parts, scale)
    return Library(kernel, factor)


@torch.no_grad()
def fitting_reading(kernel: Kernel, factor: float, inputs: Tensor) -> Reader:
    r"""Choose the first reading with GPyTorch's values at and far from some inputs.

    Our reading, GPyTorch's values, or these with pairs one by one: a function of kernel and
    factor.

    Args:
        kernel: A kernel of one output, without batch dimensions.
        factor: See ``read_kernel``.
        inputs: ``n x d`` inputs, ``n`` at least 1.

    Raises:
        UnsupportedError: If there is none.
    """
    if any(getattr(part, "grid_is_dynamic", False) for part in kernel.modules()):
        raise UnsupportedError(
            f"{type(kernel).__name__} has a grid that moves with the points it is asked "
            "about; give it grid_bounds."
        )
    inputs = inputs.detach().reshape(-1, inputs.shape[-1])
    readers: list[Reader] = [read_kernel, Library, partial(Library, one_by_one=True)]
    for reading in readers:
        if _agrees(reading(kernel, factor), kernel, factor, inputs):
            return reading
    raise UnsupportedError(
        f"{type(kernel).__name__} gives two points one covariance by themselves and "
        "another one beside other points, in the other order or on its diagonal; a bound "
        "needs a kernel that is a symmetric function of two points."
    )


def _agrees(
    read: Reading, kernel: Kernel, factor: float, inputs: Tensor, alone: bool = False
) -> bool:
    r"""Whether a reading has GPyTorch's values of single points, up to round-off.

    At the inputs ``alone`` where the kernel refuses others, such as one on candidates.
    """
    far = read.variance is not None
    points = torch.cat([inputs, inputs])[:_ROWS] if alone else _to_compare(inputs, far)
    count = 1 if read.is_own else 2
    firsts = points[:count].split(1)
    try:
        with lazily_evaluate_kernels(False):  # half the time for small matrices
            # Distances are centred on the single point on the left: no digits are lost.
            rows = torch.cat([kernel(first, points).to_dense() for first in firsts])
    except InputDataError:
        return not alone and _agrees(read, kernel, factor, inputs, alone=True)
    if rows.shape != (count, len(points)):
        return not read.is_own  # refused for its shape
    try:
        pairs = [read.values(first.expand_as(points), points, True) for first in firsts]
        single = read.values(firsts[0], firsts[-1], pairs=True)
    except (
        UnsupportedError,
        *EVALUATION_ERRORS,
    ):  # some take no `diag=True`, or not of one pair
        return False
    if single.shape != (1,):
        return False
    values = [factor * rows, torch.stack(pairs)]
    if read.is_own:
        values.append(read.values(firsts[0], points))
    expected, *found = torch.stack(values).cpu().numpy()
    found.append(expected.copy())
    found[-1][:, :count] = expected[:, :count].T  # is it symmetric?
    finite = np.isfinite(expected)  # others overflow, which is refused elsewhere
    # An input of `s` length scales is rounded by `s eps` of one of them, and a value by at
    # most that share of the largest one; root eps leaves room for 6e7 length scales.
    allowed = _EPS**0.5 * np.abs(expected[finite]).max(initial=0.0)
    return all(
        bool((np.abs(values_found[finite] - expected[finite]) <= allowed).all())
        for values_found in found
    )


def _to_compare(inputs: Tensor, far: bool) -> Tensor:
    r"""At most 24 points: some inputs, mixtures of their columns, and some near and far.

    Without ``far``, columns have values of the data alone, such as indices of categories.
    """
    rows = inputs[:: -(-len(inputs) // _ROWS)].cpu().numpy()
    count, dimension = rows.shape
    columns = np.arange(dimension)
    mixed = rows[(np.arange(count)[:, None] + columns) % count, columns]
    # A single index of a category stays a valid one.
    points = [rows, mixed if count > 1 else 0.9 * rows]
    if far:
        spread = np.ptp(rows, 0)
        steps = _STEPS * np.where(spread > 0.0, spread, 1.0)
        # Each column by another part of the step, and half of the columns not at all: a
        # short length scale must not hide the others.
        parts = _GOLDEN * np.outer(1 + np.arange(len(_STEPS)), 1 + columns) % 1.0
        points += [rows[:1] + steps * parts, rows[:1] + steps * parts * (parts < 0.5)]
    return torch.from_numpy(np.concatenate(points)).to(inputs)


class _SquaredDistances(torch.autograd.Function):
    r"""Squared distances of ``n x d`` and ``m x d`` points, ``n x m``."""

    @staticmethod
    def forward(ctx: BackwardCFunction, left: Tensor, right: Tensor) -> Tensor:  # pyright: ignore
        # One pass, without the differences as a tensor.
        mode = "donot_use_mm_for_euclid_dist"
        lengths = torch.cdist(left, right, compute_mode=mode)
        ctx.save_for_backward(left, right, lengths)
        return lengths.square()

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: BackwardCFunction, slope: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        # torch's stubs say that there is one of each.
        left, right, lengths = cast(tuple[Tensor, ...], ctx.saved_tensors)
        needs_left, needs_right = cast(tuple[bool, ...], ctx.needs_input_grad)
        # What torch has for ``cdist`` is one pass too, but has no derivative: where that is
        # asked for, the differences.
        if torch.is_grad_enabled():
            steps = 2.0 * slope.unsqueeze(-1) * (left.unsqueeze(-2) - right.unsqueeze(-3))
            return steps.sum(-2), -steps.sum(-3)
        found, slope = torch.ops.aten._cdist_backward, 2.0 * slope * lengths
        return (
            found(slope, left, right, 2.0, lengths) if needs_left else None,
            found(slope.mT, right, left, 2.0, lengths.mT) if needs_right else None,
        )


class Stationary(NamedTuple):
    r"""A stationary kernel."""

    kind: type[Kernel]  # of the unscaled kernel
    columns: Tensor | None  # input columns that it takes; None for all
    lengthscale: Tensor  # 1 x d' or 1 x 1
    shape: float  # nu of a Matern kernel, alpha of a rational quadratic one
    variance: float

    falls = is_own = True

    def values(self, left: Tensor, right: Tensor, pairs: bool = False) -> Tensor:
        if self.columns is not None:
            left, right = _selected(left, self.columns), _selected(right, self.columns)
        left, right = left / self.lengthscale, right / self.lengthscale
        if pairs:
            return self.of_squared((left - right).square().sum(-1))
        squared: Any = _SquaredDistances.apply(left, right)
        return self.of_squared(squared)

    def of_squared(self, squared: Tensor) -> Tensor:
        r"""Values at scaled squared distances."""
        if self.kind is RBFKernel:
            return self.variance * (-0.5 * squared).exp()
        if self.kind is RQKernel:
            base = 1.0 + squared / (2.0 * self.shape)
            return self.variance * base.pow(-self.shape)
        length = safe_sqrt(2.0 * self.shape * squared)
        if self.shape == 0.5:
            return self.variance * torch.exp(-length)
        factor = 1.0 + length
        if self.shape == 2.5:
            factor = factor + 5.0 / 3.0 * squared
        values = factor * torch.exp(-length)
        if squared.requires_grad:  # of equal points the root shows no slope
            slope = 0.5 * self.shape / (self.shape - 1.0)
            values = torch.where(squared > 0.0, values, 1.0 - slope * squared)
        return self.variance * values


class Periodic(NamedTuple):
    r"""From differences: GPyTorch subtracts after dividing, which costs digits far out."""

    columns: Tensor | None
    lengthscale: Tensor
    period: Tensor
    variance: float

    falls, is_own = False, True

    def values(self, left: Tensor, right: Tensor, pairs: bool = False) -> Tensor:
        left, right = _aligned(left, right, self.columns, pairs)
        squares = (math.pi * (left - right) / self.period).sin().square()
        return self.variance * torch.exp(-2.0 * (squares / self.lengthscale).sum(-1))


class Categorical(NamedTuple):
    r"""BoTorch's kernel of equal and unequal categories."""

    columns: Tensor | None
    lengthscale: Tensor
    variance: float

    falls = is_own = True

    def values(self, left: Tensor, right: Tensor, pairs: bool = False) -> Tensor:
        left, right = _aligned(left, right, self.columns, pairs)
        flat = 0.0 * (left.sum(-1) + right.sum(-1))  # optimisers ask for a gradient
        unequal = ((left != right) / self.lengthscale).mean(-1)
        return self.variance * torch.exp(-unequal) + flat


class Combined(NamedTuple):
    r"""A sum or a product of kernels, times a factor."""

    operation: Callable[[Any, Any], Any]
    columns: Tensor | None
    parts: tuple[Reading, ...]
    factor: float

    is_own = True

    @property
    def variance(self) -> float | None:
        variances = [part.variance for part in self.parts]
        if None in variances:
            return None
        return self.factor * reduce(self.operation, variances)

    @property
    def falls(self) -> bool:
        return all(part.falls for part in self.parts)

    def values(self, left: Tensor, right: Tensor, pairs: bool = False) -> Tensor:
        left, right = _selected(left, self.columns), _selected(right, self.columns)
        values = (part.values(left, right, pairs) for part in self.parts)
        return self.factor * reduce(self.operation, values)


class Library(NamedTuple):
    r"""A kernel that GPyTorch evaluates."""

    kernel: Any
    factor: float
    one_by_one: bool = False  # as `diag=True` gives some kernels other values

    variance = None
    falls = is_own = False

    def values(self, left: Tensor, right: Tensor, pairs: bool = False) -> Tensor:
        if pairs and self.one_by_one:
            single = self.kernel(left.unsqueeze(-2), right.unsqueeze(-2)).to_dense()
            return self.factor * single.squeeze(-1).squeeze(-1)
        if pairs:
            return self.factor * self.kernel(left, right, diag=True)
        # GPyTorch centres distances on its first argument: not on the queries, of which
        # one that is far away would round the values of all others.
        return self.factor * self.kernel(right, left).to_dense().mT


def allowed_columns(kernel: Kernel) -> range:
    r"""The numbers of input columns that a kernel takes; any where it does not say."""
    parts: list[Any] = [kernel, *kernel.sub_kernels()]
    active = [int(p.active_dims.max()) for p in parts if p.active_dims is not None]
    if active:
        return range(1 + max(active), sys.maxsize)
    scaled = [p.ard_num_dims for p in parts if p.ard_num_dims is not None]
    return range(scaled[0], scaled[0] + 1) if scaled else range(1, sys.maxsize)


def _selected(inputs: Tensor, columns: Tensor | None) -> Tensor:
    return inputs if columns is None else inputs.index_select(-1, columns)


def _aligned(
    left: Tensor, right: Tensor, columns: Tensor | None, pairs: bool
) -> tuple[Tensor, Tensor]:
    r"""Selected columns of both, to be broadcast against each other but for pairs."""
    left, right = _selected(left, columns), _selected(right, columns)
    return (left, right) if pairs else (left.unsqueeze(-2), right.unsqueeze(-3))
