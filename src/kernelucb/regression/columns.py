r"""What input transforms do to single columns."""

from collections.abc import Collection
from typing import Any

from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputStandardize,
    Log10,
    Normalize,
    OneHotToNumeric,
    Round,
    Warp,
)

_ALONG_COLUMNS = (Normalize, InputStandardize, Log10, Round, Warp)


def is_monotone(transform: Any, fixed: Collection[int] = ()) -> bool:
    r"""Whether each kernel input surely rises or falls with a single raw input.

    Args:
        transform: An input transform; None leaves inputs as they are.
        fixed: Raw columns that do not change, so that what becomes of them does not count.
    """
    is_chain = type(transform) is ChainedInputTransform
    steps = [*transform.values()] if is_chain else [transform]
    decoded = False
    for step in steps:
        groups = _one_hot_columns(step)
        # After a decoding, columns have other numbers.
        if groups and (decoded or not groups <= set(fixed)):
            return False
        decoded = decoded or type(step) is OneHotToNumeric
        if not (step is None or type(step) in (*_ALONG_COLUMNS, OneHotToNumeric)):
            return False
    return True


def _one_hot_columns(step: Any) -> set[int]:
    r"""Columns that a step takes together, as codes of categories."""
    groups = getattr(step, "categorical_features", None) or {}
    return {start + i for start, count in groups.items() for i in range(count)}
