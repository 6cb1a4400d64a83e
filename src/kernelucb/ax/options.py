r"""Options of a bound in Ax, tried out before the first trial."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.optim import initializers, optimize, optimize_mixed
from gpytorch.kernels import RBFKernel
from torch import Tensor

from kernelucb._numerics.checks import finite_scalar, whole_number
from kernelucb._numerics.estimates import EstimatedNumber
from kernelucb.acquisition import (
    BOUNDS,
    META_ACQUISITIONS,
    KernelFamilyUCB,
    MartingaleMixtureUCB,
    ScalarizedUCB,
)
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.input_constructors import parameters_of
from kernelucb.confidence.fit.prequential import PrequentialRadius
from kernelucb.confidence.noise.unknown import UnknownNoise
from kernelucb.confidence.norm.tracker import NormTracker
from kernelucb.confidence.srinivas import BoundedNorm, CompactDomain, FiniteDomain
from kernelucb.models.fixed import FixedPriorGP
from kernelucb.models.meta import MetaModel
from kernelucb.regression import KernelRegression

_KNOWN = (*BOUNDS, *META_ACQUISITIONS, KernelFamilyUCB, ScalarizedUCB)

# What builds a bound from a model and options that Ax can store, if not its class.
_BUILDERS: Mapping[type[KernelUCB], Callable[..., Any]] = {
    ScalarizedUCB: ScalarizedUCB.from_model,
    KernelFamilyUCB: KernelFamilyUCB.from_lengthscales,
}

# Options with an entry for each input of the bound.
LENGTHS = ("shortest", "longest")

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


def checked_options(
    acqf_class: type[KernelUCB], options: Mapping[str, Any], config: ModelConfig
) -> dict[str, Any]:
    r"""The options as plain numbers that Ax can store, after a rehearsal of the bound.

    Raises:
        ValueError: If an option is unknown, missing, out of range or cannot be stored.
        UnsupportedError: If the class is not one of the bounds, or does not fit the model.
    """
    if acqf_class not in _KNOWN:
        names = ", ".join(bound.__name__ for bound in _KNOWN)
        raise UnsupportedError(
            f"acqf_class must be one of {names}; got {acqf_class.__name__}."
        )
    is_sum = acqf_class is ScalarizedUCB
    _check_names(acqf_class, options, _NOT_AN_OPTION)
    plain = {option: _plain(option, value) for option, value in options.items()}
    noise = plain.get("noise_std")
    if is_sum:
        nested = plain.get("options") or {}
        if not isinstance(nested, Mapping):
            given = type(nested).__name__
            raise ValueError(f"options must be a mapping in the options, got {given}.")
        where = " (in `options`)"
        _check_names(MartingaleMixtureUCB, nested, _NOT_A_NESTED_OPTION, where)
        noise = next((n for n in _entries(noise) if isinstance(n, list)), None)
    if isinstance(noise, list):
        raise ValueError(
            "noise_std must be one number, since the trials are not known yet; report a "
            "standard error with each outcome instead, and leave out noise_std."
        )
    rehearsed_bound(acqf_class, plain, config)
    return plain


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
    return {option: _plain(option, value) for option, value in options.items()}


def rehearsed_bound(
    acqf_class: type[KernelUCB], options: Mapping[str, Any], config: ModelConfig
) -> KernelUCB:
    r"""The bound after one outcome, equal to the prior mean, which contradicts nothing.

    What its constructor raises is about the options; what its assumptions call estimated is
    estimated in every trial. The outcome has a standard error, as all may have later.
    """
    own = {"mean": 0.0, **options} if acqf_class is KernelFamilyUCB else {}
    model = _rehearsal_model(config, own)
    if isinstance(model, MetaModel) != (acqf_class in META_ACQUISITIONS):
        raise UnsupportedError(
            "MetaUCB and MetaPI need model_config=meta_model_config(model); the other "
            "bounds need a model without an estimated prior."
        )
    build = _BUILDERS.get(acqf_class, acqf_class)
    if acqf_class is not ScalarizedUCB:
        return build(model, **options)
    count = max(len(_entries(value)) for value in (1, *options.values()))
    weights = ScalarizedPosteriorTransform(torch.ones(count, dtype=torch.float64))
    return build([model] * count, posterior_transform=weights, **options)


def _rehearsal_model(config: ModelConfig, options: Mapping[str, Any]) -> Any:
    r"""A model of one outcome with the mean and the number of inputs that are given."""
    model_class: Any = config.botorch_model_class
    prior = config.model_options
    given = {**prior, **options} if model_class is FixedPriorGP else options
    columns = max(len(_entries(given.get(name))) for name in ("lengthscale", *LENGTHS))
    X = torch.zeros(1, columns, dtype=torch.float64)
    Y = X[:, :1] + finite_scalar("mean", given.get("mean", 0.0))
    if model_class is FixedPriorGP:
        return FixedPriorGP(X, Y, torch.ones_like(Y), **prior)
    if model_class is SingleTaskGP:
        return SingleTaskGP(X, Y, torch.ones_like(Y))
    if isinstance(model_class, type) and issubclass(model_class, MetaModel):
        nothing: Any = SimpleNamespace(X=None, Y=None)
        model = model_class(**model_class.construct_inputs(nothing, **prior))
        inputs = prior.get("candidates") or prior["task_inputs"][0]
        first = torch.tensor(inputs[:1], dtype=torch.float64)
        return model.condition_on_observations(first, model.posterior(first).mean)
    # What Ax makes of any other configuration shows in a trial.
    return KernelRegression(X, Y, RBFKernel().requires_grad_(False), noise_std=1.0)


def _check_names(
    acqf_class: type[KernelUCB],
    options: Mapping[str, Any],
    refused: Mapping[str, str],
    where: str = "",
) -> None:
    name, build = f"{acqf_class.__name__}{where}", _BUILDERS.get(acqf_class)
    parameters = {each.name: each for each in parameters_of(acqf_class, build)}
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


def _entries(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _plain(option: str, value: Any) -> Any:
    r"""A number, a word, a value object, or a list or dictionary of these."""
    if isinstance(value, VALUES):
        entries = {name: _plain(name, entry) for name, entry in vars(value).items()}
        return type(value)(**entries)
    if isinstance(value, PrequentialRadius):
        raise ValueError(
            f"{option} cannot be a PrequentialRadius: it needs the predictions made before "
            "each outcome, which Ax does not keep."
        )
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(key, entry) for key, entry in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(option, entry) for entry in value]
    if isinstance(value, NormTracker):
        raise ValueError(
            f"{option} cannot be a NormTracker, which Ax cannot store; with "
            '"cautious" (the estimate of NormTracker.cautious()), or without a norm bound, '
            "the norm is estimated anew in every trial."
        )
    if isinstance(value, EstimatedNumber):
        raise ValueError(
            f"{option} is an estimate, which Ax would store as a plain number, as if it "
            'were given; use "cautious", or state the number yourself with float(...).'
        )
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise ValueError(
        f"{option} cannot be a {type(value).__name__}, which Ax cannot store; give a "
        "number, a word or a list."
    )
