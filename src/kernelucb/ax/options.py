r"""Options of a bound in Ax, tried out before the first trial."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.exceptions import UnsupportedError
from botorch.models.transforms.outcome import Standardize
from botorch.optim import initializers, optimize, optimize_mixed
from torch import Tensor

from kernelucb._numerics.checks import whole_number
from kernelucb.acquisition import (
    BOUNDS,
    META_ACQUISITIONS,
    KernelFamilyUCB,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    ScalarizedUCB,
    kernel_inputs,
)
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.input_constructors import parameters_of
from kernelucb.acquisition.outcome_bands import OWN_KERNEL
from kernelucb.ax.counts import NOT_OF_COUNTS, STORED, check_count_options
from kernelucb.ax.estimates import check_storable
from kernelucb.ax.outcomes import BY_OUTCOME, BoundClasses, all_configs
from kernelucb.ax.rehearsal import BUILDERS, entries
from kernelucb.confidence.fit.prequential import PrequentialRadius
from kernelucb.confidence.norm.tracker import NormTracker
from kernelucb.confidence.srinivas import BoundedNorm, CompactDomain, FiniteDomain
from kernelucb.confidence.unknown_noise import UnknownNoise

_KNOWN = (*BOUNDS, *META_ACQUISITIONS, KernelFamilyUCB, LikelihoodUCB, ScalarizedUCB)

# Bounds that may stand beside each other, each for some of the outcomes.
_OF_ONE_OUTCOME = (MartingaleMixtureUCB, KernelFamilyUCB, LikelihoodUCB)

# What an option may be beside numbers and words; Ax stores them by their fields.
VALUES = (UnknownNoise, FiniteDomain, CompactDomain, BoundedNorm)

# Ax sets these itself or cannot store them, or they cannot be true in Ax.
_NOT_AN_OPTION = {
    "model": "Ax builds the model; change it with `model_config`",
    "maximize": "Ax takes the direction from the objective (`-y` minimises y)",
    "posterior_transform": "Ax passes the direction of the objective through it",
    "X_pending": "Ax passes the trials that are running or abandoned",
    "tracker": "Ax cannot store it; the bound is computed from all data each time",
    "fixed_design": "the bound itself chooses the inputs, from the outcomes so far",
    "bound": "Ax cannot store it; the outcomes' bounds are MartingaleMixtureUCB",
    "kernels": "Ax cannot store kernels; describe them with `shortest`, `longest` (length "
    "scales, in units of the unit cube) and `kernel` (names)",
    "mean_module": "Ax cannot store it; give a number as `mean`",
}
_NOT_A_NESTED_OPTION = _NOT_AN_OPTION | dict.fromkeys(
    ("norm_bound", "noise_std", "delta"),
    "give it beside `options`, for all outcomes or one for each",
)

# Ax forbids these, or passes them itself.
_SET_BY_AX = (
    "acq_function",
    "acq_function_sequence",
    "batch_initial_conditions",
    "bounds",
    "cat_dims",
    "choices",
    "discrete_choices",
    "discrete_dims",
    "equality_constraints",
    "fixed_features",
    "fixed_features_list",
    "inequality_constraints",
    "q",
    "return_best_only",
    "return_full_tree",
    "X_avoid",
)

# Ax chooses among these by the search space; the last one is called by the others.
_OPTIMIZERS = (
    optimize.optimize_acqf,
    optimize.optimize_acqf_discrete,
    optimize.optimize_acqf_discrete_local_search,
    optimize.optimize_acqf_mixed,
    optimize_mixed.optimize_acqf_mixed_alternating,
    initializers.gen_batch_initial_conditions,
)


def checked_bounds(
    acqf_class: BoundClasses,
    options: Mapping[str, Any],
    spec: SurrogateSpec,
) -> tuple[type[KernelUCB], dict[str, Any]]:
    r"""A class and its options; of outcomes with classes of their own, one and all options.

    Raises:
        ValueError: If an option is unknown, missing or cannot be stored, or is for an
            outcome whose class does not take it.
        UnsupportedError: If a class is not one of the bounds, or not for single outcomes.
    """
    if not isinstance(acqf_class, Mapping):
        return acqf_class, checked_options(acqf_class, options, spec)
    if not acqf_class:
        raise ValueError("acqf_class is an empty mapping; give a class for each outcome.")
    for name, each in acqf_class.items():
        if each not in _OF_ONE_OUTCOME:
            known = ", ".join(bound.__name__ for bound in _OF_ONE_OUTCOME)
            raise UnsupportedError(
                f"In a mapping, acqf_class must be one of {known} for every outcome; that "
                f"of {name} is {getattr(each, '__name__', each)}."
            )
    own = _options_by_outcome(acqf_class, options)
    stored = {
        name: {"class": each, **checked_options(each, own[name], spec)}
        for name, each in acqf_class.items()
    }
    shared = {"delta": options["delta"]} if "delta" in options else {}
    return next(iter(acqf_class.values())), {**shared, BY_OUTCOME: stored}


def _options_by_outcome(
    acqf_class: Mapping[str, type[KernelUCB]], options: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    r"""What is given for each outcome, or for all whose class takes it."""
    own: dict[str, dict[str, Any]] = {name: {} for name in acqf_class}
    for option, value in options.items():
        if option == "delta":
            continue
        takers = [n for n, each in acqf_class.items() if option in _parameters(each)]
        entries = value if isinstance(value, Mapping) else dict.fromkeys(takers, value)
        if not takers or not set(entries) <= set(takers):
            given = f" is given for {', '.join(map(str, entries))}, and" if entries else ""
            raise ValueError(
                f"The option `{option}`{given} is taken by the bounds of these outcomes: "
                f"{', '.join(takers) or 'none'}."
            )
        for name, entry in entries.items():
            own[name][option] = entry
    return own


def checked_options(
    acqf_class: type[KernelUCB], options: Mapping[str, Any], spec: SurrogateSpec
) -> dict[str, Any]:
    r"""The options as plain numbers that Ax can store, of known names.

    Raises:
        ValueError: If an option is unknown, missing or cannot be stored.
        UnsupportedError: If the class is not one of the bounds.
    """
    if acqf_class not in _KNOWN:
        names = ", ".join(bound.__name__ for bound in _KNOWN)
        raise UnsupportedError(
            f"acqf_class must be one of {names}; got {acqf_class.__name__}."
        )
    for config in all_configs(spec):
        _check_outcome_transforms(config)
    if acqf_class is ScalarizedUCB:  # a prior is that of the outcomes' bounds
        own = {name: options[name] for name in OWN_KERNEL if name in options}
        others = {name: each for name, each in options.items() if name not in own}
        nested = options.get("options") or {}
        if own and isinstance(nested, Mapping):
            options = others | {"options": {**nested, **own}}
    is_count = acqf_class is LikelihoodUCB
    refused = _NOT_AN_OPTION | NOT_OF_COUNTS if is_count else _NOT_AN_OPTION
    _check_names(acqf_class, options, refused)
    plain = {option: plain_value(option, value) for option, value in options.items()}
    noise = plain.get("noise_std")
    noises = list(noise.values()) if isinstance(noise, Mapping) else [noise]
    if acqf_class is ScalarizedUCB:
        nested = plain.get("options") or {}
        if not isinstance(nested, Mapping):
            given = type(nested).__name__
            raise ValueError(f"options must be a mapping in the options, got {given}.")
        where = " (in `options`)"
        _check_names(MartingaleMixtureUCB, nested, _NOT_A_NESTED_OPTION, where)
        noises = [each for listed in noises for each in entries(listed)]
    if any(isinstance(each, list) for each in noises):
        raise ValueError(
            "noise_std must be one number for an outcome, since the trials are not known "
            "yet; report a standard error with each outcome instead, and leave out "
            "noise_std."
        )
    if is_count:
        check_count_options(plain)
        plain |= STORED
    return plain


def _check_outcome_transforms(config: ModelConfig) -> None:
    r"""Gaps and best arms are in units of the metric, which must be those of the norm."""
    classes = config.outcome_transform_classes
    names = [each.__name__ for each in classes or () if each is not Standardize]
    if names:
        raise UnsupportedError(
            f"The model_config has the outcome transform {', '.join(names)}. Report the "
            "transformed outcome as the metric instead (its logarithm, for Log): norm "
            "bound, noise scale, bounds and gaps are then in its units. Use Standardize "
            "or no outcome transform."
        )


def checked_optimizer_options(options: Mapping[str, Any]) -> dict[str, Any]:
    r"""Arguments of BoTorch's optimisers, checked, as plain numbers that Ax can store."""
    known = {name for each in _OPTIMIZERS for name in inspect.signature(each).parameters}
    for option in options:
        if option not in known:
            raise ValueError(
                f"BoTorch's optimisers have no option `{option}`; see "
                "botorch.optim.optimize_acqf for what they take."
            )
        if option in _SET_BY_AX:
            raise ValueError(f"Leave out the option `{option}`: Ax sets it itself.")
        if option in ("num_restarts", "raw_samples"):
            whole_number(option, options[option])
    return {option: plain_value(option, value) for option, value in options.items()}


def _check_names(
    acqf_class: type[KernelUCB],
    options: Mapping[str, Any],
    refused: Mapping[str, str],
    where: str = "",
) -> None:
    name, parameters = f"{acqf_class.__name__}{where}", _parameters(acqf_class)
    allowed = [option for option in parameters if option not in refused]
    for option in options:
        if option in refused:
            raise ValueError(f"Leave out the option `{option}`: {refused[option]}.")
        if option not in allowed:
            taken = ", ".join(allowed)
            raise ValueError(f"{name} has no option `{option}`; it takes {taken}.")
    for option in allowed:
        required = parameters[option].default is inspect.Parameter.empty
        if required and option not in options:
            raise ValueError(f"{name} needs the option `{option}`.")


def _parameters(acqf_class: type[KernelUCB]) -> dict[str, inspect.Parameter]:
    build = kernel_inputs if acqf_class in BOUNDS else BUILDERS.get(acqf_class)
    return {each.name: each for each in parameters_of(acqf_class, build)}


def plain_value(option: str, value: Any) -> Any:
    r"""A number, a word, a value object, or a list or dictionary of these."""
    if isinstance(value, VALUES):
        fields = {name: plain_value(name, entry) for name, entry in vars(value).items()}
        return type(value)(**fields)
    if isinstance(value, PrequentialRadius):
        raise ValueError(
            f"{option} cannot be a PrequentialRadius: it needs the predictions made before "
            "each outcome, which Ax does not keep."
        )
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return plain_value(option, value.tolist())
    if isinstance(value, Mapping):
        return {key: plain_value(key, entry) for key, entry in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain_value(option, entry) for entry in value]
    if isinstance(value, NormTracker):
        raise ValueError(
            f"{option} cannot be a NormTracker, which Ax cannot store; with "
            '"cautious" (the estimate of NormTracker.cautious()), or without a norm bound, '
            "the norm is estimated anew in every trial."
        )
    check_storable(option, value)
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError(
        f"{option} cannot be a {type(value).__name__}, which Ax cannot store; give a "
        "number, a word or a list."
    )
