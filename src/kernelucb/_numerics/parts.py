r"""Points as rows, and many of them evaluated a few at a time."""

from collections.abc import Callable

from botorch.exceptions import BotorchTensorDimensionError
from torch import Tensor

from kernelucb._numerics.checks import tensor

# Points that are evaluated together: memory does not grow with their number, and most
# intermediate results stay in the processor's cache.
_TOGETHER = 512


def in_parts(X: Tensor, evaluate: Callable[[Tensor], Tensor]) -> Tensor:
    r"""Evaluate ``n x d`` points a few at a time.

    Args:
        X: The points.
        evaluate: Maps ``m x d`` points to ``... x m`` values.

    Returns:
        ``... x n`` values, written to one tensor: small results that stay alive between
        large intermediate ones would fragment the memory.
    """
    if len(X) <= _TOGETHER:
        return evaluate(X)
    start, results = 0, X.new_empty(0)
    for part in X.split(_TOGETHER):
        values = evaluate(part)
        if start == 0:
            results = values.new_empty(*values.shape[:-1], len(X))
        results[..., start : start + len(part)] = values
        start += len(part)
    return results


def rows_of(X: Tensor) -> Tensor:
    r"""Points as float64 rows: a margin rounded to float32 could be on the wrong side."""
    if tensor("X", X).dim() < 1 or X.shape[-1] == 0:
        raise BotorchTensorDimensionError(
            f"X must be `... x d` with d >= 1, got shape {tuple(X.shape)}."
        )
    return X.reshape(-1, X.shape[-1]).double()
