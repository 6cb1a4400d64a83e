r"""Stops of an Ax experiment that replays of its strategy have calibrated."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core import Arm, Experiment
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.global_stopping.strategies.base import BaseGlobalStoppingStrategy
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import positive_scalar, probability, whole_number
from kernelucb.ax.bounds import FittedBound, strategy_of
from kernelucb.ax.experiment import config_of, missing_outcomes
from kernelucb.ax.specs import bound_spec
from kernelucb.ax.strategy import generation_strategy
from kernelucb.calibration import (
    CalibratedClaim,
    CalibratedGapStopping,
    Loop,
    Margins,
    default_margins,
)
from kernelucb.certificates.wording import Wording
from kernelucb.certificates.words import decision_in_words


@dataclass(frozen=True)
class AxPolicy:
    r"""A round of ``generation_strategy``, which ``calibrate`` can replay.

    Example:
        >>> policy = AxPolicy(bounds, options={"optimizer_options": {"num_restarts": 4}})
        >>> loop = Loop(policy, bounds, scale_free=True)
        >>> margins = calibrate(loop, PriorDraws(2), 199, "ax.jsonl")

    Attributes:
        bounds: ``2 x d`` limits of the parameters.
        maximize: Whether large outcomes are sought.
        options: Arguments of ``generation_strategy``.
    """

    bounds: Tensor = field(repr=False)
    maximize: bool = field(default=True, repr=False)
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __call__(self, X: Tensor, Y: Tensor) -> tuple[Model, Tensor]:
        r"""The fitted model of ``n x d`` inputs and ``n x 1`` outcomes; the next input."""
        client, names = Client(), [f"x{i}" for i in range(X.shape[1])]
        client.configure_experiment(
            parameters=[
                RangeParameterConfig(name=name, parameter_type="float", bounds=(low, high))
                for name, (low, high) in zip(names, self.bounds.mT.tolist(), strict=True)
            ]
        )
        client.configure_optimization("y" if self.maximize else "-y")
        client.set_generation_strategy(generation_strategy(**self.options))
        for x, y in zip(X.tolist(), Y[:, 0].tolist(), strict=True):
            trial = client.attach_trial(dict(zip(names, x, strict=True)))
            client.complete_trial(trial, raw_data={"y": y})
        (chosen,) = client.get_next_trials(1).values()
        adapter: Any = client._generation_strategy.adapter
        candidate = X.new_tensor([[float(chosen[name]) for name in names]])
        return adapter.generator.surrogate.model, candidate


class CalibratedDecision(NamedTuple):
    r"""Whether to stop and why, the claim, and the recommended completed arm.

    Claim and arm are None before the first round of claims.
    """

    stop: bool
    reason: str
    claim: CalibratedClaim | None
    arm: Arm | None

    def __str__(self) -> str:
        return decision_in_words(self.stop, self.reason, self.claim)


class CalibratedGapStoppingStrategy(BaseGlobalStoppingStrategy):
    r"""Stop when the regret that replays of the search promise is at most ``gap``.

    For experiments whose trials come from ``generation_strategy()`` without arguments: five
    Sobol trials, then one trial at a time, of continuous parameters without constraints,
    with outcomes without standard errors. In a share ``1 - delta`` of functions like those
    of the replays, the rule never stops while the completed arm of best posterior mean is
    more than ``gap`` from the optimum. An experiment that left this policy is told so, and
    goes on. Ax searches each trial with more restarts than the replays behind the package's
    margins did; in 39 replays the margins with as many were no larger
    (``benchmarks/calibration/results/policies.md``).

    Ask it after every trial, in your own loop; the ``Orchestrator`` and ``AxClient`` take
    it as ``global_stopping_strategy``. It is not stored with the experiment.

    Source: ranks of exchangeable numbers (see ``CalibratedGapStopping``).

    Example:
        >>> stopping = CalibratedGapStoppingStrategy(0.5, client)
        >>> while not (decision := stopping.decide()).stop:
        ...     ...

    Args:
        gap: Largest regret to accept, in units of the metric.
        source: The client, or its strategy from ``generation_strategy``.
        delta: Failure probability.
        margins: Of replays of the experiment's own policy (see ``AxPolicy``); by
            default those that come with the package (``default_margins``).
        min_trials: Number of completed trials before it is asked.
        units: Unit of the metric by its name, for print.

    Raises:
        ValueError: If a number is out of its range.
        UnsupportedError: If the generation strategy has no bound.
    """

    def __init__(
        self,
        gap: float,
        source: Client | GenerationStrategy,
        *,
        delta: float = 0.1,
        margins: Margins | None = None,
        min_trials: int = 1,
        units: Mapping[str, str] | None = None,
    ) -> None:
        least = whole_number("min_trials", min_trials)
        super().__init__(min_trials=least, inactive_when_pending_trials=False)
        self.gap, self.delta = positive_scalar("gap", gap), probability("delta", delta)
        self.generation_strategy, self.margins = strategy_of(source), margins
        self.units = units
        bound_spec(self.generation_strategy)  # refuses another strategy
        self._stopping: CalibratedGapStopping | None = None
        self._other = list[str]()

    def decide(self, experiment: Experiment | None = None) -> CalibratedDecision:
        r"""Decide from all outcomes so far.

        Args:
            experiment: By default the one of the generation strategy.

        Raises:
            ValueError: If no trial has been observed yet, or there are too few replays for
                ``delta``.
            UnsupportedError: If the bound cannot serve the experiment, or there are more
                parameters than in any replay.
        """
        own = self.generation_strategy
        fitted = FittedBound(own, experiment or own.experiment)
        (data,) = fitted.adapter.generator.surrogate.training_data[:1]
        box = torch.tensor(fitted.digest.bounds, dtype=torch.float64).mT.contiguous()
        maximize = not config_of(fitted.experiment).objective.minimize
        if self._stopping is None:
            margins = self.margins or default_margins(box, maximize=maximize)
            loop = replace(margins.loop, bounds=box, maximize=maximize)
            rule = CalibratedGapStopping(
                self.gap,
                margins,
                delta=self.delta,
                loop=loop,
                wording=Wording((), fitted.outcome, self.units or {}),
            )
            self._stopping, self._other = rule, rule.run.departures
        run = self._stopping.run
        options = "the options are not those of generation_strategy()"
        has_options = self._is_package(box) and self._has_options()
        run.departures = [*self._other, *[options] * has_options]
        run.departures += self._departures(fitted, run.loop.starts)
        more = ", searched by Ax with more restarts than the replays"
        run.seen = f"every trial comes from the strategy{more * self._is_package(box)}"
        model = fitted.adapter.generator.surrogate.model
        if len(data.X) < run.loop.starts:
            first = f"claims are made from {run.margins.first} outcomes on"
            return CalibratedDecision(False, first, None, None)
        X, (arms, places) = data.X.double(), fitted.completed_arms()
        stop, reason, claim = self._stopping(model, None, X, data.Y.double())
        # Rows of one setting, repeated, are one arm.
        best = torch.cdist(X[run.recommended : run.recommended + 1], places).argmin()
        arm = arms[int(best)]
        return CalibratedDecision(stop, f"arm {arm.name}: {reason}", claim, arm)

    def _departures(self, fitted: FittedBound, starts: int) -> list[str]:
        r"""Where the experiment left the policy."""
        strategy, experiment = self.generation_strategy, fitted.experiment
        trials = [*experiment.trials.values()]
        initial, searching = strategy.nodes_by_name
        expected = [initial] * starts + [searching] * max(0, len(trials) - starts)
        names = [
            [run._generation_node_name for run in each.generator_runs] for each in trials
        ]
        others = [
            f"trial {trial.index} is not from {name}"
            for trial, found, name in zip(trials, names, expected, strict=False)
            if found != [name] or len(trial.arms) > 1
        ]
        under_way = TrialStatus.RUNNING, TrialStatus.CANDIDATE
        several = sum(trial.status in under_way for trial in trials) > 1
        errors = experiment.lookup_data().df["sem"].fillna(0.0) > 0.0
        config, space = config_of(experiment), experiment.search_space
        found = {
            "several trials are under way": several,
            missing_outcomes(experiment): bool(missing_outcomes(experiment)),
            "outcomes have standard errors": bool(errors.any()),
            "there are integers or choices": bool(
                fitted.digest.discrete_choices or fitted.digest.categorical_features
            ),
            "there are constraints": bool(
                space.parameter_constraints or config.all_constraints
            ),
            "there are several objectives": config.is_moo_problem,
        }
        return others[:3] + [text for text, is_so in found.items() if is_so]

    def _is_package(self, box: Tensor) -> bool:
        assert self._stopping is not None
        loop = self._stopping.run.margins.loop
        return loop.digest == Loop.default(box, rounds=loop.rounds).digest

    def _has_options(self) -> bool:
        own, default = map(bound_spec, (self.generation_strategy, generation_strategy()))
        return own.generator_kwargs != default.generator_kwargs

    def _should_stop_optimization(
        self, experiment: Experiment, **_: object
    ) -> tuple[bool, str]:
        return self.decide(experiment)[:2]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(gap={self.gap}, delta={self.delta})"
