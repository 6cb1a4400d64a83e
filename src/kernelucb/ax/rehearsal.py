r"""A bound, and a search within it, tried out on one outcome before the first trial."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models import ModelListGP, SingleTaskGP
from botorch.utils.datasets import SupervisedDataset
from gpytorch.kernels import RBFKernel
from torch import Tensor

from kernelucb._numerics.checks import finite_scalar
from kernelucb.acquisition import (
    BOUNDS,
    META_ACQUISITIONS,
    GuardedAcquisition,
    KernelFamilyUCB,
    LikelihoodUCB,
    ScalarizedUCB,
    guarded_inputs,
)
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.outcome_bands import bound_under_kernel
from kernelucb.ax.counts import expected_outcome
from kernelucb.ax.outcomes import (
    LENGTHS,
    bound_of_outcome,
    config_of,
    named_outcomes,
    resolved,
)
from kernelucb.models.meta import MetaModel
from kernelucb.regression import KernelRegression
from kernelucb.regression.from_model import observed_inputs

# What builds a bound from a model and options that Ax can store, if not its class.
BUILDERS: Mapping[type[KernelUCB], Callable[..., Any]] = {
    **{bound: partial(bound_under_kernel, bound) for bound in BOUNDS},
    ScalarizedUCB: ScalarizedUCB.from_model,
    KernelFamilyUCB: KernelFamilyUCB.from_lengthscales,
    LikelihoodUCB: LikelihoodUCB.from_model,
}


def rehearsed_bounds(
    acqf_class: type[KernelUCB],
    options: Mapping[str, Any],
    spec: SurrogateSpec,
    *,
    each: bool = False,
) -> list[KernelUCB]:
    r"""The bounds after one outcome, equal to the prior mean, which contradicts nothing.

    What their constructors raise is about the options; what their assumptions call
    estimated is estimated in every trial. The outcome has a standard error, as all may have
    later. They are one for each outcome that is named, or one for all; of a sum it is one,
    unless ``each`` asks for those of its outcomes.
    """
    names = named_outcomes(options, spec) or [None]
    if acqf_class is ScalarizedUCB and not each:
        return [_rehearsed_sum(options, spec, names)]
    own = {name: bound_of_outcome(acqf_class, options, name) for name in names}
    return [_rehearsed(*each, config_of(spec, name)) for name, each in own.items()]


def _rehearsed(
    acqf_class: type[KernelUCB], options: Mapping[str, Any], config: ModelConfig
) -> KernelUCB:
    options = _in_order(options)
    model = _rehearsal_model(config, _described(acqf_class, options))
    _check_prior(acqf_class, model)
    return BUILDERS.get(acqf_class, acqf_class)(model, **options)


def _rehearsed_sum(
    options: Mapping[str, Any], spec: SurrogateSpec, names: Sequence[str | None]
) -> KernelUCB:
    if names[0] is not None:
        options = resolved(ScalarizedUCB, options, [str(name) for name in names])
    else:
        names = [None] * _num_outcomes(options)
    options = _in_order(options)
    models = [
        _rehearsal_model(config_of(spec, name), prior)
        for name, prior in zip(names, _priors(options, len(names)), strict=True)
    ]
    for model in models:
        _check_prior(ScalarizedUCB, model)
    transform = _sum_of(len(models))
    return ScalarizedUCB.from_model(models, posterior_transform=transform, **options)


def rehearsed_options(
    acqf_class: type[KernelUCB],
    options: Mapping[str, Any],
    spec: SurrogateSpec,
    *,
    each: bool,
) -> tuple[type[KernelUCB], dict[str, Any]]:
    r"""Class and options of the bound that a search is rehearsed within, by position.

    It is that of one outcome, or of the sum, unless ``each`` is set.
    """
    names = named_outcomes(options, spec)
    if each:
        bound, own = bound_of_outcome(acqf_class, options, names[0] if names else None)
        return bound, _in_order(own)
    return acqf_class, _in_order(resolved(acqf_class, options, names) if names else options)


def _check_prior(acqf_class: type[KernelUCB], model: Any) -> None:
    if isinstance(model, MetaModel) != (acqf_class in META_ACQUISITIONS):
        raise UnsupportedError(
            "MetaUCB and MetaPI need model_config=meta_model_config(model); the other "
            "bounds need a model without an estimated prior."
        )


def rehearsed_guard(
    acqf_class: type[KernelUCB],
    options: Mapping[str, Any],
    guard: Mapping[str, Any],
    config: ModelConfig,
) -> Tensor:
    r"""Value of a search within the bound, after one outcome, elsewhere; one number.

    ``guard`` are arguments of ``guarded_inputs`` beside those that Ax passes.
    """
    count = _num_outcomes(options) if acqf_class is ScalarizedUCB else 1
    models: list[Any] = [
        _rehearsal_model(config, prior)
        for prior in (
            _priors(options, count) if count > 1 else [_described(acqf_class, options)]
        )
    ]
    model = models[0]
    if isinstance(model, KernelRegression):  # which is a state, and no model
        X = model.train_inputs
        Y = torch.zeros_like(X[:, :1])
        model = SingleTaskGP(X, Y, torch.ones_like(Y))
        models = [model] * count
    elif isinstance(model, MetaModel):
        X = _first_input(config)
    else:
        X = observed_inputs(model)
    names = [f"x{i}" for i in range(X.shape[-1])]
    data = SupervisedDataset(X, X[:, :1], feature_names=names, outcome_names=["y"])
    inputs = guarded_inputs(
        model if count == 1 else ModelListGP(*models),
        **guard,
        band=acqf_class,
        band_options=options,
        training_data=data if count == 1 else {f"y{j}": data for j in range(count)},
        X_baseline=X,
        bounds=[(0.0, 1.0)] * X.shape[-1],
        posterior_transform=_sum_of(count),
    )
    candidates = config.model_options.get("candidates")
    elsewhere = X + 0.5 if candidates is None else X.new_tensor(candidates[-1:])
    return GuardedAcquisition(**inputs)(elsewhere.unsqueeze(-2))


def _described(acqf_class: type[KernelUCB], options: Mapping[str, Any]) -> dict[str, Any]:
    r"""The prior by the options, with what is expected of an outcome as its mean."""
    if acqf_class is LikelihoodUCB:
        return {**options, "mean": expected_outcome(options)}
    return dict(options)


def _priors(options: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    r"""The prior of each outcome of a sum, by the options."""
    nested = options.get("options") or {}
    priors = nested if isinstance(nested, list) else [dict(nested)] * count
    columns = max(map(_columns, priors))
    return [{**each, "columns": columns} for each in priors]


def _columns(options: Mapping[str, Any]) -> int:
    r"""The number of inputs that length scales are for."""
    return max(len(entries(options.get(name))) for name in LENGTHS)


def _in_order(options: Any) -> Any:
    r"""Options with length scales by the names of parameters as lists, in their order."""
    if isinstance(options, list):
        return [_in_order(each) for each in options]
    return {
        option: list(each.values())
        if option in LENGTHS and isinstance(each, Mapping)
        else _in_order(each)
        if option == "options" and each
        else each
        for option, each in options.items()
    }


def _num_outcomes(options: Mapping[str, Any]) -> int:
    return max(len(entries(value)) for value in (1, *options.values()))


def _sum_of(count: int) -> ScalarizedPosteriorTransform:
    return ScalarizedPosteriorTransform(torch.ones(count, dtype=torch.float64))


def _rehearsal_model(config: ModelConfig, options: Mapping[str, Any]) -> Any:
    r"""A model of one outcome with the mean and the number of inputs that are given."""
    model_class: Any = config.botorch_model_class
    columns = options.get("columns") or _columns(options)
    X = torch.zeros(1, columns, dtype=torch.float64)
    Y = X[:, :1] + finite_scalar("mean", options.get("mean", 0.0))
    if model_class is SingleTaskGP:
        return SingleTaskGP(X, Y, torch.ones_like(Y))
    if isinstance(model_class, type) and issubclass(model_class, MetaModel):
        nothing: Any = SimpleNamespace(X=None, Y=None)
        prior = model_class.construct_inputs(nothing, **config.model_options)
        model = model_class(**prior)
        first = _first_input(config)
        return model.condition_on_observations(first, model.posterior(first).mean)
    # What Ax makes of any other configuration shows in a trial.
    return KernelRegression(X, Y, RBFKernel().requires_grad_(False), noise_std=1.0)


def _first_input(config: ModelConfig) -> Tensor:
    r"""The first candidate, or the first input of the first task, ``1 x d``."""
    prior = config.model_options
    inputs = prior.get("candidates") or prior["task_inputs"][0]
    return torch.tensor(inputs[:1], dtype=torch.float64)


def entries(value: Any) -> Sequence[Any]:
    r"""The entries of a list, or the one value for all outcomes or inputs."""
    return value if isinstance(value, list) else [value]
