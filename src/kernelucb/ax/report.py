r"""What is known of the optimum of an Ax experiment, in one object."""

from collections.abc import Mapping
from typing import Any

from ax.api.client import Client
from ax.core.experiment import Experiment
from ax.generation_strategy.generation_strategy import GenerationStrategy

from kernelucb import certificates
from kernelucb._numerics.arguments import checked
from kernelucb.ax.bounds import fitted_bound, strategy_of
from kernelucb.ax.contexts import checked_context
from kernelucb.ax.domains import domain_options
from kernelucb.ax.recommendation import best_arm, no_feasible_arm
from kernelucb.certificates import OptimumReport
from kernelucb.exceptions import NoSafePointError


@checked
def optimum_report(
    source: Client | GenerationStrategy,
    *,
    fixed_parameters: Mapping[str, Any] | None = None,
    tolerance: float = 0.05,
    max_evaluations: int = 20_000,
) -> OptimumReport:
    r"""Report the optimum of an experiment, and how good its best completed arm is.

    See ``kernelucb.optimum_report``. The recommended point is the completed arm whose
    objective is best at worst, with outcome constraints among the certainly feasible ones.
    Points are inputs of the bound (see ``generation_strategy``), named as Ax names them:
    numbers after the logarithm of log-scaled parameters, one input for each value of an
    unordered choice. The experiment and its next trials do not change.

    Example:
        >>> print(kernelucb.ax.optimum_report(client))

    Args:
        source: An Ax client, or its strategy from ``generation_strategy``.
        fixed_parameters: A context: the optimum and the arms are compared there.
        tolerance: Share of the gap, and of the interval, that may be left open.
        max_evaluations: Largest number of points that branch and bound looks at.

    Raises:
        NoSafePointError: If no completed arm is certainly feasible yet.
        ValueError: If no trial in the search space has been observed yet, a fixed parameter
            does not fit it, or a scalar is out of its range.
        UnsupportedError: If the bound does not support the experiment.
    """
    strategy = strategy_of(source)
    found = report_and_limits(
        strategy, strategy.experiment, fixed_parameters, tolerance, max_evaluations
    )
    return found[0]


def report_and_limits(
    strategy: GenerationStrategy,
    experiment: Experiment,
    fixed_parameters: Mapping[str, Any] | None,
    tolerance: float,
    max_evaluations: int,
) -> tuple[OptimumReport, list[tuple[float, float]]]:
    r"""The report of an experiment, and the limits of the inputs that it names."""
    context = checked_context(experiment.search_space, fixed_parameters)
    fitted = fitted_bound(strategy, experiment, context)
    found = best_arm(experiment, fitted, context, by_bands=True)
    if found is None:
        raise NoSafePointError(no_feasible_arm(fitted))
    report = certificates.optimum_report(
        fitted.acqf,
        **domain_options(experiment, fitted, context),
        recommended=found[1],
        names=fitted.digest.feature_names,
        tolerance=tolerance,
        max_evaluations=max_evaluations,
    )
    return report, [(float(low), float(high)) for low, high in fitted.digest.bounds]
