r"""What the benchmarks share: ``Study``, and tools for its players and tables."""

from benchmarks.runner.files import ROOT, load_data
from benchmarks.runner.functions import (
    KnownFunction,
    fixed_kernel,
    largest_value,
    rkhs_norm,
)
from benchmarks.runner.pictures import draw_spread, legend_below, picture
from benchmarks.runner.statistics import (
    Moments,
    moments_table,
    most_events,
    paired_difference,
    ratio_of_means,
    spaced,
)
from benchmarks.runner.streams import stream
from benchmarks.runner.tables import markdown_table, read_table, write_lines, write_table

__all__ = [
    "KnownFunction",
    "Moments",
    "ROOT",
    "draw_spread",
    "fixed_kernel",
    "largest_value",
    "legend_below",
    "load_data",
    "markdown_table",
    "moments_table",
    "most_events",
    "paired_difference",
    "picture",
    "ratio_of_means",
    "read_table",
    "rkhs_norm",
    "spaced",
    "stream",
    "write_lines",
    "write_table",
]
