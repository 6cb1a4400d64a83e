r"""The completed arm that is best for sure, among those that satisfy the constraints."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ax.api.client import Client
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_strategy import GenerationStrategy
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb.ax.acquisitions import ConstrainedAcquisition
from kernelucb.ax.bounds import FittedBound, fitted_bound, strategy_of
from kernelucb.ax.constrained import SafeAcquisition
from kernelucb.ax.contexts import checked_context
from kernelucb.ax.spaces import inputs_of
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.joined import joined_assumptions
from kernelucb.exceptions import NoSafePointError

Interval = tuple[float, float]
Parameters = Mapping[str, Any]


class Recommendation(NamedTuple):
    r"""An arm that satisfies the constraints, and what the bands say of it.

    Attributes:
        arm: The completed arm.
        parameters: Its parameters, in the context that was asked for.
        objective: Lower and upper bound of the objective there.
        outcomes: The same for every outcome that has a band, by the names of the metrics.
        assumptions: What all of this rests on.
        objective_name: The metric of the objective where it is one of ``outcomes``.
    """

    arm: Arm
    parameters: dict[str, Any]
    objective: Interval
    outcomes: dict[str, Interval]
    assumptions: Assumptions
    objective_name: str | None = None

    def __str__(self) -> str:
        lines = [f"arm {self.arm.name}: {self.parameters}"]
        own = self.objective_name
        label = "objective" if own is None else f"{own} (objective)"
        others = {name: each for name, each in self.outcomes.items() if name != own}
        named = {label: self.objective, **others}
        lines += [f"  {name}: {lo:.6g} to {hi:.6g}" for name, (lo, hi) in named.items()]
        return "\n".join([*lines, str(self.assumptions)])


@checked
def recommended_arm(
    source: Client | GenerationStrategy,
    *,
    fixed_parameters: Mapping[str, Any] | None = None,
) -> Recommendation:
    r"""The completed arm whose objective is best at worst, of those certainly feasible.

    An arm is certainly feasible if the bands of all constraints lie on the right side of
    their thresholds, or if it is a safe arm. Without outcome constraints every completed
    arm counts. The experiment and its next trials do not change.

    Example:
        >>> best = kernelucb.ax.recommended_arm(client)
        >>> best.parameters, best.objective, best.outcomes["purity"]

    Args:
        source: An Ax client, or its strategy from ``generation_strategy``.
        fixed_parameters: A context: the arms' other parameters are compared there.

    Raises:
        NoSafePointError: If no completed arm is certainly feasible yet.
        ValueError: If no trial in the search space has been observed yet, or a fixed
            parameter does not fit it.
        UnsupportedError: If the bound does not support the experiment.
    """
    strategy = strategy_of(source)
    experiment = strategy.experiment
    context = checked_context(experiment.search_space, fixed_parameters)
    fitted = fitted_bound(strategy, experiment, context)
    found = best_arm(experiment, fitted, context)
    if found is None:
        raise NoSafePointError(no_feasible_arm(fitted))
    arm, point = found
    row = point.unsqueeze(0)
    bands = getattr(fitted.acquisition, "bands", {})
    return Recommendation(
        arm=arm,
        parameters={**arm.parameters, **context},
        objective=_interval(fitted.acqf, row),
        outcomes={name: _interval(band, row) for name, band in bands.items()},
        assumptions=_assumptions(fitted),
        objective_name=next((n for n, b in bands.items() if b is fitted.acqf), None),
    )


def best_arm(
    experiment: Experiment,
    fitted: FittedBound,
    context: Parameters,
    *,
    by_bands: bool = False,
) -> tuple[Arm, Tensor] | None:
    r"""The recommended completed arm and its ``d`` inputs in a context; None without.

    Of the safe arms only those count ``by_bands`` that the bands show to be safe.
    """
    space = experiment.search_space
    arms = [
        arm
        for trial in experiment.trials_by_status[TrialStatus.COMPLETED]
        for arm in trial.arms
        if arm not in trial.abandoned_arms
        if space.check_membership({**arm.parameters, **context})
    ]
    if not arms:
        raise ValueError("No trial in the search space has been observed yet.")
    X = inputs_of(fitted.adapter, [{**arm.parameters, **context} for arm in arms])
    lower, upper = fitted.acqf.bounds(X)
    worth = lower if fitted.acqf.direction == 1 else -upper
    acquisition = fitted.acquisition
    if isinstance(acquisition, ConstrainedAcquisition):
        feasible = acquisition.outcome_constraints.is_feasible(X)
        if isinstance(acquisition, SafeAcquisition) and not by_bands:
            feasible = acquisition.safe_set.is_safe(X)
        if not bool(feasible.any()):
            return None
        worth = worth.masked_fill(~feasible, -float("inf"))
    index = int(worth.argmax())
    return arms[index], X[index]


def no_feasible_arm(fitted: FittedBound) -> str:
    r"""That there is none, in words."""
    words = ", ".join(getattr(fitted.acquisition, "statements", []))
    return (
        f"No completed arm is certainly feasible yet ({words}): the bands do not show that "
        "one satisfies every constraint. Observe more trials, or say more of the outcomes "
        "(smaller norm_bound or noise_std, if they are true)."
    )


def _interval(band: Any, row: Tensor) -> Interval:
    lower, upper = band.bounds(row)
    return float(lower), float(upper)


def _assumptions(fitted: FittedBound) -> Assumptions:
    acquisition = fitted.acquisition
    if not isinstance(acquisition, ConstrainedAcquisition):
        return fitted.acqf.assumptions
    bands: dict[str, Any] = dict(acquisition.bands)
    if fitted.acqf not in bands.values():
        bands["objective"] = fitted.acqf
    joined = joined_assumptions(
        bands,
        "the arm satisfies the constraints, and its outcomes lie between their bounds,",
    )
    if isinstance(acquisition, SafeAcquisition):
        for item in acquisition.safe_set.assumptions.items:
            if item.name == "safe points":
                joined = joined.with_extra(item)
    return joined
