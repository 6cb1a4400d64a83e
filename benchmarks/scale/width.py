r"""Width of the sketched band, in multiples of the exact one."""

import torch
from rich.progress import track

from benchmarks.runner import fixed_kernel
from benchmarks.scale.problems import DELTA, NOISE_STD, NORM_BOUND, Stream
from kernelucb import (
    KernelRegression,
    MartingaleMixtureUCB,
    PrequentialRadius,
    SketchedMartingaleMixtureUCB,
)

SETTINGS = (("rbf", 0.3, 2), ("matern52", 0.3, 2), ("matern52", 0.5, 4))
OBSERVATIONS, INDUCING = (200, 500, 1000, 2000), (25, 50, 100, 200, 400)
SEEDS, QUERIES = 3, 500
FURTHER = 4  # times as many further points as inducing points
HEADER = (
    *("kernel", "lengthscale", "dimension", "observations", "inducing", "seed"),
    *("remainder", "split", "weights", "band", "further", "trace", "prequential"),
    "energy",
)


class _Given(PrequentialRadius):
    r"""A squared radius as it is, of the observations of a stream."""

    def __init__(self, squared: float, stream: Stream) -> None:
        super().__init__(DELTA)
        self._given = squared
        self.observe_predictions(stream.Y, 0.0 * stream.Y, stream.Y, NOISE_STD, stream.X)

    @property
    def squared(self) -> float:
        return self._given


def measure() -> list[list[float | str]]:
    r"""One row for each problem and number of inducing points.

    ``weights``: with the exact band's own radius; ``band``: with the sketch's; ``further``:
    the same with further points instead of the pass over pairs; ``trace``: with neither;
    ``prequential``: with that radius; ``energy``: that of the sketch, mixed with the energy
    of the noise. Each is the mean width over uniform points over that of the exact set of
    Flynn & Reeb.
    """
    cases = [
        (setting, count, seed)
        for setting in SETTINGS
        for count in OBSERVATIONS
        for seed in range(SEEDS)
    ]
    return [row for case in track(cases) for row in _rows(*case)]


def _rows(setting: tuple[str, float, int], count: int, seed: int) -> list[list]:
    name, lengthscale, dimension = setting
    stream = Stream.make(fixed_kernel(name, lengthscale), count, dimension, seed)
    random = torch.Generator().manual_seed(1000 + seed)
    queries = torch.rand(QUERIES, dimension, dtype=torch.float64, generator=random)
    regression = KernelRegression(stream.X, stream.Y, stream.kernel, NOISE_STD)
    exact = MartingaleMixtureUCB(
        regression, norm_bound=NORM_BOUND, delta=DELTA, fit="martingale"
    )
    squared = exact.function_constraints.radius.squared(regression)
    options = {"norm_bound": NORM_BOUND, "delta": DELTA}

    def width(acqf) -> float:
        lower, upper = acqf.bounds(queries)
        return float((upper - lower).mean())

    whole, rows = width(exact), []
    prequential = stream.prequential_radius()
    for m in INDUCING:
        if m > count:
            continue
        inducing = stream.inducing_points(m)
        further = stream.further_points(FURTHER * m)
        pairs, sketch, trace = (
            stream.state(inducing, rest) for rest in (None, further, further[:0])
        )
        given = _Given(squared, stream)
        widths = [
            width(SketchedMartingaleMixtureUCB(state, fit=fit, **options))
            for state, fit in (
                (pairs, given),
                (pairs, "martingale"),
                (sketch, "martingale"),
                (trace, "martingale"),
                (pairs, prequential),
                (pairs, "filters"),
            )
        ]
        ratios = [f"{each / whole:.5f}" for each in widths]
        numbers = [f"{pairs.remainder:.3g}", f"{pairs.split:.3g}", *ratios]
        rows.append([*setting, count, m, seed, *numbers])
    return rows
