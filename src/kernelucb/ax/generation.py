r"""A generation strategy that maximises a bound, in raw outcome units."""

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, Literal

import torch
from ax.adapter.registry import Generators
from ax.core.experiment_status import ExperimentStatus
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import UnsupportedError
from botorch.optim import optimize, optimize_mixed

from kernelucb._numerics.checks import whole_number
from kernelucb.acquisition import META_ACQUISITIONS, MetaPI
from kernelucb.ax.acquisitions import BoundAcquisition
from kernelucb.ax.bounds import check_given
from kernelucb.ax.nodes import KernelUCBNode, SafeArmsNode
from kernelucb.ax.options import (
    TRANSFORMS,
    BoundClasses,
    Configs,
    checked_bounds,
    checked_search,
    plain_value,
    rehearsed_bounds,
    surrogate_spec,
)
from kernelucb.safety import SafeSet

Options = Mapping[str, Any]
Kinds = Literal["safe", "explored"]

# What optimize_acqf_safely takes of the options of Ax's optimisers.
_SAFE_OPTIMIZER = ("num_restarts", "raw_samples", "options")
# Ax chooses among these by the search space.
_OPTIMIZERS = (
    optimize.optimize_acqf,
    optimize.optimize_acqf_discrete,
    optimize.optimize_acqf_discrete_local_search,
    optimize.optimize_acqf_mixed,
    optimize_mixed.optimize_acqf_mixed_alternating,
)


def generation_strategy(
    acqf_class: BoundClasses,
    options: Options | None = None,
    *,
    num_initial: int = 5,
    min_observed: int | None = None,
    seed: int | None = None,
    model_config: Configs = None,
    optimizer_options: Options | None = None,
    search: type[AcquisitionFunction] | str | None = None,
    search_options: Options | None = None,
    constraints: Kinds | None = None,
    safe_arms: Sequence[Mapping[str, Any]] | None = None,
    expand_every: int | None = None,
    allow_estimated: bool = False,
) -> GenerationStrategy:
    r"""Initial trials, then trials that maximise a confidence bound, or search within it.

    Outcomes stay in the units in which they are reported. Ax fits a model in every trial.
    The bound takes kernel and mean from it, marked as estimated, unless the options name a
    ``kernel`` of its own (or kernels, of ``KernelFamilyUCB``): then it takes the data only,
    and ``search`` still runs on the fitted model. ``docs/ax.md`` says all of this at
    length: units, inputs, kernels, several outcomes, what the two kinds of outcome
    constraints promise, contexts (parameters that are fixed for a trial), parallel trials
    and storage.

    An experiment that the strategy does not support raises ``UnsupportedError`` before a
    trial is handed out: several objectives, sums of outcomes without ``ScalarizedUCB``,
    outcome constraints without ``constraints``, and constraints relative to a baseline.

    Example:
        >>> client.set_generation_strategy(
        ...     kernelucb.ax.generation_strategy(
        ...         MartingaleMixtureUCB, options={"norm_bound": 10.0, "noise_std": 0.1}
        ...     )
        ... )

    Args:
        acqf_class: One of ``kernelucb.acquisition.BOUNDS``, or ``KernelFamilyUCB``,
            ``LikelihoodUCB``, ``MetaUCB``, ``MetaPI``, ``ScalarizedUCB``. With
            ``constraints``, a mapping from the names of the metrics gives each a class of
            its own: ``MartingaleMixtureUCB``, ``KernelFamilyUCB`` or ``LikelihoodUCB``.
        options: Arguments of ``acqf_class`` (of ``from_model`` of
            ``KernelFamilyUCB``, of ``from_model`` of ``LikelihoodUCB``), except for the
            model and what Ax sets from the objective and the pending trials. With several
            outcomes each but ``delta``, which they share equally, may be a mapping from
            the names of the metrics.
            ``noise_std`` must be one number for an outcome. For a bound with a prior of
            its own, also ``kernel`` (``"rbf"``, ``"matern12"``, ``"matern32"`` or
            ``"matern52"``), ``lengthscale`` (in units of the unit cube: one number, a list
            with one for each input, or a mapping from the names of the parameters),
            ``outputscale`` and ``mean`` in outcome units.
        num_initial: Number of initial trials, at least one.
        min_observed: Number of observed trials that the bound waits for, from 1 to
            ``num_initial``; half of ``num_initial`` when absent.
        seed: Seed of the Sobol points; random when absent. The bound's trials follow from
            those before them, whatever the global seeds.
        model_config: Ax configuration of the model, or a mapping from the names of the
            metrics; its outcome transform must be ``Standardize``, or absent. By default
            ``SingleTaskGP`` with ``Standardize``.
        optimizer_options: Arguments for BoTorch's optimiser, such as ``num_restarts``
            and ``raw_samples``; those that Ax chooses when absent.
        search: Class of the acquisition function that searches within the bound, or its
            name, such as ``qLogNoisyExpectedImprovement``; by default the bound itself is
            maximised. A class of your own is stored by its name: import its module before
            an experiment is reopened.
        search_options: Options of the search: ``temperature`` and ``ucb_every`` are those
            of ``GuardedAcquisition``, all others go to the input constructor of ``search``
            (its ``beta`` or ``tau_max``, say). ``temperature`` is 0 with a prior that is
            known at candidates only.
        constraints: How outcome constraints are kept. ``"safe"``: trials stay where the
            bands show that they are satisfied, starting from ``safe_arms``, so that with
            probability ``1 - delta`` no trial violates one. ``"explored"``: trials stay
            where they may be satisfied. ``recommended_arm`` satisfies them either way.
        safe_arms: Parameters of arms that are known to satisfy the constraints, handed out
            in turn as the initial trials of a safe experiment.
        expand_every: In a safe experiment, one trial in each block of so many is where the
            bands of the constraints are widest, to widen the safe set.
        allow_estimated: Whether a safe experiment may rest on estimates; the probability
            of a violation is then unknown.

    Returns:
        A strategy for ``Client.set_generation_strategy``, which Ax can store.

    Raises:
        UnsupportedError: If ``acqf_class`` is not one of the bounds, or does not support
            the model or constraints, or ``search`` cannot search within it (one-shot
            functions, and those for several objectives or without an input constructor).
        UncertifiedError: If a safe experiment would rest on estimates and
            ``allow_estimated`` is not set.
        ValueError: If an option is unknown, missing, out of range or cannot be stored, or
            a number of trials is out of range.
    """
    options = options or {}
    if isinstance(acqf_class, Mapping) and constraints is None:
        raise ValueError(
            "acqf_class is a mapping, for an objective and the constraints beside it; give "
            'constraints="safe" or "explored" as well, or one class.'
        )
    classes = acqf_class.values() if isinstance(acqf_class, Mapping) else [acqf_class]
    bound, own = checked_bounds(acqf_class, options)
    name = " and ".join(dict.fromkeys(each.__name__ for each in classes))
    spec = surrogate_spec(model_config, acqf_class, options)
    bands = rehearsed_bounds(bound, own, spec)
    further = _checked_constraints(constraints, safe_arms, expand_every, allow_estimated)
    if constraints is not None and bound in META_ACQUISITIONS:
        raise UnsupportedError(
            f"{name} has the prior of one outcome and cannot keep outcome constraints; use "
            "MartingaleMixtureUCB or KernelFamilyUCB."
        )
    if constraints == "safe":
        given = [band.assumptions for band in bands]
        check_given('constraints="safe"', given, allow_estimated)
        for band in bands:
            # Any that the outcome can have; those of the experiment are not known yet.
            threshold = float(band.outcome_map.inverse(torch.zeros(()).double()))
            SafeSet(band, threshold, allow_estimated=allow_estimated)
    if search is None and search_options is not None:
        raise ValueError("search_options is given without search; give both or none.")
    if search is not None:
        if bound is MetaPI:
            raise UnsupportedError(
                "MetaPI has no band to search within: its bounds are one standard "
                "deviation, without a guarantee; use MetaUCB."
            )
        model_class = spec.model_configs[0].botorch_model_class
        limited = constraints is not None
        further |= checked_search(search, search_options or {}, model_class, limited)
        name = f"{further['search']} within {name}"
    name = name if constraints is None else f"{name}, {constraints}"
    optimizing = _checked_optimizer(optimizer_options or {}, constraints)
    model_gen_options = {"optimizer_kwargs": optimizing}
    arguments = {
        "surrogate_spec": spec,
        "acquisition_class": BoundAcquisition,
        "acquisition_options": further,
        "botorch_acqf_class": bound,
        "botorch_acqf_options": own,
        "transforms": [*TRANSFORMS],
    }
    searching = KernelUCBNode(
        name=name,
        generator_specs=[
            GeneratorSpec(
                generator_enum=Generators.BOTORCH_MODULAR,
                generator_kwargs=arguments,
                generator_gen_kwargs={"model_gen_options": model_gen_options},
            )
        ],
        # A safe set may consist of its safe arms alone, to be observed again.
        should_deduplicate=constraints != "safe",
        suggested_experiment_status=ExperimentStatus.OPTIMIZATION,
    )
    horizon = own.get("horizon")
    initial = _initial_node(name, num_initial, min_observed, horizon, seed, constraints)
    return GenerationStrategy(
        name=f"{initial.name}+{searching.name}", nodes=[initial, searching]
    )


def _checked_constraints(
    kind: Kinds | None,
    safe_arms: Sequence[Options] | None,
    expand_every: int | None,
    allow_estimated: bool,
) -> dict[str, Any]:
    r"""How constraints are kept, as Ax can store it."""
    if kind not in (None, "safe", "explored"):
        raise ValueError(f'constraints must be "safe" or "explored", got {kind!r}.')
    if kind != "safe":
        given = {
            "safe_arms": safe_arms is not None,
            "expand_every": expand_every is not None,
            "allow_estimated": allow_estimated,
        }
        for name in [name for name, is_given in given.items() if is_given]:
            raise ValueError(f'{name} is for constraints="safe" only; leave it out.')
        return {} if kind is None else {"constraints": kind}
    arms = [plain_value("safe_arms", arm) for arm in safe_arms or []]
    if not arms:
        raise ValueError(
            'constraints="safe" needs safe_arms: parameters of at least one arm that is '
            "known to satisfy the constraints, where the experiment starts."
        )
    options: dict[str, Any] = {"constraints": kind, "safe_arms": arms}
    options["allow_estimated"] = allow_estimated
    if expand_every is not None:
        options["expand_every"] = whole_number("expand_every", expand_every)
    return options


def _checked_optimizer(options: Options, kind: Kinds | None) -> dict[str, Any]:
    r"""Arguments of BoTorch's optimisers, of known names, as Ax can store them."""
    known = {
        parameter.name
        for each in _OPTIMIZERS
        for parameter in signature(each).parameters.values()
        if parameter.default is not Parameter.empty  # others are Ax's to set
    }
    for option in options:
        if option not in known:
            raise ValueError(
                f"BoTorch's optimisers have no option `{option}`; see "
                "botorch.optim.optimize_acqf for what they take."
            )
        if kind == "safe" and option not in _SAFE_OPTIMIZER:
            raise ValueError(
                f"A safe search has no optimizer option `{option}`; it takes "
                f"{', '.join(_SAFE_OPTIMIZER)}."
            )
    return {option: plain_value(option, value) for option, value in options.items()}


def _initial_node(
    next_node: str,
    num_initial: int,
    min_observed: int | None,
    horizon: int | None,
    seed: int | None,
    constraints: Kinds | None,
) -> KernelUCBNode:
    r"""Sobol trials, or safe arms, until enough exist and enough of them are observed."""
    num_initial = whole_number("num_initial", num_initial)
    least = max(1, num_initial // 2)
    if min_observed is not None:
        least = whole_number("min_observed", min_observed)
        if least > num_initial:
            raise ValueError(f"min_observed is {least}, above num_initial = {num_initial}.")
    if isinstance(horizon, int) and horizon < least:
        raise ValueError(
            f"horizon is {horizon}, but the bound waits for {least} observed trials; "
            "make it larger, or min_observed smaller."
        )
    enough = MinTrials(
        threshold=num_initial,
        transition_to=next_node,
        not_in_statuses=[TrialStatus.FAILED, TrialStatus.ABANDONED],
        use_all_trials_in_exp=True,
    )
    observed = MinTrials(
        threshold=least,
        transition_to=next_node,
        only_in_statuses=[TrialStatus.COMPLETED],
        use_all_trials_in_exp=True,
        count_only_trials_with_data=True,
    )
    shared: dict[str, Any] = {
        "transition_criteria": [enough, observed],
        "suggested_experiment_status": ExperimentStatus.INITIALIZATION,
    }
    if constraints == "safe":
        return SafeArmsNode(name="Safe arms", generator_specs=[], **shared)
    sobol = GeneratorSpec(generator_enum=Generators.SOBOL, generator_kwargs={"seed": seed})
    return KernelUCBNode(
        name="Sobol", generator_specs=[sobol], should_deduplicate=True, **shared
    )
