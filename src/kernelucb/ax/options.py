r"""Options of a bound as Ax stores them, and the models of the outcomes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, getclosurevars, signature
from types import NoneType
from typing import Any, NoReturn

import numpy as np
from ax.adapter.registry import MBM_X_trans
from ax.adapter.transforms.derelativize import Derelativize
from ax.generators.torch.botorch_modular.kernels import DefaultRBFKernel
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig, fit_botorch_model
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import (
    ACQF_INPUT_CONSTRUCTOR_REGISTRY,
    get_acqf_input_constructor,
)
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.models.transforms import Normalize, Standardize
from botorch.utils.types import DEFAULT
from torch import Tensor

from kernelucb import acquisition, papers
from kernelucb._numerics.checks import nonnegative_scalar, whole_number
from kernelucb._numerics.estimates import Estimate
from kernelucb.acquisition.ucb import BandUCB, InputConstructor
from kernelucb.ax.inputs import LENGTHS, Options
from kernelucb.confidence.noise import UnknownNoise
from kernelucb.confidence.norm import NearNormBall
from kernelucb.papers.meta_model import MetaModel
from kernelucb.papers.srinivas import BoundedNorm, CompactDomain, FiniteDomain

Configs = ModelConfig | Mapping[str, ModelConfig] | None

KNOWN = (
    acquisition.MartingaleMixtureUCB,
    *papers.BOUNDS,
    *papers.META_ACQUISITIONS,
    acquisition.KernelFamilyUCB,
    acquisition.LikelihoodUCB,
    acquisition.ScalarizedUCB,
)
# What an option may be beside numbers and words; Ax stores them by their fields.
VALUES = (UnknownNoise, FiniteDomain, CompactDomain, BoundedNorm, NearNormBall)
# All that Ax may do to the data of a bound: outcomes stay as they were reported.
TRANSFORMS = [*MBM_X_trans, Derelativize]
DELTA = 0.05  # failure probability of all bands together, where the options do not say
# Options of the guard itself; all others of a search are the searched function's.
OF_THE_GUARD = ("temperature", "ucb_every")

# Arguments that Ax passes from the experiment, or that it cannot store.
_PASSED = """
model training_data X_baseline X_pending bounds train_X train_Y constraints
constraints_tuple objective objective_thresholds ref_point target_fidelities maximize
posterior_transform outcomes sampler tracker fixed_design bound options kernels mean_module
"""
# Options with a default, for models or kernels that say what they stand for.
_NEEDED: Mapping[type[AcquisitionFunction], Sequence[str]] = {
    acquisition.KernelFamilyUCB: ("shortest", "longest"),
    acquisition.LikelihoodUCB: ("likelihood", "kernel", "lengthscale"),
}


def _parameters(acqf_class: type[AcquisitionFunction]) -> Mapping[str, Parameter]:
    r"""Parameters of a class's input constructor: its own word, or its signature."""
    constructor: Any = get_acqf_input_constructor(acqf_class)
    if isinstance(constructor, InputConstructor):
        return constructor.parameters
    # BoTorch's decorator keeps the constructor as `f` in its closure.
    return signature(getclosurevars(constructor).nonlocals.get("f", constructor)).parameters


def one_outcome_class(acqf_class: type[AcquisitionFunction]) -> type[BandUCB]:
    r"""The bound of each outcome of a sum, or the bound itself."""
    of_a_sum: Any = {acquisition.ScalarizedUCB: acquisition.MartingaleMixtureUCB}
    return of_a_sum.get(acqf_class, acqf_class)


def storable(
    acqf_class: type[AcquisitionFunction], options: Options, further: Sequence[str] = ()
) -> dict[str, Any]:
    r"""Options as Ax can store them; ``further`` are taken beside those of the class.

    Raises:
        ValueError: If one is unknown (BoTorch would drop some without a word), missing, an
            estimate, or no plain value.
    """
    name, parameters = acqf_class.__name__, _parameters(acqf_class)
    taken = [*further, *(each for each in parameters if each not in _PASSED.split())]
    for option in options:
        if option not in taken:
            raise ValueError(
                f"{name} has no option `{option}`; it takes {', '.join(taken)}."
            )
    for option in taken[len(further) :]:
        required = parameters[option].default is Parameter.empty
        if (required or option in _NEEDED.get(acqf_class, ())) and option not in options:
            raise ValueError(f"{name} needs the option `{option}`.")
    return {option: plain_value(option, value) for option, value in options.items()}


def plain_value(option: str, value: object) -> Any:
    r"""A number, a word, a value object, or a list or dictionary of these."""
    for kinds, stored in _STORED:
        if isinstance(value, kinds):
            return stored(option, value)
    raise ValueError(
        f"{option} cannot be a {type(value).__name__}, which Ax cannot store; give a "
        "number, a word or a list (and no norm_bound in place of a NormTracker)."
    )


def _refused(option: str, _: Estimate) -> NoReturn:
    raise ValueError(
        f"{option} is an estimate, which Ax would store as if it were given; "
        "leave it out, or state the number yourself with float(...)."
    )


# What an option may be, and how it is stored; the first kind that fits counts.
_STORED: tuple[tuple[tuple[type, ...], Callable[[str, Any], Any]], ...] = (
    (VALUES, lambda option, value: type(value)(**plain_value(option, vars(value)))),
    # NumPy's numbers are no JSON.
    (
        (Tensor, np.ndarray, np.generic),
        lambda option, value: plain_value(option, value.tolist()),
    ),
    ((Mapping,), lambda _, value: {n: plain_value(n, each) for n, each in value.items()}),
    (
        (list, tuple, range),
        lambda option, value: [plain_value(option, each) for each in value],
    ),
    ((Estimate,), _refused),
    ((NoneType, str, bool, int, float), lambda _, value: value),
)


def by_outcome(given: object) -> Mapping[str, Any] | None:
    r"""What is given for each outcome, by its name; None where it is for all of them."""
    return given if isinstance(given, Mapping) else None


def options_by_outcome(
    options: Options, names: Collection[str]
) -> dict[str, dict[str, Any]]:
    r"""The options of the band of each outcome, by its name; the bands share ``delta``."""
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for option, value in options.items():
        # Length scales may be by the names of parameters instead, or as well, within one.
        named = by_outcome(value)
        if named is not None and option in LENGTHS and not named.keys() & {*names}:
            within = (by_outcome(each) for each in named.values())
            named = named if any(each is not None for each in within) else None
        if named is not None and {*named} != {*names}:
            raise ValueError(
                f"{option} is given for the outcomes {', '.join(sorted(named))}, and the "
                f"objective and the constraints are on {', '.join(sorted(names))}."
            )
        for name in names:
            found[name][option] = value if named is None else named[name]
    if len(found) > 1:
        for each in found.values():
            each["delta"] = options.get("delta", DELTA) / len(found)
    return found


def has_own_prior(acqf_class: type[BandUCB], options: Options) -> bool:
    r"""Whether a bound takes only the data from Ax's model, and no kernel."""
    always = acqf_class in (acquisition.KernelFamilyUCB, acquisition.LikelihoodUCB)
    return always or options.get("kernel") is not None


def estimates_of(arguments: Options) -> list[str]:
    r"""Names of the quantities that a bound will estimate in every trial.

    ``arguments`` are the arguments of Ax's generator. Noise scales and models of the user's
    are left out, because only a trial shows whether they are estimated.
    """
    acqf_class, options = arguments["botorch_acqf_class"], arguments["botorch_acqf_options"]
    spec: SurrogateSpec = arguments["surrogate_spec"]
    (config,) = spec.model_configs
    if config.botorch_model_class is not SingleTaskGP or spec.metric_to_model_configs:
        return []
    found = [] if has_own_prior(acqf_class, options) else ["kernel", "mean"]
    if "norm_bound" in _parameters(one_outcome_class(acqf_class)):
        norms = _values(options.get("norm_bound"))
        estimated = None in norms
    else:
        theorems = _values(options.get("theorem", FiniteDomain()))
        estimated = any(each.estimates_norm for each in theorems)
    return found + ["norm"] * estimated


def _values(given: object) -> list[Any]:
    r"""What is given for each outcome, or for all of them."""
    named = by_outcome(given)
    return [given] if named is None else [*named.values()]


def search_class(search: str | type[AcquisitionFunction]) -> type[AcquisitionFunction]:
    r"""The acquisition function of that name or class in BoTorch's registry.

    Raises:
        UnsupportedError: If no input constructor is registered for it.
    """
    for each in ACQF_INPUT_CONSTRUCTOR_REGISTRY:
        if search in (each, each.__name__):
            return each
    raise UnsupportedError(
        f"BoTorch has no acquisition function {search!r} with an input constructor; give a "
        "name such as 'qLogNoisyExpectedImprovement', or register one with "
        "botorch.acquisition.input_constructors.acqf_input_constructor."
    )


def checked_search(
    search: type[AcquisitionFunction] | str, options: Options, arguments: Options
) -> dict[str, Any]:
    r"""Name and options of a search, as Ax can store them.

    ``arguments`` are the generator's for the bound that limits the search.
    """
    searched = search_class(search)
    name, parameters = searched.__name__, _parameters(searched)
    limited = "constraints" in arguments["acquisition_options"]
    for each in ["posterior_transform"] + ["constraints"] * limited:
        if each not in parameters:
            raise UnsupportedError(
                f"{name} cannot be told the objective or the constraints: its input "
                f"constructor in BoTorch takes no {each}; search with "
                "qLogNoisyExpectedImprovement, say."
            )
    plain = storable(searched, options, OF_THE_GUARD)
    guard = {option: plain.pop(option) for option in OF_THE_GUARD if option in plain}
    nonnegative_scalar("temperature", guard.get("temperature", 0.0))
    whole_number("ucb_every", guard.get("ucb_every", 1))
    # Between candidates there is no prior, so no unit for a smooth edge, and no need.
    (config,) = arguments["surrogate_spec"].model_configs
    prior = _estimated_prior(config)
    if prior is not None and prior.finite_domain:
        guard.setdefault("temperature", 0.0)
    return {"search": name, "search_options": plain, **guard}


def surrogate_spec(
    configs: Configs, acqf_class: type[BandUCB], options: Options
) -> SurrogateSpec:
    r"""Ax's specification of the models, one for each outcome.

    By default ``SingleTaskGP``, fitted in every trial, with its outcome units kept.
    """
    # Where a bound takes only the data, outcomes may be all alike (of a safe arm, or
    # successes). With its default kernel BoTorch would warn that they are not standardised;
    # named, the same kernel does not.
    data_only = options.get("kernel") is not None
    default = ModelConfig(
        botorch_model_class=SingleTaskGP,
        covar_module_class=DefaultRBFKernel if data_only else None,
        outcome_transform_classes=[Standardize],
        name="SingleTaskGP in outcome units",
    )
    by_name = by_outcome(configs)
    one_for_all: Any = configs or default
    named, other = ({}, one_for_all) if by_name is None else ({**by_name}, default)
    for config in named.values() or [other]:
        if {*(config.outcome_transform_classes or ())} - {Standardize}:
            raise UnsupportedError(
                "The model_config has an outcome transform. Report the transformed outcome "
                "as the metric instead (its logarithm, for Log): norm bound, noise scale, "
                "bounds and gaps are then in its units. Use Standardize or none."
            )
        is_meta = _estimated_prior(config) is not None
        if is_meta != (acqf_class in papers.META_ACQUISITIONS):
            raise UnsupportedError(
                "MetaUCB and MetaPI need model_config=kernelucb.ax.meta_model_config("
                "model); the other bounds need a model without an estimated prior."
            )
    every: dict[str, ModelConfig] = {"": other} | named
    for name, config in every.items():
        if config.input_transform_classes is DEFAULT:
            # By itself, Ax leaves it out where the space of all arms is the unit cube.
            every[name] = replace(config, input_transform_classes=[Normalize])
    return SurrogateSpec(
        model_configs=[every.pop("")],
        metric_to_model_configs={name: [config] for name, config in every.items()},
        # A bound is for one outcome, a batched model for several.
        allow_batched_models=False,
    )


def _estimated_prior(config: ModelConfig) -> type[MetaModel] | None:
    r"""The class of a model with an estimated prior; None for any other model."""
    chosen = config.botorch_model_class or Model
    return chosen if issubclass(chosen, MetaModel) else None


def meta_model_config(model: MetaModel) -> ModelConfig:
    r"""Ax configuration of a model with an estimated prior, which Ax can store.

    Args:
        model: A ``DiscreteMetaModel``, or a ``FeatureMetaModel`` with cosine features.
    """
    return ModelConfig(
        botorch_model_class=type(model),
        model_options=model.constructor_options(),
        input_transform_classes=None,
        name=f"{type(model).__name__}, prior from {model.num_tasks} tasks",
    )


@fit_botorch_model.register(MetaModel)
def _keep_the_prior(model: MetaModel, **_: object) -> None:
    r"""The prior was estimated from earlier tasks; nothing is left to fit."""
