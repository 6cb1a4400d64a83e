r"""A generation strategy that maximises a bound, in raw outcome units."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from ax.adapter.registry import Generators
from ax.core.experiment_status import ExperimentStatus
from ax.core.trial_status import TrialStatus
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generation_strategy.transition_criterion import MinTrials
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions import UnsupportedError, UserInputWarning

from kernelucb._numerics.checks import whole_number
from kernelucb.acquisition import META_ACQUISITIONS, LikelihoodUCB, MetaPI
from kernelucb.acquisition.base import KernelUCB
from kernelucb.ax.acquisitions import BoundAcquisition
from kernelucb.ax.bounds import check_given
from kernelucb.ax.nodes import KernelUCBNode, SafeArmsNode
from kernelucb.ax.options import (
    TRANSFORMS,
    BoundClasses,
    Configs,
    checked_bounds,
    checked_ranges,
    checked_search,
    plain_value,
    rehearsed_bounds,
    surrogate_spec,
)
from kernelucb.confidence.assumptions import Assumption, Status
from kernelucb.safety import SafeSet

Options = Mapping[str, Any]
Kinds = Literal["safe", "explored"]

_FITTED_KERNEL = (
    "A norm bound is given, but no kernel, so the bound takes the kernel of Ax's model, "
    "which is fitted to the data in every trial unless model_config fixes it: no theorem "
    "covers that, and the same norm bound means something else for every kernel. Give "
    "kernel=..., lengthscale=... (in the unit cube of the search space) and mean=..., or "
    "use KernelFamilyUCB with a range of length scales."
)
# What optimize_acqf_safely takes of the options of Ax's optimisers.
_SAFE_OPTIMIZER = ("num_restarts", "raw_samples", "options")


def generation_strategy(
    acqf_class: BoundClasses,
    options: Options | None = None,
    *,
    num_initial: int = 5,
    min_observed: int | None = None,
    seed: int | None = None,
    model_config: Configs = None,
    outcome_range: Mapping[str, tuple[float | None, float | None]] | None = None,
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
    length. An experiment that the strategy does not support raises ``UnsupportedError``
    before a trial is handed out. A norm bound without a kernel raises a
    ``UserInputWarning``.

    Example:
        >>> prior = {"kernel": "matern52", "lengthscale": 0.4, "mean": 60.0}
        >>> client.set_generation_strategy(
        ...     kernelucb.ax.generation_strategy(
        ...         MartingaleMixtureUCB,
        ...         options=prior | {"norm_bound": 50.0, "noise_std": 0.5},
        ...         search="qLogNoisyExpectedImprovement",
        ...         search_options={"ucb_every": 4},
        ...     )
        ... )

    Args:
        acqf_class: One of ``kernelucb.acquisition.BOUNDS``, or ``KernelFamilyUCB``,
            ``LikelihoodUCB``, ``MetaUCB``, ``MetaPI``, ``ScalarizedUCB``. With
            ``constraints``, a mapping from the names of the metrics gives each a class of
            its own: ``MartingaleMixtureUCB``, ``KernelFamilyUCB`` or ``LikelihoodUCB``.
        options: Arguments of ``acqf_class`` or of its ``from_model``, but for what Ax
            passes. With several outcomes each but ``delta``, which they share equally, may
            be a mapping from the names of the metrics. For a bound with a prior of its own:
            ``kernel`` (``"rbf"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``),
            ``lengthscale`` (in units of the unit cube: one number, a list with one for each
            input, or a mapping from the names of the parameters), ``outputscale`` and
            ``mean`` in outcome units.
        num_initial: Number of initial trials, at least one.
        min_observed: Number of observed trials that the bound waits for, from 1 to
            ``num_initial``; half of ``num_initial`` when absent.
        seed: Seed of the Sobol points; random when absent. The bound's trials follow from
            those before them, whatever the global seeds.
        model_config: Ax configuration of the model, or a mapping from the names of the
            metrics. By default ``SingleTaskGP`` with ``Standardize``.
        outcome_range: By the names of metrics, between which numbers an outcome is known to
            lie everywhere, None for an end that is not known, such as
            ``{"output": (0.0, 100.0)}``: in outcome units, the function without noise,
            whatever is maximised or constrained. See ``MartingaleMixtureUCB.within``.
        optimizer_options: Arguments for BoTorch's optimiser, such as ``num_restarts``.
        search: Acquisition function that searches within the bound, or its name, such as
            ``qLogNoisyExpectedImprovement``; by default the bound itself is maximised. A
            class of your own is stored by its name: import its module before an experiment
            is reopened.
        search_options: ``temperature`` and ``ucb_every`` of ``GuardedAcquisition``; all
            others go to the input constructor of ``search``.
        constraints: ``"safe"``: trials stay where the bands show that the outcome
            constraints are satisfied, so that with probability ``1 - delta`` no trial
            violates one. ``"explored"``: trials stay where they may be satisfied.
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
            the model or constraints, or ``search`` cannot be told the objective.
        UncertifiedError: If a safe experiment would rest on estimates and
            ``allow_estimated`` is not set.
        ValueError: If an option is unknown, missing, out of range or cannot be stored, or
            a number of trials is out of range.
    """
    classes = acqf_class if isinstance(acqf_class, Mapping) else {"": acqf_class}
    if classes is acqf_class and constraints is None:
        raise ValueError(
            "acqf_class is a mapping, for an objective and the constraints beside it; give "
            'constraints="safe" or "explored" as well, or one class.'
        )
    bound, own = checked_bounds(acqf_class, options or {})
    further = _checked_constraints(constraints, safe_arms, expand_every, allow_estimated)
    arguments: dict[str, Any] = {
        "surrogate_spec": surrogate_spec(model_config, acqf_class, options or {}),
        "acquisition_class": BoundAcquisition,
        "acquisition_options": further,
        "botorch_acqf_class": bound,
        "botorch_acqf_options": own,
        "transforms": [*TRANSFORMS],
    }
    bands = rehearsed_bounds(arguments)
    if any(_meets_a_fitted_kernel(each.assumptions.items) for each in bands):
        warnings.warn(_FITTED_KERNEL, UserInputWarning, stacklevel=2)
    name = " and ".join(dict.fromkeys(each.__name__ for each in classes.values()))
    if outcome_range is not None:
        if bound is MetaPI:
            raise UnsupportedError(
                "MetaPI has no band that a range could limit; use MetaUCB, or leave out "
                "outcome_range."
            )
        further["outcome_range"] = checked_ranges(outcome_range)
    if constraints is not None and bound in META_ACQUISITIONS:
        raise UnsupportedError(
            f"{name} has the prior of one outcome and cannot keep outcome constraints; use "
            "MartingaleMixtureUCB or KernelFamilyUCB."
        )
    if constraints == "safe":
        _check_safe(bands, allow_estimated, optimizer_options or {})
    if search is not None:
        further |= checked_search(search, search_options or {}, arguments)
        name = f"{further['search']} within {name}"
    elif search_options is not None:
        raise ValueError("search_options is given without search; give both or none.")
    name = name if constraints is None else f"{name}, {constraints}"
    trials = _transitions(name, num_initial, min_observed)
    initial = _initial_node(constraints == "safe", trials, seed)
    optimizing = plain_value("optimizer_options", optimizer_options or {})
    spec = GeneratorSpec(
        generator_enum=Generators.BOTORCH_MODULAR,
        generator_kwargs=arguments,
        generator_gen_kwargs={"model_gen_options": {"optimizer_kwargs": optimizing}},
    )
    node = KernelUCBNode(
        name=name,
        generator_specs=[spec],
        # A safe set may consist of its safe arms alone, to be observed again.
        should_deduplicate=constraints != "safe",
        suggested_experiment_status=ExperimentStatus.OPTIMIZATION,
    )
    return GenerationStrategy(name=f"{initial.name}+{name}", nodes=[initial, node])


def _meets_a_fitted_kernel(items: Sequence[Assumption]) -> bool:
    r"""Whether a norm bound that was given is for a kernel that will be fitted."""
    by_name = {item.name: item.status for item in items}
    return (by_name.get("norm"), by_name["kernel"]) == (Status.GIVEN, Status.ESTIMATED)


def _initial_node(
    safe: bool, transitions: list[MinTrials], seed: int | None
) -> KernelUCBNode:
    r"""Where trials come from before there is a bound: the safe arms, or Sobol points."""
    shared: dict[str, Any] = {
        "transition_criteria": transitions,
        "suggested_experiment_status": ExperimentStatus.INITIALIZATION,
    }
    if safe:
        return SafeArmsNode(name="Safe arms", generator_specs=[], **shared)
    sobol = GeneratorSpec(Generators.SOBOL, generator_kwargs={"seed": seed})
    shared["should_deduplicate"] = True
    return KernelUCBNode(name="Sobol", generator_specs=[sobol], **shared)


def _check_safe(
    bands: Sequence[KernelUCB], allow_estimated: bool, optimizer_options: Options
) -> None:
    r"""Refuse bands that no safe set may rest on, and what no safe search takes."""
    check_given('constraints="safe"', bands, allow_estimated)
    for band in bands:
        # Any that the outcome can have; those of the experiment are not known yet.
        threshold = float(band.outcome_map.inverse(torch.zeros(()).double()))
        if not isinstance(band, LikelihoodUCB):
            SafeSet(band, threshold, allow_estimated=allow_estimated)
    if others := {*optimizer_options} - {*_SAFE_OPTIMIZER}:
        raise ValueError(
            f"A safe search has no optimizer option {', '.join(sorted(others))}; it "
            f"takes {', '.join(_SAFE_OPTIMIZER)}."
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


def _transitions(
    next_node: str, num_initial: int, min_observed: int | None
) -> list[MinTrials]:
    r"""Until enough initial trials exist, and enough of them are observed."""
    num_initial = whole_number("num_initial", num_initial)
    least = max(1, num_initial // 2)
    if min_observed is not None:
        least = whole_number("min_observed", min_observed)
        if least > num_initial:
            raise ValueError(f"min_observed is {least}, above num_initial = {num_initial}.")
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
    return [enough, observed]
