r"""The commands: ``python -m kernelucb report``, ``confirm`` and ``demo``.

Here is only what must be there before torch is: wrong options are answered at once.
"""

import argparse
import csv
import re
import sys
from collections.abc import Callable, Sequence
from inspect import Parameter, cleandoc, signature
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

import kernelucb.page
import kernelucb.pairs  # neither imports torch


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


def settings(text: str, read: Callable[[str], Any] = str) -> dict[str, Any]:
    r"""``{"A": "1", "B": "2"}`` from ``"A=1,B=2"``."""
    pairs = [each.rpartition("=") for each in names(text)]
    if not all(name and value for name, _, value in pairs):
        raise ValueError(text)
    return {name.strip(): read(value.strip()) for name, _, value in pairs}


def boxes(text: str) -> dict[str, tuple[float, float]]:
    r"""``{"A": (50.0, 110.0)}`` from ``"A=50:110"``."""
    return settings(text, limits)


# How options are read, and an example of each.
_READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    **dict.fromkeys(("table", "output", "earlier"), (Path, "PATH")),
    "function": (str, "branin"),
    **dict.fromkeys(("outcome", "setting", "against"), (str, "NAME")),
    **dict.fromkeys(
        ("inputs", "ignore", "categories", "missing", "columns"), (names, "A,B")
    ),
    "decimal": (str, ","),
    "effort": (str, "quick"),
    "kernel": (str, "matern32"),
    "baseline": (settings, "temperature=77,solvent=THF"),
    "units": (settings, "temperature=C,yield=%"),
    "bounds": (boxes, "temperature=37:117,hours=0.2:20"),
    **dict.fromkeys(("rounds", "seed", "expected_runs"), (int, "10")),
    "range": (limits, "0:100"),
    "lengthscale": (numbers, "0.5,1"),
    "noise_std": (number, "1.5"),
    **dict.fromkeys(("mean", "threshold"), (number, "75")),
    "norm_bound": (number, "200"),
    "tolerance": (number, "2"),
    **dict.fromkeys(("window", "delta"), (number, "0.1")),
}


def report(
    *, table: Path, output: Path = Path("report.html"), text: bool = False, **options: Any
) -> int:
    r"""Report on a table of past runs, as a text and a page to sign.

    Example: report runs.csv --outcome yield --noise-std 1 --range 0:100 --units yield=%

    Args:
        table: A csv file with a header and one run a row. Rows without an outcome are left
            out, and listed.
        output: Page to write.
        text: Whether to print the text only.
        **options: Arguments of ``kernelucb.report``.
    """
    page = kernelucb.page.report(table, **options)
    shown = page.text
    if not text:  # before it is printed: a closed pipe must not lose the page
        output.write_text(page.to_html(), encoding="utf-8")
        shown += f"\n\nThe page: {output}"
    print(shown)
    return 0


def confirm(
    *,
    table: Path = Path("-"),
    setting: str | None = None,
    outcome: str | None = None,
    columns: Sequence[str] = (),
    decimal: str | None = None,
    **options: Any,
) -> int:
    r"""Is this improvement real or noise? Settings against a baseline, at any look.

    Pairs of outcomes, the first of a setting with the first of the baseline and so on, from
    a csv or from standard input. Look after every pair, stop when you like.

    Example: confirm pairs.csv --against old --minimize

    Args:
        table: The outcomes, ``-`` for standard input. A row is a round with a column for
            each setting; with --setting and --outcome it is a run.
        setting: Column with the name of the setting.
        outcome: Column with the outcome.
        columns: Settings to compare, by default all columns; their names where the table
            has no header.
        decimal: Decimal mark, "." or ",", where the cells leave it open.
        **options: Arguments of ``kernelucb.confirm``.
    """
    read = kernelucb.pairs.read_outcomes
    outcomes = read(table, setting, outcome, columns, decimal)
    print(kernelucb.pairs.confirm(outcomes, **options))
    return 0


def demo(
    *,
    function: str = "branin",
    estimate: bool = False,
    rounds: int = 30,
    seed: int = 0,
    delta: float = 0.05,
    output: Path = Path("kernelucb-demo.png"),
    no_picture: bool = False,
) -> int:
    r"""Minimise a noisy black box of known norm, with a certified gap.

    Guarded qLogNEI chooses the points, on a model that is refitted in every round, and a
    band on a kernel that is not fitted says how far the recommended point can be from the
    optimum. Ctrl-C stops early and still prints and draws what there is.

    Args:
        function: ``branin``, ``forrester`` or ``hartmann3``: a sum of kernel functions
            near the function of that name.
        estimate: Whether to estimate the norm bound in every round; then nothing is
            certified.
        rounds: Number of points chosen.
        seed: Seed of all chance.
        delta: Probability that the band fails anywhere in any round.
        output: Picture to write.
        no_picture: Whether to print the rounds only.
    """
    options = locals()
    from kernelucb._demo import run_demo

    return run_demo(**options)


def _parser() -> argparse.ArgumentParser:
    r"""Commands are functions; so are their options, and what is said of them."""
    about = "Confidence bounds you can trust, as BoTorch acquisition functions."
    parser = _Parser(prog="kernelucb", description=about)
    parser.set_defaults(run=parser.print_help)
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    entry = re.compile(r"^    (\w+): (.+?)(?=\n    \S|\n\n|\Z)", re.MULTILINE | re.DOTALL)
    every = {
        report: [kernelucb.page.report, report],
        confirm: [confirm, kernelucb.pairs.confirm],
        demo: [demo],
    }
    for run, sources in every.items():
        about, _, _ = cleandoc(run.__doc__ or "").partition("\n\nArgs:")
        command = commands.add_parser(
            run.__name__,
            help=about.partition("\n")[0],
            description=about,
        )
        command.set_defaults(run=run)
        said, parameters = dict[str, str](), dict[str, Parameter]()
        for source in sources:  # the command speaks last
            said |= dict(entry.findall(cleandoc(source.__doc__ or "")))
            parameters |= signature(source).parameters
        for name, parameter in parameters.items():
            about = said.get(name, "").replace("``", "").replace("%", "%%")
            _add_option(command, parameter, " ".join(about.split()))
    return parser


def _add_option(command: argparse.ArgumentParser, parameter: Parameter, about: str) -> None:
    name, default = parameter.name, parameter.default
    read, example = _READERS.get(name, (number, "1.5"))

    def reads(text: str) -> Any:
        try:
            return read(text)
        except ValueError as error:
            message = f"{text!r} cannot be read, write it as {example}"
            raise argparse.ArgumentTypeError(message) from error

    options: dict[str, Any] = {"type": reads, "metavar": example, "default": default}
    if default is False:
        options = {"action": "store_true"}
    elif default is Parameter.empty:
        options["required"] = True
    elif default not in (None, ()):
        about += " (default %(default)s)"
    if name == "table":
        many: dict[str, Any] = (
            {} if default is Parameter.empty else {"nargs": "?", "default": default}
        )
        command.add_argument(name, type=read, metavar="RUNS.CSV", help=about, **many)
    elif parameter.kind not in (Parameter.VAR_KEYWORD, Parameter.POSITIONAL_ONLY):
        command.add_argument(f"--{name.replace('_', '-')}", help=about, **options)


def main(argv: Sequence[str] | None = None) -> int:
    r"""Run a command with these arguments, by default those of the process.

    Returns the exit status: 0, 1 when the demo had to stop, 2 when something is refused,
    130 after Ctrl-C.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # "?" for a letter that the console lacks
            stream.reconfigure(errors="replace")
    parser = _parser()
    options = vars(parser.parse_args(argv))
    folder = options.get("output", Path()).parent
    if not folder.is_dir():
        parser.error(f"no such folder: {str(folder)!r}")
    try:
        return options.pop("run")(**options) or 0
    except KeyboardInterrupt:
        print("kernelucb: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if not isinstance(error, ValueError | ImportError | OSError):
            from botorch.exceptions import InputDataError

            if not isinstance(error, InputDataError):
                raise
        print(f"kernelucb: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
