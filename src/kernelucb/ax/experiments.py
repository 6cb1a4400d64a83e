r"""What a bound needs of an experiment, and what missing outcomes mean for it."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ax.adapter.transforms.map_key_to_float import MapKeyToFloat
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.optimization_config import OptimizationConfig
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generator_spec import GeneratorSpec
from botorch.exceptions import InputDataError, UnsupportedError

from kernelucb._numerics.checks import LARGEST
from kernelucb.acquisition import META_ACQUISITIONS, LikelihoodUCB, ScalarizedUCB
from kernelucb.ax.options import bounds_of, with_columns
from kernelucb.ax.spaces import input_names
from kernelucb.confidence.assumptions import REPORTED, Assumptions, Status

_LEFT_OUT = "left out, for a value that is not listed or has no logarithm"
_SCALED = "Ax scales the trials' progression by the data"


def check_experiment(spec: GeneratorSpec, experiment: Experiment) -> None:
    r"""Refuse an experiment that the bound does not support, or with unusable outcomes.

    Raises:
        UnsupportedError: If it does not support the objective or the constraints.
        ValueError: If options are for other outcomes or inputs.
        InputDataError: If an outcome or a standard error cannot be used.
    """
    check_objective(spec, experiment)
    _check_outcomes(spec, experiment)


def check_objective(spec: GeneratorSpec, experiment: Experiment) -> None:
    r"""Refuse objectives, constraints and inputs that the bound does not support.

    Ax would ignore constraints and objectives on metrics without data.
    """
    space, config = experiment.search_space, experiment.optimization_config
    if space.is_hierarchical:
        parents = [name for name, each in space.parameters.items() if each.is_hierarchical]
        raise UnsupportedError(
            f"The search space is hierarchical: which parameters an arm has depends on "
            f"{', '.join(parents)}, and the inputs of a kernel are the same everywhere. "
            "Leave out dependent_parameters, so that every arm has all parameters, or run "
            "an experiment for each value."
        )
    if config is None:
        return
    acqf_class = spec.generator_kwargs["botorch_acqf_class"]
    name, objective = acqf_class.__name__, config.objective
    if objective.is_multi_objective:
        raise UnsupportedError(
            f"{name} is for one objective, and the experiment has several: "
            f"`{objective.expression}`. Maximise a weighted sum of them with "
            "ScalarizedUCB, or keep all but one above a threshold as outcome constraints."
        )
    _check_constraints(spec, config)
    if objective.is_scalarized_objective and acqf_class is not ScalarizedUCB:
        raise UnsupportedError(
            f"{name} is for one outcome, and the objective `{objective.expression}` is a "
            "sum of several; use ScalarizedUCB."
        )
    names = set(config.metric_names)
    configured = spec.generator_kwargs["surrogate_spec"].metric_to_model_configs
    if configured and set(configured) != names:
        raise ValueError(
            f"Models are given for the outcomes {', '.join(sorted(configured))}, and the "
            f"objective and the constraints are on {', '.join(sorted(names))}."
        )
    ranges = spec.generator_kwargs["acquisition_options"].get("outcome_range", {})
    if unknown := ranges.keys() - names:
        raise ValueError(
            f"outcome_range is given for {', '.join(sorted(unknown))}, and the objective "
            f"and the constraints are on {', '.join(sorted(names))}."
        )
    columns = input_names(space)
    options = spec.generator_kwargs["botorch_acqf_options"]
    for _, own in bounds_of(acqf_class, options, names).values():
        with_columns(own, columns)


def _check_constraints(spec: GeneratorSpec, config: OptimizationConfig) -> None:
    name = spec.generator_kwargs["botorch_acqf_class"].__name__
    constraints = config.all_constraints
    if not is_constrained(spec):
        if constraints:
            raise UnsupportedError(
                f"{name} cannot keep outcome constraints, and the experiment has "
                f"{constraints}, unless generation_strategy is told how: "
                'constraints="safe" with safe_arms (no trial violates them), or '
                'constraints="explored" (trials may, the recommended arm does not).'
            )
        return
    if not constraints:
        raise UnsupportedError(
            "The strategy is for outcome constraints, and the experiment has none; give "
            "configure_optimization(outcome_constraints=...), or leave out constraints=."
        )
    for constraint in constraints:
        if constraint.relative:
            raise UnsupportedError(
                f"{constraint} is relative to a baseline that is only known through noise, "
                "which no band of this package covers; give the threshold as a number, "
                'such as "purity >= 0.9".'
            )
        if len(constraint.metric_names) > 1:
            raise UnsupportedError(
                f"{constraint} is on a sum of outcomes, of which Ax 1.3 keeps only the "
                "first when it chooses a trial and when it saves; report the sum as a "
                "metric of its own."
            )


def is_constrained(spec: GeneratorSpec) -> bool:
    r"""Whether a strategy's bound keeps outcome constraints of either kind."""
    return "constraints" in spec.generator_kwargs.get("acquisition_options", {})


def check_kept(statements: Sequence[str], config: OptimizationConfig) -> None:
    r"""Refuse what Ax made of the constraints, ``statements``, if one is missing.

    Ax drops constraints on outcomes that only trials outside the search space reported.
    """
    if len(statements) != len(config.all_constraints):
        raise InputDataError(
            f"Of the constraints {config.all_constraints} only {', '.join(statements)} are "
            "on outcomes that a trial inside the search space has reported."
        )


def check_observed(experiment: Experiment) -> None:
    r"""Refuse an experiment of which an outcome was never reported.

    Ax would drop constraints on it without a word.
    """
    config = experiment.optimization_config
    if config is None:
        return
    seen = set(_passed_on(experiment)["metric_name"])
    if missing := sorted(set(config.metric_names) - seen):
        raise InputDataError(
            f"No trial has reported {', '.join(missing)}, which the objective or a "
            "constraint is on; attach it with client.attach_data(...)."
        )


def _check_outcomes(spec: GeneratorSpec, experiment: Experiment) -> None:
    r"""Check all that Ax passes on, not missing means nor failed and abandoned trials.

    Ax would square a negative standard error, and BoTorch would round one of zero up to
    1/1000 in any unit.
    """
    data = _passed_on(experiment)
    _refuse(
        data[data["mean"].abs() > LARGEST],
        "mean",
        f"a model takes numbers up to {LARGEST:g}: report it in another unit",
    )
    _refuse(
        data[(data["sem"] < 0.0) | (data["sem"] > LARGEST)],
        "sem",
        f"a standard error lies between 0 and {LARGEST:g}",
    )
    config = experiment.optimization_config
    own = spec.generator_kwargs
    names = [] if config is None else config.metric_names
    bounds = bounds_of(own["botorch_acqf_class"], own["botorch_acqf_options"], names)
    for name, rows in data.groupby("metric_name"):
        if rows["sem"].notna().any():
            _refuse(
                rows[rows["sem"].isna()],
                "sem",
                "others have a standard error, and Ax takes one with every outcome or with "
                "none: report it",
            )
        if name not in names:
            continue
        acqf_class, options = bounds[str(name)]
        needed = acqf_class not in (*META_ACQUISITIONS, LikelihoodUCB)
        if needed and options.get("noise_std") is None:
            _refuse(
                rows[rows["sem"] == 0.0],
                "sem",
                "a bound needs a noise scale above 0: give noise_std in the options, small "
                "as it may be, or report a larger one",
            )


def _passed_on(experiment: Experiment) -> Any:
    r"""The outcomes that Ax passes on: those of failed and abandoned trials are not."""
    data: Any = experiment.lookup_data().df
    lost = [TrialStatus.FAILED, TrialStatus.ABANDONED]
    ignored = {i for status in lost for i in experiment.trial_indices_by_status[status]}
    return data[data["mean"].notna() & ~data["trial_index"].isin(ignored)]


def _refuse(rows: Any, column: str, reason: str) -> None:
    r"""Raise about the first row, if there is one."""
    if len(rows) > 0:
        row = rows.iloc[0]
        what = "The outcome" if column == "mean" else "The standard error"
        raise InputDataError(
            f"{what} of {row['metric_name']} in trial {row['trial_index']} (arm "
            f"{row['arm_name']}) is {row[column]:g}; {reason}. Attach it anew: "
            f"client.attach_data({row['trial_index']}, ...)."
        )


def with_lost_arms(
    pending: Mapping[str, list[ObservationFeatures]] | None, experiment: Experiment
) -> dict[str, list[ObservationFeatures]]:
    r"""Pending points with the arms that ended without an outcome, as abandoned ones do.

    Ax forgets failed arms, and a bound that has seen nothing new chooses them again.
    """
    config, space = experiment.optimization_config, experiment.search_space
    needed = set() if config is None else set(config.metric_names)
    given = _passed_on(experiment).groupby(["trial_index", "arm_name"])["metric_name"]
    seen: dict[Any, set[str]] = given.agg(set).to_dict()
    every: dict[str, list[ObservationFeatures]] = {}
    for metric in experiment.metrics:
        points = every[metric] = [*(pending or {}).get(metric, [])]
        listed = {(each.trial_index, str(each.parameters)) for each in points}
        for index, trial in experiment.trials.items():
            for arm in trial.arms:
                lacks = not needed <= seen.get((index, arm.name), set())
                lost = arm in trial.abandoned_arms or (trial.status.is_terminal and lacks)
                is_new = (index, str(arm.parameters)) not in listed
                if lost and is_new and space.check_membership(arm.parameters):
                    metadata = trial._get_candidate_metadata(arm.name)
                    point = ObservationFeatures.from_arm(arm, index, metadata=metadata)
                    points.append(point)
    return every


def outcome_name(experiment: Experiment, band: Any) -> str:
    r"""What the band of the objective is of: a metric, or all of a weighted sum."""
    config = experiment.optimization_config
    if config is None:
        return "objective"
    objective = config.objective
    is_sum = isinstance(band, ScalarizedUCB)
    return objective.expression if is_sum else objective.metric_names[0]


def missing_outcomes(experiment: Experiment) -> str:
    r"""``"3 trials failed, 1 was abandoned and 2 were stopped early"``, or nothing."""
    by_status, data = experiment.trial_indices_by_status, experiment.lookup_data().df
    # Completed trials that lack an outcome of the objective or a constraint.
    config = experiment.optimization_config
    needed = set() if config is None else set(config.metric_names)
    given = data[data["mean"].notna()].groupby("trial_index")["metric_name"]
    observed = given.agg(set).to_dict()
    lacking = [
        index
        for index in by_status[TrialStatus.COMPLETED]
        if not needed <= observed.get(index, set())
    ]
    counts = {
        "failed": len(by_status[TrialStatus.FAILED]),
        "was abandoned": len(by_status[TrialStatus.ABANDONED]),
        "was stopped early": len(by_status[TrialStatus.EARLY_STOPPED]),
        "was completed without an outcome": len(lacking),
    }
    parts: list[str] = []
    for ended, count in counts.items():
        if count > 0:
            noun = "" if parts else "trial " if count == 1 else "trials "
            verb = ended if count == 1 else ended.replace("was ", "were ")
            parts.append(f"{count} {noun}{verb}")
    trials = experiment.trials.values()
    lost = [t.abandoned_arms for t in trials if t.status is not TrialStatus.ABANDONED]
    if (arms := sum(map(len, lost))) > 0:
        noun = "arm of a batch was" if arms == 1 else "arms of batches were"
        parts.append(f"{arms} {noun} abandoned")
    *others, last = parts or [""]
    return f"{', '.join(others)} and {last}" if others else last


def complete_bands(acquisition: Any, adapter: Any, experiment: Experiment) -> None:
    r"""Add to the assumptions of all bands just made what Ax did to their data.

    Outcomes are missing, or a progression is scaled by the range of the data.
    """
    config = experiment.optimization_config
    if acquisition.outcome_constraints is not None and config is not None:
        check_kept(acquisition.statements, config)
    bands = [*acquisition.bands.values(), acquisition.band]
    for band in {id(each): each for each in bands}.values():
        own = band.confidence_set
        own.assumptions = completed(own.assumptions, adapter, experiment)


def completed(
    assumptions: Assumptions, adapter: Any, experiment: Experiment
) -> Assumptions:
    r"""Assumptions of a band, or of several, with what Ax did to their data."""
    missing = missing_outcomes(experiment)
    left_out = adapter.training_in_design.count(False)
    transforms = adapter.transforms.values()
    scaled = any(isinstance(t, MapKeyToFloat) and t._parameter_list for t in transforms)
    for item in assumptions.items:
        *output, name = item.name.rpartition(": ")
        if (missing or left_out) and name == REPORTED.name:
            output = "".join(output)
            reported, *_ = item.statement.removeprefix(output).partition(": ")
            on = "the noise of " if reported == REPORTED.statement else ""
            notes = list[str]()
            if missing:
                notes.append(f"{missing}; none of that depended on {on}their outcomes")
            if left_out:
                count = "1 arm is" if left_out == 1 else f"{left_out} arms are"
                notes.append(f"{count} {_LEFT_OUT}")
            statement = f"{output}{reported}: {'; '.join(notes)}"
            assumptions = assumptions.with_item(replace(item, statement=statement))
        if scaled and name == "kernel" and _SCALED not in item.statement:
            words = f"{item.statement}; {_SCALED}"
            estimated = replace(item, statement=words, status=Status.ESTIMATED)
            assumptions = assumptions.with_item(estimated)
    return assumptions
