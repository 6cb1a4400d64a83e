r"""Failure probabilities that a statement spends beside those of its bands."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_SPENT: ContextVar[list[float] | None] = ContextVar("spent", default=None)


def spend(delta: float) -> None:
    r"""Note that a number rests on an event of its own, such as a sample's."""
    if (spent := _SPENT.get()) is not None:
        spent.append(delta)


@contextmanager
def counted() -> Generator[list[float]]:
    r"""The failure probabilities that are spent within the context."""
    token = _SPENT.set(spent := list[float]())
    try:
        yield spent
    finally:
        _SPENT.reset(token)
