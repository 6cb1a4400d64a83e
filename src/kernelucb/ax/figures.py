r"""Pictures on Ax's analysis cards."""

# Plotly leaves much untyped.
# pyright: reportUnknownMemberType=false

from collections.abc import Sequence
from typing import Any

import pandas as pd
from plotly import graph_objects as go

from kernelucb.ax.rounds import Round
from kernelucb.certificates import OptimumReport
from kernelucb.certificates.regret import gaps_in_words

BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#6E6E6E"
_FILL = "rgba(0, 114, 178, 0.25)"


def band_figure(df: pd.DataFrame, name: str, discrete: bool) -> go.Figure:
    r"""A band from a column of places and the columns ``lower`` and ``upper``.

    ``name`` is its name in the legend; the band over single values is drawn as bars.
    """
    # As lists, which every version of plotly's script reads.
    x, lower, upper = (df[column].tolist() for column in (df.columns[0], "lower", "upper"))
    if discrete:
        middle = (0.5 * (df["lower"] + df["upper"])).tolist()
        half = (0.5 * (df["upper"] - df["lower"])).tolist()
        bars = {"type": "data", "array": half, "width": 8}
        style: dict[str, Any] = {"mode": "markers", "marker": {"color": BLUE, "size": 6}}
        return go.Figure(
            go.Scatter(x=x, y=middle, error_y=bars, name=name, showlegend=True, **style)
        )
    figure = go.Figure(
        go.Scatter(x=x, y=lower, line_color=BLUE, name="lower bound", showlegend=False)
    )
    filled: dict[str, Any] = {"fill": "tonexty", "fillcolor": _FILL, "line_color": BLUE}
    return figure.add_scatter(x=x, y=upper, name=name, showlegend=True, **filled)


def gap_figure(rounds: Sequence[Round]) -> go.Figure:
    r"""The gap after some trials; marks of those that are not certified are open."""
    certificates = [each.certificate for each in rounds]
    symbols = ["circle" if each.certified else "circle-open" for each in certificates]
    figure = go.Figure(
        go.Scatter(
            x=[each.trial_index for each in rounds],
            y=[each.gap for each in certificates],
            customdata=[each.arm_name for each in rounds],
            name=gaps_in_words(certificates),
            showlegend=True,
            mode="lines+markers",
            line_color=BLUE,
            marker={"symbol": symbols, "size": 8},
            hovertemplate="trial %{x}: arm %{customdata}, gap %{y:.4g}",
        )
    )
    figure.update_layout(xaxis_title="trial", yaxis_title="gap to the optimum")
    return figure.update_yaxes(rangemode="tozero")


def region_figure(
    report: OptimumReport, limits: Sequence[tuple[float, float]]
) -> go.Figure:
    r"""Where the optimum may be in each input, from its lower to its upper limit."""
    low, high = report.region.tolist()
    name = "where the optimum may be"
    name += "" if report.certificate.rigorous else ", of the points looked at"

    def shares(values: Sequence[float]) -> list[float]:
        return [
            (value - a) / (b - a) if b > a else 0.5
            for value, (a, b) in zip(values, limits, strict=True)
        ]

    starts, ends = shares(low), shares(high)
    lengths = [max(b - a, 0.005) for a, b in zip(starts, ends, strict=True)]
    names = list(report.names)
    texts = [
        f"{a:.4g}" if a == b else f"{a:.4g} to {b:.4g}"
        for a, b in zip(low, high, strict=True)
    ]
    bars: dict[str, Any] = {"orientation": "h", "marker_color": _FILL, "text": texts}
    figure = go.Figure(go.Bar(y=names, x=lengths, base=starts, name=name, **bars))
    for label, point, symbol, colour in (
        ("recommended", report.recommended, "diamond", ORANGE),
        ("evaluate next", report.next_point, "line-ns-open", "black"),
    ):
        marks = {"symbol": symbol, "size": 12, "color": colour}
        values = point.tolist()
        text = [f"{value:.4g}" for value in values]
        figure.add_scatter(
            x=shares(values),
            y=names,
            mode="markers",
            marker=marks,
            name=label,
            hovertext=text,
        )
    figure.update_xaxes(
        range=[-0.02, 1.02], title="from lower to upper limit", showticklabels=False
    )
    return figure.update_yaxes(autorange="reversed")
