r"""The bounds of an Ax experiment: the one of the last trial, and the one of all data."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections.abc import Iterable
from typing import Any, NamedTuple

from ax.api.client import Client
from ax.core import Arm, Experiment, FixedParameter, ObservationFeatures, SearchSpace
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.utils import _to_inequality_constraints as to_inequalities
from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.digits import between
from kernelucb.ax import spaces
from kernelucb.ax.acquisition import BoundAcquisition
from kernelucb.ax.experiment import (
    Notes,
    check_experiment,
    config_of,
    is_constrained,
    outcome_name,
)
from kernelucb.ax.options import TRANSFORMS
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.band import Band, joined_assumptions
from kernelucb.exceptions import NoSafePointError, UncertifiedError

Source = Client | GenerationStrategy
Interval = tuple[float, float]


def last_bound(source: Source) -> Band:
    r"""The bound that chose the last trial, or that the search for it was kept to.

    It was computed before the last trial was observed; ``current_bound`` has seen all
    outcomes. Its inputs are those of Ax after the logarithm of log-scaled parameters and
    the encoding of choices. Its ``assumptions`` name the trials that had failed, been
    abandoned or stopped early, or been completed without an outcome. ``source`` is an Ax
    client or its generation strategy.

    Raises:
        ValueError: If no bound has chosen a trial yet in this process (a reopened
            experiment has one as soon as it hands out its next trial).
    """
    strategy = strategy_of(source)
    generator = getattr(strategy.adapter, "generator", None)
    acquisition = getattr(generator, "_acquisition", None)
    if not isinstance(acquisition, BoundAcquisition):
        raise ValueError(
            f"No bound has chosen a trial yet; the strategy is at its node "
            f"`{strategy.current_node_name}`. Ask for the next trial first."
        )
    return acquisition.band


def current_bound(source: Source) -> Band:
    r"""The bound from all outcomes so far, also with trials under way.

    Computed anew, with the model fitted anew unless its prior is given. The experiment and
    its next trials do not change. Inputs and assumptions are as those of ``last_bound``.
    ``source`` is an Ax client or its generation strategy.

    Raises:
        ValueError: If no trial has been observed yet.
        UnsupportedError: If the strategy does not come from ``generation_strategy``, or its
            bound does not support the experiment.
        InputDataError: If an outcome is unusable: infinite, or with a bad standard error.
    """
    strategy = strategy_of(source)
    return FittedBound(strategy, strategy.experiment).band


class Recommendation(NamedTuple):
    r"""An arm that satisfies the constraints, and what the bands say of it.

    Attributes:
        arm: The completed arm.
        parameters: Its parameters, in the context that was asked for.
        objective: Lower and upper bound of the objective there.
        outcomes: The same for every outcome that has a band of its own, by the names of
            the metrics; empty without outcome constraints.
        assumptions: What all of this rests on.
        objective_name: What ``objective`` is of: a metric, or all of a weighted sum.
    """

    arm: Arm
    parameters: dict[str, Any]
    objective: Interval
    outcomes: dict[str, Interval]
    assumptions: Assumptions
    objective_name: str = "objective"

    def __str__(self) -> str:
        lines = [f"arm {self.arm.name}: {self.parameters}"]
        others = {n: each for n, each in self.outcomes.items() if n != self.objective_name}
        for name, ends in {
            f"{self.objective_name} (objective)": self.objective,
            **others,
        }.items():
            lines.append(f"  {name}: {' to '.join(between(*ends))}")
        return "\n".join([*lines, str(self.assumptions)])


def recommended_arm(
    source: Source, *, fixed_parameters: spaces.Parameters | None = None
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
    fitted = FittedBound(strategy, strategy.experiment, fixed_parameters)
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
        objective_name=outcome_name(strategy.experiment, fitted.band),
    )


class FittedBound:
    r"""The bound of a strategy on all outcomes of an experiment; neither of them changes.

    Attributes:
        band: The bound of the objective.
        bands: With outcome constraints, the bands of all outcomes, by their names.
        context: The fixed parameters, of the types of the search space.
        adapter: What turns parameters into inputs.
        digest: The search space in these inputs.
    """

    def __init__(
        self,
        strategy: GenerationStrategy,
        experiment: Experiment,
        fixed_parameters: spaces.Parameters | None = None,
    ) -> None:
        r"""Fit the bound; ``fixed_parameters`` are a context."""
        space = experiment.search_space
        self.experiment = experiment
        self.context = spaces.checked_context(space, fixed_parameters)
        spec = bound_spec(strategy).copy()
        check_experiment(spec, experiment)
        if experiment.lookup_data().empty:
            raise ValueError("No trial has been observed yet; complete one first.")
        spec.fit(experiment, experiment.lookup_data())
        self.adapter: Any = spec.fitted_adapter
        features = ObservationFeatures(parameters=self.context) if self.context else None
        arguments = self.adapter._get_transformed_gen_args(
            search_space=space, fixed_features=features
        )
        self.digest, self._config = self.adapter._get_transformed_model_gen_args(
            search_space=arguments.search_space,
            pending_observations={},
            fixed_features=arguments.fixed_features,
            optimization_config=arguments.optimization_config,
        )
        own = spec.generator_kwargs
        now = options_of_now(spec, self.adapter, experiment, self.context)
        # As Ax builds the bound for a trial, so that the same is refused.
        built: BoundAcquisition = self.adapter.generator._instantiate_acquisition(
            search_space_digest=self.digest,
            torch_opt_config=self._config,
            botorch_acqf_options=own["botorch_acqf_options"],
            acq_options={**own["acquisition_options"], **now},
        )
        self._acquisition, self.band = built, built.band
        self.bands = built.bands if is_constrained(spec) else {}

    def setting(self, parameters: spaces.Parameters) -> dict[str, Any]:
        r"""Parameters in the context."""
        return spaces.setting_of(self.experiment.search_space, parameters, self.context)

    @property
    def assumptions(self) -> Assumptions:
        r"""What the bands of all outcomes rest on."""
        if not self.bands:
            return self.band.assumptions
        bands: dict[str, Any] = dict(self.bands)
        if self.band not in bands.values():
            bands["objective"] = self.band
        claim = (
            "the arm satisfies the constraints, and its outcomes lie between the bounds,"
        )
        joined = joined_assumptions(bands, claim)
        safe_set = self._acquisition.safe_set
        for item in () if safe_set is None else safe_set.assumptions.items:
            if item.name == "safe points":
                joined = joined.with_extra(item)
        return joined

    @property
    def domain(self) -> dict[str, Any]:
        r"""Domain and constraints, as certificates take them."""
        fixed = self._acquisition.context
        limits = to_inequalities(self._config.linear_constraints)
        return {
            "space": spaces.mixed_space(self.digest, fixed, limits),
            "fixed_features": fixed or None,
            "constraints": self._acquisition.outcome_constraints,
        }

    def best_arm(self, *, by_bands: bool = False) -> tuple[Arm, Tensor]:
        r"""The recommended completed arm and its ``d`` inputs in the context.

        Of the safe arms only those count ``by_bands`` that the bands show to be safe.

        Raises:
            NoSafePointError: If no completed arm is certainly feasible.
        """
        arms = [
            arm
            for trial in self.experiment.trials_by_status[TrialStatus.COMPLETED]
            for arm in trial.arms
            if arm not in trial.abandoned_arms
            if self.experiment.search_space.check_membership(self.setting(arm.parameters))
        ]
        if not arms:
            raise ValueError("No trial in the search space has been observed yet.")
        X = spaces.inputs_of(self.adapter, [self.setting(arm.parameters) for arm in arms])
        lower, upper = self.band.bounds(X)
        worth = lower if self.band.direction == 1 else -upper
        constraints = self._acquisition.outcome_constraints
        safe_set = self._acquisition.safe_set
        if constraints is not None:
            feasible = constraints.is_feasible(X)
            if safe_set is not None and not by_bands:
                feasible = safe_set.is_safe(X)
            if not bool(feasible.any()):
                words = ", ".join(self._acquisition.statements)
                raise NoSafePointError(
                    f"No completed arm is certainly feasible yet ({words}): the bands do "
                    "not show that one satisfies every constraint. Observe more trials, or "
                    "say more of the outcomes (smaller norm_bound or noise_std, if they "
                    "are true)."
                )
            worth = worth.masked_fill(~feasible, -float("inf"))
        index = int(worth.argmax())
        return arms[index], X[index]


def check_given(user: str, estimated: Iterable[str], allow_estimated: bool) -> None:
    r"""Refuse that ``user`` acts on estimates, by name, unless they are allowed."""
    names = ", ".join(dict.fromkeys(estimated))
    if names and not allow_estimated:
        raise UncertifiedError(
            f"{user} needs a certified bound. The generation strategy's rests on estimates "
            f"({names}), so its probability is not known. Give in the options kernel=... "
            "and lengthscale=... (they fix kernel and mean; KernelFamilyUCB needs only a "
            "range of length scales), norm_bound=... (or "
            "theorem=BoundedNorm(norm_bound, information_gain)), and noise_std=... or a "
            "standard error with every outcome; or pass allow_estimated=True."
        )


def strategy_of(source: Source) -> GenerationStrategy:
    r"""The generation strategy itself, or that of a client; ``ValueError`` without."""
    if not isinstance(source, Client):
        return source
    if source._maybe_generation_strategy is None:
        raise ValueError(
            "The client has no generation strategy; set one with "
            "client.set_generation_strategy(kernelucb.ax.generation_strategy(...))."
        )
    return source._generation_strategy


def bound_spec(strategy: GenerationStrategy) -> GeneratorSpec:
    r"""What builds the strategy's bound; ``UnsupportedError`` if it has none."""
    for node in strategy.nodes_by_name.values():
        for spec in node.generator_specs:
            # Without transforms of its own, Ax would winsorise and standardise outcomes.
            transforms = spec.generator_kwargs.get("transforms", [None])
            built = spec.generator_kwargs.get("acquisition_class")
            if built is BoundAcquisition and set(transforms) <= set(TRANSFORMS):
                return spec
    raise UnsupportedError(
        f"The generation strategy {strategy.name} has no bound of this package on outcomes "
        "as they were reported; make it with kernelucb.ax.generation_strategy."
    )


def safe_arms_of(
    spec: GeneratorSpec, space: SearchSpace, context: spaces.Parameters
) -> list[dict[str, Any]]:
    r"""The safe arms that agree with the fixed parameters of a trial, completed by them."""
    constant = {
        name: parameter.value
        for name, parameter in space.parameters.items()
        if isinstance(parameter, FixedParameter)
    }
    given = spec.generator_kwargs["acquisition_options"].get("safe_arms", [])
    completed = [spaces.setting_of(space, constant, context, arm) for arm in given]
    for arm in completed:
        for name in space.parameters.keys() - arm.keys():
            raise ValueError(
                f"The safe arm {arm} lacks the parameter `{name}`: give it, or, if the arm "
                f"is safe for every `{name}`, ask for trials with {name} fixed "
                "(fixed_parameters)."
            )
        space.validate_membership(parameters=arm)
    return [arm for arm in completed if context.items() <= arm.items()]


def options_of_now(
    spec: GeneratorSpec, adapter: Any, experiment: Experiment, context: spaces.Parameters
) -> dict[str, Any]:
    r"""What ``BoundAcquisition`` has to know of the experiment as it is now."""
    safe = safe_arms_of(spec, experiment.search_space, context)
    return {
        "notes": Notes.of(adapter, experiment),
        "every_constraint": [*map(str, config_of(experiment).all_constraints)],
        "safe_points": spaces.inputs_of(adapter, safe).tolist() if safe else [],
    }
