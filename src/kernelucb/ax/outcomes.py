r"""What trials without an outcome, and progressions, mean for what a bound rests on."""

from dataclasses import replace
from typing import Any

from ax.adapter.transforms.map_key_to_float import MapKeyToFloat
from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus

from kernelucb.acquisition.base import KernelUCB
from kernelucb.confidence.assumptions import Status
from kernelucb.confidence.statements import REPORTED

_ENDS = {
    TrialStatus.FAILED: ("failed", "failed"),
    TrialStatus.ABANDONED: ("was abandoned", "were abandoned"),
    TrialStatus.EARLY_STOPPED: ("was stopped early", "were stopped early"),
}
_NO_OUTCOME = ("was completed without an outcome", "were completed without an outcome")


def missing_outcomes(experiment: Experiment) -> str:
    r"""``"3 trials failed, 1 was abandoned and 2 were stopped early"``, or nothing."""
    counts = {
        verbs: len(experiment.trial_indices_by_status[status])
        for status, verbs in _ENDS.items()
    }
    counts[_NO_OUTCOME] = _completed_without_outcome(experiment)
    parts: list[str] = []
    for (one, several), count in counts.items():
        if count > 0:
            noun = "" if parts else "trial " if count == 1 else "trials "
            parts.append(f"{count} {noun}{one if count == 1 else several}")
    arms = sum(
        len(trial.abandoned_arms)
        for trial in experiment.trials.values()
        if trial.status is not TrialStatus.ABANDONED
    )
    if arms > 0:
        noun = "arm of a batch was" if arms == 1 else "arms of batches were"
        parts.append(f"{arms} {noun} abandoned")
    *others, last = parts or [""]
    return f"{', '.join(others)} and {last}" if others else last


def state_missing_outcomes(acqf: KernelUCB, experiment: Experiment) -> None:
    r"""Name the missing outcomes in the assumptions of a bound that was just made."""
    missing = missing_outcomes(experiment)
    if not missing:
        return
    assumptions = acqf.confidence_set.assumptions
    for item in assumptions.items:
        *output, name = item.name.rpartition(": ")
        if name == REPORTED.name:
            statement = (
                f"{''.join(output)}{REPORTED.statement}: {missing}; none of that depended "
                "on the noise of their outcomes"
            )
            assumptions = assumptions.with_item(replace(item, statement=statement))
    acqf.confidence_set.assumptions = assumptions


def state_progressions(acqf: KernelUCB, adapter: Any) -> None:
    r"""Mark the kernel as estimated where Ax scales a progression by the data's range."""
    transforms = adapter.transforms.values()
    if not any(isinstance(t, MapKeyToFloat) and t._parameter_list for t in transforms):
        return
    assumptions = acqf.confidence_set.assumptions
    for item in assumptions.items:
        if item.name.rpartition(": ")[2] == "kernel":
            statement = f"{item.statement}; Ax scales the trials' progression by the data"
            estimated = replace(item, statement=statement, status=Status.ESTIMATED)
            assumptions = assumptions.with_item(estimated)
    acqf.confidence_set.assumptions = assumptions


def _completed_without_outcome(experiment: Experiment) -> int:
    r"""Number of completed trials that lack an outcome of the objective."""
    config = experiment.optimization_config
    if config is None:
        return 0
    data = experiment.lookup_data().df
    data = data[data["mean"].notna()]
    observed = data.groupby("trial_index")["metric_name"].agg(set).to_dict()
    needed = set(config.objective.metric_names)
    completed = experiment.trial_indices_by_status[TrialStatus.COMPLETED]
    return sum(not needed <= observed.get(index, set()) for index in completed)
