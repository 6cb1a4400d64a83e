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
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, whole_number
from kernelucb.acquisition.base import KernelUCB
from kernelucb.ax.bounds import FittedBound, fitted_bound, strategy_of
from kernelucb.certificates import CertifiedGapStopping, RegretCertificate

_MOST_CANDIDATES = 2000


class ArmDecision(NamedTuple):
    r"""Whether to stop, why, and with which arm.

    Attributes:
        stop: Whether the certificate is rigorous and small enough.
        reason: In words.
        certificate: What it rests on; gap in the units of the metric.
        arm: The observed arm that is recommended.
    """

    stop: bool
    reason: str
    certificate: RegretCertificate
    arm: Arm


class CertifiedGapStoppingStrategy(BaseGlobalStoppingStrategy):
    r"""Stop when no arm can be better than the best observed one by more than ``gap``.

    May be asked at any time, with trials under way, and acted on whenever it says so: an
    anytime bound's probability is for all rounds together. Every check fits the bound to
    all outcomes of the experiment, which leaves the strategy and its next trials as they
    are. Failed and abandoned trials, and those under way, tell nothing about outcomes and
    do not count.

    **What is certified.** The gap of the completed arm whose guaranteed outcome is best,
    in the units of the metric, for maximised and minimised ones. Up to 2000 parameter
    combinations are gone through one by one. Otherwise the domain is the box of all inputs,
    with integers and encoded choices as intervals and without parameter constraints, which
    can only make the gap larger: proven in up to 3 dimensions, and beyond that a heuristic
    on which it never stops. Nor does it stop where the data contradict an assumption.
    Assumptions that were estimated (in Ax, kernel and mean are fitted in every trial,
    unless the model is one of ``fixed_model_config``) do not keep it from stopping; the
    reason names them.

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

    def __init__(
        self,
        gap: float,
        source: Client | GenerationStrategy,
        *,
        min_trials: int = 1,
        max_evaluations: int = 20_000,
        inactive_when_pending_trials: bool = False,
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

        Raises:
            ValueError: If a number is out of its range.
        """
        super().__init__(
            min_trials=whole_number("min_trials", min_trials),
            inactive_when_pending_trials=inactive_when_pending_trials,
        )
        self.gap = positive_scalar("gap", gap)
        self.generation_strategy = strategy_of(source)
        self.max_evaluations = whole_number("max_evaluations", max_evaluations)

    def decide(self, experiment: Experiment | None = None) -> ArmDecision:
        r"""Decide from all outcomes so far.

        Args:
            experiment: By default the one of the generation strategy.

        Raises:
            ValueError: If no trial in the search space has been observed yet.
            UnsupportedError: If the objective is not one outcome, or the generation
                strategy has no bound.
        """
        if experiment is None:
            experiment = self.generation_strategy.experiment
        fitted = fitted_bound(self.generation_strategy, experiment)
        arm, recommended = _best_arm(experiment, fitted)
        candidates = _candidates(experiment.search_space, fitted.adapter)
        box = torch.tensor(fitted.digest.bounds, dtype=torch.float64).mT
        rule = CertifiedGapStopping(
            self.gap,
            candidates,
            bounds=box if candidates is None else None,
            max_evaluations=self.max_evaluations,
        )
        decision = rule(fitted.acqf, recommended)
        reason = f"arm {arm.name}: {decision.reason}"
        return ArmDecision(decision.stop, reason, decision.certificate, arm)

    def _should_stop_optimization(
        self, experiment: Experiment, **_: Any
    ) -> tuple[bool, str]:
        decision = self.decide(experiment)
        return decision.stop, decision.reason

    def __repr__(self) -> str:
        return f"{type(self).__name__}(gap={self.gap}, min_trials={self.min_trials})"


def _best_arm(experiment: Experiment, fitted: FittedBound) -> tuple[Arm, Tensor]:
    r"""The completed arm whose guaranteed outcome is best, and its inputs."""
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
    index = int(_guaranteed(fitted.acqf, X).argmax())
    return arms[index], X[index]


def _guaranteed(acqf: KernelUCB, X: Tensor) -> Tensor:
    lower, upper = acqf.bounds(X)
    return lower if acqf.direction == 1 else -upper


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
    if parameter.parameter_type is ParameterType.INT and isinstance(
        parameter, RangeParameter
    ):
        return range(int(parameter.lower), int(parameter.upper) + 1)
    return None


def _inputs(adapter: TorchAdapter, points: list[Mapping[str, Any]]) -> Tensor:
    r"""``n x d`` inputs of the bound."""
    features = [ObservationFeatures(parameters=dict(point)) for point in points]
    return adapter.transform_observation_features(features)
