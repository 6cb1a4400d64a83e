r"""Command-line options of the demo."""

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from kernelucb._demo.loop import Settings
from kernelucb._demo.own import BlackBoxError, load_function, own_problem
from kernelucb._demo.problems import PROBLEMS, make_problem

_SUFFIXES = (".png", ".pdf", ".svg")
_LENGTH_SCALE, _MEAN = 0.5, 0.0


class _Parser(argparse.ArgumentParser):
    r"""Reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("argument --bounds: expected"):
            message += ": write it with =, as --bounds=-5:10,0:15"
        self.exit(2, f"kernelucb: {message} (see --help)\n")


def read_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    r"""The arguments, with ``make_problem``; a wrong one exits with status 2.

    What would stop the run at its end is found here: a picture that cannot be written.
    """
    parser = make_parser()
    arguments = parser.parse_args(argv)
    try:
        arguments.make_problem = _problem_of(arguments)
        if not arguments.no_picture and find_spec("matplotlib") is not None:
            _try_to_write(arguments.output)
    except (ValueError, BlackBoxError) as error:
        parser.error(str(error))
    return arguments


def _problem_of(arguments: argparse.Namespace) -> Callable[[], Any]:
    name = arguments.function
    if ":" not in name:
        for option in ("bounds", "length_scale", "mean"):
            if getattr(arguments, option) is not None:
                text = f"--{option.replace('_', '-')} is for --function module:name only"
                raise ValueError(text)
        return partial(make_problem, name)
    missing = {
        "--bounds=LOW:HIGH,... (one pair for each input)": arguments.bounds is None,
        "--noise-std STD (how noisy its outcomes are)": arguments.noise_std is None,
        "--norm-bound B or --estimate": arguments.norm_bound is None
        and not arguments.estimate,
    }
    if any(missing.values()):
        needed = "; ".join(text for text, absent in missing.items() if absent)
        raise ValueError(f"--function {name} needs {needed}")
    load_function(name)
    length = _LENGTH_SCALE if arguments.length_scale is None else arguments.length_scale
    mean = _MEAN if arguments.mean is None else arguments.mean
    return partial(own_problem, name, arguments.bounds, length, mean)


def _try_to_write(path: Path) -> None:
    r"""Raises a ValueError if the file cannot be written; leaves everything as it was."""
    existed = path.exists()
    try:
        with path.open("ab"):
            pass
        if not existed:
            path.unlink()
    except OSError as error:
        raise ValueError(
            f"cannot write the picture {str(path)!r}: {error.strerror}; choose another "
            "--output or --no-picture"
        ) from error


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
        type=_function_name,
        default="branin",
        help=f"function to minimise: {', '.join(PROBLEMS)} (default branin); each is a "
        "sum of kernel functions that goes through the well-known function of that name, "
        "rkhs a random one of norm 10. Or module:name of your own: it is called with a "
        "list of numbers and returns one noisy outcome; --bounds, --noise-std and "
        "--norm-bound (or --estimate) say what you know of it",
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


def _real(text: str) -> float:
    return _number(float, math.isfinite, "a finite number")(text)


def _function_name(text: str) -> str:
    module, colon, name = text.partition(":")
    parts = [*module.split("."), name]
    if text in PROBLEMS or (colon and all(part.isidentifier() for part in parts)):
        return text
    raise argparse.ArgumentTypeError(
        f"invalid choice: {text!r} (choose from {', '.join(PROBLEMS)}, or module:name of "
        "your own function)"
    )


def _box(text: str) -> Tensor:
    r"""Corners, ``2 x d``, from ``LOW:HIGH,LOW:HIGH``."""
    try:
        pairs = [[float(end) for end in side.split(":")] for side in text.split(",")]
        corners = torch.tensor(pairs, dtype=torch.float64).T
        low, high = corners
    except ValueError:
        low, high, corners = torch.zeros(1), torch.zeros(1), torch.zeros(0)
    if not bool(((low < high) & (high - low).isfinite()).all()):
        raise argparse.ArgumentTypeError(
            f"must be LOW:HIGH for each input, with commas between, got {text!r}"
        )
    return corners


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
        "kernel (default: the norm of the function, which the demo knows; of your own it "
        "does not)",
    ),
    "--bounds": (
        "LOW:HIGH,...",
        _box,
        "box of your own function, one pair for each input, as --bounds=-5:10,0:15",
    ),
    "--length-scale": (
        "L",
        _positive,
        "for your own function: length scale of the kernel (Matern 5/2 of variance 1), in "
        f"sides of the box (default {_LENGTH_SCALE:g})",
    ),
    "--mean": (
        "M",
        _real,
        f"for your own function: its prior mean (default {_MEAN:g})",
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
