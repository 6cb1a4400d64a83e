r"""The demo: ``python -m kernelucb`` minimises a noisy black box of known norm.

Here is only what must be there before torch is: wrong options are answered at once.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

FUNCTIONS = ("branin", "forrester", "hartmann3", "rkhs")
_INTERRUPTED = 130  # what shells report for Ctrl-C


class _Parser(argparse.ArgumentParser):
    r"""Reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"kernelucb: {message} (see --help)\n")


def read_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    r"""The arguments; help and a wrong one exit, with status 0 and 2."""
    parser = _Parser(
        prog="kernelucb",
        description="Minimise a noisy function: guarded qLogNEI chooses the points, on a "
        "model that is refitted in every round, and a band on a kernel that is not fitted "
        "says how far the recommended point can be from the optimum. The norms of the "
        "functions are known, so that the band is certified. Ctrl-C stops early and still "
        "prints and draws what there is.",
    )
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
    return parser.parse_args(argv)


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


_positive = _number(float, lambda value: 0 < value < float("inf"), "a number above 0")
_probability = _number(float, lambda value: 0 < value < 1, "between 0 and 1")
_count = _number(int, lambda value: value > 0, "a whole number above 0")
_natural = _number(int, lambda value: value >= 0, "a whole number, 0 or more")


def _picture_path(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise argparse.ArgumentTypeError(f"must end in .png, .pdf, .svg, got {text!r}")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"no such folder: {str(path.parent)!r}")
    return path


def main(argv: Sequence[str] | None = None) -> int:
    r"""Run the demo with these arguments, by default those of the process.

    Returns the exit status: 0, 1 when the run had to stop, 130 after Ctrl-C.
    """
    arguments = read_arguments(argv)
    try:
        from kernelucb._demo.show import run_demo

        return run_demo(arguments)
    except KeyboardInterrupt:
        print("kernelucb: interrupted", file=sys.stderr)
        return _INTERRUPTED


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
