r"""Outcome constraints of an Ax strategy: which kind, and what that kind needs."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Literal

import torch
from ax.core.parameter import FixedParameter
from ax.core.search_space import SearchSpace
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from botorch.exceptions import UnsupportedError

from kernelucb._numerics.checks import whole_number
from kernelucb.acquisition import META_ACQUISITIONS
from kernelucb.acquisition.base import KernelUCB
from kernelucb.ax.acquisitions import BoundAcquisition, ConstrainedAcquisition
from kernelucb.ax.constrained import ExploredAcquisition, SafeAcquisition
from kernelucb.ax.estimates import check_given
from kernelucb.ax.options import plain_value
from kernelucb.ax.rehearsal import rehearsed_bounds
from kernelucb.ax.safe_search import MOST_COMBINATIONS
from kernelucb.ax.spaces import values_of
from kernelucb.exceptions import NoSafePointError
from kernelucb.safety import SafeSet

Kinds = Literal["safe", "explored"]
Parameters = Mapping[str, Any]

# What optimize_acqf_safely takes of the options of Ax's optimisers.
_SAFE_OPTIMIZER = ("num_restarts", "raw_samples", "options")


def kind_arguments(
    kind: Kinds | None,
    safe_arms: Sequence[Parameters] | None,
    expand_every: int | None,
    allow_estimated: bool,
) -> dict[str, Any]:
    r"""Arguments of Ax's generator that say how constraints are kept.

    Raises:
        ValueError: If an argument is for another kind, or safe arms are missing.
    """
    if kind == "safe":
        arms = [dict(plain_value("safe_arms", arm)) for arm in safe_arms or []]
        if not arms:
            raise ValueError(
                'constraints="safe" needs safe_arms: parameters of at least one arm that '
                "is known to satisfy the constraints, where the experiment starts."
            )
        options: dict[str, Any] = {"safe_arms": arms}
        options["allow_estimated"] = allow_estimated
        if expand_every is not None:
            options["expand_every"] = whole_number("expand_every", expand_every)
        return {"acquisition_class": SafeAcquisition, "acquisition_options": options}
    given = {
        "safe_arms": safe_arms is not None,
        "expand_every": expand_every is not None,
        "allow_estimated": allow_estimated,
    }
    for name in [name for name, is_given in given.items() if is_given]:
        raise ValueError(f'{name} is for constraints="safe" only; leave it out.')
    explored = kind == "explored"
    return {"acquisition_class": ExploredAcquisition if explored else BoundAcquisition}


def check_constrained(
    acqf_class: type[KernelUCB],
    options: Parameters,
    spec: SurrogateSpec,
    kind: Kinds,
    allow_estimated: bool,
    optimizer_options: Parameters,
) -> None:
    r"""Rehearse the bands of a constrained experiment; refuse what cannot keep it.

    Raises:
        UnsupportedError: If the bound is not for several outcomes.
        UncertifiedError: If safety would rest on estimates and that is not allowed.
        ValueError: If an option is a list by position, or not for a safe search.
    """
    if acqf_class in META_ACQUISITIONS:
        raise UnsupportedError(
            f"{acqf_class.__name__} has the prior of one outcome and cannot keep outcome "
            "constraints; use MartingaleMixtureUCB or KernelFamilyUCB."
        )
    for name in ("norm_bound", "noise_std"):
        if isinstance(options.get(name), list):
            raise ValueError(
                f"With constraints give {name} as one number for all outcomes, or by their "
                f'names: {name}={{"output": ..., "purity": ...}}.'
            )
    bands = rehearsed_bounds(acqf_class, options, spec, each=True)
    if kind == "safe":
        check_given('constraints="safe"', [b.assumptions for b in bands], allow_estimated)
        for band in bands:
            # Any that the outcome can have; those of the experiment are not known yet.
            threshold = float(band.outcome_map.inverse(torch.zeros(()).double()))
            SafeSet(band, threshold, allow_estimated=allow_estimated)
        for name in optimizer_options:
            if name not in _SAFE_OPTIMIZER:
                raise ValueError(
                    f"A safe search has no optimizer option `{name}`; it takes "
                    f"{', '.join(_SAFE_OPTIMIZER)}."
                )


def is_constrained(spec: GeneratorSpec) -> bool:
    r"""Whether a strategy's bound keeps outcome constraints of either kind."""
    acquisition = spec.generator_kwargs.get("acquisition_class", BoundAcquisition)
    return issubclass(acquisition, ConstrainedAcquisition)


def safe_arms_of(spec: GeneratorSpec) -> list[dict[str, Any]] | None:
    r"""The safe arms as they were given; None where constraints are not kept safely."""
    options = spec.generator_kwargs.get("acquisition_options") or {}
    return options.get("safe_arms")


def arms_in_context(
    arms: Sequence[Parameters], space: SearchSpace, context: Parameters
) -> list[dict[str, Any]]:
    r"""The safe arms that agree with the fixed parameters of a trial, completed by them.

    Raises:
        ValueError: If an arm lacks a parameter that is not fixed, or lies outside the
            search space.
    """
    constant = {
        name: parameter.value
        for name, parameter in space.parameters.items()
        if isinstance(parameter, FixedParameter)
    }
    completed = [{**constant, **context, **arm} for arm in arms]
    for arm in completed:
        for name in space.parameters.keys() - arm.keys():
            raise ValueError(
                f"The safe arm {arm} lacks the parameter `{name}`: give it, or, if the arm "
                f"is safe for every `{name}`, ask for trials with {name} fixed "
                "(fixed_parameters)."
            )
        space.validate_membership(parameters=arm)
    return [arm for arm in completed if context.items() <= arm.items()]


def check_safe_arms(
    arms: Sequence[Parameters], space: SearchSpace, context: Parameters
) -> None:
    r"""Refuse safe arms that do not fit, and spaces too large for a safe search.

    Raises:
        ValueError: If a safe arm lacks a parameter or lies outside the search space.
        UnsupportedError: If there are too many combinations of integers and choices.
    """
    arms_in_context(arms, space, context)
    free = [each for name, each in space.parameters.items() if name not in context]
    listed = [values for each in free if (values := values_of(each)) is not None]
    count = prod(map(len, listed))
    if count > MOST_COMBINATIONS:
        raise UnsupportedError(
            f"A safe search enumerates integers and choices, and there are {count} "
            f"combinations, more than {MOST_COMBINATIONS}. Make ranges of integers "
            "floats, or use fewer values."
        )


def some_arm(arms: Sequence[dict[str, Any]], context: Parameters) -> list[dict[str, Any]]:
    r"""The arms, at least one; ``NoSafePointError`` if none is of this context."""
    if not arms:
        given = ", ".join(f"{name}={value}" for name, value in context.items())
        raise NoSafePointError(
            f"No safe arm has {given}. Give safe_arms with these parameters, or leave "
            "these parameters out of an arm that is safe whatever they are."
        )
    return list(arms)
