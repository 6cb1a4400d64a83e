r"""Functions of known norm with noisy observations, and widths of their sketched bands."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from botorch.models.utils.inducing_point_allocators import GreedyVarianceReduction
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.runner import KnownFunction, fixed_kernel, sobol_points
from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    NystromRegression,
    PrequentialRadius,
    SketchedMartingaleMixtureUCB,
)
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


QUERIES = 500
FURTHER = 4  # times as many further points as inducing points
BANDS = ("weights", "band", "further", "trace", "prequential", "energy")


class _Given(PrequentialRadius):
    r"""A squared radius as it is, of the observations of a stream."""

    def __init__(self, squared: float, stream: Stream) -> None:
        super().__init__(DELTA)
        self._given = squared
        self.observe_predictions(stream.Y, 0.0 * stream.Y, stream.Y, NOISE_STD, stream.X)

    @property
    def squared(self) -> float:
        return self._given


def play_widths(settings: dict[str, Any]) -> dict[str, Any]:
    r"""One row for each number of inducing points.

    ``weights``: with the exact band's own radius; ``band``: with the sketch's; ``further``:
    the same with further points instead of the pass over pairs; ``trace``: with neither;
    ``prequential``: with that radius; ``energy``: that of the sketch, mixed with the energy
    of the noise. Each is the mean width over uniform points over that of the exact set of
    Flynn & Reeb.
    """
    task = SimpleNamespace(**settings)
    kernel = fixed_kernel(task.kernel, task.lengthscale)
    stream = Stream.make(kernel, task.observations, task.dimension, task.seed)
    random = torch.Generator().manual_seed(1000 + task.seed)
    queries = torch.rand(QUERIES, task.dimension, dtype=torch.float64, generator=random)
    regression = KernelRegression(stream.X, stream.Y, stream.kernel, NOISE_STD)
    options = {"norm_bound": NORM_BOUND, "delta": DELTA}
    exact = MartingaleMixtureUCB(regression, fit="martingale", **options)
    squared = exact.function_constraints.radius.squared(regression)

    def width(acqf) -> float:
        lower, upper = acqf.bounds(queries)
        return float((upper - lower).mean())

    whole, rows = width(exact), []
    prequential = stream.prequential_radius()
    for count in (m for m in task.sizes if m <= task.observations):
        inducing = stream.inducing_points(count)
        further = stream.further_points(FURTHER * count)
        pairs, sketch, trace = (
            stream.state(inducing, rest) for rest in (None, further, further[:0])
        )
        cases = [(pairs, _Given(squared, stream)), (pairs, "martingale")]
        cases += [(sketch, "martingale"), (trace, "martingale")]
        cases += [(pairs, prequential), (pairs, "filters")]
        bands = [SketchedMartingaleMixtureUCB(s, fit=fit, **options) for s, fit in cases]
        ratios = [f"{width(band) / whole:.5f}" for band in bands]
        row = {"inducing": count, "remainder": f"{pairs.remainder:.3g}"}
        row |= {"split": f"{pairs.split:.3g}"} | dict(zip(BANDS, ratios, strict=True))
        rows.append(row)
    return {"rows": rows}
