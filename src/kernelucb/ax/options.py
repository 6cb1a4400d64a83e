r"""Classes, options and models of the bounds, for one outcome or by names of several."""

from collections.abc import Collection, Mapping, Sequence
from inspect import Parameter, getclosurevars, signature
from itertools import chain
from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np
import torch
from ax.adapter.registry import MBM_X_trans
from ax.adapter.transforms.derelativize import Derelativize
from ax.core.data import MAP_KEY
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
from botorch.models.transforms.outcome import Standardize
from gpytorch.kernels import RBFKernel
from torch import Tensor

from kernelucb._numerics.checks import (
    finite_scalar,
    nonnegative_scalar,
    probability,
    whole_number,
)
from kernelucb._numerics.estimates import is_estimate
from kernelucb.acquisition import (
    BOUNDS,
    META_ACQUISITIONS,
    KernelFamilyUCB,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    MetaPI,
    ScalarizedUCB,
)
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.ucb import builder_of
from kernelucb.confidence.noise import UnknownNoise
from kernelucb.confidence.norm import NearNormBall, NormTracker
from kernelucb.confidence.srinivas import BoundedNorm, CompactDomain, FiniteDomain
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.models.meta import MetaModel
from kernelucb.regression import KernelRegression
from kernelucb.regression.from_model import per_output

Options = Mapping[str, Any]
BoundClasses = type[KernelUCB] | Mapping[str, type[KernelUCB]]
Configs = ModelConfig | Mapping[str, ModelConfig] | None

KNOWN = (*BOUNDS, *META_ACQUISITIONS, KernelFamilyUCB, LikelihoodUCB, ScalarizedUCB)
# Bounds that may stand beside each other, each for some of the outcomes.
_OF_ONE_OUTCOME = (MartingaleMixtureUCB, KernelFamilyUCB, LikelihoodUCB)

# What an option may be beside numbers and words; Ax stores them by their fields.
VALUES = (
    UnknownNoise,
    FiniteDomain,
    CompactDomain,
    BoundedNorm,
    NearNormBall,
)

# All that Ax may do to the data of a bound: outcomes stay as they were reported.
TRANSFORMS = [*MBM_X_trans, Derelativize]

# The option that holds the class of each outcome, where they differ.
CLASSES = "classes"
_DELTA = 0.05  # of all bands together, where the options do not say
# Options with an entry for each input of the bound, which may be by their names.
LENGTHS = ("shortest", "longest", "lengthscale")

# Options of the guard itself; all others of a search are the searched function's.
OF_THE_GUARD = ("temperature", "ucb_every")

_BY_AX = """
training_data X_baseline X_pending bounds train_X train_Y constraints constraints_tuple
objective objective_thresholds ref_point target_fidelities
"""
_NOT_AN_OPTION = {
    **dict.fromkeys(_BY_AX.split(), "Ax passes it from the experiment"),
    "model": "Ax builds the model; change it with `model_config`",
    "maximize": "Ax takes the direction from the objective (`-y` minimises y)",
    "posterior_transform": "Ax passes the direction of the objective through it",
    "outcomes": "a metric is a proportion or a rate",
    "sampler": "Ax cannot store it",
    "tracker": "Ax cannot store it; the bound is computed from all data each time",
    "fixed_design": "the bound itself chooses the inputs, from the outcomes so far",
    "bound": "Ax cannot store it; the outcomes' bounds are MartingaleMixtureUCB",
    "kernels": "Ax cannot store kernels; describe them with `shortest`, `longest` (length "
    "scales, in units of the unit cube) and `kernel` (names)",
    "mean_module": "Ax cannot store it; give a number as `mean`",
}
# Options that have a default where a model or kernels say what they stand for.
_NEEDED: Mapping[type[AcquisitionFunction], Sequence[str]] = {
    KernelFamilyUCB: ("shortest", "longest"),
    LikelihoodUCB: ("likelihood", "kernel", "lengthscale"),
}


def input_parameters(searched: type[AcquisitionFunction]) -> Mapping[str, Parameter]:
    r"""What the input constructor of a class takes, which BoTorch has wrapped."""
    constructor: Any = get_acqf_input_constructor(searched)
    inner = getclosurevars(constructor).nonlocals.get("f", constructor)
    return signature(inner).parameters


def search_class(search: str | type[AcquisitionFunction]) -> type[AcquisitionFunction]:
    r"""The one with an input constructor of that name; ``UnsupportedError`` if none."""
    known = {each.__name__: each for each in ACQF_INPUT_CONSTRUCTOR_REGISTRY}
    found = known.get(search) if isinstance(search, str) else search
    if found is None:
        raise UnsupportedError(
            f"BoTorch has no acquisition function {search!r} with an input constructor; "
            "import the module that registers one, or give a name such as "
            "'qLogNoisyExpectedImprovement'."
        )
    if found not in ACQF_INPUT_CONSTRUCTOR_REGISTRY:
        raise UnsupportedError(
            f"{found.__name__} has no input constructor in BoTorch; register one with "
            "botorch.acquisition.input_constructors.acqf_input_constructor, or build the "
            "function yourself and give it to GuardedAcquisition."
        )
    return found


def _check_names(
    acqf_class: type[AcquisitionFunction], options: Options, further: Sequence[str] = ()
) -> None:
    r"""Refuse options that a class does not take, and missing ones, by its signature.

    BoTorch would drop some without a word. ``further`` are taken beside those of the class.
    """
    name, parameters = acqf_class.__name__, input_parameters(acqf_class)
    taken = [*further, *(each for each in parameters if each not in _NOT_AN_OPTION)]
    for option in options:
        if option in _NOT_AN_OPTION:
            raise ValueError(f"Leave out the option `{option}`: {_NOT_AN_OPTION[option]}.")
        if option not in taken:
            raise ValueError(
                f"{name} has no option `{option}`; it takes {', '.join(taken)}."
            )
    for option, parameter in parameters.items():
        required = parameter.default is Parameter.empty
        required |= option in _NEEDED.get(acqf_class, ())
        if required and option not in {*_NOT_AN_OPTION, *options}:
            raise ValueError(f"{name} needs the option `{option}`.")


def plain_value(option: str, value: Any) -> Any:
    r"""A number, a word, a value object, or a list or dictionary of these."""
    if isinstance(value, VALUES):
        return type(value)(**plain_values(vars(value)))
    if isinstance(value, Tensor | np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return plain_values(value)
    if isinstance(value, list | tuple | range):
        return [plain_value(option, entry) for entry in value]
    if is_estimate(value):
        cautious = 'use "cautious", or ' if option == "norm_bound" else ""
        raise ValueError(
            f"{option} is an estimate, which Ax would store as a plain number, as if it "
            f"were given; {cautious}state the number yourself with float(...)."
        )
    if value is None or isinstance(value, str | bool | int | float):
        return value
    instead = "give a number, a word or a list"
    if isinstance(value, NormTracker):
        instead = (
            'with "cautious" (the estimate of NormTracker.cautious()), or without a norm '
            "bound, the norm is estimated anew in every trial"
        )
    raise ValueError(
        f"{option} cannot be a {type(value).__name__}, which Ax cannot store; {instead}."
    )


def plain_values(options: Options) -> dict[str, Any]:
    r"""Options as Ax can store them."""
    return {option: plain_value(option, value) for option, value in options.items()}


def checked_ranges(ranges: Any) -> dict[str, list[float | None]]:
    r"""Known ranges of outcomes by name, as Ax can store them.

    Raises:
        ValueError: If one is not ``(lower, upper)``, or they are in the wrong order.
    """
    if not isinstance(ranges, Mapping):
        raise ValueError(
            f"outcome_range must be a mapping from the names of metrics, such as "
            f'{{"output": (0.0, 100.0)}}, got {ranges!r}.'
        )
    checked: dict[str, list[float | None]] = {}
    for name, pair in ranges.items():
        label = f"outcome_range[{name!r}]"
        plain = plain_value(label, pair)
        if not isinstance(plain, list) or len(plain) != 2 or plain == [None, None]:
            raise ValueError(
                f"{label} must be (lower, upper), with None for one that is not known; got "
                f"{pair!r}."
            )
        ends = [None if each is None else finite_scalar(label, each) for each in plain]
        lower, upper = ends
        if lower is not None and upper is not None and not lower < upper:
            raise ValueError(f"{label}: lower must be below upper, got {pair!r}.")
        checked[name] = ends
    return checked


def checked_bounds(
    acqf_class: BoundClasses, options: Options
) -> tuple[type[KernelUCB], dict[str, Any]]:
    r"""A class and plain options; where outcomes have classes of their own, one and all."""
    apart = isinstance(acqf_class, Mapping)
    known = _OF_ONE_OUTCOME if apart else KNOWN
    classes = dict(acqf_class) if isinstance(acqf_class, Mapping) else {"": acqf_class}
    if not classes:
        raise ValueError("acqf_class is an empty mapping; give a class for each outcome.")
    for name, each in classes.items():
        if each not in known:
            what = f"In a mapping, acqf_class[{name!r}]" if apart else "acqf_class"
            wanted = ", ".join(each.__name__ for each in known)
            got = getattr(each, "__name__", each)
            raise UnsupportedError(f"{what} must be one of {wanted}; got {got}.")
    bound, given = next(iter(classes.values())), dict(options)
    if bound is ScalarizedUCB:
        given |= given.pop("options", None) or {}
    if isinstance(given.get("delta"), Mapping):
        raise ValueError("delta is one number for all outcomes, not a mapping.")
    probability("delta", given.get("delta", _DELTA))
    shared = {CLASSES: classes} if apart else {}
    for each, own in bounds_of(bound, given | shared).values():
        _check_names(each, own)
    return bound, shared | plain_values(given)


def bounds_of(
    acqf_class: type[KernelUCB], options: Options, names: Collection[str] = ()
) -> dict[str, tuple[type[KernelUCB], dict[str, Any]]]:
    r"""Class and options of the band of each outcome, by its name; they share ``delta``.

    An option is for all outcomes whose class takes it, or for those that it names; a list
    of a sum has an entry for each, by their names in the alphabet. Without ``names`` the
    outcomes are those that the options tell of.
    """
    names, is_sum = names or outcomes_of(options), acqf_class is ScalarizedUCB
    single = MartingaleMixtureUCB if is_sum else acqf_class
    apart, classes = CLASSES in options, options.get(CLASSES, dict.fromkeys(names, single))
    own: dict[str, dict[str, Any]] = {name: {} for name in names}
    for option, value in {CLASSES: classes, **options}.items():
        takers = {*names}
        if apart and option != CLASSES:
            takers = {n for n in names if option in input_parameters(classes[n])}
        entries = dict.fromkeys(takers or names, value)
        if is_by_outcome(option, value, names):
            entries = value
        elif is_sum and isinstance(value, list):
            listed = per_output(option, value, len(names))
            entries = dict(zip(sorted(names), listed, strict=True))
        all_named = {*entries} == takers
        if not (all_named or (apart and option != CLASSES and {*entries} < takers)):
            raise ValueError(
                f"{option} is given for the outcomes {', '.join(sorted(entries))}, and "
                f"there are bounds of {', '.join(sorted(takers)) or 'none'} that take it."
            )
        for name, entry in entries.items():
            own[name][option] = entry
    if len(own) > 1 or "delta" in options:
        for each in own.values():
            each["delta"] = options.get("delta", _DELTA) / len(own)
    return {name: (each.pop(CLASSES), each) for name, each in own.items()}


def outcomes_of(options: Options, configs: Collection[str] = ()) -> list[str]:
    r"""Names of the outcomes that options and models tell of; ``"0"`` and so on if none."""
    named = [each for option, each in options.items() if is_by_outcome(option, each)]
    named = [options[CLASSES]] if CLASSES in options else named
    if names := {*configs, *chain.from_iterable(named)}:
        return sorted(names)
    listed = [options.get(option) for option in ("norm_bound", "noise_std")]
    count = max(len(each) if isinstance(each, list) else 1 for each in listed)
    return [str(i) for i in range(max(count, 1))]


def checked_search(
    search: type[AcquisitionFunction] | str, options: Options, arguments: Options
) -> dict[str, Any]:
    r"""Name and options of a search, as Ax can store them.

    ``arguments`` are those of Ax's generator for the bound that it keeps within.
    """
    if arguments["botorch_acqf_class"] is MetaPI:
        raise UnsupportedError(
            "MetaPI has no band to search within: its bounds are one standard deviation, "
            "without a guarantee; use MetaUCB."
        )
    searched = search_class(search)
    name = searched.__name__
    if search_class(name) is not searched:
        raise UnsupportedError(
            f"Another {name} has an input constructor, and Ax would store only the name; "
            "rename one of them."
        )
    parameters = input_parameters(searched)
    instead = "search with qLogNoisyExpectedImprovement, say"
    if "posterior_transform" not in parameters:
        raise UnsupportedError(
            f"{name} cannot be told the objective: its input constructor in BoTorch takes "
            f"no posterior_transform; {instead}."
        )
    limited = "constraints" in arguments["acquisition_options"]
    if limited and "constraints" not in parameters:
        raise UnsupportedError(f"{name} takes no outcome constraints; {instead}.")
    plain = plain_values(options)
    _check_names(searched, plain, OF_THE_GUARD)
    guard = {option: plain.pop(option) for option in OF_THE_GUARD if option in plain}
    nonnegative_scalar("temperature", guard.get("temperature", 0.0))
    whole_number("ucb_every", guard.get("ucb_every", 1))
    # Between candidates there is no prior, so no unit for a smooth edge, and no need.
    (config, *_) = arguments["surrogate_spec"].model_configs
    finite = getattr(config.botorch_model_class, "finite_domain", False)
    if finite and guard.setdefault("temperature", 0.0) != 0.0:
        raise ValueError(
            "temperature must be 0 where the prior is known at candidates only: the "
            "restriction is exact there."
        )
    return {"search": name, "search_options": plain, **guard}


def surrogate_spec(
    configs: Configs, acqf_class: BoundClasses, options: Options
) -> SurrogateSpec:
    r"""What Ax makes models of outcomes from, each outcome its own.

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
    other = configs if isinstance(configs, ModelConfig) else default
    named = dict(configs) if isinstance(configs, Mapping) else {}
    if isinstance(acqf_class, Mapping):
        named = dict.fromkeys(acqf_class, other) | named
    for config in named.values() or [other]:
        _check_config(config, acqf_class)
    return SurrogateSpec(
        model_configs=[other],
        metric_to_model_configs={name: [config] for name, config in named.items()},
        # A bound is for one outcome, a batched model for several.
        allow_batched_models=False,
    )


def _check_config(config: ModelConfig, acqf_class: BoundClasses) -> None:
    classes = config.outcome_transform_classes or ()
    if names := [each.__name__ for each in classes if each is not Standardize]:
        raise UnsupportedError(
            f"The model_config has the outcome transform {', '.join(names)}. Report the "
            "transformed outcome as the metric instead (its logarithm, for Log): norm "
            "bound, noise scale, bounds and gaps are then in its units. Use Standardize "
            "or no outcome transform."
        )
    model_class: Any = config.botorch_model_class
    is_meta = isinstance(model_class, type) and issubclass(model_class, MetaModel)
    if is_meta != (acqf_class in META_ACQUISITIONS):
        raise UnsupportedError(
            "MetaUCB and MetaPI need model_config=meta_model_config(model); the other "
            "bounds need a model without an estimated prior."
        )


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
def _keep_the_prior(model: MetaModel, **_: Any) -> None:
    r"""The prior was estimated from earlier tasks; nothing is left to fit."""


def is_by_outcome(option: str, value: Any, names: Collection[str] = ()) -> bool:
    r"""Whether an option has an entry for each outcome, of which some are ``names``.

    Length scales may be by the names of parameters instead, or as well, within an outcome.
    """
    if not isinstance(value, Mapping):
        return False
    nested = any(isinstance(each, Mapping) for each in value.values())
    return option not in LENGTHS or nested or bool(value.keys() & set(names))


def built(
    acqf_class: type[KernelUCB], model: Any, options: Options, columns: Sequence[str]
) -> KernelUCB:
    r"""A bound from a model; ``columns`` are the parameters of its inputs."""
    own = with_columns(options, columns)
    if isinstance(own.get("noise_std"), list):
        raise ValueError(
            "noise_std must be one number for an outcome, since the trials are not known "
            "yet; report a standard error with each outcome instead, and leave out "
            "noise_std."
        )
    if acqf_class is LikelihoodUCB:
        own["outcomes"] = "rates"
    return builder_of(acqf_class)(model, **own)


def with_columns(options: Options, columns: Sequence[str]) -> dict[str, Any]:
    r"""Options of an outcome with a list in the place of length scales by parameters."""
    own, inputs = dict(options), {*columns} - {MAP_KEY}
    for option in LENGTHS:
        given = own.get(option)
        if isinstance(given, Mapping):
            # Where outcomes are reported with progressions, these are an input, too.
            if given.keys() - {MAP_KEY} != inputs or not given.keys() >= {*columns}:
                raise ValueError(
                    f"{option} is for {', '.join(sorted(given))}; the parameters that are "
                    f"inputs of the bound are {', '.join(sorted(inputs))} (constant ones "
                    "are not)."
                )
            own[option] = [given[name] for name in columns]
        elif isinstance(given, list) and len(given) != len(columns):
            raise ValueError(
                f"{option} has {len(given)} entries for {len(columns)} inputs (one for "
                "each number or ordered choice, one for each value of an unordered one)."
            )
    return own


def has_own_prior(acqf_class: type[KernelUCB], options: Options) -> bool:
    r"""Whether a bound takes only the data from Ax's model, and no kernel."""
    own = acqf_class in (KernelFamilyUCB, LikelihoodUCB)
    return own or options.get("kernel") is not None


def rehearsed_bounds(arguments: Options) -> list[KernelUCB]:
    r"""The band of each outcome after one observation, equal to its prior mean.

    What their constructors refuse, and what their assumptions call estimated, will be so in
    every trial. ``arguments`` are those of Ax's generator. None for an estimated prior.
    """
    acqf_class, options = arguments["botorch_acqf_class"], arguments["botorch_acqf_options"]
    if acqf_class in META_ACQUISITIONS:
        return []
    models = arguments["surrogate_spec"]
    configs = models.metric_to_model_configs
    bounds = bounds_of(acqf_class, options, outcomes_of(options, configs))
    return [
        _rehearsed(*bound, configs.get(name, models.model_configs)[0])
        for name, bound in bounds.items()
    ]


def _rehearsed(
    acqf_class: type[KernelUCB], options: Options, config: ModelConfig
) -> KernelUCB:
    given = [options.get(name) for name in LENGTHS]
    lengths = [each for each in given if each and isinstance(each, Mapping | list)]
    columns = [*map(str, lengths[0])] if lengths else ["0"]
    X = torch.zeros(1, len(columns), dtype=torch.float64)
    counts = acqf_class is LikelihoodUCB
    Y = X[:, :1] + finite_scalar("mean", 0.0 if counts else options.get("mean", 0.0))
    model: Any = SingleTaskGP(X, Y, torch.ones_like(Y))
    if config.botorch_model_class is not SingleTaskGP:
        # What Ax makes of any other configuration shows in a trial.
        model = KernelRegression(X, Y, RBFKernel().requires_grad_(False), noise_std=1.0)
    with catch_warnings():  # a count of zero may contradict what is expected of one
        simplefilter("ignore", InconsistentConfidenceSetWarning)
        return built(acqf_class, model, options, columns)
