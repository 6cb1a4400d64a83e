r"""Input constructors: how BoTorch and Ax build the acquisition functions."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any

from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.acquisition.objective import IdentityMCObjective
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model

# What Ax and BoTorch would otherwise drop without a word, and what to do instead.
_REJECTED = {
    "constraints": "outcome constraints are not part of the bound; use ConstrainedUCB",
    "constraints_tuple": "outcome constraints are not part of the bound; use "
    "ConstrainedUCB",
    "objective_thresholds": "the bound is for one objective; weigh several by a posterior "
    "transform, or use ConstrainedUCB with thresholds for all but one",
    "ref_point": "the bound is for one objective; weigh several by a posterior transform, "
    "or use ConstrainedUCB with thresholds for all but one",
    "objective": "Monte Carlo objectives have no closed-form bound; use a posterior "
    "transform",
}


def register_input_constructor(
    acqf_class: type[AcquisitionFunction],
    build: Callable[..., dict[str, Any]] | None = None,
) -> type[AcquisitionFunction]:
    r"""Register a BoTorch input constructor with the arguments of the class itself.

    It checks that every required argument is there, and rejects what would otherwise be
    ignored silently (constraints, objectives, thresholds). If the class is not built from
    the model itself, ``build`` makes its arguments from the model and the options; the
    constructor then accepts what ``build`` accepts, where ``**options`` are the class's.
    """
    own = parameters_of(acqf_class, build)
    named = {parameter.name for parameter in own}
    refused = {name: why for name, why in _REJECTED.items() if name not in named}
    rejected = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in refused]

    def construct_inputs(model: Model, **options: Any) -> dict[str, Any]:
        for name, reason in refused.items():
            value = options.pop(name, None)
            if value is not None and not isinstance(value, IdentityMCObjective):
                raise UnsupportedError(
                    f"{acqf_class.__name__} does not take `{name}`: {reason}."
                )
        for parameter in own:
            required = parameter.default is Parameter.empty
            if required and parameter.name not in {"model", *options}:
                raise ValueError(
                    f"{acqf_class.__name__} needs the option `{parameter.name}`."
                )
        arguments = {"model": model, **options}
        return arguments if build is None else build(**arguments)

    construct_inputs.__name__ = f"construct_inputs_{acqf_class.__name__}"
    construct_inputs.__signature__ = Signature(own + rejected)  # type: ignore[attr-defined]
    acqf_input_constructor(acqf_class)(construct_inputs)
    return acqf_class


def parameters_of(
    acqf_class: type[AcquisitionFunction], build: Callable[..., Any] | None = None
) -> list[Parameter]:
    r"""What a bound, or what builds it, takes; its ``**options`` are those of the class."""
    own = signature(build or acqf_class).parameters
    named = {n: each for n, each in own.items() if each.kind is not Parameter.VAR_KEYWORD}
    further = signature(acqf_class).parameters if len(named) < len(own) else {}
    return [*named.values(), *(each for n, each in further.items() if n not in named)]
