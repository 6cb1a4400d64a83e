r"""Which kernels of a family the data contradict."""

from collections.abc import Sequence
from typing import Any

from kernelucb._numerics.arguments import checked
from kernelucb.acquisition.family import KernelFamilyUCB
from kernelucb.plotting.style import (
    BLACK,
    BLUE,
    OUTLINES,
    SOUGHT,
    Axes,
    add_legend,
    new_axes,
    plain_ticks,
    whole_numbers,
)
from kernelucb.regression.named import kernel_in_words

_RATIO = "least consistent norm / norm bound"


@checked
def plot_family_report(acqf: KernelFamilyUCB, *, ax: Axes | None = None) -> Axes:
    r"""Draw which kernels of a family the data contradict, and how clearly.

    Each kernel has a bar, the simplest on top: the least norm with which a function
    explains the data under it, over its norm bound. Beyond 1 the data contradict the
    kernel. The title says what the band of the family is worth.

    Example:
        >>> plot_family_report(acqf)

    Args:
        acqf: The bound over the family.
        ax: Where to draw; new axes when absent.

    Returns:
        The axes.

    Raises:
        ImportError: If matplotlib is absent.
        UnsupportedError: If ``acqf`` is no ``KernelFamilyUCB``.
    """
    rows = range(len(acqf.kernels))
    ratios = _ratios(acqf)
    ax = new_axes((7.0, 1.6 + 0.38 * len(rows))) if ax is None else ax
    kinds: tuple[tuple[str, bool, dict[str, Any]], ...] = (
        ("consistent", True, {"color": BLUE, "alpha": 0.7}),
        (
            f"contradicted at level {acqf.delta:.4g}",
            False,
            {"facecolor": "white", "edgecolor": SOUGHT, "hatch": "///"},
        ),
    )
    for name, consistent, style in kinds:
        own = [i for i in rows if acqf.consistent[i] is consistent]
        if own:
            lengths = [ratios[i] for i in own]
            ax.barh(own, lengths, height=0.6, label=name, **style)
    ax.axvline(1.0, color=BLACK, lw=1, label="norm bound")
    ax.set_xscale("log")
    plain_ticks(ax.xaxis, ratios)
    ax.set_yticks(rows, _labels(acqf))
    ax.set_ylim(len(rows) - 0.4, -0.6)  # the simplest kernel on top
    ax.set_xlabel(_RATIO)
    of_all = "union" if acqf.combine == "any" else "intersection"
    title = f"{of_all} of the bands: {acqf.assumptions.verdict}"
    ax.set_title(title, loc="left", fontsize="medium")
    add_legend(ax, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


@checked
def plot_family_history(
    acqfs: Sequence[KernelFamilyUCB],
    *,
    rounds: Sequence[float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    r"""Draw when the data contradicted which kernel of a family.

    One line for each kernel: the least norm that explains the data under it, over its norm
    bound. Above 1 it is contradicted; a tracker does not look again at what is out, so such
    lines end level.

    Example:
        >>> plot_family_history(acqfs)  # one bound for each round

    Args:
        acqfs: The bounds of the rounds, over the same kernels.
        rounds: Where they stand on the horizontal axis; their numbers of observations when
            absent.
        ax: Where to draw; new axes when absent.

    Returns:
        The axes.

    Raises:
        ImportError: If matplotlib is absent.
        ValueError: If there is no bound, or ``rounds`` or the kernels do not fit.
        UnsupportedError: If one of ``acqfs`` is no ``KernelFamilyUCB``.
    """
    if len(acqfs) == 0:
        raise ValueError("acqfs must hold at least one bound.")
    if len({len(acqf.kernels) for acqf in acqfs}) > 1:
        raise ValueError("acqfs must be over the same kernels.")
    places = [acqf.num_observations for acqf in acqfs] if rounds is None else [*rounds]
    if len(places) != len(acqfs):
        raise ValueError(f"rounds has {len(places)} entries for {len(acqfs)} bounds.")
    ax = new_axes() if ax is None else ax
    table = [_ratios(acqf) for acqf in acqfs]
    lines = zip(*table, strict=True)
    styles: list[dict[str, Any]] = [{"color": BLUE, "linewidth": 1.6}, *OUTLINES]
    for index, (kernel, line) in enumerate(zip(acqfs[-1].kernels, lines, strict=True)):
        style = styles[index % len(styles)]
        ax.plot(places, line, label=kernel_in_words(kernel), **style)
    ax.axhline(1.0, color=BLACK, lw=1, label="contradicted above")
    ax.set(xlabel="observations", ylabel=_RATIO, yscale="log")
    plain_ticks(ax.yaxis, [ratio for row in table for ratio in row])
    whole_numbers(ax)
    add_legend(ax)
    return ax


def _ratios(acqf: KernelFamilyUCB) -> list[float]:
    pairs = zip(acqf.least_consistent_norms, acqf.norm_bounds, strict=True)
    return [least / bound for least, bound in pairs]


def _labels(acqf: KernelFamilyUCB) -> list[str]:
    norms = zip(acqf.kernels, acqf.least_consistent_norms, acqf.norm_bounds, strict=True)
    return [
        f"{kernel_in_words(kernel)}\nnorm {least:.4g} of {bound:.4g}"
        for kernel, least, bound in norms
    ]
