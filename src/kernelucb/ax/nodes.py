r"""Nodes of Ax's generation strategies that check the experiment before every trial."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections import OrderedDict
from collections.abc import Callable
from math import prod
from typing import Any
from zlib import crc32

from ax.core.arm import Arm
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import ArmWeight, GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.core.search_space import SearchSpace
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.storage.json_store.decoder import object_from_json
from ax.utils.common.constants import Keys
from ax.utils.common.random import with_rng_seed
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.exceptions import UnsupportedError

from kernelucb.ax.acquisitions import MOST_COMBINATIONS
from kernelucb.ax.bounds import (
    bound_spec,
    keeps_safe,
    last_acquisition,
    safe_arms,
    safe_images,
)
from kernelucb.ax.experiments import (
    check_experiment,
    check_observed,
    complete_bands,
    is_constrained,
    with_lost_arms,
)
from kernelucb.ax.options import search_class
from kernelucb.ax.spaces import Parameters, checked_context, inputs_of, values_of
from kernelucb.exceptions import NoSafePointError
from kernelucb.safety.safe_set import no_safe_point


class KernelUCBNode(GenerationNode):
    r"""A ``GenerationNode`` that refuses experiments that the bound does not support.

    Ax lets the experiment be configured before or after the strategy is set, and again
    later, so this is checked before every trial, the initial ones too. Fixed parameters
    are handed out exactly as they were given.
    """

    def gen(
        self,
        *,
        experiment: Experiment,
        fixed_features: ObservationFeatures | None = None,
        **arguments: Any,
    ) -> GeneratorRun | None:
        r"""Candidates, as from ``GenerationNode``; raises as ``check_experiment`` does."""
        spec, space = bound_spec(self.generation_strategy), experiment.search_space
        check_experiment(spec, experiment)
        context = _context_of(fixed_features, space)
        if keeps_safe(spec):
            safe_arms(spec, space, context)
            _check_combinations(space, context)
        is_search = any(each is spec for each in self.generator_specs)
        if is_search and is_constrained(spec):
            check_observed(experiment)
        if is_search and not _searches_analytically(spec):
            pending = with_lost_arms(arguments["pending_observations"], experiment)
            arguments["pending_observations"] = pending
        with with_rng_seed(self._seed(experiment) if is_search else None):
            run = super().gen(
                experiment=experiment, fixed_features=fixed_features, **arguments
            )
        if run is not None and context:
            _replace_arms(run, lambda parameters: {**parameters, **context})
        adapter: Any = self._fitted_adapter
        if (acquisition := last_acquisition(adapter)) is not None:
            complete_bands(acquisition, adapter, experiment)
            if run is not None and acquisition.safe_set is not None:
                images = safe_images(spec, adapter, space, context)
                _keep_safe(run, acquisition.safe_set, adapter, images)
        return run

    def _gen(
        self,
        experiment: Experiment,
        pending_observations: Any,
        data: Data | None,
        n: int | None,
        **arguments: Any,
    ) -> GeneratorRun:
        spec, space = bound_spec(self.generation_strategy), experiment.search_space
        if keeps_safe(spec):
            context = _context_of(arguments.get("fixed_features"), space)
            own = self.generator_spec.generator_gen_kwargs["model_gen_options"]
            safe = [*safe_images(spec, self._fitted_adapter, space, context)]
            given = {Keys.AX_ACQUISITION_KWARGS: {"safe_points": safe}}
            arguments["model_gen_options"] = own | given
        return super()._gen(experiment, pending_observations, data, n, **arguments)

    def _try_gen_with_fallback(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, exception: Exception, **arguments: Any
    ) -> GeneratorRun:
        # Ax would fall back to random points, which may not be safe.
        if keeps_safe(bound_spec(self.generation_strategy)):
            raise exception
        return super()._try_gen_with_fallback(exception, **arguments)

    def _seed(self, experiment: Experiment) -> int:
        r"""Seed of a trial, from the arms before it.

        Ax stores neither the state of torch's generator nor a client's ``random_seed``:
        without this, a reopened experiment would search from other starting points.
        """
        runs = len(self.generation_strategy._generator_runs)
        return crc32("".join([*sorted(experiment.arms_by_signature), str(runs)]).encode())

    def _fit(
        self, experiment: Experiment, data: Data | None = None, **arguments: Any
    ) -> None:
        space, arms = experiment.search_space, experiment.arms_by_name.values()
        inside = all(space.check_membership(arm.parameters) for arm in arms)
        for spec in self.generator_specs:
            adapter = spec._fitted_adapter
            # Ax would go on with the objective that the adapter was made for, and without
            # the arms outside the search space that came later.
            config = experiment.optimization_config
            if adapter and (adapter._optimization_config != config or not inside):
                spec._fitted_adapter = None
        super()._fit(experiment=experiment, data=data, **arguments)

    @classmethod
    def deserialize_init_args(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, args: dict[str, Any], **registries: Any
    ) -> dict[str, Any]:
        r"""Arguments of the constructor from what Ax stored."""
        stored = super().deserialize_init_args(args).items()
        return {name: object_from_json(value, **registries) for name, value in stored}


class SafeArmsNode(KernelUCBNode):
    r"""Hands out the safe arms of the strategy in turn, in the context of the trial."""

    @property
    def _fitted_adapter(self) -> None:
        return None

    def _fit(
        self, experiment: Experiment, data: Data | None = None, **arguments: Any
    ) -> None:
        r"""Nothing is to be fitted."""

    def _gen(
        self,
        experiment: Experiment,
        pending_observations: Any,
        data: Data | None,
        n: int | None,
        **arguments: Any,
    ) -> GeneratorRun:
        space = experiment.search_space
        context = _context_of(arguments.get("fixed_features"), space)
        fitting = safe_arms(bound_spec(self.generation_strategy), space, context)
        if not fitting:
            given = ", ".join(f"{name}={value}" for name, value in context.items())
            raise NoSafePointError(
                f"No safe arm has {given}. Give safe_arms with these parameters, or leave "
                "these parameters out of an arm that is safe whatever they are."
            )
        runs = self.generation_strategy._generator_runs
        start = sum(len(r.arms) for r in runs if r._generation_node_name == self.name)
        # One arm twice in a batch would be one arm of twice the weight.
        count = min(n or 1, len(fitting))
        turns = [fitting[(start + i) % len(fitting)] for i in range(count)]
        key = self.name.replace(" ", "")
        return GeneratorRun([Arm(parameters=each) for each in turns], generator_key=key)


def _searches_analytically(spec: GeneratorSpec) -> bool:
    r"""Whether trials come from a function that cannot account for pending points."""
    search = spec.generator_kwargs["acquisition_options"].get("search")
    return search is not None and issubclass(
        search_class(search), AnalyticAcquisitionFunction
    )


def _context_of(features: ObservationFeatures | None, space: SearchSpace) -> dict[str, Any]:
    r"""The fixed parameters of the trial that a node is asked for."""
    return checked_context(space, None if features is None else features.parameters)


def _check_combinations(space: SearchSpace, context: Parameters) -> None:
    r"""Refuse spaces too large for a safe search."""
    free = [each for name, each in space.parameters.items() if name not in context]
    listed = [values for each in free if (values := values_of(each)) is not None]
    if (count := prod(map(len, listed))) > MOST_COMBINATIONS:
        raise UnsupportedError(
            f"A safe search enumerates integers and choices, and there are {count} "
            f"combinations, more than {MOST_COMBINATIONS}. Make ranges of integers "
            "floats, or use fewer values."
        )


def _keep_safe(run: GeneratorRun, safe_set: Any, adapter: Any, images: Any) -> None:
    r"""Give safe arms back as they were given, and refuse what left the safe set."""

    def exact(parameters: Parameters) -> Parameters:
        row = inputs_of(adapter, [parameters])
        if not bool(safe_set.is_safe(row).all()):
            raise no_safe_point(f"no arm close to {dict(parameters)}")
        return images.get(tuple(row[0].tolist()), parameters)

    _replace_arms(run, exact)


def _replace_arms(run: GeneratorRun, change: Callable[[Parameters], Parameters]) -> None:
    r"""Change the parameters of the arms of a run that no trial has yet."""
    table: OrderedDict[str, ArmWeight] = OrderedDict()
    for old in run._arm_weight_table.values():
        parameters = dict(change(old.arm.parameters))
        arm = old.arm if parameters == old.arm.parameters else Arm(parameters)
        table[arm.signature] = ArmWeight(arm=arm, weight=old.weight)
    run._arm_weight_table = table
