r"""What a bound supports of an experiment as it is configured: metrics and search space."""

from collections.abc import Mapping, Sequence
from typing import Any

from ax.adapter.registry import MBM_X_trans
from ax.adapter.transforms.map_key_to_float import MapKeyToFloat
from ax.core.data import MAP_KEY
from ax.core.experiment import Experiment
from ax.core.optimization_config import OptimizationConfig
from ax.generation_strategy.generator_spec import GeneratorSpec
from botorch.exceptions import InputDataError, UnsupportedError

from kernelucb.acquisition import LikelihoodUCB, ScalarizedUCB
from kernelucb.ax.constraints import is_constrained
from kernelucb.ax.counts import check_threshold
from kernelucb.ax.outcomes import (
    BY_OUTCOME,
    LENGTHS,
    bound_of_spec,
    check_names,
    is_by_outcome,
)
from kernelucb.ax.spaces import parameters_of_columns
from kernelucb.regression.from_model import per_output


def check_objective(spec: GeneratorSpec, experiment: Experiment) -> None:
    r"""Refuse objectives and constraints that the bound does not support.

    Ax would ignore constraints and objectives on metrics without data.
    """
    config = experiment.optimization_config
    if config is None:
        return
    acqf_class = spec.generator_kwargs["botorch_acqf_class"]
    name, objective = acqf_class.__name__, config.objective
    if objective.is_multi_objective:
        raise UnsupportedError(
            f"{name} is for one objective, and the experiment has several: "
            f"`{objective.expression}`. Maximise a weighted sum of them with "
            "ScalarizedUCB, or keep all but one above a threshold as outcome constraints."
        )
    _check_constraints(spec, config)
    if acqf_class is ScalarizedUCB:
        options = spec.generator_kwargs["botorch_acqf_options"]
        for option in ("norm_bound", "noise_std"):
            if not isinstance(options.get(option), Mapping):
                per_output(option, options.get(option), len(objective.metric_names))
    elif objective.is_scalarized_objective:
        raise UnsupportedError(
            f"{name} is for one outcome, and the objective `{objective.expression}` is a "
            "sum of several; use ScalarizedUCB."
        )
    check_names(spec, set(config.metric_names))
    for constraint in config.all_constraints:
        ((metric, weight),) = constraint.metric_weights
        bound, own = bound_of_spec(spec, metric)
        if bound is LikelihoodUCB:
            check_threshold(own, str(constraint), constraint.bound / weight)


def _check_constraints(spec: GeneratorSpec, config: OptimizationConfig) -> None:
    name = spec.generator_kwargs["botorch_acqf_class"].__name__
    constraints = config.all_constraints
    if not is_constrained(spec):
        if constraints:
            raise UnsupportedError(
                f"{name} cannot keep outcome constraints, and the experiment has "
                f"{constraints}, unless generation_strategy is told how: "
                'constraints="safe" with safe_arms (no trial violates them), or '
                'constraints="explored" (trials may, the recommended arm does not).'
            )
        return
    if not constraints:
        raise UnsupportedError(
            "The strategy is for outcome constraints, and the experiment has none; give "
            "configure_optimization(outcome_constraints=...), or leave out constraints=."
        )
    for constraint in constraints:
        if constraint.relative:
            raise UnsupportedError(
                f"{constraint} is relative to a baseline that is only known through noise, "
                "which no band of this package covers; give the threshold as a number, "
                'such as "purity >= 0.9".'
            )
        if len(constraint.metric_names) > 1:
            raise UnsupportedError(
                f"{constraint} is on a sum of outcomes, of which Ax 1.3 keeps only the "
                "first when it chooses a trial and when it saves; report the sum as a "
                "metric of its own."
            )


def check_kept(statements: Sequence[str], config: OptimizationConfig) -> None:
    r"""Refuse what Ax made of the constraints, ``statements``, if one is missing.

    Ax drops constraints on outcomes that only trials outside the search space reported.
    """
    if len(statements) != len(config.all_constraints):
        raise InputDataError(
            f"Of the constraints {config.all_constraints} only {', '.join(statements)} are "
            "on outcomes that a trial inside the search space has reported."
        )


def check_length_scales(spec: GeneratorSpec, experiment: Experiment) -> None:
    r"""Refuse length scales that are not those of the inputs of the bound."""
    options = spec.generator_kwargs["botorch_acqf_options"]
    config, space = experiment.optimization_config, experiment.search_space
    metrics = set() if config is None else config.metric_names
    nested = options.get("options") or {}
    owners: list[Any] = [options, nested, *options.get(BY_OUTCOME, {}).values()]
    given = [
        (name, scales)
        for own in owners
        for name in LENGTHS
        for each in [own.get(name)]
        for scales in (each.values() if is_by_outcome(name, each, metrics) else [each])
    ]
    lists = [(name, each) for name, each in given if isinstance(each, list)]
    named = [each for _, each in given if isinstance(each, Mapping)]
    if not (lists or named):
        return
    space = space.clone()
    # The inputs of the bound, where no outcome has a progression.
    transforms: list[Any] = [each for each in MBM_X_trans if each is not MapKeyToFloat]
    for transform in transforms:
        space = transform(search_space=space).transform_search_space(space)
    for scales in named:
        _check_names_of_scales(set(scales), parameters_of_columns([*space.parameters]))
    columns = len(space.parameters)
    for name, scales in lists:
        if len(scales) != columns:
            raise ValueError(
                f"{name} has {len(scales)} entries for {columns} inputs (one for each "
                "number or ordered choice, and one for each value of an unordered one)."
            )


def _check_names_of_scales(given: set[str], parameters: Sequence[str]) -> None:
    r"""Refuse length scales of other parameters than those that are inputs."""
    inputs = set(parameters)
    # Where outcomes are reported with progressions, these are an input, too.
    if given - {MAP_KEY} != inputs - {MAP_KEY}:
        raise ValueError(
            f"lengthscale is for {', '.join(sorted(given))}; the parameters that are "
            f"inputs of the bound are {', '.join(sorted(inputs))} (constant ones are not)."
        )
