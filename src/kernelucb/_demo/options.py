r"""Command-line options of the demo, read before torch is imported."""

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

FUNCTIONS = ("branin", "rosenbrock", "forrester", "rkhs", "hartmann3")
_SUFFIXES = (".png", ".pdf", ".svg")


class _Parser(argparse.ArgumentParser):
    r"""Reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        if message.startswith("argument --bounds: expected"):
            message += ": write it with =, as --bounds=-5:10,0:15"
        self.exit(2, f"kernelucb: {message} (see --help)\n")


def read_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    r"""The arguments; help and a wrong one exit, with status 0 and 2."""
    parser = _make_parser()
    arguments = parser.parse_args(argv)
    own, only_own = ":" in arguments.function, ("bounds", "length_scale", "mean")
    if not own and any(getattr(arguments, name) is not None for name in only_own):
        options = ", ".join(f"--{name.replace('_', '-')}" for name in only_own)
        parser.error(f"{options}: for --function module:name only")
    if own:
        missing = {
            "--bounds=LOW:HIGH,...": arguments.bounds is None,
            "--noise-std": arguments.noise_std is None,
            "--norm-bound or --estimate": not (arguments.norm_bound or arguments.estimate),
        }
        if any(missing.values()):
            needed = ", ".join(option for option, absent in missing.items() if absent)
            parser.error(f"--function {arguments.function} needs {needed}")
    return arguments


def _make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kernelucb",
        description="Minimise a noisy function: guarded qLogNEI chooses the points, on a "
        "model that is refitted in every round, and a band on a kernel that is not fitted "
        "says how far the recommended point can be from the optimum. The norms of the "
        "built-in functions are known, so that the band is certified. Ctrl-C stops early "
        "and still prints and draws what there is.",
    )
    add = parser.add_argument
    add(
        "--function",
        metavar="NAME",
        type=_function_name,
        default=FUNCTIONS[0],
        help=f"one of {', '.join(FUNCTIONS)} (default %(default)s): sums of kernel "
        "functions near the function of that name; or module:name of your own, which is "
        "called with a list of numbers and returns one noisy outcome",
    )
    norm = parser.add_mutually_exclusive_group()
    norm.add_argument(
        "--norm-bound",
        metavar="B",
        type=_positive,
        help="bound on the RKHS norm of the function minus the prior mean (default: the "
        "norm of the built-in function)",
    )
    norm.add_argument(
        "--estimate",
        action="store_true",
        help="estimate the norm bound from the data in every round; then nothing is "
        "certified",
    )
    own = "your own function: "
    add("--bounds", metavar="LOW:HIGH,...", type=_box, help=f"{own}its box, -5:10,0:15")
    add(
        "--length-scale",
        metavar="L",
        type=_positive,
        help=f"{own}length scale of the kernel, Matern 5/2 of variance 1, in sides of the "
        "box (default 0.5)",
    )
    add("--mean", metavar="M", type=_real, help=f"{own}prior mean (default 0)")
    add(
        "--noise-std",
        metavar="STD",
        type=_positive,
        help="scale of the noise, outcome units (default 2 %% of the standard deviation of "
        "the built-in function)",
    )
    number = "(default %(default)s)"
    add("--rounds", metavar="N", type=_count, default=30, help=f"points chosen {number}")
    add("--seed", metavar="N", type=_natural, default=0, help=f"of all chance {number}")
    add(
        "--delta",
        metavar="P",
        type=_probability,
        default=0.05,
        help=f"probability that the band fails anywhere in any round {number}",
    )
    add(
        "--output",
        metavar="PATH",
        type=_picture_path,
        default=Path("kernelucb-demo.png"),
        help=f"picture to write {number}",
    )
    add("--no-picture", action="store_true", help="print the table only")
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
_real = _number(float, math.isfinite, "a finite number")


def _function_name(text: str) -> str:
    module, colon, name = text.partition(":")
    parts = [*module.split("."), name]
    if text in FUNCTIONS or (colon and all(part.isidentifier() for part in parts)):
        return text
    raise argparse.ArgumentTypeError(
        f"invalid choice: {text!r} (choose from {', '.join(FUNCTIONS)}, or module:name of "
        "your own function)"
    )


def _box(text: str) -> list[list[float]]:
    r"""The lower and the upper ends, from ``LOW:HIGH,LOW:HIGH``."""
    try:
        pairs = [[float(end) for end in side.split(":")] for side in text.split(",")]
        if all(0.0 < high - low < math.inf for low, high in pairs):
            return [list(ends) for ends in zip(*pairs, strict=True)]
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(
        f"must be LOW:HIGH for each input, with commas between, got {text!r}"
    )


def _picture_path(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in _SUFFIXES:
        suffixes = ", ".join(_SUFFIXES)
        raise argparse.ArgumentTypeError(f"must end in {suffixes}, got {text!r}")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"no such folder: {str(path.parent)!r}")
    return path
