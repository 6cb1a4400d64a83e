r"""Bands of an Ax experiment, and their best arm, stopping and report."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from ax.api.client import Client
from ax.core import (
    Arm,
    Experiment,
    ObservationFeatures,
)
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.global_stopping.strategies.base import BaseGlobalStoppingStrategy
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb import certificates, diagnostics
from kernelucb._numerics.checks import positive_scalar, whole_number
from kernelucb._numerics.digits import between
from kernelucb.ax.acquisition import BoundAcquisition
from kernelucb.ax.experiment import (
    Parameters,
    check_experiment,
    checked_context,
    choices_of,
    config_of,
    inputs_of,
    missing_outcomes,
    mixed_space,
    setting_of,
)
from kernelucb.ax.inputs import parameters_of_columns
from kernelucb.ax.options import estimates_of, options_by_outcome
from kernelucb.ax.specs import bound_spec, check_given, has_bound, options_of_now
from kernelucb.ax.strategy import generation_strategy
from kernelucb.certificates import OptimumReport, RegretCertificate
from kernelucb.certificates.wording import Wording
from kernelucb.certificates.words import ParetoSet, decision_in_words
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.band import Band, joined_assumptions
from kernelucb.diagnostics import NormDescription
from kernelucb.exceptions import NoSafePointError

_LOG = logging.getLogger(__name__)

Source = Client | Experiment | GenerationStrategy
Interval = tuple[float, float]


def last_bound(source: Client | GenerationStrategy) -> Band:
    r"""The bound that chose the last trial, or limited the search for it.

    It has not seen the outcome of the last trial; ``current_bound`` has seen all outcomes.
    Inputs are Ax's, after the logarithm of log-scaled parameters and the encoding of
    choices. Its ``assumptions`` count the trials that failed, were abandoned or stopped
    early, or were completed without an outcome. ``source`` is an Ax client or its
    generation strategy.

    Raises:
        ValueError: If no bound has chosen a trial yet in this process (a reopened
            experiment has one as soon as it hands out its next trial).
    """
    strategy = strategy_of(source)
    adapter = strategy.adapter
    # Of Sobol points there is none.
    acquisition = adapter and getattr(adapter.generator, "_acquisition", None)
    if not isinstance(acquisition, BoundAcquisition):
        raise ValueError(
            f"No bound has chosen a trial yet; the strategy is at its node "
            f"`{strategy.current_node_name}`. Ask for the next trial first."
        )
    return acquisition.bound.band


def current_bound(source: Source, known: GenerationStrategy | None = None) -> Band:
    r"""The bound from all outcomes so far, also with trials under way.

    Model and bound are fitted anew; a prior in the options stays as it is. The experiment
    and its next trials do not change. Inputs and assumptions: see ``last_bound``.

    Args:
        source: An Ax client, experiment or generation strategy.
        known: From ``generation_strategy``: what is known, whoever chose the trials; it
            chooses none. By default the source's own strategy, or, where that is another,
            such as Ax's, ``generation_strategy()``, which estimates all of it.

    Raises:
        ValueError: If no trial has been observed yet.
        UnsupportedError: If the bound does not support the experiment.
        InputDataError: If an outcome is unusable: infinite, or with a bad standard error.
    """
    return FittedBound(*asked(source, known)).band


class Recommendation(NamedTuple):
    r"""An arm that satisfies the constraints, with bounds of its outcomes.

    Attributes:
        arm: The completed arm.
        parameters: Its parameters, in the context that was asked for.
        objective: Lower and upper bound of the objective there, outcome units.
        outcomes: Lower and upper bound of every outcome, by the names of the metrics; empty
            without outcome constraints.
        assumptions: Joint assumptions of all these bounds.
        objective_name: The metric that ``objective`` bounds, or the whole weighted sum.
    """

    arm: Arm
    parameters: dict[str, Any]
    objective: Interval
    outcomes: dict[str, Interval]
    assumptions: Assumptions
    objective_name: str = "objective"

    def __str__(self) -> str:
        lines, name = [f"arm {self.arm.name}: {self.parameters}"], self.objective_name
        others = {n: ends for n, ends in self.outcomes.items() if n != name}
        for label, ends in {f"{name} (objective)": self.objective, **others}.items():
            lines.append(f"  {label}: {' to '.join(between(*ends))}")
        return "\n".join([*lines, str(self.assumptions)])


def recommended_arm(
    source: Source,
    *,
    known: GenerationStrategy | None = None,
    fixed_parameters: Parameters | None = None,
) -> Recommendation:
    r"""The completed arm whose objective is best at worst, of those certainly feasible.

    An arm is certainly feasible if the bands of all constraints lie on the right side of
    their thresholds, or if it is a safe arm. Without outcome constraints every completed
    arm counts. The experiment and its next trials do not change.

    Example:
        >>> best = kernelucb.ax.recommended_arm(client)
        >>> best.parameters, best.objective, best.outcomes["purity"]

    Args:
        source: See ``current_bound``.
        known: See there.
        fixed_parameters: A context: the arms' other parameters are compared there.

    Raises:
        NoSafePointError: If no completed arm is certainly feasible yet.
        ValueError: If no trial in the search space has been observed yet, or a fixed
            parameter does not fit it.
        UnsupportedError: If the bound does not support the experiment.
    """
    fitted = FittedBound(*asked(source, known), fixed_parameters)
    arm, point = fitted.best_arm()

    def interval(band: Band) -> Interval:
        lower, upper = band.bounds(point.unsqueeze(0))
        return float(lower), float(upper)

    return Recommendation(
        arm=arm,
        parameters=fitted.setting(arm.parameters),
        objective=interval(fitted.band),
        outcomes={name: interval(band) for name, band in fitted.bands.items()},
        assumptions=fitted.assumptions,
        objective_name=fitted.outcome,
    )


class FittedBound:
    r"""A strategy's bound, fitted to all outcomes; nothing else changes.

    Attributes:
        band: The bound of the objective.
        outcome: The metric that it bounds, or the whole weighted sum.
        bands: With outcome constraints, or several objectives, the bands of all outcomes,
            by their names.
        context: The fixed parameters, of the types of the search space.
        adapter: Ax's adapter, which turns parameters into inputs.
        digest: The search space in these inputs.
    """

    def __init__(
        self,
        strategy: GenerationStrategy,
        experiment: Experiment,
        fixed_parameters: Parameters | None = None,
        several: bool = False,
    ) -> None:
        r"""Fit the bound; ``fixed_parameters`` are a context.

        With ``several`` objectives ``bands`` are of all outcomes, whatever the strategy
        searches, and objective thresholds are constraints.
        """
        self.experiment, space = experiment, experiment.search_space
        self.context = checked_context(space, fixed_parameters)
        spec = bound_spec(strategy).copy()  # fitting changes it
        if several:
            given = spec.generator_kwargs["acquisition_options"]
            given.pop("search", None)
            kind = "explored" if config_of(experiment).all_constraints else None
            given |= {"several": True, "constraints": kind}
        check_experiment(spec, experiment)
        if experiment.lookup_data().empty:
            raise ValueError("No trial has been observed yet; complete one first.")
        spec.fit(experiment, experiment.lookup_data())
        self.adapter: Any = spec.fitted_adapter
        # The two steps of `Adapter.gen` before it asks its generator.
        features = ObservationFeatures(parameters=self.context) if self.context else None
        arguments = self.adapter._get_transformed_gen_args(
            search_space=space, fixed_features=features
        )
        goal = arguments.optimization_config
        goal._outcome_constraints = goal.all_constraints  # thresholds are limits, too
        self.digest, config = self.adapter._get_transformed_model_gen_args(
            search_space=arguments.search_space,
            pending_observations={},
            fixed_features=arguments.fixed_features,
            optimization_config=goal,
        )
        # Ax would infer thresholds of several objectives where nobody has set any.
        weights = config.objective_weights.sum(0, keepdim=True)
        config = replace(config, objective_weights=weights, objective_thresholds=None)
        stored = spec.generator_kwargs
        now = options_of_now(spec, self.adapter, experiment, self.context)
        # As Ax builds the bound for a trial, so that the same is refused.
        built: BoundAcquisition = self.adapter.generator._instantiate_acquisition(
            search_space_digest=self.digest,
            torch_opt_config=config,
            botorch_acqf_options=stored["botorch_acqf_options"],
            acq_options={**stored["acquisition_options"], **now},
        )
        self._acquisition, self.band = built, built.bound.band
        limits = built.outcome_constraints
        self.bands = {} if limits is None and not several else built.bands
        objective = config_of(experiment).objective
        is_sum = bool(self.band.parts)
        self.outcome = objective.expression if is_sum else objective.metric_names[0]

    def setting(self, parameters: Parameters) -> dict[str, Any]:
        r"""Parameters in the context."""
        return setting_of(self.experiment.search_space, parameters, self.context)

    @property
    def assumptions(self) -> Assumptions:
        r"""Assumptions of the bands of all outcomes."""
        if not self.bands:
            return self.band.assumptions
        alone = self.band in self.bands.values()
        bands = self.bands if alone else {**self.bands, "objective": self.band}
        claim = "the arm satisfies the constraints, its outcomes lie between the bounds,"
        joined, safe_set = joined_assumptions(bands, claim), self._acquisition.safe_set
        items = () if safe_set is None else safe_set.assumptions.items
        return joined.no_better_than([x for x in items if x.name == "safe points"])

    @property
    def domain(self) -> dict[str, Any]:
        r"""Domain and constraints, as certificates take them."""
        built = self._acquisition
        limits = built.domain["inequality_constraints"]
        return {
            "space": mixed_space(self.digest, built.context, limits),
            "fixed_features": built.context or None,
            "constraints": built.outcome_constraints,
        }

    def completed_arms(self) -> tuple[list[Arm], Tensor]:
        r"""The distinct completed arms of the search space and their ``n x d`` inputs."""
        named = {
            arm.name: arm
            for trial in self.experiment.trials_by_status[TrialStatus.COMPLETED]
            for arm in trial.arms
            if arm not in trial.abandoned_arms
            if self.experiment.search_space.check_membership(self.setting(arm.parameters))
        }
        if not (arms := [*named.values()]):
            raise ValueError("No trial in the search space has been observed yet.")
        return arms, inputs_of(self.adapter, [self.setting(x.parameters) for x in arms])

    def best_arm(self, *, by_bands: bool = False) -> tuple[Arm, Tensor]:
        r"""The recommended completed arm and its ``d`` inputs in the context.

        Of the safe arms only those count ``by_bands`` that the bands show to be safe.

        Raises:
            NoSafePointError: If no completed arm is certainly feasible.
        """
        arms, X = self.completed_arms()
        worth = self.band.at_worst(X)
        constraints = self._acquisition.outcome_constraints
        safe_set = self._acquisition.safe_set
        if constraints is not None:
            feasible = constraints.is_feasible(X)
            if safe_set is not None and not by_bands:
                feasible = safe_set.is_safe(X)
            if not bool(feasible.any()):
                words = ", ".join(self._acquisition.statements)
                raise NoSafePointError(
                    f"No completed arm is certainly feasible yet ({words}). Observe more "
                    "trials, or give a smaller norm_bound or noise_std if it is true."
                )
            worth = worth.masked_fill(~feasible, -float("inf"))
        index = int(worth.argmax())
        return arms[index], X[index]


def strategy_of(source: Client | GenerationStrategy) -> GenerationStrategy:
    r"""The generation strategy itself, or that of a client; ``ValueError`` without."""
    own, _ = parts_of(source)
    if own is None:
        raise ValueError(
            "The client has no generation strategy; set one with "
            "client.set_generation_strategy(kernelucb.ax.generation_strategy(...))."
        )
    return own


def knowing(
    own: GenerationStrategy | None, known: GenerationStrategy | None
) -> GenerationStrategy:
    r"""``known``, else an experiment's ``own`` if it has a bound, else one of estimates."""
    if known is not None:
        return known
    return own if own is not None and has_bound(own) else generation_strategy()


def parts_of(source: Source) -> tuple[GenerationStrategy | None, Experiment | None]:
    r"""A source's own strategy and its experiment, as far as it has them by now."""
    match source:
        case Client():
            return source._maybe_generation_strategy, source._maybe_experiment
        case GenerationStrategy():
            return source, source._experiment
        case Experiment():
            return None, source


def asked(
    source: Source,
    known: GenerationStrategy | None = None,
    experiment: Experiment | None = None,
) -> tuple[GenerationStrategy, Experiment]:
    r"""The strategy that says what is known of an experiment, and the experiment."""
    own, place = parts_of(source)
    if (found := experiment or place) is None:
        raise ValueError(f"The {type(source).__name__} has no experiment yet.")
    return knowing(own, known), found


class ArmDecision(NamedTuple):
    r"""Whether to stop and why, the certificate, and the recommended completed arm.

    The gap is in the units of the metric. Certificate and arm are None while no completed
    arm is certainly feasible.
    """

    stop: bool
    reason: str
    certificate: RegretCertificate | None
    arm: Arm | None

    def __str__(self) -> str:
        return decision_in_words(self.stop, self.reason, self.certificate)


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
        source: See ``current_bound``.
        known: See there.
        min_trials: Number of completed trials before it is asked.
        max_evaluations: Largest number of points that branch and bound looks at.
        inactive_when_pending_trials: Whether to wait until no trial is under way. With
            parallel workers that may never happen.
        allow_estimated: Whether to stop on a bound whose kernel, mean, noise or norm was
            estimated; the probability of an error is then unknown.
        units: Unit of the metric by its name, for print.

    Raises:
        ValueError: If a number is out of its range.
        UncertifiedError: If the options leave kernel, mean or norm to be estimated, and
            ``allow_estimated`` is not set.
        UnsupportedError: If the bound does not support the experiment as it is configured
            by now.
    """

    def __init__(
        self,
        gap: float,
        source: Source,
        *,
        known: GenerationStrategy | None = None,
        min_trials: int = 1,
        max_evaluations: int = 20_000,
        inactive_when_pending_trials: bool = False,
        allow_estimated: bool = False,
        units: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            min_trials=whole_number("min_trials", min_trials),
            inactive_when_pending_trials=inactive_when_pending_trials,
        )
        self.gap = positive_scalar("gap", gap)
        self.source, self.known = source, known
        self.max_evaluations = whole_number("max_evaluations", max_evaluations)
        self.allow_estimated, self.units = allow_estimated, units
        own, experiment = parts_of(source)
        spec = bound_spec(knowing(own, known))
        if experiment is not None:
            check_experiment(spec, experiment)
        estimates = estimates_of(spec.generator_kwargs)
        check_given(type(self).__name__, estimates, allow_estimated)

    def decide(
        self,
        experiment: Experiment | None = None,
        *,
        fixed_parameters: Parameters | None = None,
    ) -> ArmDecision:
        r"""Decide from all outcomes so far.

        Args:
            experiment: By default the one of the source.
            fixed_parameters: A context: the optimum and the arm are compared there.

        Raises:
            ValueError: If no trial in the search space has been observed yet, or a fixed
                parameter does not fit it.
            UncertifiedError: If the bound has an estimated assumption and
                ``allow_estimated`` is not set.
            UnsupportedError: If the bound cannot serve the experiment (see
                ``generation_strategy``).
        """
        fitted = FittedBound(*asked(self.source, self.known, experiment), fixed_parameters)
        bands = [*fitted.bands.values()] or [fitted.band]
        estimates = [name for band in bands for name in band.assumptions.estimated]
        check_given(type(self).__name__, estimates, self.allow_estimated)
        try:
            arm, recommended = fitted.best_arm(by_bands=True)
        except NoSafePointError as error:
            return ArmDecision(False, str(error), None, None)
        domain = fitted.domain
        rule = certificates.CertifiedGapStopping(
            self.gap,
            space=domain.pop("space"),
            max_evaluations=self.max_evaluations,
            allow_estimated=self.allow_estimated,
            outcome=fitted.outcome,
            units=self.units,
        )
        decision = rule(fitted.band, recommended, **domain)
        reason = f"arm {arm.name}: {decision.reason}"
        # Ax prints the reason alone, without the certificate's assumptions.
        if missing := missing_outcomes(fitted.experiment):
            reason += (
                ", given that none of this depended on the noise of the outcomes: "
                f"{missing}"
            )
        return ArmDecision(decision.stop, reason, decision.certificate, arm)

    def _should_stop_optimization(
        self, experiment: Experiment, **_: object
    ) -> tuple[bool, str]:
        return self.decide(experiment)[:2]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(gap={self.gap}, min_trials={self.min_trials})"


def describe_norm_bound(
    source: Source,
    norm_bound: float,
    *,
    known: GenerationStrategy | None = None,
    units: Mapping[str, str] | None = None,
) -> NormDescription:
    r"""Say what a norm bound of the objective means, in parameters and units.

    See ``kernelucb.describe_norm_bound``. Inputs are those of the bound: a log-scaled
    parameter has the name ``log10(rate)`` and steps in decades, an unordered choice an
    input for each value.

    Example:
        >>> print(kernelucb.ax.describe_norm_bound(client, 50.0, units={"output": "%"}))

    Args:
        source: See ``current_bound``.
        norm_bound: Bound on the RKHS norm of ``f - mean``, units of the metric.
        known: See ``current_bound``.
        units: Units by the names of parameters and metric.

    Raises:
        ValueError: If no trial has been observed yet, or ``norm_bound`` is not above 0.
        UnsupportedError: If the bound does not support the experiment, or the objective is
            a sum.
    """
    fitted = FittedBound(*asked(source, known))
    if fitted.band.parts:
        raise UnsupportedError(
            f"`{fitted.outcome}` has a norm bound for each outcome of the sum, or for each "
            "kernel: describe one of them with kernelucb.describe_norm_bound(kernel, ...)."
        )
    return diagnostics.describe_norm_bound(
        fitted.band.data,
        norm_bound,
        bounds=torch.tensor(fitted.digest.bounds, dtype=torch.float64).mT,
        names=fitted.digest.feature_names,
        outcome=fitted.outcome,
        units=units,
    )


class ParetoFront(NamedTuple):
    r"""The completed arms as optimal, dominated and open ones, for several objectives.

    Attributes:
        arms: The distinct completed arms of the search space.
        objectives: The metrics, in the order of the columns of ``verdict``.
        verdict: The statement about these arms, in their order, with their bounds.
        hypervolume: Limits on the hypervolume of the feasible arms beyond the objective
            thresholds; None unless every objective has one.
    """

    arms: list[Arm]
    objectives: list[str]
    verdict: ParetoSet
    hypervolume: Interval | None

    @property
    def names(self) -> dict[str, list[str]]:
        r"""Names of the ``"optimal"``, ``"covered"``, ``"open"``, ``"dominated"`` arms.

        And of the ``"infeasible"`` ones, which break a limit for sure. Of a covered one an
        optimal one is worse by at most ``epsilon`` in every objective, and may be better by
        any amount.
        """
        v = self.verdict
        masks = {"optimal": v.optimal, "covered": v.covered}
        masks |= {"open": v.open, "dominated": v.dominated, "infeasible": v.infeasible}
        return {k: [self.arms[i].name for i in m.nonzero()] for k, m in masks.items()}

    def __str__(self) -> str:
        if self.verdict.assumptions.violated:
            return str(self.verdict)
        verdict, *rest = str(self.verdict).splitlines()
        lines = [f"  {k}: {', '.join(arms)}" for k, arms in self.names.items() if arms]
        if self.hypervolume is not None:
            low, high = between(*self.hypervolume)
            lines.append(f"  hypervolume of the feasible arms: {low} to {high}")
        return "\n".join([verdict, *lines, *rest])


def pareto_front(
    source: Source,
    epsilon: float | Mapping[str, float],
    strategy: GenerationStrategy,
    units: Mapping[str, str] | None = None,
) -> ParetoFront:
    r"""Say which completed arms of several objectives are real trade-offs.

    Whoever chose the trials, such as Ax's own search: ``strategy`` says what is known, and
    chooses none. Outcome constraints and objective thresholds are limits that an arm has to
    keep. The experiment and its next trials do not change.

    Example:
        >>> client.configure_optimization("strength, -cost", ["strength >= 20"])
        >>> ...
        >>> norms = {"strength": 30.0, "cost": 5.0}
        >>> prior = {"kernel": "matern52", "lengthscale": 0.4, "noise_std": 0.1}
        >>> known = kernelucb.ax.generation_strategy(options=prior | {"norm_bound": norms})
        >>> front = kernelucb.ax.pareto_front(client, {"strength": 1.0, "cost": 0.2}, known)
        >>> print(front)
        >>> front.names["open"]

    Source: see ``pareto_set``.

    Args:
        source: See ``current_bound``.
        epsilon: Difference that does not matter, outcome units: one for all objectives, or
            a mapping from the names of the metrics.
        strategy: From ``generation_strategy``: the bound, its options, known ranges of
            outcomes. What it has for the search or for constraints does not count.
        units: Units by the names of the metrics, for print.

    Raises:
        UnsupportedError: If there is one objective, an objective is a sum of metrics, a
            limit is relative or on a sum, or a bound is no set of functions of the plain
            outcome.
        ValueError: If no trial in the search space has been observed yet, or options or
            ``epsilon`` are for other outcomes.
        InputDataError: If an outcome is unusable: infinite, or with a bad standard error.
    """
    strategy, experiment = asked(source, strategy)
    config = config_of(experiment)
    parts, names = config.objective._parsed[1], config.objective.metric_names
    if config.is_bope_problem or not len(names) == len(parts) > 1:
        raise UnsupportedError(
            "A front is of two or more objectives, each one metric, such as `yield, -cost`,"
            f" and these are `{config.objective.expression}`. Report a sum as a metric of "
            "its own; of one objective ask for kernelucb.ax.optimum_report."
        )
    eps = [x["epsilon"] for x in options_by_outcome({"epsilon": epsilon}, names).values()]
    fitted = FittedBound(strategy, experiment, several=True)
    arms, X = fitted.completed_arms()
    bands = [fitted.bands[n].seeking(1 if w > 0.0 else -1) for ((n, w),) in parts]
    limits = fitted.domain["constraints"]
    verdict = certificates.pareto_set(
        bands, X, eps, constraints=limits, names=names, units=units
    )
    ends = {n: x.bound / w for x in config.objective_thresholds for n, w in x._parsed[0]}
    reference = [ends[name] for name in names] if ends.keys() == {*names} else None
    volume = verdict.hypervolume(reference) if reference else None
    return ParetoFront(arms, names, verdict, volume)


class ParameterNames:
    r"""Words for boxes of inputs: intervals and values of the experiment's parameters."""

    def __init__(self, fitted: FittedBound) -> None:
        self._adapter, self._space = fitted.adapter, fitted.experiment.search_space
        self._columns = fitted.digest.feature_names
        owners = parameters_of_columns(self._columns)
        # For each choice the values that its columns may have together.
        found = choices_of(fitted.digest)
        self._values = {owners[min(each[0])]: each for each in found}
        space = self._space
        self.choices = space.tunable_parameters.keys() - space.range_parameters.keys()

    def of_columns(self, columns: Iterable[str]) -> list[str]:
        r"""The parameters of the experiment among those of some input columns."""
        found = {*parameters_of_columns(columns)}
        return [name for name in self._space.parameters if name in found]

    def _parameters(self, point: Sequence[float]) -> dict[str, Any]:
        r"""The parameters of a point of ``d`` inputs, with the listed values next to it."""

        def distance(choice: Mapping[int, float]) -> float:
            return sum((point[i] - value) ** 2 for i, value in choice.items())

        # A corner of a box may lie between the codes of a choice.
        row = dict(enumerate(point))
        for choices in self._values.values():
            row |= min(choices, key=distance)
        named: Any = {self._columns[i]: value for i, value in row.items()}
        features = [ObservationFeatures(parameters=named)]
        for transform in reversed([*self._adapter.transforms.values()]):
            features = transform.untransform_observation_features(features)
        return features[0].parameters

    def values(self, low: Sequence[float], high: Sequence[float]) -> dict[str, list[Any]]:
        r"""Two limits of each parameter, or the values of a choice, in a box."""
        ends = [self._parameters(each) for each in (low, high)]
        found = {
            n: [end[n] for end in ends] for n in self._space.parameters if n in ends[0]
        }
        for name in self.choices & self._values.keys():
            found[name] = [
                self._parameters([choice.get(i, x) for i, x in enumerate(low)])[name]
                for choice in self._values[name]
                if all(low[i] <= value <= high[i] for i, value in choice.items())
            ] or found[name]
        return found


def optimum_report(
    source: Source,
    *,
    known: GenerationStrategy | None = None,
    fixed_parameters: Parameters | None = None,
    baseline: str | Parameters | None = None,
    window: float = 0.05,
    threshold: float | None = None,
    tolerance: float | None = None,
    units: Mapping[str, str] | None = None,
    max_evaluations: int = 20_000,
) -> OptimumReport:
    r"""Report the optimum of an experiment, and how good its best completed arm is.

    See ``kernelucb.optimum_report``. The recommended point is the completed arm whose
    objective is best at worst, with outcome constraints among the certainly feasible ones.
    Points are inputs of the bound: numbers after the logarithm of log-scaled parameters,
    one input for each value of an unordered choice. In print and in ``to_dict`` they are
    parameters. The experiment and its next trials do not change.

    Example:
        >>> print(kernelucb.ax.optimum_report(client))
        >>> known = kernelucb.ax.generation_strategy(options={...})
        >>> print(kernelucb.ax.optimum_report(client_of_another_strategy, known=known))

    Args:
        source: See ``current_bound``.
        known: See there.
        fixed_parameters: A context: the optimum and the arms are compared there.
        baseline: A setting to compare with, such as today's: the name of an arm, or
            parameters.
        window: See ``kernelucb.optimum_report``.
        threshold: See there.
        tolerance: See there: a difference that does not matter, in units of the metric.
        units: Units by the names of parameters and metric, for print.
        max_evaluations: Largest number of points that branch and bound looks at. Fewer make
            the report sooner, and its numbers no smaller than they may be.

    Raises:
        NoSafePointError: If no completed arm is certainly feasible yet.
        ValueError: If no trial in the search space has been observed yet, a fixed parameter
            or the baseline does not fit it, or a scalar is out of its range.
        UnsupportedError: If the bound does not support the experiment.
    """
    fitted = FittedBound(*asked(source, known), fixed_parameters)
    arm, point = fitted.best_arm(by_bands=True)
    space, arms = fitted.experiment.search_space, fitted.experiment.arms_by_name
    compared: Tensor | None = None
    if isinstance(baseline, str):
        if baseline not in arms:
            raise ValueError(f"baseline: the experiment has no arm {baseline!r}.")
        baseline = fitted.setting(arms[baseline].parameters)
    elif baseline is not None:  # a derived parameter that is given has to be right
        baseline = setting_of(space, {**baseline, **fitted.context})
    if baseline is not None:
        space.validate_membership(parameters={**baseline})
        (compared,) = inputs_of(fitted.adapter, [baseline])
    _LOG.info("optimum report of arm %s: branch and bound", arm.name)
    columns = tuple(fitted.digest.feature_names)
    report = certificates.optimum_report(
        fitted.band,
        **fitted.domain,
        recommended=point,
        wording=Wording(columns, fitted.outcome, units or {}, ParameterNames(fitted)),
        baseline=compared,
        window=window,
        threshold=threshold,
        tolerance=tolerance,
        max_evaluations=max_evaluations,
    )
    # Bands of the report are made anew, and know nothing of what Ax did to their data.
    certificate = report.certificate
    assumptions = certificate.assumptions.no_better_than(fitted._acquisition.notes)
    return replace(report, certificate=replace(certificate, assumptions=assumptions))
