r"""How a case ends: well, with a typed refusal, with a raw error, or silently wrong."""

import linecache
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from botorch.exceptions import BotorchError

import kernelucb
from benchmarks.runner import quiet

KINDS: tuple[str, ...] = ("ok", "typed", "untyped", "wrong")
_LIMIT = 20.0  # seconds of processor time for one case
_SOURCE = str(Path(kernelucb.__file__).parent)


class WrongError(AssertionError):
    r"""What came back is wrong, and nothing said so."""


class TooSlowError(BaseException):
    r"""A case that goes on for too long."""


class Verdict(NamedTuple):
    r"""How a case ended.

    Attributes:
        kind: One of ``KINDS``.
        where: Innermost line of kernelucb that an error passed.
        message: First line of the error, or what is wrong.
        case: What was attacked, in words.
    """

    kind: str
    where: str = ""
    message: str = ""
    case: str = ""


def judge(attempt: Callable[[], Any], case: str = "") -> Verdict:
    r"""Play a case; it raises ``WrongError`` where a result is wrong."""
    with quiet():
        try:
            with _limited():
                attempt()
        except WrongError as error:
            return Verdict("wrong", "", str(error), case)
        except TooSlowError as error:
            return Verdict("untyped", source_line(error), f"over {_LIMIT:g} s", case)
        except Exception as error:
            kind = "typed" if is_typed(error) else "untyped"
            lines = str(error).strip().splitlines() or [""]
            text = f"{type(error).__name__}: {lines[0][:200]}"
            return Verdict(kind, source_line(error), text, case)
    return Verdict("ok", case=case)


def is_typed(error: BaseException) -> bool:
    r"""Whether an error is a refusal that was meant.

    BoTorch's kinds are. A ``ValueError`` or ``TypeError`` is where the innermost frame is a
    ``raise`` statement of kernelucb, and not where Python or torch raised it.
    """
    if isinstance(error, BotorchError):
        return True
    if not isinstance(error, (ValueError, TypeError)):
        return False
    frame = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(frame.filename, frame.lineno or 0)
    return frame.filename.startswith(_SOURCE) and line.lstrip().startswith("raise ")


def source_line(error: BaseException) -> str:
    r"""Innermost line of kernelucb that an error passed, as ``file:line function``."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith(_SOURCE):
            name = Path(frame.filename).relative_to(_SOURCE)
            return f"{name}:{frame.lineno} {frame.name}"
    return ""


@contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
