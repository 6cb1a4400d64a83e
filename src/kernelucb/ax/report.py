r"""What is known of the optimum of an Ax experiment, in one object."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ax.core import ChoiceParameter, FixedParameter, ObservationFeatures, SearchSpace
from torch import Tensor

from kernelucb import certificates
from kernelucb.ax.bounds import FittedBound, Source, strategy_of
from kernelucb.ax.experiment import Notes, outcome_name
from kernelucb.ax.spaces import choices_of, inputs_of, parameters_of_columns
from kernelucb.certificates import OptimumReport, PossibleCombination
from kernelucb.certificates.words import in_words, span

_LOG = logging.getLogger(__name__)


class ParameterNames:
    r"""Points of a bound as parameters of the experiment, in the units of the user."""

    def __init__(self, fitted: FittedBound) -> None:
        self._adapter, self._space = fitted.adapter, fitted.experiment.search_space
        self._columns = fitted.digest.feature_names
        owners = parameters_of_columns(self._columns)
        # For each choice the values that its columns may have together.
        self._choices = {owners[min(each[0])]: each for each in choices_of(fitted.digest)}

    def of_columns(self, columns: Iterable[str]) -> list[str]:
        r"""The parameters of the experiment among those of some input columns."""
        own = {*parameters_of_columns(columns)}
        return [name for name in self._space.parameters if name in own]

    def is_choice(self, name: str) -> bool:
        r"""Whether a parameter has listed values instead of two limits."""
        return isinstance(self._space.parameters[name], ChoiceParameter)

    def parameters(self, point: Sequence[float]) -> dict[str, Any]:
        r"""The parameters of a point of ``d`` inputs, with the listed values next to it."""

        def distance(choice: Mapping[int, float]) -> float:
            return sum((point[i] - value) ** 2 for i, value in choice.items())

        row = dict(enumerate(point))
        for choices in self._choices.values():
            row |= min(choices, key=distance)
        named: Any = {self._columns[i]: value for i, value in row.items()}
        features = [ObservationFeatures(parameters=named)]
        for transform in reversed([*self._adapter.transforms.values()]):
            features = transform.untransform_observation_features(features)
        found = features[0].parameters
        return {name: found[name] for name in self._space.parameters if name in found}

    def values(
        self, point: Sequence[float], low: Sequence[float], high: Sequence[float]
    ) -> dict[str, list[Any]]:
        r"""Two limits of each number, and the values of each choice, in a box."""
        ends = [self.parameters(each) for each in (low, high)]
        found: dict[str, list[Any]] = {}
        for name in self.of_columns(self._columns):
            found[name] = [end[name] for end in ends]
            if self.is_choice(name):
                found[name] = [
                    self.parameters([choice.get(i, x) for i, x in enumerate(point)])[name]
                    for choice in self._choices[name]
                    if all(low[i] <= value <= high[i] for i, value in choice.items())
                ]
        return found

    def combination(
        self, each: PossibleCombination, report: OptimumReport
    ) -> PossibleCombination:
        r"""A combination of a report by the names of the parameters."""
        at = dict(zip(report.names, report.recommended.tolist(), strict=True)) | each.values
        low, high = (
            [*(at | {name: ends[side] for name, ends in each.region.items()}).values()]
            for side in (0, 1)
        )
        left = self.values([*at.values()], low, high)
        values = {name: left[name][0] for name in self.of_columns(each.values)}
        region = {
            name: (left[name][0], left[name][-1]) for name in self.of_columns(each.region)
        }
        return replace(each, label=listed(values), values=values, region=region)


@dataclass(frozen=True)
class ExperimentReport(OptimumReport):
    r"""An ``OptimumReport`` that prints and stores parameters as the user named them.

    Points and ``region`` are inputs of the bound, as in ``OptimumReport``.

    Attributes:
        parameters: What turns inputs into parameters.
    """

    parameters: ParameterNames | Any = None

    def ranges(self) -> dict[str, str]:
        r"""Where the optimum may be, by parameter: ``40 to 55``, ``ethanol or toluene``."""
        return {
            name: " or ".join(map(in_words, dict.fromkeys(values)))
            if self.parameters.is_choice(name)
            else span(*values)
            for name, values in self._region().items()
        }

    def _region(self) -> dict[str, list[Any]]:
        low, high = self.region.tolist()
        return self.parameters.values(self.recommended.tolist(), low, high)

    def _limits(self) -> str:
        return listed(self.ranges())

    def _named(self, point: Tensor) -> dict[str, Any]:
        return self.parameters.parameters(point.tolist())

    def _listed(self, point: Tensor) -> str:
        return listed(self._named(point))


def listed(parameters: Mapping[str, Any]) -> str:
    r"""``solvent = ethanol, temperature = 52.5``."""
    return ", ".join(f"{name} = {in_words(each)}" for name, each in parameters.items())


def optimum_report(
    source: Source,
    *,
    fixed_parameters: Mapping[str, Any] | None = None,
    baseline: str | Mapping[str, Any] | None = None,
    window: float = 0.05,
    threshold: float | None = None,
    tolerance: float | None = None,
    units: Mapping[str, str] | None = None,
    max_evaluations: int = 20_000,
) -> ExperimentReport:
    r"""Report the optimum of an experiment, and how good its best completed arm is.

    See ``kernelucb.optimum_report``. The recommended point is the completed arm whose
    objective is best at worst, with outcome constraints among the certainly feasible ones.
    Points are inputs of the bound: numbers after the logarithm of log-scaled parameters,
    one input for each value of an unordered choice. In print and in ``to_dict`` they are
    parameters. The experiment and its next trials do not change.

    Example:
        >>> print(kernelucb.ax.optimum_report(client))

    Args:
        source: An Ax client, or its strategy from ``generation_strategy``.
        fixed_parameters: A context: the optimum and the arms are compared there.
        baseline: A setting to compare with, such as today's: the name of an arm, or
            parameters.
        window: See ``kernelucb.optimum_report``.
        threshold: See there.
        tolerance: See there: a difference that does not matter, in units of the metric.
        units: Units by the names of parameters and metric, for print.
        max_evaluations: Largest number of points that branch and bound looks at. Fewer make
            the report sooner, and its numbers no smaller than they may be.

    Raises:
        NoSafePointError: If no completed arm is certainly feasible yet.
        ValueError: If no trial in the search space has been observed yet, a fixed parameter
            or the baseline does not fit it, or a scalar is out of its range.
        UnsupportedError: If the bound does not support the experiment.
    """
    strategy = strategy_of(source)
    experiment = strategy.experiment
    fitted = FittedBound(strategy, experiment, fixed_parameters)
    arm, point = fitted.best_arm(by_bands=True)
    compared: Tensor | None = None
    if baseline is not None:
        setting = _setting(baseline, fitted)
        (compared,) = inputs_of(fitted.adapter, [setting])
    _LOG.info("optimum report of arm %s: branch and bound", arm.name)
    report = certificates.optimum_report(
        fitted.band,
        **fitted.domain,
        recommended=point,
        names=fitted.digest.feature_names,
        outcome=outcome_name(experiment, fitted.band),
        baseline=compared,
        window=window,
        threshold=threshold,
        tolerance=tolerance,
        units=units,
        max_evaluations=max_evaluations,
    )
    names, said = ParameterNames(fitted), report.said
    assert isinstance(said, partial)
    task, *asked, words = said.args
    words = words._replace(encoded=names)
    # Bands of the report are made anew, and know nothing of what Ax did to their data.
    notes = Notes.of(fitted.adapter, experiment)
    certificate = replace(
        report.certificate,
        assumptions=notes.added_to(report.certificate.assumptions),
        domain=words.domain(task, report.recommended),
    )
    changes: dict[str, Any] = {
        "certificate": certificate,
        "combinations": tuple(names.combination(x, report) for x in report.combinations),
        "said": partial(said.func, task, *asked, words),
    }
    return ExperimentReport(**(vars(report) | changes), parameters=names)


def _setting(baseline: str | Mapping[str, Any], fitted: FittedBound) -> dict[str, Any]:
    r"""Parameters of the search space: of an arm by its name, or as they are given."""
    space: SearchSpace = fitted.experiment.search_space
    if isinstance(baseline, str):
        if baseline not in fitted.experiment.arms_by_name:
            raise ValueError(f"baseline: the experiment has no arm {baseline!r}.")
        setting = fitted.setting(fitted.experiment.arms_by_name[baseline].parameters)
    else:
        fixed = [p for p in space.parameters.values() if isinstance(p, FixedParameter)]
        setting = fitted.setting({p.name: p.value for p in fixed} | {**baseline})
        # A derived parameter that is given has to be right.
        space.validate_membership(parameters={**setting, **baseline, **fitted.context})
    space.validate_membership(parameters=setting)
    return setting
