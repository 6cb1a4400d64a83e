r"""Stop an Ax experiment when a certificate says that little is left to gain."""

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any, NamedTuple

import torch
from ax.adapter.torch import TorchAdapter
from ax.api.client import Client
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.parameter import (
    ChoiceParameter,
    FixedParameter,
    Parameter,
    ParameterType,
    RangeParameter,
)
from ax.core.search_space import SearchSpace
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.global_stopping.strategies.base import BaseGlobalStoppingStrategy
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import positive_scalar, whole_number
from kernelucb.ax.bounds import FittedBound, bound_spec, fitted_bound, strategy_of
from kernelucb.ax.constraints import is_constrained
from kernelucb.ax.estimates import check_given
from kernelucb.ax.experiments import missing_outcomes
from kernelucb.ax.rehearsal import rehearsed_bounds
from kernelucb.certificates import CertifiedGapStopping, RegretCertificate
from kernelucb.confidence.assumptions import Assumptions

_MOST_CANDIDATES = 2000


class ArmDecision(NamedTuple):
    r"""Whether to stop and why, the certificate, and the recommended completed arm.

    The gap is in the units of the metric.
    """

    stop: bool
    reason: str
    certificate: RegretCertificate
    arm: Arm


class CertifiedGapStoppingStrategy(BaseGlobalStoppingStrategy):
    r"""Stop when no arm can be better than the best completed one by more than ``gap``.

    It may be asked at any time, also with trials under way. With a certified anytime bound
    the probability of ever stopping with an arm that is too far from the optimum is at most
    its ``delta``. Each check fits the bound to all outcomes of the experiment and changes
    neither the strategy nor its next trials.

    **What it acts on.** A bound with an estimated assumption is refused, if possible when
    the stopping strategy is made: kernel and mean are estimated unless the model comes from
    ``fixed_model_config`` or the bound is ``KernelFamilyUCB``, the norm unless
    ``norm_bound`` is a number, the noise unless it is given or standard errors are
    reported. With ``allow_estimated=True`` it is acted on; the probability of an error is
    then unknown, and the reason says so. The strategy never stops if the data contradict an
    assumption, nor on a bound that is not anytime or does not hold at all points at once.

    **Which gap.** That of the completed arm whose pessimistic bound is best. Up to 2000
    parameter combinations are checked one by one. Otherwise the domain is the box of all
    inputs, with integers, encoded choices and progressions as intervals and without
    parameter constraints, which can only make the gap larger. In up to 3 dimensions branch
    and bound finds an upper bound on the maximum. Otherwise (more dimensions, or a bound
    without a norm) the maximum comes from a search, and the strategy never stops on that.

    **Trials without an outcome.** Failed and abandoned trials do not count, even if they
    reported something; trials under way and trials stopped early count with their last
    report. The guarantee needs that whether and when an outcome is reported does not depend
    on its noise, which only the user can know: the certificate's assumptions and the reason
    say how many trials failed, were abandoned or stopped early, or were completed without
    an outcome. Stopping a trial early because of its own noisy outcomes breaks it.

    Ax's ``Client`` has no place for such a strategy: ask it in your own loop. The
    ``Orchestrator`` and ``AxClient`` take it as ``global_stopping_strategy``. It is not
    stored with the experiment; after reopening one, make it anew.

    Source: see ``regret_certificate``.

    Example:
        >>> stopping = CertifiedGapStoppingStrategy(0.5, client)
        >>> while not (decision := stopping.decide()).stop:
        ...     ...
        >>> decision.arm.parameters
    """

    @checked
    def __init__(
        self,
        gap: float,
        source: Client | GenerationStrategy,
        *,
        min_trials: int = 1,
        max_evaluations: int = 20_000,
        inactive_when_pending_trials: bool = False,
        allow_estimated: bool = False,
    ) -> None:
        r"""Stopping strategy.

        Args:
            gap: Largest regret to accept, in units of the metric.
            source: The client, or its strategy from ``generation_strategy``.
            min_trials: Number of completed trials before it is asked.
            max_evaluations: Largest number of points that branch and bound looks at; see
                ``regret_certificate``.
            inactive_when_pending_trials: Whether to wait until no trial is under way. With
                parallel workers that may never happen.
            allow_estimated: Whether to stop on a bound whose kernel, mean, noise or norm
                was estimated.

        Raises:
            ValueError: If a number is out of its range.
            UncertifiedError: If the bound has an estimated assumption in every trial, and
                ``allow_estimated`` is not set.
            UnsupportedError: If the generation strategy has no bound.
        """
        super().__init__(
            min_trials=whole_number("min_trials", min_trials),
            inactive_when_pending_trials=inactive_when_pending_trials,
        )
        self.gap = positive_scalar("gap", gap)
        self.generation_strategy = strategy_of(source)
        self.max_evaluations = whole_number("max_evaluations", max_evaluations)
        self.allow_estimated = allow_estimated
        spec = bound_spec(self.generation_strategy)
        if is_constrained(spec):
            raise UnsupportedError(
                f"{type(self).__name__} has no certificate for outcome constraints; ask "
                "kernelucb.ax.recommended_arm for the best arm that satisfies them, and "
                "stop when its bounds are close enough."
            )
        arguments = spec.generator_kwargs
        rehearsal = rehearsed_bounds(
            arguments["botorch_acqf_class"],
            arguments["botorch_acqf_options"],
            arguments["surrogate_spec"],
        )
        self._check([bound.assumptions for bound in rehearsal])

    def decide(self, experiment: Experiment | None = None) -> ArmDecision:
        r"""Decide from all outcomes so far.

        Args:
            experiment: By default the one of the generation strategy.

        Raises:
            ValueError: If no trial in the search space has been observed yet.
            UncertifiedError: If the bound has an estimated assumption and
                ``allow_estimated`` is not set.
            UnsupportedError: If the bound cannot serve the experiment (see
                ``generation_strategy``).
        """
        if experiment is None:
            experiment = self.generation_strategy.experiment
        fitted = fitted_bound(self.generation_strategy, experiment)
        self._check([fitted.acqf.assumptions])
        arm, recommended = _best_arm(experiment, fitted)
        candidates = _candidates(experiment.search_space, fitted.adapter)
        box = torch.tensor(fitted.digest.bounds, dtype=torch.float64).mT
        rule = CertifiedGapStopping(
            self.gap,
            candidates,
            bounds=box if candidates is None else None,
            max_evaluations=self.max_evaluations,
            allow_estimated=self.allow_estimated,
        )
        decision = rule(fitted.acqf, recommended)
        reason = f"arm {arm.name}: {decision.reason}"
        if missing := missing_outcomes(experiment):
            reason += (
                ", given that none of this depended on the noise of the outcomes: "
                f"{missing}"
            )
        return ArmDecision(decision.stop, reason, decision.certificate, arm)

    def _check(self, assumptions: list[Assumptions]) -> None:
        check_given(type(self).__name__, assumptions, self.allow_estimated)

    def _should_stop_optimization(
        self, experiment: Experiment, **_: Any
    ) -> tuple[bool, str]:
        decision = self.decide(experiment)
        return decision.stop, decision.reason

    def __repr__(self) -> str:
        return f"{type(self).__name__}(gap={self.gap}, min_trials={self.min_trials})"


def _best_arm(experiment: Experiment, fitted: FittedBound) -> tuple[Arm, Tensor]:
    r"""The completed arm whose pessimistic bound is best, and its inputs."""
    space = experiment.search_space
    arms = [
        arm
        for trial in experiment.trials_by_status[TrialStatus.COMPLETED]
        for arm in trial.arms
        if space.check_membership(arm.parameters)
    ]
    if not arms:
        raise ValueError("No trial in the search space has been observed yet.")
    X = _inputs(fitted.adapter, [arm.parameters for arm in arms])
    lower, upper = fitted.acqf.bounds(X)
    index = int(lower.argmax() if fitted.acqf.direction == 1 else upper.argmin())
    return arms[index], X[index]


def _candidates(space: SearchSpace, adapter: TorchAdapter) -> Tensor | None:
    r"""All points of a small finite search space; None where there are more."""
    values = [_values(parameter) for parameter in space.parameters.values()]
    finite = [choices for choices in values if choices is not None]
    if len(finite) < len(values) or prod(map(len, finite)) > _MOST_CANDIDATES:
        return None
    points = [dict(zip(space.parameters, row, strict=True)) for row in product(*finite)]
    return _inputs(adapter, [p for p in points if space.check_membership(p)])


def _values(parameter: Parameter) -> list[Any] | range | None:
    if isinstance(parameter, ChoiceParameter):
        return parameter.values
    if isinstance(parameter, FixedParameter):
        return [parameter.value]
    is_range = isinstance(parameter, RangeParameter)
    if is_range and parameter.parameter_type is ParameterType.INT:
        return range(int(parameter.lower), int(parameter.upper) + 1)
    return None


def _inputs(adapter: TorchAdapter, points: list[Mapping[str, Any]]) -> Tensor:
    r"""``n x d`` inputs of the bound."""
    features = [ObservationFeatures(parameters=dict(point)) for point in points]
    return adapter.transform_observation_features(features)
