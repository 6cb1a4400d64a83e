r"""The bounds of an Ax experiment: the one of the last trial, and the one of all data."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections.abc import Mapping
from typing import Any, NamedTuple

from ax.adapter.adapter_utils import transform_callback
from ax.adapter.base import Adapter
from ax.adapter.torch import TorchAdapter
from ax.api.client import Client
from ax.core.experiment import Experiment
from ax.core.observation import ObservationFeatures
from ax.core.search_space import SearchSpaceDigest
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch_base import TorchOptConfig
from botorch.exceptions import UnsupportedError

from kernelucb._numerics.arguments import checked
from kernelucb.acquisition import GuardedAcquisition
from kernelucb.acquisition.base import KernelUCB
from kernelucb.ax.acquisitions import ConstrainedAcquisition
from kernelucb.ax.constraints import arms_in_context, is_constrained
from kernelucb.ax.experiments import (
    check_experiment,
    check_observed,
    complete_assumptions,
)
from kernelucb.ax.models import TRANSFORMS
from kernelucb.ax.supported import check_kept


@checked
def last_bound(source: Client | GenerationStrategy) -> KernelUCB:
    r"""The bound that chose the last trial, for its ``bounds`` and ``assumptions``.

    With a ``search`` of its own, the band that the search was kept to.

    It was computed before the last trial was observed, and its ``assumptions`` name the
    trials that had failed, been abandoned or stopped early, or been completed without an
    outcome by then; ``current_bound`` has seen all outcomes. Its inputs are those of Ax
    after the logarithm of log-scaled parameters and the encoding of choices.

    Args:
        source: An Ax client, or its generation strategy.

    Raises:
        ValueError: If no bound has chosen a trial yet in this process (a reopened
            experiment has one as soon as it hands out its next trial).
    """
    strategy = strategy_of(source)
    acqf = acquisition_of(strategy.adapter)
    if acqf is None:
        raise ValueError(
            f"No bound has chosen a trial yet; the strategy is at its node "
            f"`{strategy.current_node_name}`. Ask for the next trial first."
        )
    return acqf


@checked
def current_bound(source: Client | GenerationStrategy) -> KernelUCB:
    r"""The bound from all outcomes so far, also with trials under way.

    Computed anew, with the model fitted anew unless its prior is given. The experiment and
    its next trials do not change. Inputs are those of ``last_bound``. ``assumptions`` names
    the trials that failed, were abandoned or stopped early, or were completed without an
    outcome: only the user can know whether that depended on the noise of their outcomes.

    Args:
        source: An Ax client, or its generation strategy.

    Raises:
        ValueError: If no trial has been observed yet.
        UnsupportedError: If the strategy does not come from ``generation_strategy``, or its
            bound does not support the experiment.
        InputDataError: If an outcome is unusable: infinite, or with a bad standard error.
    """
    strategy = strategy_of(source)
    return fitted_bound(strategy, strategy.experiment).acqf


class FittedBound(NamedTuple):
    r"""A bound on all data, what turns parameters into its inputs, and their ranges.

    ``acquisition`` is what Ax would maximise, with the bands of all outcomes, ``config``
    the rest of what Ax would pass on.
    """

    acqf: KernelUCB
    adapter: TorchAdapter
    digest: SearchSpaceDigest
    acquisition: Acquisition
    config: TorchOptConfig


def fitted_bound(
    strategy: GenerationStrategy,
    experiment: Experiment,
    context: Mapping[str, Any] | None = None,
) -> FittedBound:
    r"""Fit the strategy's bound to an experiment; neither of them changes.

    ``context`` are the parameters that are fixed, if any.
    """
    spec = bound_spec(strategy).copy()
    check_experiment(spec, experiment)
    data = experiment.lookup_data()
    if data.empty:
        raise ValueError("No trial has been observed yet; complete one first.")
    if is_constrained(spec):
        check_observed(experiment)
    spec.fit(experiment, data)
    adapter: Any = spec.fitted_adapter
    features = ObservationFeatures(parameters=dict(context)) if context else None
    arguments = adapter._get_transformed_gen_args(
        search_space=experiment.search_space, fixed_features=features
    )
    digest, config = adapter._get_transformed_model_gen_args(
        search_space=arguments.search_space,
        pending_observations={},
        fixed_features=arguments.fixed_features,
        optimization_config=arguments.optimization_config,
    )
    # The path on which Ax builds the bound for a trial, so that it refuses what that does.
    acquisition = adapter.generator._instantiate_acquisition(
        search_space_digest=digest,
        torch_opt_config=config,
        botorch_acqf_options=spec.generator_kwargs["botorch_acqf_options"],
        acq_options=acquisition_options(spec, adapter, experiment, context or {}),
    )
    complete_all(acquisition, adapter, experiment)
    return FittedBound(band_of(acquisition), adapter, digest, acquisition, config)


def acquisition_options(
    spec: GeneratorSpec,
    adapter: Any,
    experiment: Experiment,
    context: Mapping[str, Any],
) -> dict[str, Any]:
    r"""Options of Ax's acquisition; safe arms as inputs of the bands, in this context.

    What Ax makes of an arm that it hands out counts as the same arm: it may differ in the
    last digit.
    """
    options = dict(spec.generator_kwargs.get("acquisition_options") or {})
    if (arms := options.get("safe_arms")) is not None:
        arms = arms_in_context(arms, experiment.search_space, context)
        rows = {tuple(row): row for arm in arms for row in images_of(adapter, arm)}
        options["safe_points"] = list(rows.values())
    return options


def images_of(adapter: Any, parameters: Mapping[str, Any]) -> list[list[float]]:
    r"""Inputs of an arm, and of what Ax makes of them when it hands them out, twice."""
    round_trip = transform_callback(adapter.parameters, adapter.transforms)
    features = ObservationFeatures(parameters=dict(parameters))
    row = adapter.transform_observation_features([features]).numpy()[0]
    first = round_trip(row)
    return [list(map(float, each)) for each in (row, first, round_trip(first))]


def complete_all(acquisition: Any, adapter: Any, experiment: Experiment) -> None:
    r"""Complete the assumptions of all bands of an acquisition just made.

    Raises:
        InputDataError: If Ax left out a constraint.
    """
    config = experiment.optimization_config
    if isinstance(acquisition, ConstrainedAcquisition) and config is not None:
        check_kept(acquisition.statements, config)
    bands = getattr(acquisition, "bands", {}).values()
    for band in {id(each): each for each in (*bands, band_of(acquisition))}.values():
        complete_assumptions(band, adapter, experiment)


def band_of(acquisition: Any) -> Any:
    r"""The bound of the objective in what Ax maximises, if there is one."""
    acqf = getattr(acquisition, "acqf", None)
    return getattr(acquisition, "band", None) or getattr(acqf, "band", acqf)


def strategy_of(source: Client | GenerationStrategy) -> GenerationStrategy:
    r"""The generation strategy itself, or that of a client; ``ValueError`` without."""
    if not isinstance(source, Client):
        return source
    if source._maybe_generation_strategy is None:
        raise ValueError(
            "The client has no generation strategy; set one with "
            "client.set_generation_strategy(kernelucb.ax.generation_strategy(...))."
        )
    return source._generation_strategy


def bound_spec(strategy: GenerationStrategy) -> GeneratorSpec:
    r"""What builds the strategy's bound, whatever searches within it.

    ``UnsupportedError`` if it has none.
    """
    for node in strategy.nodes_by_name.values():
        for spec in node.generator_specs:
            if (bound := bound_of(spec)) is not None:
                return bound
    raise UnsupportedError(
        f"The generation strategy {strategy.name} has no bound of this package on outcomes "
        "as they were reported; make it with kernelucb.ax.generation_strategy."
    )


def bound_of(spec: GeneratorSpec) -> GeneratorSpec | None:
    r"""What builds the bound alone, that is maximised or searched within, if any."""
    arguments: dict[str, Any] = spec.generator_kwargs
    acqf_class = arguments.get("botorch_acqf_class")
    options = arguments.get("botorch_acqf_options") or {}
    if acqf_class is GuardedAcquisition:
        acqf_class, options = options.get("band"), options.get("band_options") or {}
        arguments = {
            **arguments,
            "botorch_acqf_class": acqf_class,
            "botorch_acqf_options": options,
        }
    # Without transforms of its own, Ax would winsorise and standardise outcomes.
    untouched = set(arguments.get("transforms", [None])) <= set(TRANSFORMS)
    is_bound = isinstance(acqf_class, type) and issubclass(acqf_class, KernelUCB)
    if not (is_bound and untouched):
        return None
    return GeneratorSpec(spec.generator_enum, generator_kwargs=arguments)


def acquisition_of(adapter: Adapter | None) -> KernelUCB | None:
    r"""The bound that an adapter maximised, or searched within, last, if any."""
    band = band_of(last_acquisition(adapter))
    return band if isinstance(band, KernelUCB) else None


def last_acquisition(adapter: Adapter | None) -> Any:
    r"""What Ax built for the last trial of an adapter, if anything."""
    return getattr(getattr(adapter, "generator", None), "_acquisition", None)
