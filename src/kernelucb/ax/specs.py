r"""What a generation strategy says of its bound, and its options for an experiment."""

from collections.abc import Iterable
from typing import Any

from ax.adapter.base import Adapter
from ax.core import Experiment, SearchSpace
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from botorch.exceptions import UnsupportedError

from kernelucb.ax.acquisition import BoundAcquisition
from kernelucb.ax.experiment import (
    Parameters,
    config_of,
    inputs_of,
    notes_on,
    setting_of,
)
from kernelucb.ax.inputs import KernelInputs
from kernelucb.ax.options import TRANSFORMS
from kernelucb.exceptions import UncertifiedError


def check_given(user: str, estimated: Iterable[str], allow_estimated: bool) -> None:
    r"""Refuse that ``user`` acts on estimates, by name, unless they are allowed."""
    names = ", ".join(dict.fromkeys(estimated))
    if names and not allow_estimated:
        raise UncertifiedError(
            f"{user} needs a certified bound. The generation strategy's rests on estimates "
            f"({names}), so its probability is not known. Give kernel and lengthscale (or "
            "the range of KernelFamilyUCB; as mappings), norm_bound (or theorem=Bounded"
            "Norm(...)) and noise_std (or standard errors), where another strategy chooses "
            "the trials as known=kernelucb.ax.generation_strategy(options=...); or pass "
            "allow_estimated=True."
        )


def bound_spec(strategy: GenerationStrategy) -> GeneratorSpec:
    r"""The specification of the strategy's bound; ``UnsupportedError`` without."""
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


def has_bound(strategy: GenerationStrategy) -> bool:
    r"""Whether the strategy has a bound of this package."""
    try:
        bound_spec(strategy)
    except UnsupportedError:
        return False
    return True


def safe_arms_of(
    spec: GeneratorSpec, space: SearchSpace, context: Parameters
) -> list[dict[str, Any]]:
    r"""The safe arms that agree with the fixed parameters of a trial, completed by them."""
    given = spec.generator_kwargs["acquisition_options"].get("safe_arms", [])
    completed = [setting_of(space, context, arm) for arm in given]
    for arm in completed:
        for name in space.parameters.keys() - arm.keys():
            raise ValueError(
                f"The safe arm {arm} lacks the parameter `{name}`: give it, or, if the arm "
                f"is safe for every `{name}`, ask for trials with {name} fixed "
                "(fixed_parameters)."
            )
        space.validate_membership(parameters=arm)  # a constant of another value as well
    return [arm for arm in completed if context.items() <= arm.items()]


def options_of_now(
    spec: GeneratorSpec,
    adapter: Adapter,
    experiment: Experiment,
    context: Parameters,
) -> dict[str, Any]:
    r"""Options of ``BoundAcquisition`` from the experiment as it is now."""
    safe = safe_arms_of(spec, experiment.search_space, context)
    return {
        "notes": notes_on(adapter, experiment),
        "inputs": KernelInputs.of(experiment),
        "every_constraint": [*map(str, config_of(experiment).all_constraints)],
        "safe_points": inputs_of(adapter, safe).tolist() if safe else [],
    }
