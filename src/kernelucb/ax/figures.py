r"""Pictures on Ax's analysis cards."""

# Plotly leaves much untyped.
# pyright: reportUnknownMemberType=false

import html
import textwrap
from collections.abc import Sequence
from typing import Any

import pandas as pd
from plotly import graph_objects as go

from kernelucb.ax.report import ExperimentReport
from kernelucb.ax.rounds import Round
from kernelucb.ax.spaces import in_words
from kernelucb.certificates.regret import gaps_in_words

BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "#6E6E6E"
_FILL = "rgba(0, 114, 178, 0.25)"
_WIDTH = 120  # characters in a line below a picture


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


def region_figure(report: ExperimentReport, labels: Sequence[str]) -> go.Figure:
    r"""Where the optimum may be in each parameter, from its lower to its upper limit."""
    name = "where the optimum may be"
    name += "" if report.certificate.rigorous else ", of the points looked at"
    parameters, bars = report.parameters, dict[str, list[Any]](y=[], x=[], base=[], text=[])
    left = parameters.stretches(report.limits, *report.region.tolist())
    for label, own in zip(labels, left, strict=True):
        for start, end, text in left[own]:
            entries = (label, max(end - start, 0.005), start, text)
            for column, entry in zip(bars.values(), entries, strict=True):
                column.append(entry)
    style: dict[str, Any] = {"orientation": "h", "marker_color": _FILL}
    style |= {"textposition": "inside", "insidetextanchor": "start"}
    figure = go.Figure(go.Bar(**bars, name=name, **style))
    values = parameters.parameters(report.recommended.tolist())
    shares = parameters.shares(report.limits, report.recommended.tolist())
    figure.add_scatter(
        x=[shares[own] for own in left],
        y=[*labels],
        mode="markers",
        marker={"symbol": "diamond", "size": 12, "color": ORANGE},
        name="recommended",
        hovertext=[in_words(values[own]) for own in left],
    )
    figure.update_xaxes(
        range=[-0.02, 1.02], title="from lower to upper limit", showticklabels=False
    )
    return figure.update_yaxes(autorange="reversed")


def add_outcomes(figure: go.Figure, seen: pd.DataFrame, parameter: str) -> None:
    r"""Add the outcomes of trials to a band; those that are not on its line are grey."""
    for here, name, style in (
        (False, "outcomes elsewhere", {"color": GREY, "symbol": "circle-open"}),
        (True, "outcomes on this line", {"color": "black"}),
    ):
        rows = seen[seen["here"] == here]
        if len(rows) > 0:
            figure.add_scatter(
                x=rows[parameter].tolist(),
                y=rows["mean"].tolist(),
                mode="markers",
                marker={"size": 7, **style},
                name=name,
                customdata=rows["arm"].tolist(),
                hovertemplate="arm %{customdata}: %{y:.4g}",
            )


def noted(figure: go.Figure, note: str) -> go.Figure:
    r"""The figure with text below it, every line of which is seen."""
    lines = [
        part
        for line in note.splitlines()
        for part in textwrap.wrap(line, _WIDTH, subsequent_indent="    ") or [""]
    ]
    shown = [html.escape(part).replace("  ", "&nbsp;&nbsp;") for part in lines]
    below = 15 * len(lines)
    # Ax shows 500 pixels of a card, and scrolls beyond.
    height = 105 + below + max(200, 390 - below)
    figure.update_layout(height=height, margin={"t": 45, "b": 60 + below})
    return figure.add_annotation(
        text="<br>".join(shown),
        xref="paper",
        yref="paper",
        x=0.0,
        y=0.0,
        yshift=-50,
        xanchor="left",
        yanchor="top",
        align="left",
        showarrow=False,
        font={"size": 11, "color": GREY},
    )
