r"""The inducing points of BKB for BoTorch's own variational GP."""

import torch
from botorch.models.utils.inducing_point_allocators import (
    InducingPointAllocator,
    QualityFunction,
    UnitQualityFunction,
)
from gpytorch.kernels import Kernel
from torch import Tensor

from kernelucb._numerics.checks import finite, positive_scalar
from kernelucb._numerics.nystrom import uniform_numbers
from kernelucb.models.bkb.gp import SketchedGP


class BKBInducingPointAllocator(InducingPointAllocator):
    r"""Draws inducing points by their posterior variance, at cost ``O(n m^2)``.

    BoTorch asks for a number of points ``m``, so each draw has a fixed size. The variances
    come from ``m`` points drawn among half of the inputs, theirs from a quarter, and so on.
    An input that comes several times is drawn once at most, with a larger probability.

    Source: Calandriello et al. (2019), Algorithm 1; Ohlsson (1998) for draws of fixed size.

    Example:
        >>> allocator = BKBInducingPointAllocator(noise_variance=0.01)
        >>> model = SingleTaskVariationalGP(
        ...     train_X, train_Y, inducing_points=100, inducing_point_allocator=allocator,
        ...     learn_inducing_points=False)
    """

    def __init__(self, noise_variance: float, qbar: float = 2.0, seed: int = 0) -> None:
        r"""Allocator.

        Args:
            noise_variance: Expected variance of the noise, in the units of the kernel.
            qbar: Oversampling factor: inputs whose variance is above ``noise_variance /
                qbar`` are as probable as any.
            seed: Seed of the draws; each call starts from it.

        Raises:
            ValueError: If a number is out of its range.
        """
        self.noise_variance = positive_scalar("noise_variance", noise_variance)
        self.qbar = positive_scalar("qbar", qbar)
        self.seed = seed

    def _get_quality_function(self) -> QualityFunction:
        return UnitQualityFunction()

    @torch.no_grad()
    def allocate_inducing_points(
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
        state = torch.Generator().manual_seed(self.seed).get_state()
        order, _ = uniform_numbers(len(inputs), state)
        shuffled = inputs[order.argsort().to(inputs.device)].double()
        gp = SketchedGP(
            kernel,
            inputs.shape[-1],
            self.noise_variance,
            self.qbar,
            self.seed,
            inputs.device,
            num_inducing=num_inducing,
        )
        strategy = gp.variational_strategy
        strategy.observe(shuffled, shuffled.new_zeros(len(shuffled)))
        chosen = strategy.drawn(strategy.variances)
        return strategy.observations.inputs[chosen].to(inputs)
