r"""What the benchmarks of all papers share.

Data flow: ``tasks -> engines -> store -> {statistics, tables} -> report``; ``streams``,
``data`` and ``commands`` stand beside. A benchmark has a ``Task`` (frozen dataclass of
everything that one run depends on), a ``Run`` (dataclass of what comes out) and a player
that maps the one to the other; ``run_tasks`` plays what is missing and keeps it.
"""

from benchmarks.runner.commands import ROOT, Folders, add_run_options, chosen
from benchmarks.runner.data import load_data
from benchmarks.runner.engines import run_tasks
from benchmarks.runner.report import update_report
from benchmarks.runner.statistics import Moments, paired_difference
from benchmarks.runner.store import RunStore, write_atomically
from benchmarks.runner.streams import stream
from benchmarks.runner.tables import markdown_table, read_rows, write_rows
from benchmarks.runner.tasks import Task

__all__ = [
    "Folders",
    "Moments",
    "ROOT",
    "RunStore",
    "Task",
    "add_run_options",
    "chosen",
    "load_data",
    "markdown_table",
    "paired_difference",
    "read_rows",
    "run_tasks",
    "stream",
    "update_report",
    "write_atomically",
    "write_rows",
]
