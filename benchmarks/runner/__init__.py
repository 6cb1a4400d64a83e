r"""What the benchmarks share: ``Study``, and tools for its players and tables."""

# ruff: noqa: F401  (names for the studies)

from benchmarks.runner.files import ROOT, load_data
from benchmarks.runner.functions import (
    KnownFunction,
    fixed_kernel,
    line,
    outside,
    quiet,
    sobol_points,
    stream,
    unit_cube,
)
from benchmarks.runner.pictures import draw_spread, legend_below, picture
from benchmarks.runner.statistics import (
    Moments,
    moments_table,
    paired_difference,
    ratio_of_means,
    spaced,
)
from benchmarks.runner.tables import (
    as_texts,
    captioned,
    markdown_table,
    read_table,
    write_table,
)
