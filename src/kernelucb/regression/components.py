r"""A prior that is a sum over groups of inputs, and what the data say of each summand."""

from typing import Any, NamedTuple

import torch
from botorch.models.transforms.input import ChainedInputTransform, OneHotToNumeric
from gpytorch.kernels import AdditiveKernel, Kernel, ScaleKernel
from torch import Tensor

from kernelucb._numerics import kernels
from kernelucb._numerics.features import split_variance
from kernelucb.regression.exact import KernelRegression
from kernelucb.regression.prior import Prior
from kernelucb.regression.projection import Projection


class Component(NamedTuple):
    r"""A summand of the prior covariance, on inputs that no other summand has.

    Attributes:
        terms: Kernels and their factors, outcome units squared.
        columns: Input columns that they depend on.
    """

    terms: tuple[tuple[float, Kernel], ...]
    columns: frozenset[int]

    def covariance(self, left: Tensor, right: Tensor) -> Tensor:
        r"""Values of ``n x d'`` and ``m x d'`` kernel inputs, ``n x m``."""
        parts = [c * kernels.covariance(kernel, left, right) for c, kernel in self.terms]
        return torch.stack(parts).sum(0)

    def squared_metric(self, left: Tensor, right: Tensor) -> Tensor:
        r"""``||k(x, .) - k(x', .)||^2`` of ``n`` pairs of kernel inputs, rounded up."""

        def value(first: Tensor, second: Tensor) -> Tensor:
            parts = [c * kernels.diagonal(k, first, second) for c, k in self.terms]
            return torch.stack(parts).sum(0)

        whole = value(left, left) + value(right, right)
        rounding = 8.0 * torch.finfo(whole.dtype).eps * whole
        return (whole - 2.0 * value(left, right) + rounding).clamp_min(0.0)

    def difference(
        self, state: KernelRegression, inputs: Tensor, reference: Tensor
    ) -> Projection:
        r"""The functional ``f_j(x) - f_j(x')`` for ``b`` kernel inputs and one other.

        Of the summand ``f_j`` in the decomposition of ``f`` with the least sum of squared
        norms, which is the squared norm of ``f``: what the data say of it follows from its
        covariance with them, as for ``f`` itself.
        """
        sections = state.distinct_inputs
        change = self.covariance(inputs, sections) - self.covariance(reference, sections)
        prior_variance = self.squared_metric(inputs, reference.expand_as(inputs))
        unlimited = torch.full_like(prior_variance, torch.inf)
        features, rest = split_variance(
            change @ state.feature_basis, prior_variance, unlimited
        )
        nothing = torch.zeros_like(prior_variance)
        return Projection(inputs, nothing, prior_variance, features, rest)


def additive_components(prior: Prior) -> list[Component]:
    r"""Summands of the prior covariance on inputs of their own; empty if there is one only.

    Raw columns are those of the kernel, so transforms that move them give none.
    """
    transform = prior.input_transform
    chain = type(transform) is ChainedInputTransform
    steps = list(transform.values()) if chain else [transform]
    if any(isinstance(step, OneHotToNumeric) for step in steps):
        return []
    groups: list[Component] = []
    for factor, kernel in _terms(prior.covar_module, prior.scale**2):
        active: Any = kernel.active_dims
        if active is None:
            return []
        columns = frozenset(active.tolist())
        shared = [group for group in groups if group.columns & columns]
        groups = [group for group in groups if not group.columns & columns]
        terms = [term for group in shared for term in group.terms]
        joined = columns.union(*(group.columns for group in shared))
        groups.append(Component((*terms, (factor, kernel)), joined))
    return groups if len(groups) > 1 else []


def _terms(kernel: Any, factor: float) -> list[tuple[float, Any]]:
    r"""Summands of a kernel, each times its scales."""
    is_sum = type(kernel) is AdditiveKernel
    if is_sum and getattr(kernel, "active_dims", None) is None:
        return [term for part in kernel.kernels for term in _terms(part, factor)]
    if type(kernel) is ScaleKernel and type(kernel.base_kernel) is AdditiveKernel:
        return _terms(kernel.base_kernel, factor * float(kernel.outputscale))
    return [(factor, kernel)]
