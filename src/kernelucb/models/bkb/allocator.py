r"""The inducing points of BKB for BoTorch's own variational GP."""

import logging
import math
from typing import Any, NamedTuple

import torch
from botorch.models.utils.inducing_point_allocators import (
    InducingPointAllocator,
    QualityFunction,
    UnitQualityFunction,
)
from gpytorch.kernels import Kernel
from scipy.optimize import brentq
from torch import Tensor

from kernelucb._numerics.checks import finite, positive_scalar
from kernelucb.regression.lowrank.basis import Basis, EigenBasis
from kernelucb.regression.lowrank.dtc import draw_some, first_state, uniform_numbers
from kernelucb.regression.lowrank.sketch import Sketch
from kernelucb.regression.prior import Prior

_LOG = logging.getLogger(__name__)
_OVERSAMPLING = 2.0  # points for each effective dimension
_ROWS = 4096  # inputs that are worked on together


class BKBInducingPointAllocator(InducingPointAllocator):
    r"""Draws inducing points by their posterior variance, at cost ``O(n m^2)``.

    BoTorch asks for a number of points ``m``, so each draw has a fixed size. The variances
    come from ``m`` points drawn among half of the inputs, theirs from a quarter, and so on.
    Where there are not two points for each effective dimension, the variances are those of
    a larger noise at which there are: otherwise all points would be drawn where there are
    none yet. An input that comes several times is drawn once at most, but is more probable.

    Source: Calandriello et al. (2019), Algorithm 1; Musco & Musco (2017) for halves and for
    the larger noise; Ohlsson (1998) for draws of fixed size.

    Example:
        >>> allocator = BKBInducingPointAllocator(alpha=0.01)
        >>> model = SingleTaskVariationalGP(
        ...     train_X, train_Y, inducing_points=100, inducing_point_allocator=allocator,
        ...     learn_inducing_points=False)
    """

    def __init__(self, alpha: float, seed: int = 0) -> None:
        r"""Allocator.

        Args:
            alpha: Ridge parameter: the expected variance of the noise, in the units of
                the kernel.
            seed: Seed of the draws; each call starts from it.

        Raises:
            ValueError: If a number is out of its range.
        """
        self.alpha = positive_scalar("alpha", alpha)
        self.seed = seed

    def _get_quality_function(self) -> QualityFunction:
        return UnitQualityFunction()

    @torch.no_grad()
    def allocate_inducing_points(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        inputs: Tensor,
        covar_module: Kernel,
        num_inducing: int,
        input_batch_shape: torch.Size,
    ) -> Tensor:
        r"""Inducing points for BoTorch; see ``InducingPointAllocator``.

        Args:
            inputs: ``batch_shape x n x d`` inputs.
            covar_module: Kernel; of several (one for each outcome) the first counts.
            num_inducing: Number of inducing points, at most; fewer only where there are
                fewer distinct inputs.
            input_batch_shape: Batch shape of the inputs.

        Returns:
            ``batch_shape x m x d`` inducing points.
        """
        finite("inputs", inputs)
        kernel = covar_module
        if len(kernel.batch_shape) > 0:
            kernel = kernel[(0,) * len(kernel.batch_shape)]
        if len(input_batch_shape) == 0:
            single = inputs[0] if inputs.dim() == 3 else inputs
            return self._allocate(single, kernel, num_inducing)
        batches = inputs.expand(*input_batch_shape, *inputs.shape[-2:]).flatten(end_dim=-3)
        drawn = [self._allocate(batch, kernel, num_inducing) for batch in batches]
        count = min(map(len, drawn))
        points = torch.stack([part[:count] for part in drawn])
        return points.reshape(*input_batch_shape, count, inputs.shape[-1])

    def _allocate(self, inputs: Tensor, kernel: Kernel, num_inducing: int) -> Tensor:
        prior = Prior(kernel).to(inputs.device)
        distinct, counts = inputs.double().unique(dim=0, return_counts=True)
        uniform, state = uniform_numbers(len(distinct), first_state(self.seed))
        order = uniform.argsort().to(inputs.device)
        distinct, counts = distinct[order], counts[order].double()
        chosen, seen = distinct[:num_inducing], num_inducing
        while len(chosen) < len(distinct):
            sketch = _Candidates.of(prior, chosen, distinct[:seen], counts[:seen])
            alpha = sketch.ridge_parameter(self.alpha, len(chosen) / _OVERSAMPLING)
            last, seen = seen >= len(distinct), 2 * seen
            weights = counts[:seen] * sketch.variances(distinct[:seen], alpha)
            index, state = draw_some(weights, num_inducing, state)
            chosen = distinct[index]
            _LOG.debug("%d inducing points for %d inputs.", len(chosen), len(weights))
            if last:
                break
        _LOG.info(
            "%d of %d distinct inputs became inducing points (at most %d were asked for).",
            *(len(chosen), len(distinct), num_inducing),
        )
        return chosen.to(inputs)


class _Candidates(NamedTuple):
    r"""Variances in the span of the points chosen so far, at any ridge parameter."""

    basis: Basis  # features of the points
    gram: Tensor  # `Z^T Z` of the inputs seen
    left: float  # sum of what the features leave of the prior variances there

    @classmethod
    def of(
        cls, prior: Prior, points: Tensor, inputs: Tensor, counts: Tensor
    ) -> "_Candidates":
        r"""From ``m x d`` points, ``n x d`` inputs and how often each came."""
        basis = EigenBasis.of(prior, points)
        gram, left = points.new_zeros(2 * basis.matrix.shape[-1:]), 0.0
        for part, weight in zip(inputs.split(_ROWS), counts.split(_ROWS), strict=True):
            features, residual_variance = basis.project(part)
            gram.addmm_(features.mT, weight.unsqueeze(-1) * features)
            left += float(weight @ residual_variance)
        return cls(basis, gram, left)

    def variances(self, inputs: Tensor, alpha: float) -> Tensor:
        r"""Posterior variances at ``n x d`` inputs."""
        sketch = Sketch.of(self.gram, self.gram.new_zeros(len(self.gram)), alpha)
        parts = inputs.split(_ROWS)
        return torch.cat([sketch.variance(*self.basis.project(part)) for part in parts])

    def ridge_parameter(self, smallest: float, dimension: float) -> float:
        r"""The least ridge parameter at which the effective dimension is not above this."""
        values = torch.linalg.eigvalsh(self.gram).clamp_min(0.0)

        def excess(log: float) -> float:
            alpha = math.exp(log)
            resolved = float((values / (values + alpha)).sum())
            return self.left / alpha + resolved - dimension

        if excess(math.log(smallest)) <= 0.0:
            return smallest
        largest = 2.0 * (self.left + float(values.sum())) / dimension
        root: Any = brentq(excess, math.log(smallest), math.log(largest))
        return math.exp(root)
