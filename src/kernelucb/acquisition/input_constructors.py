r"""Input constructors: how BoTorch and Ax build the acquisition functions."""

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar

from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import acqf_input_constructor
from botorch.acquisition.objective import IdentityMCObjective
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model

Builder = TypeVar("Builder", bound=Callable[..., Any])

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


def with_options_of(source: Callable[..., Any]) -> Callable[[Builder], Builder]:
    r"""Name the options of ``source`` in the signature of a builder with ``**options``."""

    def named(builder: Builder) -> Builder:
        own = signature(builder).parameters
        *first, rest = own.values()
        further = signature(source).parameters.items()
        told = [*first, *(each for name, each in further if name not in own), rest]
        builder.__signature__ = Signature(told)  # type: ignore[attr-defined]
        return builder

    return named


def parameters_of(acqf_class: type[AcquisitionFunction]) -> list[Parameter]:
    r"""What a class is built from: a model, and the options that Ax and BoTorch may give.

    The parameters of ``from_model``, whose ``**options`` are those of the class, or else of
    the class.
    """
    own = signature(builder_of(acqf_class)).parameters
    named = {n: each for n, each in own.items() if each.kind is not Parameter.VAR_KEYWORD}
    further = signature(acqf_class).parameters if len(named) < len(own) else {}
    return [*named.values(), *(each for n, each in further.items() if n not in named)]
