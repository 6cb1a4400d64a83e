r"""Ctrl-C at the k-th line of an update: the old or the new state, and it goes on."""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import kernelucb
from benchmarks.attack.subjects import prepared, same, subjects
from benchmarks.attack.tasks import Family
from benchmarks.attack.verdicts import Verdict, WrongError, judge

_SOURCE = str(Path(kernelucb.__file__).parent)
_POINTS = 300  # at most so many lines of one update, spread evenly
_STARTS = {"bandit exact": (0, 3, 7), "bandit estimated": (3, 7), "bkb bandit": (1, 5)}


class _Tripwire:
    r"""Counts the lines of kernelucb, and raises at one of them."""

    def __init__(self, line: int | None) -> None:
        self.line, self.count = line, 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Callable | None:
        if not frame.f_code.co_filename.startswith(_SOURCE):
            return None
        if event == "line":
            self.count += 1
            if self.count == self.line:
                raise KeyboardInterrupt
        return self


def interrupted(action: Callable[[], Any], line: int | None) -> int:
    r"""Play an action with an interrupt at a line; returns the lines that were executed."""
    tripwire, before = _Tripwire(line), sys.gettrace()
    gradients = torch.is_grad_enabled()
    sys.settrace(tripwire)
    try:
        action()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
        # An exception at the line that leaves ``with torch.no_grad()`` skips its exit.
        torch.set_grad_enabled(gradients)
    return tripwire.count


@cache
def cases() -> list[tuple[str, int, int]]:
    r"""Subject, rounds before the update, and line of each seed."""
    found = []
    for name, subject in subjects().items():
        for start in _STARTS.get(name, (subject.start,)):
            thing = prepared(name, start)
            lines = interrupted(lambda: subject.step(thing, start), None)  # noqa: B023
            step = -(-lines // _POINTS)
            found += [(name, start, line) for line in range(1, lines + 1, step)]
    return found


def play(seed: int) -> Verdict:
    r"""One interrupt."""
    name, start, line = cases()[seed]
    return judge(lambda: _attempt(name, start, line), f"{name}, round {start}, line {line}")


def _attempt(name: str, start: int, line: int) -> None:
    subject, thing = subjects()[name], prepared(name, start)
    interrupted(lambda: subject.step(thing, start), line)
    looks = _looks(name, start)
    now = subject.look(thing)
    if same(now, looks[0]):
        subject.step(thing, start)
    elif not same(now, looks[1]):
        raise WrongError("neither the old nor the new state")
    subject.step(thing, start + 1)
    if not same(subject.look(thing), looks[2]):
        raise WrongError("it goes on differently")


@cache
def _looks(name: str, start: int) -> list[Any]:
    subject = subjects()[name]
    return [_look(subject, name, rounds) for rounds in range(start, start + 3)]


def _look(subject: Any, name: str, rounds: int) -> Any:
    return subject.look(prepared(name, rounds))


FAMILY = Family(
    play, lambda: len(cases()), "an interrupt at every line of every update"
)  # fmt: skip
