r"""Pictures in one style."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from kernelucb.plotting import RC, load_pyplot


@contextmanager
def picture(path: Path, *shape: int, dpi: int | None = None, **options: Any) -> Iterator:
    r"""A figure and its axes, saved in the end; options as for ``pyplot.subplots``."""
    plt = load_pyplot()
    with plt.rc_context(RC):
        figure, axes = plt.subplots(*shape, layout="constrained", **options)
        try:
            yield figure, axes
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, **({} if dpi is None else {"dpi": dpi}))
        finally:
            plt.close(figure)


def draw_spread(
    axes: Any,
    x: np.ndarray,
    mean: np.ndarray,
    spread: np.ndarray,
    style: Mapping[str, Any],
    label: str,
    **shade: Any,
) -> None:
    r"""A line, and ``mean ± spread`` shaded in its colour."""
    axes.plot(x, mean, label=label, **style)
    axes.fill_between(x, mean - spread, mean + spread, color=style["color"], **shade)


def legend_below(figure: Any, axes: Any, columns: int) -> None:
    r"""One legend for all panels, from the lines of one."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)
