r"""The commands: ``python -m kernelucb report``, ``confirm`` and ``demo``.

Here is only what must be there before torch is: wrong options are answered at once.
"""

import argparse
import csv
import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import kernelucb.page
import kernelucb.pairs
import kernelucb.rounds
from kernelucb.page.columns import Asked, check_columns  # none of them imports torch

_NONE_BETTER = 1  # exit status of ``confirm``, as ``grep`` has it where nothing is found


class _Parser(argparse.ArgumentParser):
    r"""Takes ``-1e-3`` and ``-5:5`` for values; reports an error in one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # What argparse takes for an option unless this private pattern says otherwise.
        self._negative_number_matcher = re.compile(r"-(\.?[0-9]|inf|nan)")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"kernelucb: {message} (see --help)\n")


# Readers of options; a text that one cannot read is refused with its example.


def number(text: str) -> float:
    r"""A finite number."""
    if not abs(value := float(text)) < float("inf"):
        raise ValueError(text)
    return value


def numbers(text: str) -> list[float]:
    r"""``[0.5, 1.0]`` from ``"0.5,1"``."""
    return [*map(number, text.split(","))]


def names(text: str) -> list[str]:
    r"""``["A", "B, C"]`` from ``'A,"B, C"'``."""
    (cells,) = csv.reader([text], skipinitialspace=True)
    return [" ".join(cell.split()) for cell in cells if cell.strip()]


def limits(text: str) -> tuple[float, float]:
    r"""``(-5.0, 5.0)`` from ``"-5:5"``."""
    low, high = map(number, text.split(":"))
    return low, high


def settings(text: str) -> dict[str, str]:
    r"""``{"A": "1", "B": "2"}`` from ``"A=1,B=2"``."""
    pairs = [each.rpartition("=") for each in names(text)]
    if not all(name and value for name, _, value in pairs):
        raise ValueError(text)
    return {name.strip(): value.strip() for name, _, value in pairs}


def boxes(text: str) -> dict[str, tuple[float, float]]:
    r"""``{"A": (50.0, 110.0)}`` from ``"A=50:110"``."""
    return {name: limits(value) for name, value in settings(text).items()}


class Value(NamedTuple):
    r"""How the value of an option is read, and an example of it."""

    read: Callable[[str], object]
    example: str

    def __call__(self, text: str) -> object:
        r"""The value; an error names the example."""
        try:
            return self.read(text)
        except ValueError as error:
            message = f"{text!r} cannot be read, write it as {self.example}"
            raise argparse.ArgumentTypeError(message) from error


SWITCH = Value(bool, "")  # an option without a value
REQUIRED = object()  # in place of a default


class Option(NamedTuple):
    r"""A row of a command's table: an option, or the file that it reads.

    Attributes:
        flag: ``"--noise-std"``; without dashes for the file.
        about: What the help says.
        value: How it is read; ``SWITCH`` for an option without a value.
        default: As the command's function has it; ``REQUIRED`` without.
    """

    flag: str
    about: str
    value: Value
    default: object = None

    def add_to(self, command: argparse.ArgumentParser) -> None:
        r"""Let the command read it."""
        about, default = self.about.replace("%", "%%"), self.default
        if self.value is SWITCH:
            command.add_argument(self.flag, action="store_true", help=about)
            return
        given: dict[str, Any] = {"type": self.value, "metavar": self.value.example}
        if default is not REQUIRED:
            given["default"] = default
            given |= {} if self.flag.startswith("-") else {"nargs": "?"}
            about += "" if default in (None, ()) else " (default %(default)s)"
        elif self.flag.startswith("-"):
            given["required"] = True
        command.add_argument(self.flag, help=about, **given)


REPORT = (
    Option(
        "table",
        "A csv file with a header and one run a row. Rows without an outcome are left "
        "out, and listed.",
        Value(Path, "RUNS.CSV"),
        REQUIRED,
    ),
    Option(
        "--outcome",
        "Column to be large.",
        Value(str, "NAME"),
        REQUIRED,
    ),
    Option(
        "--minimize",
        "Whether the outcome is to be small.",
        SWITCH,
    ),
    Option(
        "--inputs",
        "Columns that were set; by default all other columns.",
        Value(names, "A,B"),
    ),
    Option(
        "--ignore",
        "Columns that are no inputs.",
        Value(names, "A,B"),
        (),
    ),
    Option(
        "--categories",
        "Columns of words that were set, one-hot in the kernel.",
        Value(names, "A,B"),
        (),
    ),
    Option(
        "--missing",
        'Words for "no outcome", beside blanks and NA. Without outcomes that were too '
        "small or too large, such as <0.5, nothing is guaranteed.",
        Value(names, "A,B"),
        (),
    ),
    Option(
        "--decimal",
        'Decimal mark in texts, "." or ",", where the cells leave it open.',
        Value(str, ","),
    ),
    Option(
        "--bounds",
        "Limits of the settings in question, by column; by default the table's.",
        Value(boxes, "temperature=37:117,hours=0.2:20"),
    ),
    Option(
        "--noise-std",
        "Standard deviation of a repeated run, outcome units; by default estimated from "
        "repeated settings.",
        Value(number, "1.5"),
    ),
    Option(
        "--kernel",
        '"matern52" (the default), "rbf", "matern32" or "matern12".',
        Value(str, "matern32"),
    ),
    Option(
        "--lengthscale",
        "Over how much of its limits an input changes the outcome: one share, by default "
        "0.5, or one for each input.",
        Value(numbers, "0.5,1"),
    ),
    Option(
        "--mean",
        "Outcome expected before the first run, outcome units; by default the middle of "
        "range, or the mean of the outcomes.",
        Value(number, "75"),
    ),
    Option(
        "--norm-bound",
        "Bound on the RKHS norm of outcome minus mean, outcome units; without, the "
        "numbers are at 1.5 times the least norm that explains the data.",
        Value(number, "200"),
    ),
    Option(
        "--earlier",
        "Table of earlier tasks of the same kind, with a column task and the columns of "
        "this table: the largest of their norms is the norm bound (norm_from_tasks). "
        "delta counts its failure probability, one over the number of tasks and one. A "
        "setting's mean outcome counts as its value.",
        Value(Path, "PATH"),
    ),
    Option(
        "--range",
        "Limits that the outcome without noise certainly keeps, outcome units; in Python "
        "None for a side without one.",
        Value(limits, "0:100"),
    ),
    Option(
        "--baseline",
        "A setting to compare with, by column.",
        Value(settings, "temperature=77,solvent=THF"),
    ),
    Option(
        "--threshold",
        "What the outcome should reach, outcome units.",
        Value(number, "75"),
    ),
    Option(
        "--tolerance",
        "A difference that does not matter, outcome units; by default a twentieth of the "
        "spread.",
        Value(number, "2"),
    ),
    Option(
        "--window",
        "Half the sides of the box that is near a setting, as a share.",
        Value(number, "0.1"),
        0.05,
    ),
    Option(
        "--delta",
        "Probability that a claim is false although what is given is true.",
        Value(number, "0.1"),
        0.05,
    ),
    Option(
        "--units",
        "Units of columns, for print.",
        Value(settings, "temperature=C,yield=%"),
    ),
    Option(
        "--history",
        "Whether to show the gap after each of the rows, of long tables after 20 of them "
        "(page.history).",
        SWITCH,
    ),
    Option(
        "--effort",
        '"quick", or "full" with the gap over norm bounds and length scales, which takes '
        "most of the time.",
        Value(str, "full"),
        "quick",
    ),
    Option(
        "--output",
        "Page to write.",
        Value(Path, "PATH"),
        Path("report.html"),
    ),
    Option(
        "--text",
        "Whether to print the text only.",
        SWITCH,
    ),
)
CONFIRM = (
    Option(
        "table",
        "The outcomes, - for standard input. A row is a round with a column for each "
        "setting; with --setting and --outcome it is a run.",
        Value(Path, "RUNS.CSV"),
        Path("-"),
    ),
    Option(
        "--setting",
        "Column with the name of the setting.",
        Value(str, "NAME"),
    ),
    Option(
        "--outcome",
        "Column with the outcome.",
        Value(str, "NAME"),
    ),
    Option(
        "--columns",
        "Settings to compare, by default all columns; their names where the table has no "
        "header.",
        Value(names, "A,B"),
        (),
    ),
    Option(
        "--decimal",
        'Decimal mark, "." or ",", where the cells leave it open.',
        Value(str, ","),
    ),
    Option(
        "--missing",
        'Words for "no outcome", beside blanks and NA.',
        Value(names, "A,B"),
        (),
    ),
    Option(
        "--against",
        "Name of the baseline, by default the first setting.",
        Value(str, "NAME"),
    ),
    Option(
        "--noise-std",
        "Scale of sub-Gaussian noise in each outcome, known beforehand. Without it and "
        "range the differences are taken for Gaussian, of any scale.",
        Value(number, "1.5"),
    ),
    Option(
        "--range",
        "Limits of all outcomes.",
        Value(limits, "0:100"),
    ),
    Option(
        "--delta",
        "Failure probability of all comparisons at all looks together.",
        Value(number, "0.1"),
        0.05,
    ),
    Option(
        "--expected-runs",
        "Number of pairs at which the interval is to be narrowest, fixed beforehand; "
        "valid at any other.",
        Value(int, "10"),
        10,
    ),
    Option(
        "--minimize",
        "Whether smaller outcomes are better.",
        SWITCH,
    ),
    Option(
        "--follow",
        "Whether to read rounds from standard input as they arrive, csv with a header or "
        'JSON objects such as {"old": 1.2, "new": 1.4}, one a line, and to print a JSON '
        "line after each: which candidates are better, worse, open or dropped. It ends "
        "when none is open.",
        SWITCH,
    ),
    Option(
        "--candidates",
        "With --follow: how many candidates there will be at most, fixed beforehand; by "
        "default those of the first round.",
        Value(int, "100"),
    ),
    Option(
        "--most",
        "With --follow: largest number of pairs of a candidate; one that seems to need "
        "more is dropped.",
        Value(int, "20"),
    ),
)
DEMO = (
    Option(
        "--function",
        "branin, forrester or hartmann3: a sum of kernel functions near the function of "
        "that name.",
        Value(str, "branin"),
        "branin",
    ),
    Option(
        "--estimate",
        "Whether to estimate the norm bound in every round; then nothing is certified.",
        SWITCH,
    ),
    Option(
        "--rounds",
        "Number of points chosen.",
        Value(int, "10"),
        30,
    ),
    Option(
        "--seed",
        "Seed of all chance.",
        Value(int, "10"),
        0,
    ),
    Option(
        "--delta",
        "Probability that the band fails anywhere in any round.",
        Value(number, "0.1"),
        0.05,
    ),
    Option(
        "--output",
        "Picture to write.",
        Value(Path, "PATH"),
        Path("kernelucb-demo.png"),
    ),
    Option(
        "--no-picture",
        "Whether to print the rounds only.",
        SWITCH,
    ),
)


def report(given: Namespace) -> int:
    r"""Make the page of a table and print its text."""
    options = vars(given)
    output, text = options.pop("output"), options.pop("text")
    # What can be refused is refused before torch is imported, which takes seconds.
    asked = given.outcome, given.inputs, given.ignore, given.categories
    told = {"--bounds": given.bounds, "--baseline": given.baseline, "--units": given.units}
    if str(given.table) != "-":  # standard input is read once
        check_columns(given.table, Asked(*asked, given.missing, given.decimal), told)
    page = kernelucb.page.report(**options)
    shown = page.text
    if not text:  # before it is printed: a closed pipe must not lose the page
        output.write_text(page.to_html(), encoding="utf-8")
        shown += f"\n\nThe page: {output}"
    print(shown)
    return 0


def confirm(given: Namespace) -> int:
    r"""Compare the settings of a table and print what may be said."""
    if given.follow:
        return _followed(given)
    options = vars(given)
    if [*map(options.pop, ("follow", "candidates", "most"))] != [False, None, None]:
        raise ValueError("--candidates and --most go with --follow.")
    read = ("table", "setting", "outcome", "columns", "decimal", "missing")
    outcomes = kernelucb.pairs.read_outcomes(**{name: options.pop(name) for name in read})
    found = kernelucb.pairs.confirm(outcomes, **options)
    print(found)
    return _NONE_BETTER * all(each.verdict != "better" for each in found.parts)


def _followed(given: Namespace) -> int:
    r"""Read rounds as they arrive; a JSON line after each, and all in words at the end."""
    if str(given.table) != "-" or any(
        (given.setting, given.outcome, given.columns, given.decimal)
    ):
        raise ValueError(
            "--follow reads rounds from standard input: leave out the file, and --setting, "
            "--outcome, --columns and --decimal."
        )
    names = "most", "noise_std", "range", "delta", "expected_runs", "minimize", "missing"
    options = {name: vars(given)[name] for name in names}
    build = partial(kernelucb.rounds.SequentialComparison, **options)
    asked, comparison = (given.against, given.candidates, build), None
    try:
        for comparison in kernelucb.rounds.followed(sys.stdin, *asked):
            line = {"round": len(comparison.rounds), **comparison.state()}
            print(json.dumps(line), flush=True)
    finally:  # also before an error
        if comparison is not None:
            print(comparison.verdicts, file=sys.stderr)
    if comparison is None:
        raise ValueError("No round arrived.")
    return _NONE_BETTER * (not comparison.state()["better"])


def demo(given: Namespace) -> int:
    r"""Play a search on a black box."""
    from kernelucb._demo import run_demo

    return run_demo(**vars(given))


class Command(NamedTuple):
    r"""A command: its function, what the help says, and its options."""

    run: Callable[[Namespace], int]
    head: str
    about: str
    options: Sequence[Option]


COMMANDS = (
    Command(
        report,
        "Report on a table of past runs, as a text and a page to sign.",
        "Example: report runs.csv --outcome yield --noise-std 1 --range 0:100 --units "
        "yield=%",
        REPORT,
    ),
    Command(
        confirm,
        "Is this improvement real or noise? Settings against a baseline, at any look.",
        "Pairs of outcomes, the first of a setting with the first of the baseline and so "
        "on, from a csv or from standard input. Look after every pair, stop when you "
        "like. The exit status is 0 if a setting is better, 1 if none is (yet), 2 if "
        "something is refused. Example: confirm pairs.csv --against old --minimize",
        CONFIRM,
    ),
    Command(
        demo,
        "Minimise a noisy black box of known norm, with a certified gap.",
        "Guarded qLogNEI chooses the points, on a model that is refitted in every round, "
        "and a band on a kernel that is not fitted says how far the recommended point can "
        "be from the optimum. Ctrl-C stops early and still prints and draws what there is.",
        DEMO,
    ),
)


def _parser() -> argparse.ArgumentParser:
    about = "Confidence bounds you can trust, as BoTorch acquisition functions."
    parser = _Parser(prog="kernelucb", description=about)
    parser.set_defaults(run=None)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for each in COMMANDS:
        about = f"{each.head} {each.about}"
        command = commands.add_parser(each.run.__name__, help=each.head, description=about)
        command.set_defaults(run=each.run)
        for option in each.options:
            option.add_to(command)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    r"""Run a command with these arguments, by default those of the process.

    Returns the exit status: 0; 1 when the demo had to stop, or no setting is better; 2 when
    something is refused; 130 after Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # "?" for a letter that the console lacks
            stream.reconfigure(errors="replace")
    parser = _parser()
    given = parser.parse_args(argv)
    options = vars(given)
    run: Callable[[Namespace], int] | None = options.pop("run")
    if run is None:
        parser.print_help()
        return 0
    folder = options.get("output", Path()).parent
    if not folder.is_dir():
        parser.error(f"no such folder: {str(folder)!r}")
    status = 1  # of a run that a closed pipe ended
    try:
        status = run(given)
        sys.stdout.flush()  # here, where a closed pipe is met
        return status
    except KeyboardInterrupt:
        print("kernelucb: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # a reader such as head has what it wants
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return status
    except (ValueError, ImportError, OSError) as error:
        print(f"kernelucb: {error}", file=sys.stderr)
    except _input_error() as error:  # asked for only where no other one fits
        print(f"kernelucb: {error}", file=sys.stderr)
    return 2


def _input_error() -> type[Exception]:
    r"""BoTorch's error about a table, whose import takes seconds."""
    from botorch.exceptions import InputDataError

    return InputDataError


if __name__ == "__main__":
    sys.exit(main())
