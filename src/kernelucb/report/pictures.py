r"""The pictures of a page, each as one address that holds all of it."""

from base64 import b64encode
from io import BytesIO
from math import ceil
from typing import Any

from kernelucb._numerics.digits import at_least
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
from kernelucb.report.study import Study

_COLUMNS = 3


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
    names, table = study.table.names, study.table
    rows = ceil(len(names) / _COLUMNS)
    size = (7.2, 1.95 * rows + 0.25)
    shape: dict[str, Any] = {"figsize": size, "sharey": True, "squeeze": False}
    columns = min(len(names), _COLUMNS)
    figure, axes = plt.subplots(rows, columns, layout="constrained", **shape)
    for column, ax in enumerate(axes.flat):
        if column >= len(names):
            ax.axis("off")
            continue
        ends = study.limits[:, column].tolist()
        plot_bands(
            {"band": study.band},
            slice_points(study.point, column, *ends),
            coordinate=column,
            data=(table.inputs, table.outcomes),
            show_mean=False,
            fade=len(names) > 1,
            legend=False,
            ax=ax,
        )
        seen = float(table.outcomes[study.best])
        mark: dict[str, Any] = {
            "marker": "*",
            "s": 45,
            "color": BLACK,
            "zorder": 5,
            "clip_on": False,
        }
        ax.scatter([float(study.point[column])], [seen], label="best run", **mark)
        label = study.wording.label(table.outcome) if column % _COLUMNS == 0 else ""
        ax.set(xlabel=study.wording.label(names[column]), ylabel=label)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return _address(plt, figure)
