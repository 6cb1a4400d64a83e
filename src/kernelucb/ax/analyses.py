r"""Bands, gaps and optimum reports as analyses of Ax."""

# Ax and plotly leave much untyped.
# pyright: reportUnknownMemberType=false

import logging
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import pandas as pd
from ax.adapter.base import Adapter
from ax.analysis.analysis import Analysis
from ax.analysis.plotly.plotly_analysis import (
    PlotlyAnalysisCard,
    create_plotly_analysis_card,
)
from ax.core.experiment import Experiment
from ax.exceptions.analysis import AnalysisNotApplicableStateError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.exceptions import UnsupportedError
from plotly.graph_objects import Figure

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import whole_number
from kernelucb.ax.bounds import FittedBound, bound_spec, fitted_bound
from kernelucb.ax.contexts import checked_context
from kernelucb.ax.figures import (
    add_outcomes,
    band_figure,
    gap_figure,
    noted,
    region_figure,
)
from kernelucb.ax.lines import observed_along, values_along
from kernelucb.ax.recommendation import best_arm, no_feasible_arm
from kernelucb.ax.report import report_of
from kernelucb.ax.rounds import Round, gaps_after_trials
from kernelucb.ax.spaces import in_words, inputs_of
from kernelucb.exceptions import NoSafePointError

_LOG = logging.getLogger(__name__)
_LEGEND = {"orientation": "h", "x": 0.0, "y": 1.02, "yanchor": "bottom"}


class BoundAnalysis(Analysis):
    r"""An analysis of an experiment whose trials a bound of this package chooses.

    It needs the strategy of ``generation_strategy`` and at least one observed trial, and
    changes neither the experiment nor its next trials. Title and subtitle are short; what
    the bound rests on stands below the picture, and its first word is "certified" only if
    everything was given. Progress is logged (``kernelucb.ax``, level INFO).

    Attributes:
        units: Of parameters and metrics by their names, for print.
    """

    units: Mapping[str, str]

    def validate_applicable_state(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> str | None:
        r"""Why the analysis cannot be computed yet; None if it can."""
        if experiment is None or generation_strategy is None:
            return self._lacking
        try:
            bound_spec(generation_strategy)
        except UnsupportedError as error:
            return str(error)
        if experiment.lookup_data().empty:
            return "No trial has been observed yet; complete one first."
        return None

    def compute(
        self,
        experiment: Experiment | None = None,
        generation_strategy: GenerationStrategy | None = None,
        adapter: Adapter | None = None,
    ) -> PlotlyAnalysisCard:
        r"""The card, with a picture and the numbers that are in it as ``df``.

        Raises:
            AnalysisNotApplicableStateError: If there is nothing to draw yet.
        """
        if experiment is None or generation_strategy is None:
            raise AnalysisNotApplicableStateError(self._lacking)
        try:
            return self._card(experiment, generation_strategy)
        except NoSafePointError as error:
            raise AnalysisNotApplicableStateError(str(error)) from error

    @property
    def _lacking(self) -> str:
        return f"{type(self).__name__} needs an experiment and its generation strategy."

    @abstractmethod
    def _card(
        self, experiment: Experiment, strategy: GenerationStrategy
    ) -> PlotlyAnalysisCard: ...

    def _create(
        self, title: str, subtitle: str, note: str, df: pd.DataFrame, figure: Figure
    ) -> PlotlyAnalysisCard:
        # Ax shows one line of a subtitle; all that is longer goes below the picture.
        figure.update_layout(template="simple_white", legend=_LEGEND)
        name = type(self).__name__
        return create_plotly_analysis_card(name, title, subtitle, df, noted(figure, note))

    def _unit(self, name: str) -> str:
        r"""A unit after a number of it, or nothing."""
        return f" {self.units[name]}" if name in self.units else ""

    def _label(self, name: str) -> str:
        r"""``temperature (°C)``."""
        return f"{name} ({self.units[name]})" if name in self.units else name


def _objective(experiment: Experiment) -> str:
    r"""The expression that is maximised."""
    config = experiment.optimization_config
    return "objective" if config is None else config.objective.expression


class BandAnalysis(BoundAnalysis):
    r"""The band along one parameter, through the recommended arm, from all outcomes so far.

    Example:
        >>> cards = client.compute_analyses([kernelucb.ax.BandAnalysis("temperature")])

    Attributes:
        parameter: As given.
        metric: As given.
        num_points: As given.
        fixed_parameters: As given.
        units: As given.
    """

    @checked
    def __init__(
        self,
        parameter: str,
        *,
        metric: str | None = None,
        num_points: int = 100,
        fixed_parameters: Mapping[str, Any] | None = None,
        units: Mapping[str, str] | None = None,
    ) -> None:
        r"""Band along a parameter, and the outcomes of the completed trials.

        Args:
            parameter: The parameter that varies. Every value of integers and choices is
                drawn by itself.
            metric: The outcome; the objective when absent.
            num_points: How many values of a continuous parameter are looked at.
            fixed_parameters: A context: the recommended arm is the one for it.
            units: Of parameters and metrics by their names, ``{"temperature": "°C"}``.

        Raises:
            ValueError: If a number is out of its range.
        """
        self.units = units or {}
        self.parameter, self.metric = parameter, metric
        self.num_points = whole_number("num_points", num_points)
        self.fixed_parameters = fixed_parameters

    def _card(
        self, experiment: Experiment, strategy: GenerationStrategy
    ) -> PlotlyAnalysisCard:
        context = checked_context(experiment.search_space, self.fixed_parameters)
        fitted = fitted_bound(strategy, experiment, context)
        found = best_arm(experiment, fitted, context)
        if found is None:
            raise NoSafePointError(no_feasible_arm(fitted))
        centre = {**found[0].parameters, **context}
        points, discrete = values_along(
            experiment.search_space, centre, self.parameter, self.num_points
        )
        band, metric = self._band(experiment, fitted)
        X = inputs_of(fitted.adapter, points)
        lower, upper = (side.tolist() for side in band.bounds(X))
        values = [point[self.parameter] for point in points]
        df = pd.DataFrame({self.parameter: values, "lower": lower, "upper": upper})
        summary = band.assumptions.verdict
        figure = band_figure(df, f"band, {summary}", discrete)
        others = {k: v for k, v in centre.items() if k != self.parameter}
        seen = observed_along(experiment, metric.lstrip("-"), self.parameter, others)
        add_outcomes(figure, seen, self.parameter)
        figure.update_layout(
            xaxis_title=self._label(self.parameter), yaxis_title=self._label(metric)
        )
        title = f"Band of {metric} along {self.parameter}: {summary}"
        there = [f"{k} = {in_words(v)}{self._unit(k)}" for k, v in others.items()]
        where = f"Through arm {found[0].name}{', at ' if there else ''}{', '.join(there)}"
        subtitle = f"Through arm {found[0].name}; the dots are outcomes of trials"
        return self._create(title, subtitle, f"{where}\n{band.assumptions}", df, figure)

    def _band(self, experiment: Experiment, fitted: FittedBound) -> tuple[Any, str]:
        r"""The band that is drawn, and the name of its outcome."""
        bands: dict[str, Any] = dict(getattr(fitted.acquisition, "bands", {}))
        objective = _objective(experiment)
        if self.metric is None:
            return fitted.acqf, objective
        if self.metric in bands:
            return bands[self.metric], self.metric
        if self.metric == objective.lstrip("-"):
            return fitted.acqf, self.metric
        known = sorted({*bands, objective.lstrip("-")})
        raise ValueError(f"No band of the metric {self.metric!r}; there are {known}.")


class GapAnalysis(BoundAnalysis):
    r"""How far the best arm may have been from the optimum, after each completed trial.

    The bound is computed anew for every one of these rounds, from the outcomes of the
    trials up to it, in the order of their indices.

    Example:
        >>> cards = client.compute_analyses([kernelucb.ax.GapAnalysis()])

    Attributes:
        most_rounds: As given.
        max_evaluations: As given.
        fixed_parameters: As given.
        units: As given.
    """

    @checked
    def __init__(
        self,
        *,
        most_rounds: int = 20,
        max_evaluations: int = 20_000,
        fixed_parameters: Mapping[str, Any] | None = None,
        units: Mapping[str, str] | None = None,
    ) -> None:
        r"""Gap over the trials.

        Args:
            most_rounds: After how many of the trials the gap is computed: the last one and
                others evenly spaced before it.
            max_evaluations: Largest number of points that branch and bound looks at in a
                round.
            fixed_parameters: A context: the optimum and the arms are compared there.
            units: Of parameters and metrics by their names.

        Raises:
            ValueError: If a number is out of its range.
        """
        self.units = units or {}
        self.most_rounds = whole_number("most_rounds", most_rounds)
        self.max_evaluations = whole_number("max_evaluations", max_evaluations)
        self.fixed_parameters = fixed_parameters

    def _card(
        self, experiment: Experiment, strategy: GenerationStrategy
    ) -> PlotlyAnalysisCard:
        context = checked_context(experiment.search_space, self.fixed_parameters)
        rounds: list[Round] = []
        options = context, self.most_rounds, self.max_evaluations
        for each in gaps_after_trials(strategy, experiment, *options):
            gap, summary = each.certificate.gap, each.certificate.summary
            _LOG.info("gap after trial %d: at most %.4g, %s", each[0], gap, summary)
            rounds.append(each)
        if not rounds:
            raise NoSafePointError("No completed arm is certainly feasible yet.")
        df = pd.DataFrame(
            {
                "trial_index": [each.trial_index for each in rounds],
                "arm_name": [each.arm_name for each in rounds],
                "gap": [each.certificate.gap for each in rounds],
                "certified": [each.certificate.certified for each in rounds],
            }
        )
        last = rounds[-1].certificate
        metric, arm = _objective(experiment).lstrip("-"), rounds[-1].arm_name
        gap = f"{last.gap:.4g}{self._unit(metric)}"
        title = f"Gap of arm {arm}: at most {gap}, {last.summary}"
        subtitle = f"How much more {metric} any other arm can have than the best one so far"
        figure = gap_figure(rounds)
        figure.update_yaxes(title=f"gap to the optimum of {self._label(metric)}")
        return self._create(title, subtitle, str(last), df, figure)


class OptimumAnalysis(BoundAnalysis):
    r"""What is known of the optimum: how large it is, where it may be, what to try next.

    See ``kernelucb.ax.optimum_report``, whose numbers it shows.

    Example:
        >>> cards = client.compute_analyses([kernelucb.ax.OptimumAnalysis()])

    Attributes:
        max_evaluations: As given.
        fixed_parameters: As given.
        units: As given.
    """

    @checked
    def __init__(
        self,
        *,
        max_evaluations: int = 20_000,
        fixed_parameters: Mapping[str, Any] | None = None,
        units: Mapping[str, str] | None = None,
    ) -> None:
        r"""Optimum report.

        Args:
            max_evaluations: Largest number of points that branch and bound looks at.
            fixed_parameters: A context: the optimum and the arms are compared there.
            units: Of parameters and metrics by their names.

        Raises:
            ValueError: If a number is out of its range.
        """
        self.units = units or {}
        self.max_evaluations = whole_number("max_evaluations", max_evaluations)
        self.fixed_parameters = fixed_parameters

    def _card(
        self, experiment: Experiment, strategy: GenerationStrategy
    ) -> PlotlyAnalysisCard:
        report = report_of(
            strategy, experiment, self.fixed_parameters, 0.05, self.max_evaluations
        )
        left = report.to_dict()
        names = [*left["region"]]
        df = pd.DataFrame(
            {
                "parameter": names,
                "where the optimum may be": [
                    report.range_in_words(name, left["region"][name]) for name in names
                ],
                "recommended": [in_words(left["recommended"][name]) for name in names],
            }
        )
        metric = _objective(experiment).lstrip("-")
        between = f"{report.lower:.4g} and {report.upper:.4g}{self._unit(metric)}"
        title = f"Optimum of {metric} between {between}: {report.summary}"
        subtitle = "Where it may be, and the recommended arm"
        figure = region_figure(report, [self._label(name) for name in names])
        return self._create(title, subtitle, str(report), df, figure)
