r"""Command line: ``python -m benchmarks.scale width|large``."""

from pathlib import Path

import pandas as pd
import torch

from benchmarks.runner import Benchmark, Call, number, option, write_summary
from benchmarks.scale import large, width
from benchmarks.scale.tables import large_table, ratios, width_table

BENCHMARK = Benchmark(
    "benchmarks.scale",
    "The certified band for very many observations: its width against the exact one, and "
    "one selection at full size.",
    number("--threads", "of PyTorch", 2),
)


@BENCHMARK.command("width")
def run_width(call: Call) -> list[Path]:
    r"""The width against the exact band's."""
    from benchmarks.scale.figures import draw

    torch.set_num_threads(call.options.threads)
    rows = pd.DataFrame(width.measure(), columns=width.HEADER)
    means = ratios(rows)
    files = write_summary(call.folders.results, "width", rows, width_table(means))
    return [*files, draw(means, call.folders.picture("width"))]


@BENCHMARK.command(
    "large",
    options=[
        number("--observations", "how many there are", 100_000),
        number("--candidates", "how many there are", 1_000_000),
        number("--inducing", "how many points at most", 300),
        number("--further", "points for the remainder", 1_600),
        option("--pairs", action="store_true", help="the pass over pairs instead"),
    ],
)
def run_large(call: Call) -> list[Path]:
    r"""One selection among very many candidates."""
    options = call.options
    torch.set_num_threads(options.threads)
    sizes = options.observations, options.candidates, options.inducing
    further = None if options.pairs else options.further
    rows = pd.DataFrame(large.measure(*sizes, further), columns=large.HEADER)
    lines = large_table(rows, *sizes, further, options.threads)
    stem = "large_pairs" if options.pairs else "large"
    return write_summary(call.folders.results, stem, rows, lines)


if __name__ == "__main__":
    BENCHMARK.main()
