r"""The commands: ``python -m kernelucb report`` and ``python -m kernelucb demo``.

Here is only what must be there before torch is: wrong options are answered at once.
"""

import argparse
import csv
import math
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

FUNCTIONS = ("branin", "forrester", "hartmann3", "rkhs")
_INTERRUPTED = 130  # what shells report for Ctrl-C
_REFUSED = 2


class _Parser(argparse.ArgumentParser):
    r"""Takes ``-1e-3`` and ``-5:5`` for values; reports an error in one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._negative_number_matcher = re.compile(r"-(\.?[0-9]|inf|nan)")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"kernelucb: {message} (see --help)\n")


def read_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    r"""The arguments; help and a wrong one exit, with status 0 and 2."""
    parser = _Parser(
        prog="kernelucb",
        description="Confidence bounds you can trust, as BoTorch acquisition functions.",
    )
    parser.set_defaults(command=None, help=parser.format_help)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    _add_report(commands)
    _add_demo(commands)
    return parser.parse_args(argv)


def _add_report(commands: Any) -> None:
    parser = commands.add_parser(
        "report",
        help="what a table of past runs supports, as a page to sign",
        description="What a table of past runs supports: its best run, what may be said "
        "about it, and what would have to be wrong. Prints a text and writes a page.",
    )
    parser.set_defaults(command="report")
    add, number = parser.add_argument, "(default %(default)s)"
    add("table", metavar="RUNS.CSV", help="a csv file with a header, one run a row")
    add("--outcome", metavar="NAME", required=True, help="column to be large")
    add("--minimize", action="store_true", help="the outcome is to be small")
    about = "columns that were set (default: all other columns)"
    add("--inputs", metavar="A,B", type=_names, help=about)
    about = "columns that are no inputs"
    add("--ignore", metavar="A,B", type=_names, default=[], help=about)
    about = "columns of words that were set"
    add("--categories", metavar="A,B", type=_names, default=[], help=about)
    about = "words for no outcome, beside blanks and NA; such rows are left out"
    add("--missing", metavar="W,V", type=_names, default=[], help=about)
    about = "decimal mark, where the cells leave it open"
    add("--decimal", choices=[".", ","], help=about)
    about = "limits of the settings in question, as A=50:110,B=1:10 (default: the table's)"
    add("--bounds", metavar="LIMITS", type=_by_name(_span), help=about)
    about = "by how much a repeated run differs, a standard deviation (default: estimated "
    about += "from repeated settings)"
    add("--noise-std", metavar="S", type=_positive, help=about)
    add("--kernel", help="rbf, matern52, matern32, matern12 (default matern52)")
    about = "over how much of its limits an input changes the outcome: one number, or one "
    about += "for each (default 0.5)"
    add("--lengthscale", metavar="L", type=_numbers, help=about)
    about = "outcome expected before the first run (default: the middle of the range, or "
    add("--mean", metavar="M", type=_finite, help=f"{about}the mean of the outcomes)")
    about = "bound on the RKHS norm of outcome minus mean (default: none; the numbers are "
    about += "then at 1.5 times the least that explains the data)"
    add("--norm-bound", metavar="B", type=_positive, help=about)
    about = "limits that the outcome without noise certainly keeps, as 0:100"
    add("--range", metavar="LIMITS", type=_span, help=about)
    about = "a setting to compare with, as A=70,B=2"
    add("--baseline", metavar="SETTING", type=_by_name(str), help=about)
    about = "what the outcome should reach"
    add("--threshold", metavar="T", type=_finite, help=about)
    about = "a difference that does not matter (default: a twentieth of the spread)"
    add("--tolerance", metavar="E", type=_positive, help=about)
    about = f"half the sides of the box that is near a setting, as a share {number}"
    add("--window", metavar="W", type=_probability, default=0.05, help=about)
    about = f"probability that a claim is false although what is given is true {number}"
    add("--delta", metavar="P", type=_probability, default=0.05, help=about)
    add("--units", metavar="UNITS", type=_by_name(str), help="as yield=%%,A=C")
    about = f"page to write {number}"
    page = Path("report.html")
    add("--output", metavar="PATH", type=_page_path, default=page, help=about)
    add("--text", action="store_true", help="print the text only")


def _add_demo(commands: Any) -> None:
    parser = commands.add_parser(
        "demo",
        help="minimise a noisy black box of known norm, with a certified gap",
        description="Minimise a noisy function: guarded qLogNEI chooses the points, on a "
        "model that is refitted in every round, and a band on a kernel that is not fitted "
        "says how far the recommended point can be from the optimum. The norms of the "
        "functions are known, so that the band is certified. Ctrl-C stops early and still "
        "prints and draws what there is.",
    )
    parser.set_defaults(command="demo")
    add, number = parser.add_argument, "(default %(default)s)"
    about = f"sum of kernel functions near the function of that name {number}"
    add("--function", choices=FUNCTIONS, default=FUNCTIONS[0], help=about)
    norm = parser.add_mutually_exclusive_group()
    about = "bound on the RKHS norm of function minus prior mean (default: its norm)"
    norm.add_argument("--norm-bound", metavar="B", type=_positive, help=about)
    about = "estimate the norm bound in every round; then nothing is certified"
    norm.add_argument("--estimate", action="store_true", help=about)
    add("--rounds", metavar="N", type=_count, default=30, help=f"points chosen {number}")
    add("--seed", metavar="N", type=_natural, default=0, help=f"of all chance {number}")
    about = f"probability that the band fails anywhere in any round {number}"
    add("--delta", metavar="P", type=_probability, default=0.05, help=about)
    picture = Path("kernelucb-demo.png")
    about = f"picture to write {number}"
    add("--output", metavar="PATH", type=_picture_path, default=picture, help=about)
    add("--no-picture", action="store_true", help="print the table only")


def _number(
    kind: type[int | float], accept: Callable[[Any], bool], wanted: str
) -> Callable[[str], Any]:
    r"""Reads a number of that kind that is accepted; ``wanted`` says which are."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not accept(value):
            raise argparse.ArgumentTypeError(f"must be {wanted}, got {text!r}")
        return value

    return read


_finite = _number(float, math.isfinite, "a number")
_positive = _number(float, lambda value: 0 < value < float("inf"), "a number above 0")
_probability = _number(float, lambda value: 0 < value < 1, "between 0 and 1")
_count = _number(int, lambda value: value > 0, "a whole number above 0")
_natural = _number(int, lambda value: value >= 0, "a whole number, 0 or more")


def _names(text: str) -> list[str]:
    r"""``["A", "B, C"]`` from ``'A,"B, C"'``."""
    (cells,) = csv.reader([text], skipinitialspace=True)
    return [" ".join(cell.split()) for cell in cells if cell.strip()]


def _numbers(text: str) -> list[float]:
    return [*map(_positive, text.split(","))]


def _span(text: str) -> tuple[float, float]:
    r"""``(-5.0, 5.0)`` from ``"-5:5"``."""
    ends = text.split(":")
    if len(ends) != 2:
        raise argparse.ArgumentTypeError(f'must be like "0.1:10", got {text!r}')
    return _finite(ends[0]), _finite(ends[1])


def _by_name(read: Callable[[str], Any]) -> Callable[[str], dict[str, Any]]:
    r"""Reads values by the names of columns, ``"A=1,B=2"``."""

    def values(text: str) -> dict[str, Any]:
        pairs = [name.rpartition("=") for name in _names(text)]
        if not pairs or not all(name and value for name, _, value in pairs):
            raise argparse.ArgumentTypeError(f'must be like "A=1,B=2", got {text!r}')
        return {name.strip(): read(value.strip()) for name, _, value in pairs}

    return values


def _path_to(*suffixes: str) -> Callable[[str], Path]:
    r"""Reads a path with one of these suffixes, in a folder that is there."""

    def read(text: str) -> Path:
        path = Path(text)
        if path.suffix.lower() not in suffixes:
            wanted = ", ".join(suffixes)
            raise argparse.ArgumentTypeError(f"must end in {wanted}, got {text!r}")
        if not path.parent.is_dir():
            raise argparse.ArgumentTypeError(f"no such folder: {str(path.parent)!r}")
        return path

    return read


_picture_path = _path_to(".png", ".pdf", ".svg")
_page_path = _path_to(".html", ".htm")


def main(argv: Sequence[str] | None = None) -> int:
    r"""Run a command with these arguments, by default those of the process.

    Returns the exit status: 0, 1 when the demo had to stop, 2 when a report is refused,
    130 after Ctrl-C.
    """
    arguments = read_arguments(argv)
    if arguments.command is None:
        print(arguments.help(), end="")
        return 0
    try:
        if arguments.command == "report":
            return _report(**vars(arguments))
        from kernelucb._demo.show import run_demo

        return run_demo(arguments)
    except KeyboardInterrupt:
        print("kernelucb: interrupted", file=sys.stderr)
        return _INTERRUPTED


def _report(command: str, help: object, output: Path, text: bool, **options: Any) -> int:
    r"""Print the text and write the page; the exit status."""
    from botorch.exceptions import InputDataError

    from kernelucb.page import report

    try:
        page = report(**options)
        shown = page.text
        if not text:
            output.write_text(page.to_html(), encoding="utf-8")
            shown += f"\n\nThe page: {output}"
    except (InputDataError, ValueError, ImportError, OSError) as error:
        print(f"kernelucb: {error}", file=sys.stderr)
        return _REFUSED
    print(shown)
    return 0


def _leave(*_: object) -> None:
    r"""End the process without giving any code the chance to complain."""
    os.write(2, b"\nkernelucb: interrupted\n")
    os._exit(_INTERRUPTED)


def command() -> int:
    r"""``main`` as a process of its own."""
    status = main()
    sys.stdout.flush()
    # Another Ctrl-C, while Python shuts down, would come out as a traceback.
    signal.signal(signal.SIGINT, _leave)
    return status


if __name__ == "__main__":
    sys.exit(command())
