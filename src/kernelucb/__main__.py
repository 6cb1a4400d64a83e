r"""The demo: ``python -m kernelucb`` minimises a noisy black box.

Here is only what must be there before torch is: wrong options are answered at once, and
Ctrl-C ends the process with one line at any moment, also while the libraries are imported
and while the process ends.
"""

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from kernelucb._demo.options import read_arguments

_INTERRUPTED = 130  # what shells report for Ctrl-C


def main(argv: Sequence[str] | None = None) -> int:
    r"""Run the demo with these arguments, by default those of the process.

    Returns the exit status: 0, 1 when the run had to stop, 130 after Ctrl-C.
    """
    arguments = read_arguments(argv)
    from kernelucb._demo.command import run_demo

    try:
        return run_demo(arguments)
    except KeyboardInterrupt:
        print("kernelucb: interrupted", file=sys.stderr)
        return _INTERRUPTED


def command() -> int:
    r"""``main`` as a process of its own, where a second Ctrl-C ends everything at once."""
    # A KeyboardInterrupt in the middle of an import may come out as an ImportError, and
    # one that comes while Python shuts down as a traceback.
    signal.signal(signal.SIGINT, _leave)
    read_arguments(None)
    import kernelucb._demo.command as _  # noqa: F401

    signal.signal(signal.SIGINT, _interrupt_once)
    try:
        status = main()
        sys.stdout.flush()
        return status
    finally:
        signal.signal(signal.SIGINT, _leave)


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, _leave)
    signal.default_int_handler(number, frame)


def _leave(number: int, frame: FrameType | None) -> None:
    r"""End the process without giving any code the chance to complain."""
    os.write(2, b"\nkernelucb: interrupted\n")
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    sys.exit(command())
