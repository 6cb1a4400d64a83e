r"""A generation strategy that maximises a bound, in raw outcome units."""

from collections.abc import Mapping, Sequence
from typing import Any

from ax.adapter.registry import Generators
from ax.core.experiment_status import ExperimentStatus
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials
from ax.generators.torch.botorch_modular.utils import ModelConfig
from botorch.acquisition import AcquisitionFunction

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import whole_number
from kernelucb.acquisition import GuardedAcquisition
from kernelucb.ax.constrained import SafeAcquisition
from kernelucb.ax.constraints import Kinds, check_constrained, kind_arguments
from kernelucb.ax.models import TRANSFORMS
from kernelucb.ax.nodes import KernelUCBNode, SafeArmsNode
from kernelucb.ax.options import checked_bounds, checked_optimizer_options
from kernelucb.ax.outcomes import BoundClasses, surrogate_spec
from kernelucb.ax.rehearsal import rehearsed_bounds
from kernelucb.ax.search import checked_search


@checked
def generation_strategy(
    acqf_class: BoundClasses,
    options: Mapping[str, Any] | None = None,
    *,
    num_initial: int = 5,
    min_observed: int | None = None,
    seed: int | None = None,
    model_config: ModelConfig | Mapping[str, ModelConfig] | None = None,
    optimizer_options: Mapping[str, Any] | None = None,
    search: type[AcquisitionFunction] | str | None = None,
    search_options: Mapping[str, Any] | None = None,
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
        options: Arguments of ``acqf_class`` (of ``from_lengthscales`` of
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
    if isinstance(acqf_class, Mapping) and constraints is None:
        raise ValueError(
            "acqf_class is a mapping, for an objective and the constraints beside it; give "
            'constraints="safe" or "explored" as well, or one class.'
        )
    spec = surrogate_spec(model_config, acqf_class, options or {})
    name = _name_of(acqf_class)
    acqf_class, acqf_options = checked_bounds(acqf_class, options or {}, spec)
    optimizer_kwargs = checked_optimizer_options(optimizer_options or {})
    own = kind_arguments(constraints, safe_arms, expand_every, allow_estimated)
    if constraints is None:
        rehearsed_bounds(acqf_class, acqf_options, spec)
    else:
        check_constrained(
            acqf_class, acqf_options, spec, constraints, allow_estimated, optimizer_kwargs
        )
    num_initial, observed = _num_trials(num_initial, min_observed, acqf_options)
    if seed is not None and not 0 <= seed < 2**32:
        raise ValueError(f"seed must be from 0 to 2^32 - 1, got {seed}.")
    own |= {"botorch_acqf_class": acqf_class, "botorch_acqf_options": acqf_options}
    if search is not None:
        guard = checked_search(
            acqf_class,
            acqf_options,
            spec,
            search,
            search_options or {},
            constrained=constraints is not None,
        )
        name = f"{guard['search']} within {name}"
        own |= {"botorch_acqf_class": GuardedAcquisition, "botorch_acqf_options": guard}
    elif search_options is not None:
        raise ValueError("search_options is given without search; give both or none.")
    name = name if constraints is None else f"{name}, {constraints}"
    bound = _bound_node(name, own | {"surrogate_spec": spec}, optimizer_kwargs)
    initial = _initial_node(bound.name, num_initial, observed, seed, constraints)
    return GenerationStrategy(name=f"{initial.name}+{bound.name}", nodes=[initial, bound])


def _name_of(acqf_class: BoundClasses) -> str:
    r"""The class, or all of them, by name."""
    each = acqf_class.values() if isinstance(acqf_class, Mapping) else [acqf_class]
    return " and ".join(dict.fromkeys(bound.__name__ for bound in each))


def _num_trials(
    num_initial: int, min_observed: int | None, options: Mapping[str, Any]
) -> tuple[int, int]:
    r"""Numbers of initial trials and of those that must be observed, checked."""
    num_initial = whole_number("num_initial", num_initial)
    observed = max(1, num_initial // 2)
    if min_observed is not None:
        observed = whole_number("min_observed", min_observed)
        if observed > num_initial:
            raise ValueError(
                f"min_observed is {observed}, above num_initial = {num_initial}."
            )
    horizon = options.get("horizon", observed)
    if horizon < observed:
        raise ValueError(
            f"horizon is {horizon}, but the bound waits for {observed} observed trials; "
            "make it larger, or min_observed smaller."
        )
    return num_initial, observed


def _initial_node(
    next_node: str,
    num_initial: int,
    min_observed: int,
    seed: int | None,
    constraints: Kinds | None,
) -> KernelUCBNode:
    r"""Sobol trials, or safe arms, until enough exist and enough of them are observed."""
    enough = MinTrials(
        threshold=num_initial,
        transition_to=next_node,
        not_in_statuses=[TrialStatus.FAILED, TrialStatus.ABANDONED],
        use_all_trials_in_exp=True,
    )
    observed = MinTrials(
        threshold=min_observed,
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


def _bound_node(
    name: str, arguments: dict[str, Any], optimizer_kwargs: dict[str, Any]
) -> KernelUCBNode:
    r"""Trials that maximise a function, on outcomes that no transform has touched."""
    spec = GeneratorSpec(
        generator_enum=Generators.BOTORCH_MODULAR,
        generator_kwargs={**arguments, "transforms": [*TRANSFORMS]},
        generator_gen_kwargs={"model_gen_options": {"optimizer_kwargs": optimizer_kwargs}},
    )
    # A safe set may consist of its safe arms alone, to be observed again.
    is_safe = arguments["acquisition_class"] is SafeAcquisition
    return KernelUCBNode(
        name=name,
        generator_specs=[spec],
        should_deduplicate=not is_safe,
        suggested_experiment_status=ExperimentStatus.OPTIMIZATION,
    )
