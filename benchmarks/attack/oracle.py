r"""Kernels and means in extended precision, from differences: what GPyTorch rounds."""

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from gpytorch import kernels
from gpytorch.means import ConstantMean, LinearMean, Mean

Array = np.ndarray


def extended(values: Any) -> Array:
    r"""A tensor in extended precision, as it is."""
    return values.detach().double().numpy().astype(np.longdouble)


def covariance(kernel: Any, left: Array, right: Array) -> Array:
    r"""``n x m`` covariances of a float64 GPyTorch kernel."""
    # A scaled kernel repeats the active columns of its base.
    if kernel.active_dims is not None and not isinstance(kernel, kernels.ScaleKernel):
        columns = kernel.active_dims.numpy()
        left, right = left[:, columns], right[:, columns]
    if isinstance(kernel, kernels.ScaleKernel):
        inner = covariance(kernel.base_kernel, left, right)
        return extended(kernel.outputscale) * inner
    if isinstance(kernel, (kernels.AdditiveKernel, kernels.ProductKernel)):
        parts = (covariance(each, left, right) for each in kernel.kernels)
        combine = np.add if isinstance(kernel, kernels.AdditiveKernel) else np.multiply
        return reduce(combine, parts)
    return _FORMULAS[type(kernel)](kernel, left, right)


def mean(module: Mean | None, inputs: Array) -> Array:
    r"""``n`` values of a prior mean; zero for None and ``ZeroMean``."""
    if isinstance(module, ConstantMean):
        return np.full(len(inputs), extended(module.constant))
    if isinstance(module, LinearMean):
        weights = extended(module.get_parameter("weights")).reshape(-1)
        return inputs @ weights + extended(module.get_parameter("bias")).reshape(())
    return np.zeros(len(inputs), dtype=np.longdouble)


def _squared_distance(kernel: kernels.Kernel, left: Array, right: Array) -> Array:
    length = extended(kernel.lengthscale)
    gaps = (left[:, None, :] - right[None, :, :]) / length
    return (gaps**2).sum(-1)


def _rbf(kernel: kernels.Kernel, left: Array, right: Array) -> Array:
    return np.exp(-_squared_distance(kernel, left, right) / 2)


def _rational(kernel: kernels.RQKernel, left: Array, right: Array) -> Array:
    alpha = extended(kernel.alpha).reshape(())
    return (1 + _squared_distance(kernel, left, right) / (2 * alpha)) ** -alpha


def _matern(kernel: kernels.MaternKernel, left: Array, right: Array) -> Array:
    nu = np.longdouble(2 * kernel.nu)
    r = np.sqrt(nu * _squared_distance(kernel, left, right))
    factor = {0.5: 1.0, 1.5: 1 + r, 2.5: 1 + r + r**2 / 3}[kernel.nu]
    return factor * np.exp(-r)


def _linear(kernel: kernels.LinearKernel, left: Array, right: Array) -> Array:
    return (left * extended(kernel.variance).reshape(1, -1)) @ right.T


def _polynomial(kernel: kernels.PolynomialKernel, left: Array, right: Array) -> Array:
    return (left @ right.T + extended(kernel.offset).reshape(())) ** kernel.power


def _periodic(kernel: kernels.PeriodicKernel, left: Array, right: Array) -> Array:
    period, length = extended(kernel.period_length), extended(kernel.lengthscale)
    turns = (left[:, None, :] - right[None, :, :]) / period
    turns -= np.rint(turns)
    pi = np.arctan(np.longdouble(1)) * 4
    return np.exp(-2 * (np.sin(pi * turns) ** 2 / length).sum(-1))


_FORMULAS: dict[type, Callable] = {
    kernels.RBFKernel: _rbf,
    kernels.RQKernel: _rational,
    kernels.MaternKernel: _matern,
    kernels.LinearKernel: _linear,
    kernels.PolynomialKernel: _polynomial,
    kernels.PeriodicKernel: _periodic,
}
