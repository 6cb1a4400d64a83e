r"""Input constructors: how BoTorch and Ax build the acquisition functions."""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, getclosurevars, signature
from typing import Any

from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import (
    ACQF_INPUT_CONSTRUCTOR_REGISTRY,
    acqf_input_constructor,
    get_acqf_input_constructor,
)
from botorch.acquisition.objective import IdentityMCObjective
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model

# What Ax and BoTorch would otherwise drop without a word, and what to do instead.
_OF_ONE = (
    "the bound is for one objective; weigh several by a posterior transform, or use "
    "ConstrainedUCB with thresholds for all but one"
)
_UNCONSTRAINED = "outcome constraints are not part of the bound; use ConstrainedUCB"
_REJECTED = {
    "constraints": _UNCONSTRAINED,
    "constraints_tuple": _UNCONSTRAINED,
    "objective_thresholds": _OF_ONE,
    "ref_point": _OF_ONE,
    "objective": "Monte Carlo objectives have no closed-form bound; use a posterior "
    "transform",
}


def register_input_constructor(
    acqf_class: type[AcquisitionFunction],
) -> type[AcquisitionFunction]:
    r"""Register a BoTorch input constructor with the arguments of the class itself.

    It takes what ``from_model`` of the class takes, or the class where it has none. It
    checks that every required argument is there, and rejects what would otherwise be
    ignored silently (constraints, objectives, thresholds).
    """
    own = parameters_of(acqf_class)
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
        # BoTorch asks for arguments where ``from_model`` gives an object. It ends in
        # ``cls(name=value, ...)``, so with ``dict`` as its class it gives these.
        build: Any = getattr(acqf_class, "from_model", None)
        if build is None:
            return {"model": model, **options}
        return build.__func__(dict, model=model, **options)

    construct_inputs.__name__ = f"construct_inputs_{acqf_class.__name__}"
    construct_inputs.__signature__ = Signature(own + rejected)  # type: ignore[attr-defined]
    acqf_input_constructor(acqf_class)(construct_inputs)
    return acqf_class


def builder_of(acqf_class: type[AcquisitionFunction]) -> Callable[..., Any]:
    r"""Builder from a model: ``from_model``, or the class itself where it has none."""
    return getattr(acqf_class, "from_model", acqf_class)


def parameters_of(acqf_class: type[AcquisitionFunction]) -> list[Parameter]:
    r"""What a class is built from: a model, and the options that Ax and BoTorch may give.

    The parameters of ``from_model``, whose ``**options`` are those of the class, or else of
    the class.
    """
    own = signature(builder_of(acqf_class)).parameters
    named = {n: each for n, each in own.items() if each.kind is not Parameter.VAR_KEYWORD}
    further = signature(acqf_class).parameters if len(named) < len(own) else {}
    return [*named.values(), *(each for n, each in further.items() if n not in named)]


def input_parameters(searched: type[AcquisitionFunction]) -> Mapping[str, Parameter]:
    r"""What the input constructor of a class takes, which BoTorch has wrapped."""
    constructor: Any = get_acqf_input_constructor(searched)
    inner = getclosurevars(constructor).nonlocals.get("f", constructor)
    return signature(inner).parameters


def search_class(search: str | type[AcquisitionFunction]) -> type[AcquisitionFunction]:
    r"""The one with an input constructor of that name; ``UnsupportedError`` if none."""
    known = {each.__name__: each for each in ACQF_INPUT_CONSTRUCTOR_REGISTRY}
    found = known.get(search) if isinstance(search, str) else search
    if found is None:
        raise UnsupportedError(
            f"BoTorch has no acquisition function {search!r} with an input constructor; "
            "import the module that registers one, or give a name such as "
            "'qLogNoisyExpectedImprovement'."
        )
    if found not in ACQF_INPUT_CONSTRUCTOR_REGISTRY:
        raise UnsupportedError(
            f"{found.__name__} has no input constructor in BoTorch; register one with "
            "botorch.acquisition.input_constructors.acqf_input_constructor, or build the "
            "function yourself and give it to GuardedAcquisition."
        )
    return found
