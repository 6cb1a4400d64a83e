r"""Bands and gaps as analyses of Ax."""

# Ax and plotly leave much untyped.
# pyright: reportPrivateUsage=false, reportUnknownMemberType=false

import html
import textwrap
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import pandas as pd
from ax import core
from ax.adapter.base import Adapter
from ax.analysis import Analysis
from ax.analysis.plotly.plotly_analysis import (
    PlotlyAnalysisCard,
    create_plotly_analysis_card,
)
from ax.analysis.plotly.surface.utils import get_parameter_values
from ax.core import Experiment
from ax.core.trial_status import TrialStatus
from ax.exceptions.analysis import AnalysisNotApplicableStateError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.exceptions import UnsupportedError
from plotly import graph_objects as go

from kernelucb._numerics.checks import whole_number
from kernelucb._numerics.digits import at_most
from kernelucb._numerics.palette import BLACK, BLUE, GREY, ORANGE, SKY
from kernelucb.ax.bounds import FittedBound, knowing, pareto_front
from kernelucb.ax.calibrated import CalibratedGapStoppingStrategy
from kernelucb.ax.experiment import Parameters, config_of, inputs_of, setting_of
from kernelucb.calibration import CalibratedClaim
from kernelucb.certificates import RegretCertificate, regret_certificate
from kernelucb.certificates.wording import Wording, in_words
from kernelucb.certificates.words import gaps_in_words
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.exceptions import NoSafePointError

KINDS = {
    "optimal": BLUE,
    "covered": SKY,
    "open": ORANGE,
    "dominated": GREY,
    "infeasible": "#CCCCCC",
}
_FILL = "rgba(0, 114, 178, 0.25)"
_WIDTH = 120  # characters in a line below a picture

# Title and subtitle, one line each; the words below the picture and what they rest on;
# numbers, picture.
Card = tuple[str, str, str, Assumptions, pd.DataFrame, go.Figure]


@dataclass(eq=False)
class BoundAnalysis(Analysis):
    r"""An analysis of an experiment by a bound of this package.

    It needs at least one observed trial, and changes neither the experiment nor its next
    trials. Title and subtitle are short; a
    title has numbers only where they are certified. What the bound rests on stands below
    the picture, and its first word is "certified" only if everything was given.

    Attributes:
        units: Of parameters and metrics by their names, ``{"temperature": "°C"}``.

    Raises:
        ValueError: If a number is out of its range.
    """

    _: KW_ONLY
    units: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        for name, given in vars(self).items():
            if name in ("num_points", "most_rounds", "max_evaluations"):
                whole_number(name, given)

    def compute(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> PlotlyAnalysisCard:
        r"""The card, with a picture and the numbers that are in it as ``df``.

        Raises:
            AnalysisNotApplicableStateError: If there is nothing to draw, or not yet.
        """
        name = type(self).__name__
        try:
            if experiment is None:
                raise ValueError(f"{name} needs an experiment.")
            card = self._card(experiment, generation_strategy)
        except (NoSafePointError, UnsupportedError, ValueError) as error:
            raise AnalysisNotApplicableStateError(str(error)) from error
        title, subtitle, note, assumptions, df, figure = card
        if assumptions.violated:
            subtitle = "The data contradict what was given: change that first, see below"
        _add_note(figure, note)
        return create_plotly_analysis_card(name, title, subtitle, df, figure)

    def _card(self, experiment: Experiment, strategy: GenerationStrategy | None) -> Card:
        raise NotImplementedError


@dataclass(eq=False)
class BandAnalysis(BoundAnalysis):
    r"""The band along one parameter, through the recommended arm, from all outcomes so far.

    Example:
        >>> cards = client.compute_analyses([kernelucb.ax.BandAnalysis("temperature")])

    Attributes:
        parameter: The parameter that varies. Every value of integers and choices is drawn
            by itself.
        metric: The outcome; the objective when absent.
        num_points: How many values of a continuous parameter are looked at.
        known: See ``current_bound``.
        units: See ``BoundAnalysis``.
    """

    parameter: str
    _: KW_ONLY
    metric: str | None = None
    num_points: int = 100
    known: GenerationStrategy | None = None

    def _card(self, experiment: Experiment, strategy: GenerationStrategy | None) -> Card:
        fitted = FittedBound(knowing(strategy, self.known), experiment)
        arm, _ = fitted.best_arm()
        bands = {**fitted.bands, fitted.outcome: fitted.band}
        metric = self.metric or fitted.outcome
        if metric not in bands:
            raise ValueError(f"No band of the metric {metric!r}; there are {[*bands]}.")
        band, summary = bands[metric], bands[metric].assumptions.verdict
        points, listed = self._points(experiment.search_space, arm.parameters)
        values = [point[self.parameter] for point in points]
        lower, upper = band.bounds(inputs_of(fitted.adapter, points))
        df = pd.DataFrame({self.parameter: values, "lower": lower, "upper": upper})
        # All but the parameter that varies and what is derived from it.
        others = {k: v for k, v in arm.parameters.items() if all(p[k] == v for p in points)}
        # As lists, which every version of plotly's script reads.
        line: dict[str, Any] = {"x": values, "line_color": BLUE, "marker_color": BLUE}
        filled: dict[str, Any] = {"fill": "tonexty", "fillcolor": _FILL}
        if listed:
            line["mode"], filled = "markers", {}
        figure = go.Figure()
        figure.add_scatter(y=lower.tolist(), showlegend=False, **line)
        figure.add_scatter(y=upper.tolist(), name=f"band, {summary}", **line, **filled)
        _add_outcomes(figure, experiment, metric, self.parameter, others)
        words = Wording((), metric, self.units)
        figure.update_xaxes(title=words.label(self.parameter))
        figure.update_yaxes(title=words.label(metric))
        there = ", ".join(f"{k} {words.value(in_words(v), k)}" for k, v in others.items())
        through = f"Through arm {arm.name}"
        return (
            f"Band of {metric} along {self.parameter}: {summary}",
            f"{through}; the dots are outcomes of trials",
            f"{through}{', at ' if there else ''}{there}\n{band.assumptions}",
            band.assumptions,
            df,
            figure,
        )

    def _points(
        self, space: core.SearchSpace, centre: Parameters
    ) -> tuple[list[dict[str, Any]], bool]:
        r"""Points through one, along the parameter, and whether these are all."""
        parameter: Any = space.tunable_parameters.get(self.parameter)
        if parameter is None:
            raise ValueError(
                f"No parameter {self.parameter!r} that can vary by itself; there are "
                f"{[*space.parameters]}."
            )
        is_range = self.parameter in space.range_parameters
        listed = not is_range or parameter.parameter_type is core.ParameterType.INT
        if is_range:
            low, high = parameter.lower, parameter.upper
            density = int(high - low) + 1 if listed else self.num_points
            inner = get_parameter_values(parameter, density)[1:-1]
            values = [low, *inner, high]  # the ends without round-off
        else:
            values = parameter.values
        points = [
            setting_of(space, centre, {self.parameter: parameter.cast(value)})
            for value in values
        ]
        return [point for point in points if space.check_membership(point)], listed


@dataclass(eq=False)
class GapAnalysis(BoundAnalysis):
    r"""How far the best arm may have been from the optimum, after each completed trial.

    The bound is computed anew for every one of these rounds, from the outcomes of the
    trials up to it, in the order of their indices.

    Example:
        >>> cards = client.compute_analyses([kernelucb.ax.GapAnalysis()])

    Attributes:
        most_rounds: After how many of the trials the gap is computed: the last one and
            others evenly spaced before it.
        max_evaluations: Largest number of points that branch and bound looks at in a round.
        known: See ``current_bound``.
        units: See ``BoundAnalysis``.
    """

    _: KW_ONLY
    most_rounds: int = 20
    max_evaluations: int = 20_000
    known: GenerationStrategy | None = None

    def _card(self, experiment: Experiment, strategy: GenerationStrategy | None) -> Card:
        strategy = knowing(strategy, self.known)
        fitted = FittedBound(strategy, experiment)
        metric = fitted.outcome
        allows = experiment.search_space.check_membership
        completed = experiment.trials_by_status[TrialStatus.COMPLETED]
        inside = [t.index for t in completed if any(allows(a.parameters) for a in t.arms)]
        first = min(inside, default=0)  # before it no arm is the best
        trials = sorted(trial.index for trial in completed if trial.index >= first)
        most = min(len(trials), self.most_rounds)
        rounds, certificates = list[dict[str, Any]](), list[RegretCertificate]()
        for k in range(1, most + 1):
            index = trials[round(k * len(trials) / most) - 1]
            fitted = FittedBound(strategy, _until(experiment, index))
            with suppress(NoSafePointError):  # no arm was certainly feasible by then
                arm, point = fitted.best_arm(by_bands=True)
                domain: Any = fitted.domain | {"max_evaluations": self.max_evaluations}
                last = regret_certificate(fitted.band, **domain, recommended=point)
                certificates.append(last)
                row = {"trial_index": index, "arm_name": arm.name, "gap": last.gap}
                rounds.append(row | {"certified": last.certified})
        if not rounds:
            raise NoSafePointError("No completed arm is certainly feasible yet.")
        df, last = pd.DataFrame(rounds), certificates[-1]
        words = Wording((), metric, self.units)
        figure = _gaps(df, gaps_in_words(certificates), words.label(metric))
        gap, name = f"at most {words.value(at_most(last.gap))}, ", rounds[-1]["arm_name"]
        more = "more" if fitted.band.direction == 1 else "less"
        other = "feasible arm" if last.domain.feasible else "arm"
        how = "How much" if last.certified else "An estimate of how much"
        return (
            f"Gap of arm {name}: {gap if last.certified else ''}{last.summary}",
            f"{how} {more} {metric} any other {other} can have than the best one so far",
            str(last),
            last.assumptions,
            df,
            figure,
        )


@dataclass(eq=False)
class CalibratedGapAnalysis(BoundAnalysis):
    r"""The gap that replays of the strategy promise, after each completed trial.

    What it rests on: see ``CalibratedGapStoppingStrategy``.

    Example:
        >>> cards = client.compute_analyses([kernelucb.ax.CalibratedGapAnalysis()])

    Attributes:
        delta: Failure probability.
        units: See ``BoundAnalysis``.
    """

    _: KW_ONLY
    delta: float = 0.1

    def _card(self, experiment: Experiment, strategy: GenerationStrategy | None) -> Card:
        if strategy is None:
            raise ValueError("A calibrated gap needs the strategy of the experiment.")
        completed = experiment.trials_by_status[TrialStatus.COMPLETED]
        rule = CalibratedGapStoppingStrategy(1.0, strategy, delta=self.delta)
        rounds, claims = list[dict[str, Any]](), list[CalibratedClaim]()
        for index in sorted(trial.index for trial in completed):
            _, _, claim, arm = rule.decide(_until(experiment, index))
            if claim is None or arm is None:
                continue
            row = {"trial_index": index, "arm_name": arm.name, "certified": False}
            rounds.append(row | {"gap": float(claim.upper)})
            claims.append(claim)
        if not claims:
            raise ValueError(f"{rule.decide(experiment).reason}; observe more trials.")
        last = claims[-1]
        (metric,) = config_of(experiment).objective.metric_names
        words = Wording((), metric, self.units)
        df, said = pd.DataFrame(rounds), last.obstacle or last.summary
        name = rounds[-1]["arm_name"]
        return (
            f"Gap of arm {name}: {said}",
            f"How far the best arm may be from the optimum of {metric}",
            str(last),
            last.assumptions,
            df,
            _gaps(df, said, words.label(metric)),
        )


def _until(experiment: Experiment, index: int) -> Experiment:
    r"""The experiment as it was when a trial was completed."""
    return experiment.clone_with(
        name="earlier trials",  # the experiment may have none
        trial_indices=[i for i in sorted(experiment.trials) if i <= index],
        properties_to_keep=list(experiment._properties),
    )


def _gaps(df: pd.DataFrame, name: str, label: str) -> go.Figure:
    r"""Gaps over trials, open circles where they are not certified."""
    figure = go.Figure().add_scatter(
        x=df["trial_index"].tolist(),
        y=df["gap"].tolist(),
        text=df["arm_name"].tolist(),
        name=name,
        showlegend=True,
        mode="lines+markers",
        line_color=BLUE,
        marker={
            "symbol": ["circle" if each else "circle-open" for each in df["certified"]],
            "size": 8,
        },
    )
    figure.update_xaxes(title="trial")
    figure.update_yaxes(title=f"gap to the optimum of {label}", rangemode="tozero")
    return figure


@dataclass(eq=False)
class FrontAnalysis(BoundAnalysis):
    r"""Which arms are real trade-offs, as boxes of their first two objectives.

    The experiment may have any generation strategy.

    Example:
        >>> known = kernelucb.ax.generation_strategy(options={...})
        >>> cards = client.compute_analyses([kernelucb.ax.FrontAnalysis(0.5, known)])

    Attributes:
        epsilon: See ``pareto_front``.
        strategy: See ``pareto_front``.
        units: See ``BoundAnalysis``.
    """

    epsilon: float | Mapping[str, float]
    strategy: GenerationStrategy

    def _card(self, experiment: Experiment, strategy: GenerationStrategy | None) -> Card:
        front = pareto_front(experiment, self.epsilon, self.strategy, self.units)
        found, words = front.verdict, Wording((), "", self.units)
        df = pd.DataFrame({"arm_name": [arm.name for arm in front.arms]})
        for column, name in enumerate(front.objectives):
            df[f"{name} lower"] = found.lower[:, column].tolist()
            df[f"{name} upper"] = found.upper[:, column].tolist()
        kinds = {arm: kind for kind, arms in front.names.items() for arm in arms}
        df["kind"], figure = [kinds[arm.name] for arm in front.arms], go.Figure()
        for kind, boxes in df.groupby("kind"):
            corners = [1, 2, 2, 1, 1], [3, 3, 4, 4, 3]
            x, y = (boxes.iloc[:, i].assign(end=None).to_numpy().ravel() for i in corners)
            worse = " (an optimal arm is worse by epsilon at most)" * (kind == "covered")
            drawn = {"name": f"{kind}{worse}", "line_color": KINDS[str(kind)]}
            drawn |= {
                "fill": "toself",
                "text": boxes["arm_name"].repeat(6).tolist(),
                "mode": "lines",
            }
            figure.add_scatter(x=x.tolist(), y=y.tolist(), **drawn)
        first, second, *_ = map(words.label, front.objectives)
        figure.update_layout(xaxis_title=first, yaxis_title=second)
        counts = "".join(f"{len(arms)} {kind}, " for kind, arms in front.names.items())
        of = f"Front of {', '.join(front.objectives)}: {counts * found.certified}"
        lie = "lie between the sides" if found.certified else "may lie outside of it"
        sides = f"Each box is an arm: its outcomes without noise {lie}"
        return of + found.summary, sides, str(front), found.assumptions, df, figure


def _add_outcomes(
    figure: go.Figure, experiment: Experiment, metric: str, name: str, others: Parameters
) -> None:
    r"""Outcomes of completed trials by their value of a parameter.

    Those of arms whose ``others`` are not those of the line are grey.
    """
    data: Any = experiment.lookup_data().df
    kept = [trial.index for trial in experiment.trials_by_status[TrialStatus.COMPLETED]]
    data = data[(data["metric_name"] == metric) & data["trial_index"].isin(kept)]
    arms = [experiment.arms_by_name[arm].parameters for arm in data["arm_name"]]
    here = [others.items() <= arm.items() for arm in arms]
    data = data.assign(x=[arm[name] for arm in arms], here=here)
    for is_here, rows in data.groupby("here"):
        figure.add_scatter(
            x=rows["x"].tolist(),
            y=rows["mean"].tolist(),
            mode="markers",
            marker_color=BLACK if is_here else GREY,
            name="outcomes on this line" if is_here else "outcomes elsewhere",
            text=rows["arm_name"].tolist(),
        )


def _add_note(figure: go.Figure, note: str) -> None:
    r"""Text below a picture, every line of which is seen: Ax shows one of a subtitle."""
    lines = [
        part
        for line in note.splitlines()
        for part in textwrap.wrap(line, _WIDTH, subsequent_indent="    ") or [""]
    ]
    shown = [html.escape(part).replace("  ", "&nbsp;&nbsp;") for part in lines]
    below = 15 * len(lines)
    figure.update_layout(
        template="simple_white",
        legend={"orientation": "h", "x": 0.0, "y": 1.02, "yanchor": "bottom"},
        # Ax shows 500 pixels of a card, and scrolls beyond.
        height=105 + below + max(200, 390 - below),
        margin={"t": 45, "b": 60 + below},
    )
    place: dict[str, Any] = {"xref": "paper", "yref": "paper", "x": 0.0, "y": 0.0}
    place |= {"xanchor": "left", "yanchor": "top", "align": "left", "yshift": -50}
    font = {"size": 11, "color": GREY}
    figure.add_annotation(text="<br>".join(shown), showarrow=False, font=font, **place)
