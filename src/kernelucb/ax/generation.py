r"""A generation strategy that maximises a bound, in raw outcome units."""

import inspect
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from ax.adapter.registry import Generators, MBM_X_trans
from ax.adapter.transforms.derelativize import Derelativize
from ax.core.experiment_status import ExperimentStatus
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import UnsupportedError
from gpytorch.kernels import RBFKernel
from torch import Tensor

from kernelucb._numerics.checks import whole_number
from kernelucb.acquisition import BOUNDS, META_ACQUISITIONS, ScalarizedUCB
from kernelucb.acquisition.base import KernelUCB
from kernelucb.ax.models import default_model_config
from kernelucb.confidence.norm_bound import NormTracker
from kernelucb.models.meta import MetaModel
from kernelucb.regression import KernelRegression

_INITIAL_NODE = "Sobol"

# Ax sets these itself, from the objective and from the trials under way, or cannot store
# them.
_NOT_AN_OPTION = {
    "model": "Ax builds the model; change it with `model_config`",
    "maximize": "Ax takes the direction from the objective (`-y` minimises y)",
    "posterior_transform": "Ax passes the direction of the objective through it",
    "X_pending": "Ax passes the trials that are running or abandoned",
    "radius": "it needs the predictions made before each outcome, which Ax does not keep",
    "tracker": "Ax cannot store it; the noise bounds are computed from all data each time",
    "bound": "Ax cannot store it; the outcomes' bounds are MartingaleMixtureUCB",
}


def generation_strategy(
    acqf_class: type[KernelUCB],
    options: Mapping[str, Any] | None = None,
    *,
    num_initial: int = 5,
    min_observed: int | None = None,
    seed: int | None = None,
    model_config: ModelConfig | None = None,
    optimizer_options: Mapping[str, Any] | None = None,
) -> GenerationStrategy:
    r"""Sobol points, then trials that maximise a confidence bound.

    **Units.** Ax's own strategies winsorise and standardise the outcomes anew in every
    trial, which would change what a fixed norm bound means. This one leaves outcomes
    alone: ``norm_bound``, ``noise_std`` and ``acqf.bounds`` are in the units of the
    outcomes you report, in every trial (``SingleTaskGP`` standardises inside, which the
    bound undoes). Where ``noise_std`` is absent, the standard errors reported with the
    outcomes are the noise scale, or, if none are, the likelihood's estimate; Ax takes
    one with every outcome or with none.

    **Inputs.** The kernel sees inputs scaled to the unit cube by the bounds of the search
    space, after the logarithm of log-scaled parameters, so the norm bound refers to ``f``
    as a function of these normalised inputs. An integer or an ordered choice is one input
    (its value, or its position in the list), an unordered choice is one input for each
    of its values. What ``acqf.bounds`` takes are the inputs before the scaling.

    **Kernel.** Ax fits the length scales and the mean to the data in every trial.
    A norm belongs to one kernel, so ``norm_bound`` must cover the length scales that the
    fit may choose. ``acqf.assumptions`` marks kernel and mean as estimated: the
    probability is exact only as far as the estimates are right.

    **Parallel trials.** The bound is conditioned on the inputs of running and abandoned
    trials. It takes over when ``num_initial`` trials exist that have neither failed nor
    been abandoned, and ``min_observed`` of them are observed; until then more Sobol
    trials are handed out, so that no worker waits. Trials attached by hand count.

    **Estimated priors.** ``MetaUCB`` and ``MetaPI`` need a ``model_config`` from
    ``meta_model_config``. One Sobol trial is enough, and inputs are not scaled: columns of
    the prior's inputs are the parameters in their order, after the logarithm of log-scaled
    ones, ordered choices as positions in their lists. Reported standard errors are not
    used; the noise is part of the prior.

    **Sums of outcomes.** For an objective such as ``"y - 2*z"`` use ``ScalarizedUCB``, with
    ``norm_bound`` and ``noise_std`` as one number for all outcomes or a list with one for
    each, in the alphabetical order of the outcomes' names. ``delta`` is shared among them.

    For the other bounds the objective must be one outcome. Outcome constraints, several
    objectives and, with those bounds, sums of outcomes raise ``UnsupportedError`` in the
    first trial that needs the bound.

    Example:
        >>> client.set_generation_strategy(
        ...     kernelucb.ax.generation_strategy(
        ...         MartingaleMixtureUCB, options={"norm_bound": 10.0, "noise_std": 0.1}
        ...     )
        ... )

    Args:
        acqf_class: One of ``kernelucb.acquisition.BOUNDS``, or ``MetaUCB``, ``MetaPI``,
            ``ScalarizedUCB``.
        options: Arguments of ``acqf_class``, except for the model and what Ax sets from
            the objective and the pending trials. ``noise_std`` must be one number for an
            outcome.
        num_initial: Number of Sobol trials, at least one.
        min_observed: Number of observed trials that the bound waits for, from 1 to
            ``num_initial``; half of ``num_initial`` when absent.
        seed: Seed of the Sobol points. Later trials depend on torch's global seed too.
        model_config: Ax configuration of the model; its outcome transform must be
            ``Standardize`` or none. By default ``SingleTaskGP`` with ``Standardize``.
        optimizer_options: Arguments for BoTorch's optimiser, such as ``num_restarts``
            and ``raw_samples``; Ax's own when absent.

    Returns:
        A strategy for ``Client.set_generation_strategy``, which Ax can store.

    Raises:
        UnsupportedError: If ``acqf_class`` is not one of the bounds.
        ValueError: If an option is unknown, missing or out of range, or a number of
            trials is.
    """
    _check_class(acqf_class)
    rehearsal = _rehearsal_model(acqf_class, model_config)
    acqf_options = _checked_options(acqf_class, options or {}, rehearsal)
    num_initial = whole_number("num_initial", num_initial)
    observed = max(1, num_initial // 2)
    if min_observed is not None:
        observed = whole_number("min_observed", min_observed)
        if observed > num_initial:
            raise ValueError(
                f"min_observed is {observed}, above num_initial = {num_initial}."
            )
    name = acqf_class.__name__
    bound = _bound_node(name, acqf_class, acqf_options, model_config, optimizer_options)
    initial = _initial_node(name, num_initial, observed, seed)
    return GenerationStrategy(name=f"{_INITIAL_NODE}+{name}", nodes=[initial, bound])


def _initial_node(
    next_node: str, num_initial: int, min_observed: int, seed: int | None
) -> GenerationNode:
    r"""Sobol trials until enough exist and enough of them are observed."""
    return GenerationNode(
        name=_INITIAL_NODE,
        generator_specs=[
            GeneratorSpec(generator_enum=Generators.SOBOL, generator_kwargs={"seed": seed})
        ],
        transition_criteria=[
            MinTrials(
                threshold=num_initial,
                transition_to=next_node,
                not_in_statuses=[TrialStatus.FAILED, TrialStatus.ABANDONED],
                use_all_trials_in_exp=True,
            ),
            MinTrials(
                threshold=min_observed,
                transition_to=next_node,
                only_in_statuses=[TrialStatus.COMPLETED],
                use_all_trials_in_exp=True,
                count_only_trials_with_data=True,
            ),
        ],
        should_deduplicate=True,
        suggested_experiment_status=ExperimentStatus.INITIALIZATION,
    )


def _bound_node(
    name: str,
    acqf_class: type[KernelUCB],
    acqf_options: dict[str, Any],
    model_config: ModelConfig | None,
    optimizer_options: Mapping[str, Any] | None,
) -> GenerationNode:
    r"""Trials that maximise the bound, on outcomes that no transform has touched."""
    gen_options = {"optimizer_kwargs": dict(optimizer_options or {})}
    return GenerationNode(
        name=name,
        generator_specs=[
            GeneratorSpec(
                generator_enum=Generators.BOTORCH_MODULAR,
                generator_kwargs={
                    "surrogate_spec": SurrogateSpec(
                        model_configs=[model_config or default_model_config()],
                        allow_batched_models=False,  # the bound is for one outcome
                    ),
                    "botorch_acqf_class": acqf_class,
                    "botorch_acqf_options": acqf_options,
                    "transforms": [*MBM_X_trans, Derelativize],
                },
                generator_gen_kwargs={"model_gen_options": gen_options},
            )
        ],
        should_deduplicate=True,
        suggested_experiment_status=ExperimentStatus.OPTIMIZATION,
    )


def _check_class(acqf_class: type[KernelUCB]) -> None:
    known = (*BOUNDS, *META_ACQUISITIONS, ScalarizedUCB)
    if acqf_class not in known:
        names = ", ".join(bound.__name__ for bound in known)
        given = getattr(acqf_class, "__name__", repr(acqf_class))
        raise UnsupportedError(f"acqf_class must be one of {names}; got {given}.")


def _rehearsal_model(acqf_class: type[KernelUCB], config: ModelConfig | None) -> Any:
    r"""What the bound can be built on before there are trials.

    One observation at the prior mean contradicts nothing, so whatever the constructor
    raises then is about the options, and not about trial number six.
    """
    zero = torch.zeros(1, 1, dtype=torch.float64)
    model_class: Any = None if config is None else config.botorch_model_class
    is_meta = isinstance(model_class, type) and issubclass(model_class, MetaModel)
    if is_meta != (acqf_class in META_ACQUISITIONS):
        raise UnsupportedError(
            "MetaUCB and MetaPI need model_config=meta_model_config(model), and the other "
            "bounds another model."
        )
    if config is None or not is_meta:
        return KernelRegression(zero, zero, RBFKernel(), noise_std=1.0)
    nothing: Any = SimpleNamespace(X=None, Y=None)
    inputs = model_class.construct_inputs(nothing, **config.model_options)
    return model_class(**inputs)


def _checked_options(
    acqf_class: type[KernelUCB], options: Mapping[str, Any], rehearsal: Any
) -> dict[str, Any]:
    r"""The options as plain numbers that Ax can store, after a rehearsal of the bound."""
    name = acqf_class.__name__
    build: Any = ScalarizedUCB.from_model if acqf_class is ScalarizedUCB else acqf_class
    parameters = inspect.signature(build).parameters
    allowed = [option for option in parameters if option not in _NOT_AN_OPTION]
    for option in options:
        if option in _NOT_AN_OPTION:
            raise ValueError(f"Leave out the option `{option}`: {_NOT_AN_OPTION[option]}.")
        if option not in allowed:
            raise ValueError(
                f"{name} has no option `{option}`; it takes {', '.join(allowed)}."
            )
    for option in allowed:
        required = parameters[option].default is inspect.Parameter.empty
        if required and option not in options:
            raise ValueError(f"{name} needs the option `{option}`.")
    if isinstance(options.get("norm_bound"), NormTracker):
        raise ValueError(
            "norm_bound cannot be a NormTracker, which Ax cannot store; leave it out to "
            "have the norm estimated in every trial."
        )
    plain = {option: _plain(value) for option, value in options.items()}
    if acqf_class is ScalarizedUCB:
        _rehearse_sum(rehearsal, plain)
        return plain
    if isinstance(plain.get("noise_std"), list):
        raise ValueError(
            "noise_std must be one number, since the trials are not known yet; report a "
            "standard error with each outcome instead, and leave out noise_std."
        )
    acqf_class(rehearsal, **plain)
    return plain


def _rehearse_sum(state: KernelRegression, options: Mapping[str, Any]) -> None:
    r"""Build the bound of a sum of as many outcomes as the options have entries for."""
    lists = [value for value in options.values() if isinstance(value, list)]
    count = max(map(len, lists), default=1)
    weights = ScalarizedPosteriorTransform(torch.ones(count, dtype=torch.float64))
    models: Any = [state] * count
    ScalarizedUCB.from_model(models, posterior_transform=weights, **options)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else value
