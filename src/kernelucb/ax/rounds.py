r"""The certificates that an experiment had after earlier trials."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_strategy import GenerationStrategy

from kernelucb.ax.bounds import fitted_bound
from kernelucb.ax.domains import domain_options
from kernelucb.ax.recommendation import best_arm
from kernelucb.certificates import RegretCertificate, regret_certificate


class Round(NamedTuple):
    r"""The best completed arm after a trial, and how far it may be from the optimum."""

    trial_index: int
    arm_name: str
    certificate: RegretCertificate


def gaps_after_trials(
    strategy: GenerationStrategy,
    experiment: Experiment,
    context: Mapping[str, Any],
    most_rounds: int,
    max_evaluations: int,
) -> Iterator[Round]:
    r"""After some of the completed trials, by index, the last one among them.

    Rounds in which no completed arm was certainly feasible are left out.
    """
    completed = sorted(
        trial.index for trial in experiment.trials_by_status[TrialStatus.COMPLETED]
    )
    chosen = [completed[i] for i in _spread(len(completed), most_rounds)]
    for index in chosen:
        found = _round(strategy, experiment, context, index, max_evaluations)
        if found is not None:
            yield found


def _round(
    strategy: GenerationStrategy,
    experiment: Experiment,
    context: Mapping[str, Any],
    index: int,
    max_evaluations: int,
) -> Round | None:
    known = [i for i in sorted(experiment.trials) if i <= index]
    kept = list(experiment._properties)
    earlier = experiment.clone_with(trial_indices=known, properties_to_keep=kept)
    fitted = fitted_bound(strategy, earlier, context)
    found = best_arm(earlier, fitted, context, by_bands=True)
    if found is None:
        return None
    certificate = regret_certificate(
        fitted.acqf,
        **domain_options(earlier, fitted, context),
        recommended=found[1],
        max_evaluations=max_evaluations,
    )
    return Round(index, found[0].name, certificate)


def _spread(count: int, most: int) -> list[int]:
    r"""At most so many of the places ``0, ..., count - 1``, even and with the last one."""
    if count <= most:
        return list(range(count))
    step = count / most
    return [round((k + 1) * step) - 1 for k in range(most)]
