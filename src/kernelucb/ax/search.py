r"""What searches within a bound in Ax, checked before the first trial."""

from collections.abc import Mapping
from inspect import Parameter
from typing import Any

from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.utils.common.random import with_rng_seed
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.acquisition import OneShotAcquisitionFunction
from botorch.acquisition.multi_objective.base import (
    MultiObjectiveAnalyticAcquisitionFunction,
    MultiObjectiveMCAcquisitionFunction,
)
from botorch.exceptions import UnsupportedError
from botorch.exceptions.errors import BotorchError

from kernelucb.acquisition import GuardedAcquisition, MetaPI
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.guarded_inputs import input_parameters, search_class
from kernelucb.ax.options import plain_value
from kernelucb.ax.outcomes import all_configs
from kernelucb.ax.rehearsal import rehearsed_guard, rehearsed_options

# Those of the guard itself; all others are the searched function's.
OF_THE_GUARD = ("temperature", "ucb_every")

_BY_AX = "Ax passes it from the experiment"
_NOT_AN_OPTION = {
    **dict.fromkeys(("training_data", "X_baseline", "X_pending", "bounds"), _BY_AX),
    "model": "Ax builds the model; change it with `model_config`",
    "maximize": "Ax takes the direction from the objective (`-y` minimises y)",
    "posterior_transform": "Ax passes the direction of the objective through it",
    "sampler": "Ax cannot store it",
}
# What experiments with several objectives, outcome constraints or fidelities have.
_NOT_IN_THE_EXPERIMENT = (
    "constraints",
    "constraints_tuple",
    "objective",
    "objective_thresholds",
    "ref_point",
    "target_fidelities",
)


def checked_search(
    acqf_class: type[KernelUCB],
    options: Mapping[str, Any],
    spec: SurrogateSpec,
    search: type[AcquisitionFunction] | str,
    search_options: Mapping[str, Any],
    *,
    constrained: bool,
) -> dict[str, Any]:
    r"""Arguments of ``guarded_inputs`` that Ax can store, after a rehearsal.

    The search is ``constrained`` where Ax tells it of outcome constraints.

    Raises:
        ValueError: If an option is unknown, missing, out of range or cannot be stored.
        UnsupportedError: If the function cannot search within the bound.
    """
    if acqf_class is MetaPI:
        raise UnsupportedError(
            "MetaPI has no band to search within: its bounds are one standard deviation, "
            "without a guarantee; use MetaUCB."
        )
    searched = search_class(search)
    name = searched.__name__
    if search_class(name) is not searched:
        raise UnsupportedError(
            f"Another {name} has an input constructor, and Ax would store only the name; "
            "rename one of them."
        )
    _check_class(searched)
    plain = {option: plain_value(option, each) for option, each in search_options.items()}
    guard = {option: plain.pop(option) for option in OF_THE_GUARD if option in plain}
    _check_names(searched, plain)
    if constrained and "constraints" not in input_parameters(searched):
        raise UnsupportedError(
            f"{name} takes no outcome constraints; search with "
            "qLogNoisyExpectedImprovement, say."
        )
    config = all_configs(spec)[0]
    # Between candidates there is no prior, so no unit for a smooth edge, and no need.
    exact = getattr(config.botorch_model_class, "finite_domain", False)
    if exact and guard.setdefault("temperature", 0.0) != 0.0:
        raise ValueError(
            "temperature must be 0 where the prior is known at candidates only: the "
            "restriction is exact there."
        )
    guard = {"search": name, "search_options": plain, **guard}
    bound, own = rehearsed_options(acqf_class, options, spec, each=constrained)
    _rehearse(name, bound, own, guard, config)
    return guard | {"band": acqf_class, "band_options": dict(options)}


def _check_class(searched: type[AcquisitionFunction]) -> None:
    name, instead = searched.__name__, "search with qLogNoisyExpectedImprovement, say."
    if issubclass(searched, GuardedAcquisition):
        raise UnsupportedError(f"{name} is what `search` is put into; {instead}")
    if issubclass(searched, OneShotAcquisitionFunction):
        raise UnsupportedError(
            f"{name} is a one-shot function: its points are candidates and fantasies "
            f"together, which a band cannot guard; {instead}"
        )
    several = (
        MultiObjectiveAnalyticAcquisitionFunction,
        MultiObjectiveMCAcquisitionFunction,
    )
    if issubclass(searched, several):
        raise UnsupportedError(f"{name} is for several objectives; {instead}")
    if "posterior_transform" not in input_parameters(searched):
        raise UnsupportedError(
            f"{name} cannot be told the objective: its input constructor in BoTorch takes "
            f"no posterior_transform; {instead}"
        )


def _check_names(searched: type[AcquisitionFunction], options: Mapping[str, Any]) -> None:
    r"""BoTorch drops some names without a word, and answers others with ``TypeError``."""
    name, parameters = searched.__name__, input_parameters(searched)
    refused = _NOT_AN_OPTION.keys() | _NOT_IN_THE_EXPERIMENT
    taken = [*OF_THE_GUARD, *(each for each in parameters if each not in refused)]
    for option in options:
        if option in _NOT_AN_OPTION:
            raise ValueError(f"Leave out the option `{option}`: {_NOT_AN_OPTION[option]}.")
        if option not in taken:
            raise ValueError(
                f"search_options has `{option}`, but a search with {name} takes "
                f"{', '.join(taken)}."
            )
    for option, parameter in parameters.items():
        required = parameter.default is Parameter.empty
        if required and option in _NOT_IN_THE_EXPERIMENT:
            raise UnsupportedError(
                f"{name} needs `{option}`, which an experiment with one objective and no "
                "constraints does not have."
            )
        if required and option not in {*_NOT_AN_OPTION, *options}:
            raise ValueError(f"{name} needs `{option}` among the search_options.")


def _rehearse(
    name: str,
    acqf_class: type[KernelUCB],
    options: Mapping[str, Any],
    guard: Mapping[str, Any],
    config: ModelConfig,
) -> None:
    try:
        with with_rng_seed(0):  # samplers draw seeds from the global generator
            value = rehearsed_guard(acqf_class, options, guard, config)
    except (ValueError, BotorchError, Warning):
        raise
    except Exception as error:
        raise UnsupportedError(
            f"{name} cannot search within {acqf_class.__name__} here: "
            f"{type(error).__name__}: {error}"
        ) from error
    if value.shape != (1,):
        raise UnsupportedError(
            f"{name} has values of shape {tuple(value.shape)} at one candidate; a search "
            "needs one number for each."
        )
