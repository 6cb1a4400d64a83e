r"""What ``import kernelucb`` costs against ``import botorch``.

Wall-clock and processor seconds of a fresh interpreter for each import, in turns, so that
other work on the machine hits all of them alike; medians.

    python -m benchmarks.speed.imports [--repeats 9]

*First use* is what a script needs before its first bound: BoTorch's names in the one case,
the same names and one of this package in the other.
"""

import argparse
import statistics
import subprocess
import sys
import time
from resource import RUSAGE_CHILDREN, getrusage

from rich.console import Console
from rich.progress import track
from rich.table import Table

FIRST_USE = (
    "from botorch.acquisition import UpperConfidenceBound; "
    "from botorch.models import SingleTaskGP; from botorch.optim import optimize_acqf"
)
CASES = {
    "import": ("import botorch", "import kernelucb"),
    "first use": (
        FIRST_USE,
        f"{FIRST_USE}; from kernelucb import MartingaleMixtureUCB",
    ),
}


def seconds(statement: str) -> tuple[float, float]:
    """Wall-clock and processor seconds of an interpreter that runs one statement."""
    before, start = getrusage(RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    wall, after = time.perf_counter() - start, getrusage(RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    times: dict[str, list[tuple[float, float]]] = {
        statement: [] for pair in CASES.values() for statement in pair
    }
    for repeat in track(range(repeats + 1), "imports"):
        for statement, measured in times.items():
            measured.append(seconds(statement))
            if repeat == 0:  # the first round writes byte code and warms the disk's cache
                measured.clear()
    table = Table("case", "clock", "botorch", "kernelucb", "ratio")
    for case, pair in CASES.items():
        for index, clock in enumerate(("wall", "processor")):
            botorch, ours = (
                statistics.median(each[index] for each in times[statement])
                for statement in pair
            )
            table.add_row(
                case, clock, f"{botorch:.2f} s", f"{ours:.2f} s", f"{ours / botorch:.2f}"
            )
    Console().print(table)


if __name__ == "__main__":
    main()
