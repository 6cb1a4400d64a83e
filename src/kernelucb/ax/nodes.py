r"""Nodes of Ax's generation strategies that check the experiment before every trial."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from collections.abc import Mapping
from typing import Any
from zlib import crc32

from ax.core.arm import Arm
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.generation_strategy.generation_node import GenerationNode
from ax.storage.json_store.decoder import object_from_json
from ax.utils.common.constants import Keys
from ax.utils.common.random import with_rng_seed

from kernelucb.ax.bounds import (
    acquisition_of,
    acquisition_options,
    bound_of,
    bound_spec,
    complete_all,
    last_acquisition,
)
from kernelucb.ax.constrained import SafeAcquisition
from kernelucb.ax.constraints import (
    arms_in_context,
    check_safe_arms,
    is_constrained,
    safe_arms_of,
    some_arm,
)
from kernelucb.ax.contexts import checked_context, replace_arms
from kernelucb.ax.experiments import check_experiment, check_observed
from kernelucb.ax.safe_arms import keep_safe_arms

Parameters = Mapping[str, Any]


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
        spec = bound_spec(self.generation_strategy)
        given = {} if fixed_features is None else fixed_features.parameters
        check_experiment(spec, experiment)
        context = checked_context(experiment.search_space, given)
        if (arms := safe_arms_of(spec)) is not None:
            check_safe_arms(arms, experiment.search_space, context)
        if self._is_search and is_constrained(spec):
            check_observed(experiment)
        seed = self._seed(experiment) if self._is_search else None
        with with_rng_seed(seed):
            run = super().gen(
                experiment=experiment, fixed_features=fixed_features, **arguments
            )
        if run is not None and context:
            replace_arms(run, lambda parameters: {**parameters, **context})
        adapter: Any = self._fitted_adapter
        if acquisition_of(adapter) is not None:
            acquisition = last_acquisition(adapter)
            complete_all(acquisition, adapter, experiment)
            if run is not None and isinstance(acquisition, SafeAcquisition):
                arms = arms_in_context(arms or [], experiment.search_space, context)
                keep_safe_arms(run, acquisition.safe_set, adapter, arms)
        return run

    @property
    def _is_search(self) -> bool:
        r"""Whether a bound chooses the trials of this node."""
        return any(bound_of(each) is not None for each in self.generator_specs)

    def _gen(
        self,
        experiment: Experiment,
        pending_observations: Any,
        data: Data | None,
        n: int | None,
        **arguments: Any,
    ) -> GeneratorRun:
        spec = bound_spec(self.generation_strategy)
        if safe_arms_of(spec) is not None:
            context = _context_of(arguments)
            own = self.generator_spec.generator_gen_kwargs["model_gen_options"]
            options = acquisition_options(spec, self._fitted_adapter, experiment, context)
            arguments["model_gen_options"] = {
                **own,
                Keys.AX_ACQUISITION_KWARGS: options,
            }
        return super()._gen(experiment, pending_observations, data, n, **arguments)

    def _try_gen_with_fallback(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, exception: Exception, **arguments: Any
    ) -> GeneratorRun:
        # Ax would fall back to random points, which may not be safe.
        if safe_arms_of(bound_spec(self.generation_strategy)) is not None:
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
        for spec in self.generator_specs:
            adapter = spec._fitted_adapter
            # Ax would go on with the objective that the adapter was made for.
            if adapter and adapter._optimization_config != experiment.optimization_config:
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
    def generator_spec_to_gen_from(self) -> Any:
        r"""None: no model generates."""
        return None

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
        context = _context_of(arguments)
        arms = safe_arms_of(bound_spec(self.generation_strategy)) or []
        fitting = arms_in_context(arms, experiment.search_space, context)
        fitting = some_arm(fitting, context)
        runs = self.generation_strategy._generator_runs
        own = [run for run in runs if run._generation_node_name == self.name]
        start = sum(len(run.arms) for run in own)
        # One arm twice in a batch would be one arm of twice the weight.
        count = min(n or 1, len(fitting))
        turns = [fitting[(start + i) % len(fitting)] for i in range(count)]
        key = self.name.replace(" ", "")
        return GeneratorRun([Arm(parameters=each) for each in turns], generator_key=key)


def _context_of(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    r"""The fixed parameters of the trial that a node is asked for."""
    features = arguments.get("fixed_features")
    return {} if features is None else features.parameters
