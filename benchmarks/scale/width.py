r"""Width of the sketched band, in multiples of the exact one."""

from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.runner import fixed_kernel
from benchmarks.scale.problems import DELTA, NOISE_STD, NORM_BOUND, Stream
from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    PrequentialRadius,
    SketchedMartingaleMixtureUCB,
)

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
