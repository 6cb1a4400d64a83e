r"""How far the recommended point may be from the optimum, over the rounds."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from botorch.exceptions import UnsupportedError

from kernelucb._numerics.checks import nonnegative_scalar
from kernelucb.certificates import RegretCertificate
from kernelucb.certificates.words import gaps_in_words
from kernelucb.plotting.style import (
    BLACK,
    BLUE,
    OUTLINES,
    SOUGHT,
    Axes,
    add_legend,
    new_axes,
)

_FIRST: dict[str, Any] = {"color": BLUE, "linestyle": "-", "linewidth": 1.6}


def plot_gap(
    certificates: Sequence[Any] | Mapping[str, Sequence[Any]],
    *,
    rounds: Sequence[float] | None = None,
    accepted: float | None = None,
    true_gaps: Sequence[float] | None = None,
    x_label: str = "round",
    y_label: str = "gap to the optimum",
    ax: Axes | None = None,
) -> Axes:
    r"""Draw how far the recommended point may be from the optimum, round by round.

    The legend calls a run "certified" only if every certificate of the run is certified;
    otherwise it says how many are, or why none is. Gaps that are not certified have open
    marks.

    Example:
        >>> decisions.append(stopping(acqf))  # in every round
        >>> plot_gap(decisions, rounds=range(4, 4 + len(decisions)), accepted=stopping.gap)

    Args:
        certificates: One for each round, of one run or of several by their names: regret
            certificates, decisions of ``CertifiedGapStopping`` (also of Ax's strategy),
            optimum reports, or None where there was none.
        rounds: Where each certificate stands on the horizontal axis, such as the number of
            observations or the time; 1, 2, ... when absent. Longer than a run: its first
            ones count.
        accepted: The gap that is accepted, outcome units.
        true_gaps: The gap that the recommended point really had, for one run.
        x_label: Horizontal label.
        y_label: Vertical label.
        ax: Where to draw.

    Raises:
        ValueError: If there is no certificate, ``rounds`` or ``true_gaps`` do not fit them,
            or a scalar is out of its range.
        UnsupportedError: If an entry of ``certificates`` is no certificate.
    """
    runs = certificates if isinstance(certificates, Mapping) else {"": certificates}
    parts = {name: [_certificate(each) for each in run] for name, run in runs.items()}
    if not any(each is not None for run in parts.values() for each in run):
        raise ValueError("certificates must hold at least one certificate.")
    longest = max(map(len, parts.values()))
    places = list(range(1, longest + 1) if rounds is None else rounds)
    if len(places) < longest:
        raise ValueError(f"rounds has {len(places)} entries for {longest} certificates.")
    if true_gaps is not None and (len(runs) > 1 or len(true_gaps) != longest):
        raise ValueError("true_gaps must be one number for each certificate of one run.")
    level = None if accepted is None else nonnegative_scalar("accepted", accepted)
    ax = new_axes() if ax is None else ax
    for (name, run), style in zip(parts.items(), cycle([_FIRST, *OUTLINES]), strict=False):
        gaps = [math.nan if each is None else each.gap for each in run]
        label = gaps_in_words([each for each in run if each is not None])
        label = f"{name}: {label}" if name else label
        ax.plot(places[: len(run)], gaps, label=label, **style)
        doubtful = [i for i, each in enumerate(run) if each and not each.certified]
        if doubtful:
            marks = [places[i] for i in doubtful], [gaps[i] for i in doubtful]
            ax.plot(*marks, "o", ms=4, mfc="white", color=style["color"])
    if true_gaps is not None:
        label = "true gap (never seen)"
        ax.plot(places[:longest], [*true_gaps], color=BLACK, ls="--", label=label)
    if level is not None:
        ax.axhline(level, color=SOUGHT, lw=1, zorder=1, label="accepted")
    ax.set(xlabel=x_label, ylabel=y_label)
    ax.set_ylim(bottom=0.0)
    if all(float(place).is_integer() for place in places):
        ax.locator_params(axis="x", integer=True)
    add_legend(ax)
    return ax


def _certificate(entry: Any) -> RegretCertificate | None:
    r"""The certificate of a decision or report, or itself."""
    found = getattr(entry, "certificate", entry)
    if found is None or isinstance(found, RegretCertificate):
        return found
    raise UnsupportedError(
        f"{type(entry).__name__} is no certificate; give what regret_certificate, "
        "CertifiedGapStopping or optimum_report returned."
    )
