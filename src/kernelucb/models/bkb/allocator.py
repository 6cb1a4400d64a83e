r"""The inducing points of BKB for BoTorch's own variational GP."""

import logging
import math
from typing import Any

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
from kernelucb.regression.lowrank.basis import Basis
from kernelucb.regression.lowrank.sketch import (
    Sketch,
    draw_some,
    first_state,
    uniform_numbers,
)
from kernelucb.regression.prior import Prior

_LOG = logging.getLogger(__name__)
_OVERSAMPLING = 2.0  # points for each effective dimension


class BKBInducingPointAllocator(InducingPointAllocator):
    r"""Draws inducing points by their posterior variance, at cost ``O(n m^2)``.

    BoTorch asks for a number of points ``m``, so each draw has a fixed size. The variances
    come from ``m`` points drawn among half of the inputs, whose own variances come from a
    quarter, and so on. A budget of fewer than two points for each effective dimension
    raises the noise in these variances until the budget suffices; otherwise all points
    would be drawn in one unexplored region. A repeated input is drawn at most once, but is
    more probable.

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
        last = seen >= len(distinct)
        while not last:
            last = seen >= len(distinct)
            candidates = distinct[:seen]
            variance = self._variances(Basis.of(prior, chosen), candidates, counts[:seen])
            index, state = draw_some(counts[:seen] * variance, num_inducing, state)
            chosen, seen = candidates[index], 2 * seen
            _LOG.debug("%d inducing points for %d inputs.", len(chosen), len(candidates))
        _LOG.info(
            "%d of %d distinct inputs became inducing points (at most %d were asked for).",
            *(len(chosen), len(distinct), num_inducing),
        )
        return chosen.to(inputs)

    def _variances(self, basis: Basis, inputs: Tensor, counts: Tensor) -> Tensor:
        r"""Posterior variances at ``n`` inputs that came so often.

        At the least ridge parameter, from the given one on, where there are enough points
        for the effective dimension.
        """
        features, left = basis.project(inputs)
        gram = features.mT @ (counts.unsqueeze(-1) * features)
        values, rest = torch.linalg.eigvalsh(gram).clamp_min(0.0), float(counts @ left)
        dimension = len(basis.inducing) / _OVERSAMPLING

        def excess(log: float) -> float:
            alpha = math.exp(log)
            resolved = float((values / (values + alpha)).sum())
            return rest / alpha + resolved - dimension

        alpha = self.alpha
        if excess(math.log(alpha)) > 0.0:
            largest = 2.0 * (rest + float(values.sum())) / dimension
            root: Any = brentq(excess, math.log(alpha), math.log(largest))
            alpha = math.exp(root)
        sketch = Sketch.of(gram, torch.zeros_like(values), alpha)
        return sketch.variance(features, left)
