r"""What a bound needs of an experiment: one outcome, and inputs that its kernel fits."""

from typing import Any

from ax.adapter.registry import MBM_X_trans
from ax.adapter.transforms.map_key_to_float import MapKeyToFloat
from ax.core.experiment import Experiment
from ax.core.search_space import SearchSpace
from ax.generation_strategy.generator_spec import GeneratorSpec
from botorch.exceptions import UnsupportedError

from kernelucb.acquisition import ScalarizedUCB
from kernelucb.models.fixed import FixedPriorGP
from kernelucb.regression.outputs import per_output


def check_experiment(spec: GeneratorSpec, experiment: Experiment) -> None:
    r"""Refuse an experiment that the bound does not support.

    Ax itself would ignore some of this: constraints on metrics without data, and
    objectives of several metrics as long as only one of them has data.

    Raises:
        UnsupportedError: If there are outcome constraints or several objectives, or the
            objective is a sum of outcomes and the bound is not ``ScalarizedUCB``.
        ValueError: If options have an entry for each outcome, or the kernel a length
            scale for each input, and their number is wrong.
    """
    _check_objective(spec, experiment)
    config = spec.generator_kwargs["surrogate_spec"].model_configs[0]
    scales = config.model_options.get("lengthscale")
    if config.botorch_model_class is FixedPriorGP and isinstance(scales, list):
        columns = _columns(experiment.search_space)
        if len(scales) != columns:
            raise ValueError(
                f"lengthscale has {len(scales)} entries for {columns} inputs (one for each "
                "number or ordered choice, and one for each value of an unordered one)."
            )


def _check_objective(spec: GeneratorSpec, experiment: Experiment) -> None:
    config = experiment.optimization_config
    if config is None:
        return
    acqf_class = spec.generator_kwargs["botorch_acqf_class"]
    name, objective = acqf_class.__name__, config.objective
    if config.all_constraints:
        raise UnsupportedError(
            f"{name} cannot keep outcome constraints, and the experiment has "
            f"{config.all_constraints}; configure the optimization without them."
        )
    if objective.is_multi_objective:
        raise UnsupportedError(
            f"{name} is for one objective, and the experiment has several: "
            f"`{objective.expression}`."
        )
    if acqf_class is ScalarizedUCB:
        options = spec.generator_kwargs["botorch_acqf_options"]
        for option in ("norm_bound", "noise_std"):
            per_output(option, options.get(option), len(objective.metric_names))
    elif objective.is_scalarized_objective:
        raise UnsupportedError(
            f"{name} is for one outcome, and the objective `{objective.expression}` is a "
            "sum of several; use ScalarizedUCB."
        )


def _columns(space: SearchSpace) -> int:
    r"""Number of inputs of the bound, where no outcome has a progression."""
    space = space.clone()
    transforms: list[Any] = [each for each in MBM_X_trans if each is not MapKeyToFloat]
    for transform in transforms:
        space = transform(search_space=space).transform_search_space(space)
    return len(space.parameters)
