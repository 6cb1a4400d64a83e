r"""Stop an Ax experiment when a certificate says that little is left to gain."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections.abc import Mapping
from typing import Any, NamedTuple

from ax.core import Arm, Experiment
from ax.global_stopping.strategies.base import BaseGlobalStoppingStrategy

from kernelucb._numerics.checks import positive_scalar, whole_number
from kernelucb.ax.bounds import FittedBound, Source, bound_spec, check_given, strategy_of
from kernelucb.ax.experiment import check_experiment, missing_outcomes
from kernelucb.ax.options import estimates_of
from kernelucb.certificates import CertifiedGapStopping, RegretCertificate
from kernelucb.exceptions import NoSafePointError


class ArmDecision(NamedTuple):
    r"""Whether to stop and why, the certificate, and the recommended completed arm.

    The gap is in the units of the metric. Certificate and arm are None while no completed
    arm is certainly feasible.
    """

    stop: bool
    reason: str
    certificate: RegretCertificate | None
    arm: Arm | None


class CertifiedGapStoppingStrategy(BaseGlobalStoppingStrategy):
    r"""Stop when no arm can be better than the best completed one by more than ``gap``.

    It may be asked at any time, also with trials under way. With a certified anytime bound
    the probability of ever stopping with an arm that is too far from the optimum is at most
    its ``delta``. Each check fits the bound to all outcomes of the experiment and changes
    neither the strategy nor its next trials. It never stops if the data contradict an
    assumption, nor on a bound that is not anytime or does not hold at all points at once.
    ``docs/ax.md`` says which gap it is and what trials without an outcome mean.

    Ax's ``Client`` has no place for such a strategy: ask it in your own loop. The
    ``Orchestrator`` and ``AxClient`` take it as ``global_stopping_strategy``. It is not
    stored with the experiment; after reopening one, make it anew.

    Source: see ``regret_certificate``.

    Example:
        >>> stopping = CertifiedGapStoppingStrategy(0.5, client)
        >>> while not (decision := stopping.decide()).stop:
        ...     ...
        >>> decision.arm.parameters

    Args:
        gap: Largest regret to accept, in units of the metric.
        source: The client, or its strategy from ``generation_strategy``.
        min_trials: Number of completed trials before it is asked.
        max_evaluations: Largest number of points that branch and bound looks at.
        inactive_when_pending_trials: Whether to wait until no trial is under way. With
            parallel workers that may never happen.
        allow_estimated: Whether to stop on a bound whose kernel, mean, noise or norm was
            estimated; the probability of an error is then unknown.

    Raises:
        ValueError: If a number is out of its range.
        UncertifiedError: If the options leave kernel, mean or norm to be estimated, and
            ``allow_estimated`` is not set.
        UnsupportedError: If the generation strategy has no bound, or the bound does not
            support the experiment as it is configured by now.
    """

    def __init__(
        self,
        gap: float,
        source: Source,
        *,
        min_trials: int = 1,
        max_evaluations: int = 20_000,
        inactive_when_pending_trials: bool = False,
        allow_estimated: bool = False,
    ) -> None:
        super().__init__(
            min_trials=whole_number("min_trials", min_trials),
            inactive_when_pending_trials=inactive_when_pending_trials,
        )
        self.gap = positive_scalar("gap", gap)
        self.generation_strategy = strategy_of(source)
        self.max_evaluations = whole_number("max_evaluations", max_evaluations)
        self.allow_estimated = allow_estimated
        spec = bound_spec(self.generation_strategy)
        if (experiment := self.generation_strategy._experiment) is not None:
            check_experiment(spec, experiment)
        estimates = estimates_of(spec.generator_kwargs)
        check_given(type(self).__name__, estimates, allow_estimated)

    def decide(
        self,
        experiment: Experiment | None = None,
        *,
        fixed_parameters: Mapping[str, Any] | None = None,
    ) -> ArmDecision:
        r"""Decide from all outcomes so far.

        Args:
            experiment: By default the one of the generation strategy.
            fixed_parameters: A context: the optimum and the arm are compared there.

        Raises:
            ValueError: If no trial in the search space has been observed yet, or a fixed
                parameter does not fit it.
            UncertifiedError: If the bound has an estimated assumption and
                ``allow_estimated`` is not set.
            UnsupportedError: If the bound cannot serve the experiment (see
                ``generation_strategy``).
        """
        if experiment is None:
            experiment = self.generation_strategy.experiment
        fitted = FittedBound(self.generation_strategy, experiment, fixed_parameters)
        bands = [*fitted.bands.values()] or [fitted.band]
        estimates = [name for band in bands for name in band.assumptions.estimated]
        check_given(type(self).__name__, estimates, self.allow_estimated)
        try:
            arm, recommended = fitted.best_arm(by_bands=True)
        except NoSafePointError as error:
            return ArmDecision(False, str(error), None, None)
        domain = fitted.domain
        rule = CertifiedGapStopping(
            self.gap,
            space=domain.pop("space"),
            max_evaluations=self.max_evaluations,
            allow_estimated=self.allow_estimated,
        )
        decision = rule(fitted.band, recommended, **domain)
        reason = f"arm {arm.name}: {decision.reason}"
        if missing := missing_outcomes(experiment):
            reason += (
                ", given that none of this depended on the noise of the outcomes: "
                f"{missing}"
            )
        return ArmDecision(decision.stop, reason, decision.certificate, arm)

    def _should_stop_optimization(
        self, experiment: Experiment, **_: Any
    ) -> tuple[bool, str]:
        return self.decide(experiment)[:2]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(gap={self.gap}, min_trials={self.min_trials})"
