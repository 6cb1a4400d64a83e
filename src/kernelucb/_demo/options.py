r"""Command-line options of the demo."""

import argparse
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from kernelucb._demo.loop import Settings
from kernelucb._demo.problems import PROBLEMS

_SUFFIXES = (".png", ".pdf", ".svg")


class _Parser(argparse.ArgumentParser):
    r"""Reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"kernelucb: {message} (see --help)\n")


def make_parser() -> argparse.ArgumentParser:
    r"""The parser of ``python -m kernelucb``; a wrong value exits with status 2."""
    parser = _Parser(
        prog="kernelucb",
        description="Minimise a noisy test function with the exact kernel confidence "
        "bound. The function's norm is known, so that the band is certified. Prints what "
        "that rests on and a table of the rounds, and draws the exact band against the "
        "bounds in common use. Ctrl-C stops early and still prints and draws what there "
        "is.",
    )
    parser.set_defaults(**asdict(Settings()), output=Path("kernelucb-demo.png"))
    parser.add_argument(
        "--function",
        metavar="NAME",
        default="branin",
        choices=tuple(PROBLEMS),
        help=f"function to minimise: {', '.join(PROBLEMS)} (default branin); each is a "
        "sum of kernel functions that goes through the well-known function of that name, "
        "rkhs a random one of norm 10",
    )
    norm = parser.add_mutually_exclusive_group()
    norm.add_argument(
        "--estimate",
        action="store_true",
        help="do not use the function's norm: estimate a bound from the data in every "
        "round, as one has to for a black box of unknown norm; then nothing is certified",
    )
    for name, (metavar, read, text) in _VALUES.items():
        group = norm if name == "--norm-bound" else parser
        group.add_argument(name, metavar=metavar, type=read, help=text)
    parser.add_argument(
        "--form",
        choices=("dual", "analytic", "convex"),
        help="form of the bound that chooses points: dual is exact, analytic is the "
        "looser closed form, convex is exact through a cone program and slower "
        "(default %(default)s)",
    )
    parser.add_argument("--no-picture", action="store_true", help="print the table only")
    return parser


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


_positive = _number(float, lambda value: 0 < value < math.inf, "a number above 0")
_probability = _number(float, lambda value: 0 < value < 1, "between 0 and 1")
_count = _number(int, lambda value: value > 0, "a whole number above 0")
_natural = _number(int, lambda value: value >= 0, "a whole number, 0 or more")


def _picture_path(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in _SUFFIXES:
        raise argparse.ArgumentTypeError(
            f"must end in {', '.join(_SUFFIXES)}, got {text!r}"
        )
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"no such folder: {str(path.parent)!r}")
    return path


# Name of the value, how it is read, and what it is.
_VALUES: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "--norm-bound": (
        "B",
        _positive,
        "bound on the RKHS norm of the function minus the prior mean, for the demo's "
        "kernel (default: the norm of the function, which the demo knows)",
    ),
    "--rounds": ("N", _count, "points that the bound chooses (default %(default)s)"),
    "--initial": (
        "N",
        _count,
        "quasi-random points before round 1 (default 4 per input, at least 5)",
    ),
    "--noise-std": (
        "STD",
        _positive,
        "standard deviation of the Gaussian noise, in outcome units, known to the bound "
        "(default 2 %% of the function's standard deviation over its domain)",
    ),
    "--seed": (
        "N",
        _natural,
        "seed of initial points, noise and search (default %(default)s)",
    ),
    "--delta": (
        "P",
        _probability,
        "probability that the band fails at any point in any round (default %(default)s)",
    ),
    "--covariance-scale": (
        "C",
        _positive,
        "scale of Flynn & Reeb's mixture, one member of the band's, relative to the prior "
        "covariance; any value is valid, it moves the width only (default %(default)g)",
    ),
    "--output": (
        "PATH",
        _picture_path,
        "picture to write, .png, .pdf or .svg (default %(default)s)",
    ),
}
