r"""The pictures of a page, each as one address that holds all of it."""

from base64 import b64encode
from io import BytesIO
from math import ceil
from typing import TYPE_CHECKING, Any

import torch

from kernelucb._numerics.digits import at_least
from kernelucb.plotting import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RC,
    SOUGHT,
    load_pyplot,
    plot_bands,
    slice_points,
)

if TYPE_CHECKING:
    from kernelucb.page.study import Page

_COLUMNS = 3
_STAR: dict[str, Any] = {"marker": "*", "s": 45, "color": BLACK}
_STAR |= {"zorder": 5, "clip_on": False}


def pictures_of(page: "Page") -> dict[str, str]:
    r"""The curve of the gap over the norm bound, and slices through the best run."""
    plt, found = load_pyplot(), dict[str, str]()
    sizes = {"font.size": 8, "axes.labelsize": 8, "legend.fontsize": 7.5}
    with plt.rc_context(RC | sizes):
        for name, draw in ("curve", _curve), ("slices", _slices):
            figure, buffer = draw(plt, page), BytesIO()
            figure.savefig(buffer, format="svg", metadata={"Date": None})
            plt.close(figure)
            address = b64encode(buffer.getvalue()).decode()
            found[name] = f"data:image/svg+xml;base64,{address}"
    return found


def _curve(plt: Any, page: "Page") -> Any:
    figure, ax = plt.subplots(figsize=(3.55, 2.35), layout="constrained")
    norms, near, anywhere = zip(*page.curve, strict=True)
    ax.plot(norms, anywhere, color=BLUE, marker="o", ms=3, label="anywhere")
    ax.plot(norms, near, color=ORANGE, marker="s", ms=3, label="near the best run")
    ax.axhline(page.tolerance, color=GREEN, ls=":", label="tolerance")
    if page.least_norm > 0.0:
        ax.axvline(page.least_norm, color=GREY, lw=1, label="least norm")
    ax.axvline(page.norm_bound, color=SOUGHT, ls="--", lw=1, label="norm bound in use")
    outcome = page.wording.label(page.table.outcome)
    top = min(1.05 * max(anywhere), 5.0 * page.report.gap + page.tolerance)
    ax.set(xscale="log", ylim=(0, top), xlabel="norm bound", ylabel=f"gap, {outcome}")
    first = page.least_norm or norms[0]
    ticks = [first * factor for factor in (1, 2, 5, 10, 20) if first * factor <= norms[-1]]
    ax.set_xticks(ticks, map(at_least, ticks))
    ax.minorticks_off()
    ax.legend(loc="best")
    return figure


def _slices(plt: Any, page: "Page") -> Any:
    table, seen = page.table, float(page.table.outcomes[page.best])
    rows, columns = ceil(len(table.columns) / _COLUMNS), min(len(table.columns), _COLUMNS)
    shape: dict[str, Any] = {"figsize": (7.2, 1.95 * rows + 0.25), "layout": "constrained"}
    figure, axes = plt.subplots(rows, columns, sharey=True, squeeze=False, **shape)
    entries: dict[str, Any] = {}
    for ax, (name, at) in zip(axes.flat, table.columns.items(), strict=False):
        here = float(page.point[at[0]])
        if name in table.choices:  # the band at each word
            words, points = table.choices[name], page.point.repeat(len(at), 1)
            points[:, at] = torch.eye(len(at), dtype=points.dtype)
            lower, upper = (side.tolist() for side in page.band.bounds(points))
            ax.vlines(range(len(at)), lower, upper, color=BLUE, lw=6, alpha=0.4)
            ax.set_xticks(range(len(at)), words)
            ax.set_xlim(-0.5, len(at) - 0.5)
            here = float(page.point[at].argmax())
        else:
            plot_bands(
                {"band": page.band},
                slice_points(page.point, at[0], *page.limits[:, at[0]].tolist()),
                coordinate=at[0],
                data=(table.inputs, table.outcomes),
                show_mean=False,
                legend=False,
                ax=ax,
            )
        ax.scatter([here], [seen], label="best run", **_STAR)
        ax.set(xlabel=page.wording.label(name), ylabel="")
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    for ax in axes[:, 0]:
        ax.set_ylabel(page.wording.label(table.outcome))
    for ax in axes.flat[len(table.columns) :]:
        ax.axis("off")
    figure.legend(
        [*entries.values()], [*entries], loc="outside upper center", ncols=len(entries)
    )
    return figure
