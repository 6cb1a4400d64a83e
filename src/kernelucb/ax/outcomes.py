r"""Options and models of each outcome, by the names of the metrics."""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig

from kernelucb.acquisition import LikelihoodUCB, MartingaleMixtureUCB, ScalarizedUCB
from kernelucb.acquisition.base import KernelUCB
from kernelucb.ax.models import count_model_config, default_model_config

Options = Mapping[str, Any]
Configs = Mapping[str, ModelConfig]
BoundClasses = type[KernelUCB] | Mapping[str, type[KernelUCB]]

# Where each outcome has a class of its own: its class and its options, by its name.
BY_OUTCOME = "by_outcome"

# Options that are one for all outcomes; what is a mapping there has another meaning.
_SHARED = ("delta", "horizon", "options")


def surrogate_spec(
    model_config: ModelConfig | Configs | None, acqf_class: BoundClasses
) -> SurrogateSpec:
    r"""What Ax makes models of outcomes from, each outcome its own.

    Outcomes with classes of their own that a mapping of models lacks have the default.
    """
    named = dict(model_config) if isinstance(model_config, Mapping) else {}
    if isinstance(acqf_class, Mapping):
        given = model_config if isinstance(model_config, ModelConfig) else None
        for name, each in acqf_class.items():
            named.setdefault(name, given or _default_config(each))
    other = model_config if isinstance(model_config, ModelConfig) else None
    return SurrogateSpec(
        model_configs=[other or _default_config(acqf_class)],
        metric_to_model_configs={name: [config] for name, config in named.items()},
        # A bound is for one outcome, a batched model for several.
        allow_batched_models=False,
    )


def _default_config(acqf_class: Any) -> ModelConfig:
    is_count = acqf_class is LikelihoodUCB
    return count_model_config() if is_count else default_model_config()


def config_of(spec: SurrogateSpec, name: str | None = None) -> ModelConfig:
    r"""The configuration of an outcome's model; without a name, that of all others."""
    own = spec.metric_to_model_configs.get(name, []) if name is not None else []
    return (own or spec.model_configs)[0]


def all_configs(spec: SurrogateSpec) -> list[ModelConfig]:
    r"""The configurations of all models that are used."""
    named = [configs[0] for configs in spec.metric_to_model_configs.values()]
    return named or [spec.model_configs[0]]


def named_outcomes(options: Options, spec: SurrogateSpec) -> list[str]:
    r"""Metrics that options or models name, in alphabetical order; empty if none does.

    Raises:
        ValueError: If one of them names others than another, or is for all outcomes.
    """
    mappings = {name: each for name, each in options.items() if isinstance(each, Mapping)}
    for option in _SHARED[:2]:
        if option in mappings:
            raise ValueError(f"{option} is one number for all outcomes, not a mapping.")
    named = {name: set(each) for name, each in mappings.items() if name not in _SHARED}
    if spec.metric_to_model_configs:
        named["model_config"] = set(spec.metric_to_model_configs)
    (first, expected), *others = named.items() or [("", set())]
    for option, names in others:
        if names != expected:
            raise ValueError(
                f"{first} is for the outcomes {_listed(expected)}, and {option} for "
                f"{_listed(names)}; give both for the same."
            )
    return sorted(expected)


def check_names(spec: GeneratorSpec, used: set[str]) -> None:
    r"""Compare the named outcomes with those that the experiment uses."""
    arguments = spec.generator_kwargs
    options = arguments["botorch_acqf_options"]
    names = set(named_outcomes(options, arguments["surrogate_spec"]))
    if names and names != used:
        raise ValueError(
            f"Options or models are given for the outcomes {_listed(names)}, and the "
            f"objective and the constraints are on {_listed(used)}."
        )


def options_of(options: Options, name: str | None) -> dict[str, Any]:
    r"""Options of one outcome, from those of all."""
    return {
        option: each[name] if isinstance(each, Mapping) and option not in _SHARED else each
        for option, each in options.items()
    }


def resolved(
    acqf_class: type[KernelUCB], options: Options, names: Sequence[str]
) -> dict[str, Any]:
    r"""Options for a bound of the outcomes ``names``, with lists in the place of names."""
    if acqf_class is not ScalarizedUCB:
        return options_of(options, names[0])
    return {
        option: [each[name] for name in names]
        if isinstance(each, Mapping) and option not in _SHARED
        else each
        for option, each in options.items()
    }


def bound_of_outcome(
    acqf_class: type[KernelUCB], options: Options, name: str | None
) -> tuple[type[KernelUCB], dict[str, Any]]:
    r"""Class and options of the band of one outcome by itself; of all, without a name."""
    if BY_OUTCOME in options:
        own = dict(options[BY_OUTCOME][name])
        return own.pop("class"), own
    if acqf_class is not ScalarizedUCB:
        return acqf_class, options_of(options, name)
    own = {option: each for option, each in options.items() if option != "options"}
    own |= dict(options.get("options") or {})
    return MartingaleMixtureUCB, options_of(own, name)


def bound_of_spec(spec: GeneratorSpec, name: str) -> tuple[type[KernelUCB], dict[str, Any]]:
    r"""Class and options of the band of one outcome of a strategy."""
    arguments = spec.generator_kwargs
    acqf_class, options = arguments["botorch_acqf_class"], arguments["botorch_acqf_options"]
    return bound_of_outcome(acqf_class, options, name)


def shared_delta(acqf_class: type[KernelUCB], options: Options, count: int) -> float:
    r"""The failure probability of each of ``count`` bands."""
    default = signature(acqf_class).parameters["delta"].default
    return options.get("delta", default) / count


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
