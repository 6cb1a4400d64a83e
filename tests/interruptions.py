r"""Interrupting a call at every line of the package: is its update atomic?

``sys.settrace`` raises ``KeyboardInterrupt`` before the k-th line that the package runs
during a call, for k = 1, 2, ... until the call completes. Afterwards the object must be in
the state before the call or in the state after it, and it must be able to go on.

Example:
    >>> bandit = KernelBandit(kernel, norm_bound=5.0, noise_std=0.1)
    >>> check_atomic(
    ...     make=lambda: deepcopy(bandit),
    ...     call=lambda bandit: bandit.observe(x, y),
    ...     view=lambda bandit: (bandit.state_dict(), bandit.bounds(arms)),
    ...     stride=7,
    ... )
"""

import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import torch
from torch import Tensor

import kernelucb

_PACKAGE = str(Path(kernelucb.__file__).parent)

T = TypeVar("T")


def interrupt(call: Callable[[], Any], at: int) -> str | None:
    r"""Run ``call``; ``KeyboardInterrupt`` before the ``at``-th line that kernelucb runs.

    Args:
        call: What to interrupt.
        at: Number of the line, counted from 1 over all files of the package.

    Returns:
        Where it was interrupted, ``file:line``; None if the call completed before.
    """
    count, where = 0, None

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count, where
        if not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        if event == "line":
            count += 1
            if count == at:
                where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return trace

    before, gradients = sys.gettrace(), torch.is_grad_enabled()
    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        if where is None:
            raise
    finally:
        sys.settrace(before)
        # An exception at the line that leaves ``with torch.no_grad()`` skips its exit.
        torch.set_grad_enabled(gradients)
    return where


def check_atomic(
    make: Callable[[], T],
    call: Callable[[T], Any],
    view: Callable[[T], Any],
    *,
    tolerance: float = 0.0,
    stride: int = 1,
) -> int:
    r"""Interrupt ``call`` on fresh objects, and check their states.

    Seen through ``view``, an interrupted object must equal the object before or after the
    call; when the call is made again it must equal the object after one call or two.

    Args:
        make: A fresh object in the state before the call, the same each time.
        call: Changes the object; it may return something that must be the same, too.
        view: What can be seen from outside: nested tensors and numbers. It gets a copy,
            so that looking at the object does not change it.
        tolerance: Absolute, for caches that are computed in another order.
        stride: Interrupt at each line that is a multiple of this; 1 for all of them.

    Returns:
        How many times the call was interrupted.

    Raises:
        AssertionError: With the line of the first interruption that broke the object.
    """
    states, results = [view(make())], [None]
    told = make()
    for _ in range(2):
        results.append(call(told))
        states.append(view(deepcopy(told)))

    at = stride
    while True:
        subject = make()
        where = interrupt(lambda subject=subject: call(subject), at)
        if where is None:
            return at // stride - 1
        try:
            seen = view(deepcopy(subject))
            again = call(subject)
            after = view(deepcopy(subject))
        except Exception as error:
            raise AssertionError(f"Unusable when interrupted at {where}.") from error
        found = (seen, again, after)
        old_or_new = [(states[i], results[i + 1], states[i + 1]) for i in (0, 1)]
        mistakes = [_difference(found, expected, tolerance) for expected in old_or_new]
        assert None in mistakes, (
            f"A mixture when interrupted at {where}.\n"
            f"It is not the state before: {mistakes[0]}\nNor the one after: {mistakes[1]}"
        )
        at += stride


def _difference(ours: Any, theirs: Any, tolerance: float, at: str = "") -> str | None:
    r"""Where two nests of tensors and numbers differ, and by how much; None if nowhere."""
    if type(ours) is not type(theirs):
        return f"{at}: {ours!r}, {theirs!r}"
    if isinstance(ours, Mapping):
        ours, theirs = sorted(ours.items()), sorted(theirs.items())
    if isinstance(ours, (list, tuple)):
        if len(ours) != len(theirs):
            return f"{at}: {len(ours)} entries, {len(theirs)}"
        parts = (
            _difference(a, b, tolerance, f"{at}/{index}")
            for index, (a, b) in enumerate(zip(ours, theirs, strict=True))
        )
        return next((part for part in parts if part is not None), None)
    if isinstance(ours, (float, Tensor)):
        left, right = torch.as_tensor(ours), torch.as_tensor(theirs)
        same = left.shape == right.shape and torch.allclose(
            left, right, rtol=0.0, atol=tolerance, equal_nan=True
        )
    else:
        same = ours == theirs
    return None if same else f"{at}: {ours!r}, {theirs!r}"
