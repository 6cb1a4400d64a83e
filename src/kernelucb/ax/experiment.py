r"""An Ax experiment as a bound sees it: inputs, what is refused, what outcomes lack."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import pandas as pd
import torch
from ax.adapter.base import Adapter
from ax.adapter.transforms.map_key_to_float import MapKeyToFloat
from ax.core import (
    Arm,
    Experiment,
    ObservationFeatures,
    OptimizationConfig,
    SearchSpace,
)
from ax.core.parameter import DerivedParameter
from ax.core.search_space import SearchSpaceDigest
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generator_spec import GeneratorSpec
from botorch.exceptions import InputDataError, UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import LARGEST
from kernelucb._numerics.domains import LinearConstraints
from kernelucb.acquisition import LikelihoodUCB, ScalarizedUCB
from kernelucb.ax.inputs import KernelInputs, Options, parameters_of_columns
from kernelucb.ax.options import options_by_outcome
from kernelucb.certificates import MixedSpace
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.papers import META_ACQUISITIONS

Parameters = Mapping[str, Any]

# Branch and bound starts with one box for each combination; points are just evaluated.
_MOST_BOXES = 200
_MOST_POINTS = 2000


def checked_context(space: SearchSpace, context: Parameters | None) -> dict[str, Any]:
    r"""The fixed parameters of a trial, of the types of the search space.

    Raises:
        ValueError: If a name is unknown, or a value lies outside the search space. Ax would
            ignore the one, and move the other.
    """
    checked: dict[str, Any] = {}
    for name, value in (context or {}).items():
        parameter = space.parameters.get(name)
        if parameter is None or not parameter.validate(parameter.cast(value)):
            raise ValueError(
                f"fixed_parameters has {name}={value}, which is outside the search space: "
                f"{parameter or [*space.parameters]}."
            )
        checked[name] = parameter.cast(value)
    return checked


def setting_of(space: SearchSpace, *parts: Parameters) -> dict[str, Any]:
    r"""Constants, then the parts, of which later ones count, then derived parameters.

    What the last part says of a derived parameter stays.
    """
    setting: dict[str, Any] = {}
    derived = dict[str, DerivedParameter]()
    for name, each in space.nontunable_parameters.items():
        if isinstance(each, DerivedParameter):
            derived[name] = each
        else:
            setting[name] = each.value
    for part in parts:
        setting |= part
    for name, each in derived.items():
        if name in parts[-1]:
            continue
        if each.parameter_names_to_weights.keys() <= setting.keys():
            setting[name] = each.compute(setting)
    return setting


def inputs_of(adapter: Adapter, points: Sequence[Parameters]) -> Tensor:
    r"""``n x d`` inputs of the bound, from parameters."""
    features = [ObservationFeatures(parameters=dict(point)) for point in points]
    return adapter.transform_observation_features(features)


def choices_of(digest: SearchSpaceDigest) -> list[list[dict[int, float]]]:
    r"""For each integer and choice the values that its input columns take together."""
    choices = [
        [{c: float(v)} for v in values] for c, values in digest.discrete_choices.items()
    ]
    encoded: dict[str, list[int]] = {}  # unordered choices
    for column, name in enumerate(parameters_of_columns(digest.feature_names)):
        if name != digest.feature_names[column]:
            encoded.setdefault(name, []).append(column)
    for columns in encoded.values():
        # Ax codes two values by one column, more by one for each.
        codes = torch.eye(len(columns)).tolist() if len(columns) > 1 else [[0.0], [1.0]]
        choices.append([dict(zip(columns, code, strict=True)) for code in codes])
    return choices


def mixed_space(
    digest: SearchSpaceDigest,
    fixed: Mapping[int, float],
    inequalities: LinearConstraints | None,
    max_combinations: int | None = None,
) -> MixedSpace:
    r"""The space with integers and choices listed.

    Where their combinations are too many for branch and bound they are intervals instead,
    unless ``max_combinations`` says how many may be enumerated.
    """
    groups = choices_of(digest)
    listed = {column for each in groups for column in each[0]}
    is_finite = len(listed | fixed.keys()) == len(digest.bounds)
    # A fixed choice multiplies nothing.
    open_groups = [each for each in groups if not each[0].keys() <= fixed.keys()]
    most = _MOST_POINTS if is_finite else _MOST_BOXES
    if max_combinations is None and prod(map(len, open_groups)) > most:
        groups = []
    return MixedSpace(
        torch.tensor(digest.bounds, dtype=torch.float64).mT,
        discrete_dims={
            column: [fixed.get(column, row[column]) for row in each]
            for each in groups
            for column in each[0]
            if len(each[0]) == 1
        },
        one_hot=[[*each[0]] for each in groups if len(each[0]) > 1],
        inequality_constraints=inequalities,
        max_combinations=max_combinations or max(1, prod(map(len, groups))),
    )


def config_of(experiment: Experiment) -> OptimizationConfig:
    r"""Objective and constraints; ``UnsupportedError`` without."""
    if experiment.optimization_config is None:
        raise UnsupportedError("The experiment has no objective; configure one first.")
    return experiment.optimization_config


def check_experiment(spec: GeneratorSpec, experiment: Experiment) -> None:
    r"""Refuse an experiment that the bound does not support, or with unusable outcomes.

    Ax would ignore constraints and objectives on metrics without data.

    Raises:
        UnsupportedError: If it does not support the objective or the constraints.
        ValueError: If options are for other outcomes or inputs.
        InputDataError: If an outcome or a standard error cannot be used.
    """
    space, config = experiment.search_space, config_of(experiment)
    stored = spec.generator_kwargs
    acqf_class, names = stored["botorch_acqf_class"], config.metric_names
    _check_supported(spec, space, config)
    for what, given in (
        ("model_config", stored["surrogate_spec"].metric_to_model_configs),
        ("outcome_range", stored["acquisition_options"].get("outcome_range", {})),
    ):
        if unknown := given.keys() - names:
            raise ValueError(
                f"{what} is given for {', '.join(sorted(unknown))}, and the objective and "
                f"the constraints are on {', '.join(sorted(names))}."
            )
    options = options_by_outcome(stored["botorch_acqf_options"], names)
    inputs = KernelInputs.of(experiment)
    for each in options.values():
        inputs.listed(each)
    _check_outcomes(acqf_class, options, passed_on(experiment))


def _check_supported(
    spec: GeneratorSpec, space: SearchSpace, config: OptimizationConfig
) -> None:
    r"""Refuse a space, an objective or constraints that the bound does not support."""
    acqf_class = spec.generator_kwargs["botorch_acqf_class"]
    name, objective, limits = acqf_class.__name__, config.objective, config.all_constraints
    if space.is_hierarchical:
        parents = [name for name, each in space.parameters.items() if each.is_hierarchical]
        raise UnsupportedError(
            "The search space is hierarchical: which parameters an arm has depends on "
            f"{', '.join(parents)}, and the inputs of a kernel are the same everywhere. "
            "Leave out dependent_parameters, or run an experiment for each value."
        )
    given = spec.generator_kwargs["acquisition_options"]
    if objective.is_multi_objective and "several" not in given:
        raise UnsupportedError(
            f"{name} is for one objective, and the experiment has several: "
            f"`{objective.expression}`. Maximise a weighted sum of them with "
            "ScalarizedUCB, or keep all but one above a threshold as outcome constraints; "
            "kernelucb.ax.pareto_front says which arms are trade-offs."
        )
    if limits and "constraints" not in given:
        raise UnsupportedError(
            f"{name} cannot keep outcome constraints, and the experiment has {limits}: "
            'give constraints="safe" with safe_arms (no trial violates '
            'them), or "explored" (trials may, the recommended arm does not).'
        )
    for each in limits:
        if each.relative:
            raise UnsupportedError(
                f"{each} is relative to a baseline that is only known through noise, which "
                'no band covers; give the threshold as a number, such as "purity >= 0.9".'
            )
        if len(each.metric_names) > 1:
            raise UnsupportedError(
                f"{each} is on a sum of outcomes, of which Ax 1.3 keeps only the first; "
                "report the sum as a metric of its own."
            )
    if objective.is_scalarized_objective and acqf_class is not ScalarizedUCB:
        raise UnsupportedError(
            f"{name} is for one outcome, and the objective `{objective.expression}` is a "
            "sum of several; use ScalarizedUCB."
        )


def passed_on(experiment: Experiment) -> pd.DataFrame:
    r"""The outcomes that Ax passes on: those of failed and abandoned trials are not."""
    data: Any = experiment.lookup_data().df
    by_status = experiment.trial_indices_by_status
    lost = by_status[TrialStatus.FAILED] | by_status[TrialStatus.ABANDONED]
    return data[data["mean"].notna() & ~data["trial_index"].isin(lost)]


def _check_outcomes(
    acqf_class: type, options: Mapping[str, Options], data: pd.DataFrame
) -> None:
    r"""Refuse numbers that a model cannot take.

    Ax would square a negative standard error, and BoTorch would round one of zero up to
    1/1000 in any unit.
    """

    def refuse(rows: pd.DataFrame, column: str, reason: str) -> None:
        for row in rows.head(1).to_dict("records"):
            what = "outcome" if column == "mean" else "standard error"
            index = row["trial_index"]
            raise InputDataError(
                f"The {what} of {row['metric_name']} in trial {index} (arm "
                f"{row['arm_name']}) is {row[column]:g}; {reason}. Attach it anew: "
                f"client.attach_data({index}, ...)."
            )

    sem, metric = data["sem"], data["metric_name"]
    largest = f"a model takes numbers up to {LARGEST:g}: report it in another unit"
    refuse(data.loc[data["mean"].abs() > LARGEST], "mean", largest)
    range_of_errors = f"a standard error lies between 0 and {LARGEST:g}"
    refuse(data.loc[(sem < 0.0) | (sem > LARGEST)], "sem", range_of_errors)
    all_or_none = "others have a standard error, which Ax takes with every outcome or none"
    with_errors = metric.loc[sem.notna()].tolist()
    refuse(data.loc[sem.isna() & metric.isin(with_errors)], "sem", all_or_none)
    # Where the noise is neither given nor part of the prior or the likelihood.
    if acqf_class not in (*META_ACQUISITIONS, LikelihoodUCB):
        open_noise = [n for n, each in options.items() if each.get("noise_std") is None]
        above = "a bound needs a noise scale above 0: give noise_std in the options"
        refuse(data.loc[(sem == 0.0) & metric.isin(open_noise)], "sem", above)


def _lacking(experiment: Experiment) -> dict[int, list[Arm]]:
    r"""By trial the arms that lack an outcome of the objective or a constraint."""
    needed = config_of(experiment).metric_names  # without tracked ones
    rows = passed_on(experiment).groupby(["trial_index", "arm_name"])["metric_name"]
    given: dict[Any, set[str]] = rows.agg(set).to_dict()
    return {
        i: [arm for arm in trial.arms if not needed <= given.get((i, arm.name), set())]
        for i, trial in experiment.trials.items()
    }


def with_lost_arms(
    pending: Mapping[str, list[ObservationFeatures]] | None, experiment: Experiment
) -> dict[str, list[ObservationFeatures]]:
    r"""Pending points with the arms that ended without an outcome, as abandoned ones do.

    Ax forgets failed arms, and a bound that has seen nothing new chooses them again.
    """
    lacking, lost = _lacking(experiment), list[ObservationFeatures]()
    for index, trial in experiment.trials.items():
        ended = lacking[index] if trial.status.is_terminal else []
        for arm in [*ended, *trial.abandoned_arms]:
            if experiment.search_space.check_membership(arm.parameters):
                metadata = trial._get_candidate_metadata(arm.name)
                lost.append(ObservationFeatures.from_arm(arm, index, metadata=metadata))
    # Ax's points may be of trials that are still to be made; it counts equal ones once.
    return {name: [*(pending or {}).get(name, []), *lost] for name in experiment.metrics}


def missing_outcomes(experiment: Experiment) -> str:
    r"""``"trials failed: 3, trials stopped early: 1"``, or nothing."""
    trials, lacking = experiment.trials_by_status, _lacking(experiment)
    counted: dict[str, Sequence[Any]] = {
        "trials failed": trials[TrialStatus.FAILED],
        "trials abandoned": trials[TrialStatus.ABANDONED],
        "trials stopped early": trials[TrialStatus.EARLY_STOPPED],
        "trials completed without an outcome": [
            trial
            for trial in trials[TrialStatus.COMPLETED]
            if any(arm not in trial.abandoned_arms for arm in lacking[trial.index])
        ],
        "arms of batches abandoned": [
            arm
            for trial in experiment.trials.values()
            if not trial.status.is_abandoned
            for arm in trial.abandoned_arms
        ],
    }
    return ", ".join(f"{ended}: {len(each)}" for ended, each in counted.items() if each)


def notes_on(adapter: Adapter, experiment: Experiment) -> list[Assumption]:
    r"""Further assumptions of a band: on outcomes that lack and on Ax's transforms."""
    notes = list[Assumption]()
    if missing := missing_outcomes(experiment):
        words = f"{missing}; none of that depended on the noise of their outcomes"
        notes.append(Assumption("missing outcomes", words, Status.GIVEN))
    if left_out := adapter.training_in_design.count(False):
        words = f"left out, for a value that is not listed or has no logarithm: {left_out}"
        notes.append(Assumption("arms", f"arms {words}", Status.GIVEN))
    # Ax adds the progression as an input, on the range that it has seen.
    progression: Any = adapter.transforms.get(MapKeyToFloat.__name__)
    if progression is not None and progression._parameter_list:
        words = "Ax scales the trials' progression by the data"
        notes.append(Assumption("progression", words, Status.ESTIMATED))
    return notes
