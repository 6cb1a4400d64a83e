r"""The pictures of a page, each as one address that holds all of it."""

from base64 import b64encode
from io import BytesIO
from math import ceil
from typing import Any

import torch

from kernelucb._numerics.digits import at_least
from kernelucb.page.study import Study
from kernelucb.plotting.bands import plot_bands, slice_points
from kernelucb.plotting.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RC,
    SOUGHT,
    load_pyplot,
)

_COLUMNS = 3
_STAR: dict[str, Any] = {"marker": "*", "s": 45, "color": BLACK}
_STAR |= {"zorder": 5, "clip_on": False}


def pictures_of(study: Study) -> dict[str, str]:
    r"""The curve of the gap over the norm bound, and slices through the best run."""
    plt = load_pyplot()
    sizes = {"font.size": 8, "axes.labelsize": 8, "legend.fontsize": 7.5}
    with plt.rc_context(RC | sizes):
        return {"curve": _address(plt, _curve(plt, study)), "slices": _slices(plt, study)}


def _address(plt: Any, figure: Any) -> str:
    r"""The picture as an address in which it is contained."""
    buffer = BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    return f"data:image/svg+xml;base64,{b64encode(buffer.getvalue()).decode()}"


def _curve(plt: Any, study: Study) -> Any:
    figure, ax = plt.subplots(figsize=(3.55, 2.35), layout="constrained")
    norms, near, anywhere = zip(*study.curve, strict=True)
    ax.plot(norms, anywhere, color=BLUE, marker="o", ms=3, label="anywhere")
    ax.plot(norms, near, color=ORANGE, marker="s", ms=3, label="near the best run")
    ax.axhline(study.tolerance, color=GREEN, ls=":", label="tolerance")
    if study.least_norm > 0.0:
        ax.axvline(study.least_norm, color=GREY, lw=1, label="least norm")
    ax.axvline(study.norm_bound, color=SOUGHT, ls="--", lw=1, label="norm bound in use")
    outcome = study.wording.label(study.table.outcome)
    top = min(1.05 * max(anywhere), 5.0 * study.report.gap + study.tolerance)
    ax.set(xscale="log", ylim=(0, top), xlabel="norm bound", ylabel=f"gap, {outcome}")
    first = study.least_norm or norms[0]
    ticks = [first * factor for factor in (1, 2, 5, 10, 20) if first * factor <= norms[-1]]
    ax.set_xticks(ticks, map(at_least, ticks))
    ax.minorticks_off()
    ax.legend(loc="best")
    return figure


def _slices(plt: Any, study: Study) -> str:
    table = study.table
    rows = ceil(len(table.columns) / _COLUMNS)
    size = (7.2, 1.95 * rows + 0.25)
    shape: dict[str, Any] = {"figsize": size, "sharey": True, "squeeze": False}
    columns = min(len(table.columns), _COLUMNS)
    figure, axes = plt.subplots(rows, columns, layout="constrained", **shape)
    for ax in axes.flat[len(table.columns) :]:
        ax.axis("off")
    for place, (ax, (name, own)) in enumerate(
        zip(axes.flat, table.columns.items(), strict=False)
    ):
        at = float(study.point[own[0]])
        if table.is_choice(name):
            at = _words(ax, study, name, own)
        else:
            plot_bands(
                {"band": study.band},
                slice_points(study.point, own[0], *study.limits[:, own[0]].tolist()),
                coordinate=own[0],
                data=(table.inputs, table.outcomes),
                show_mean=False,
                fade=len(table.columns) > 1,
                legend=False,
                ax=ax,
            )
        seen = float(table.outcomes[study.best])
        ax.scatter([at], [seen], label="best run", **_STAR)
        label = study.wording.label(table.outcome) if place % _COLUMNS == 0 else ""
        ax.set(xlabel=study.wording.label(name), ylabel=label)
    found: dict[str, Any] = {}
    for ax in axes.flat:
        handles, labels = ax.get_legend_handles_labels()
        found = dict(zip(labels, handles, strict=True)) | found
    figure.legend([*found.values()], [*found], loc="outside upper center", ncols=len(found))
    return _address(plt, figure)


def _words(ax: Any, study: Study, name: str, own: list[int]) -> float:
    r"""The band at each word of an input; the place of the best run's word."""
    words, points = study.table.choices[name], study.point.repeat(len(own), 1)
    points[:, own] = torch.eye(len(own), dtype=points.dtype)
    lower, upper = (side.tolist() for side in study.band.bounds(points))
    ax.vlines(range(len(own)), lower, upper, color=BLUE, lw=6, alpha=0.4)
    ax.set_xticks(range(len(own)), words)
    ax.set_xlim(-0.5, len(own) - 0.5)
    return float(study.point[own].argmax())
