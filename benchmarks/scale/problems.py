r"""Functions of known norm with noisy observations, and inducing points for them."""

from dataclasses import dataclass

import torch
from botorch.models.utils.inducing_point_allocators import GreedyVarianceReduction
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.runner import KnownFunction, sobol_points
from kernelucb import NystromRegression, PrequentialRadius
from kernelucb.models import BKBModel

NOISE_STD, NORM, NORM_BOUND, DELTA = 0.1, 2.0, 3.0, 0.05
QBAR, _CENTRES, _FIRST, _AMONG = 2.0, 12, 16, 4_000


@dataclass(frozen=True)
class Stream:
    r"""A function of norm ``NORM``, observed at uniform inputs."""

    kernel: Kernel
    X: Tensor
    Y: Tensor

    @classmethod
    def make(cls, kernel: Kernel, count: int, dimension: int, seed: int) -> "Stream":
        random = torch.Generator().manual_seed(seed)
        options = {"dtype": torch.float64, "generator": random}
        centres = torch.rand(_CENTRES, dimension, **options)
        weights = torch.randn(_CENTRES, **options)
        function = KnownFunction(kernel, centres, weights).scaled(NORM)
        X = torch.rand(count, dimension, **options)
        values = torch.cat([function(part) for part in X.split(4096)])
        return cls(kernel, X, values + NOISE_STD * torch.randn(count, **options))

    def inducing_points(self, count: int) -> Tensor:
        r"""One by one where the others leave most variance, among the first inputs."""
        X = self.X[:_AMONG]
        return GreedyVarianceReduction().allocate_inducing_points(
            X, self.kernel, count, torch.Size([])
        )

    def further_points(self, count: int) -> Tensor:
        r"""Spread over the box that the inputs are uniform in."""
        return sobol_points(count, self.X.shape[-1], 1)

    def state(self, inducing: Tensor, further: Tensor | None) -> NystromRegression:
        given = (self.X, self.Y, self.kernel, NOISE_STD, inducing)
        return NystromRegression(*given, remainder_points=further)

    def model(self, rows: slice = slice(None)) -> BKBModel:
        Y = self.Y[rows].unsqueeze(-1)
        return BKBModel(self.X[rows], Y, self.kernel, NOISE_STD**2, QBAR)

    def prequential_radius(self, num_blocks: int = 8) -> PrequentialRadius:
        r"""Short blocks, each predicted from all before it by a ``BKBModel``."""
        radius = PrequentialRadius(DELTA)
        rows = slice(0, min(_FIRST, len(self.X)))
        prior = self.kernel(self.X[rows], diag=True)
        radius.observe_predictions(
            0.0 * prior, prior, self.Y[rows], NOISE_STD, self.X[rows]
        )
        targets, model = self.Y.unsqueeze(-1), self.model(rows)
        while (seen := radius.num_observations) < len(self.X):
            rows = slice(seen, min(seen + max(_FIRST, seen // num_blocks), len(self.X)))
            radius.observe(model, self.X[rows], targets[rows], NOISE_STD)
            model.observe(self.X[rows], targets[rows])
        return radius
