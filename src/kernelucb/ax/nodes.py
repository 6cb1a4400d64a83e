r"""A node of Ax's generation strategies that checks the experiment before every trial."""

# Ax has no public way to what is read here.
# pyright: reportPrivateUsage=false

from typing import Any
from zlib import crc32

from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.generator_run import GeneratorRun
from ax.generation_strategy.generation_node import GenerationNode
from ax.storage.json_store.decoder import object_from_json
from ax.utils.common.random import with_rng_seed

from kernelucb.ax.bounds import acquisition_of, bound_of, bound_spec
from kernelucb.ax.experiments import check_experiment, complete_assumptions


class KernelUCBNode(GenerationNode):
    r"""A ``GenerationNode`` that refuses experiments that the bound does not support.

    Ax lets the experiment be configured before or after the strategy is set, and again
    later, so this is checked before every trial, the Sobol ones too.
    """

    def gen(self, *, experiment: Experiment, **arguments: Any) -> GeneratorRun | None:
        r"""Candidates, as from ``GenerationNode``; raises as ``check_experiment`` does."""
        check_experiment(bound_spec(self.generation_strategy), experiment)
        is_search = any(bound_of(spec) is not None for spec in self.generator_specs)
        seed = self._seed(experiment) if is_search else None
        with with_rng_seed(seed):
            run = super().gen(experiment=experiment, **arguments)
        acqf = acquisition_of(self._fitted_adapter)
        if acqf is not None:
            complete_assumptions(acqf, self._fitted_adapter, experiment)
        return run

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
