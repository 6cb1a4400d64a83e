r"""Numbers and verdicts in tables."""

import math

from benchmarks.runner import Moments

TARGETS = ("claim or target", "measured", "met")


def digits(value: float, count: int = 3) -> str:
    r"""A number with some significant digits, never in powers of ten."""
    if not math.isfinite(value):
        return "∞"
    after = count - 1 - math.floor(math.log10(abs(value))) if value else count - 1
    return f"{value:.{max(after, 0)}f}"


def estimate(moments: Moments) -> str:
    r"""A mean with its standard error."""
    return f"{digits(moments.mean)} ± {digits(moments.standard_error, 2)}"


def verdict(met: bool) -> str:
    r"""How a table says whether a target was met."""
    return "yes" if met else "**no**"
