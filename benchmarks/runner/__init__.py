r"""What the benchmarks share.

New benchmarks are a ``Study`` (``study``). The others go ``configuration -> tasks ->
engines -> store -> {statistics, tables, pictures}``; ``commands`` is their command line.
A benchmark has a ``Task`` (frozen dataclass of everything that one run depends
on), a ``Run`` (dataclass of what comes out), a player that maps the one to the other, and
in its ``__main__`` a ``Benchmark``, at which its commands are registered.
"""

from benchmarks.runner.commands import (
    RUN_OPTIONS,
    Benchmark,
    Call,
    chosen,
    names,
    number,
    option,
)
from benchmarks.runner.configuration import load_configuration
from benchmarks.runner.data import load_data
from benchmarks.runner.engines import run_tasks
from benchmarks.runner.folders import ROOT, BenchmarkError, Folders
from benchmarks.runner.functions import (
    KnownFunction,
    fixed_kernel,
    largest_value,
    rkhs_norm,
)
from benchmarks.runner.pictures import draw_spread, legend_below, picture
from benchmarks.runner.provenance import recorded
from benchmarks.runner.statistics import (
    Moments,
    moments_table,
    most_events,
    paired_difference,
    ratio_of_means,
    spaced,
)
from benchmarks.runner.store import RunStore, write_atomically
from benchmarks.runner.streams import stream
from benchmarks.runner.tables import (
    markdown_table,
    read_table,
    write_lines,
    write_summary,
    write_table,
)
from benchmarks.runner.tasks import Task

__all__ = [
    "Benchmark",
    "BenchmarkError",
    "Call",
    "Folders",
    "KnownFunction",
    "Moments",
    "ROOT",
    "RUN_OPTIONS",
    "RunStore",
    "Task",
    "chosen",
    "draw_spread",
    "fixed_kernel",
    "largest_value",
    "legend_below",
    "load_configuration",
    "load_data",
    "markdown_table",
    "moments_table",
    "most_events",
    "names",
    "number",
    "option",
    "paired_difference",
    "picture",
    "ratio_of_means",
    "read_table",
    "recorded",
    "rkhs_norm",
    "run_tasks",
    "spaced",
    "stream",
    "write_atomically",
    "write_lines",
    "write_summary",
    "write_table",
]
