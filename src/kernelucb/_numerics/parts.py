r"""Very many points, a few at a time."""

from collections.abc import Callable

from torch import Tensor

# Points that are evaluated together: memory does not grow with their number, and for most
# data what is computed of them stays in the processor's cache.
_TOGETHER = 512


def in_parts(X: Tensor, evaluate: Callable[[Tensor], Tensor]) -> Tensor:
    r"""What is computed of ``n x d`` points, ``... x n``, a few of them at a time.

    Written to one tensor: small results kept between large intermediate ones would keep
    the memory of these from being used again.
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
