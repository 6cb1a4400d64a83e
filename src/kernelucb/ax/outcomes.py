r"""Options and models of each outcome, by the names of the metrics."""

from collections.abc import Collection, Mapping, Sequence
from inspect import signature
from typing import Any

from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig

from kernelucb.acquisition import MartingaleMixtureUCB, ScalarizedUCB
from kernelucb.acquisition.base import KernelUCB
from kernelucb.ax.models import default_model_config

Options = Mapping[str, Any]
Configs = Mapping[str, ModelConfig]
BoundClasses = type[KernelUCB] | Mapping[str, type[KernelUCB]]

# Where each outcome has a class of its own: its class and its options, by its name.
BY_OUTCOME = "by_outcome"

# Options that are one for all outcomes; what is a mapping there has another meaning.
_SHARED = ("delta", "horizon", "options")

# Options with an entry for each input of the bound, which may be by their names.
LENGTHS = ("shortest", "longest", "lengthscale")


def surrogate_spec(
    model_config: ModelConfig | Configs | None, acqf_class: BoundClasses, options: Options
) -> SurrogateSpec:
    r"""What Ax makes models of outcomes from, each outcome its own.

    Outcomes with classes of their own that a mapping of models lacks have the default.
    """
    default = default_model_config(data_only=options.get("kernel") is not None)
    named = dict(model_config) if isinstance(model_config, Mapping) else {}
    if isinstance(acqf_class, Mapping):
        given = model_config if isinstance(model_config, ModelConfig) else None
        for name in acqf_class:
            named.setdefault(name, given or default)
    other = model_config if isinstance(model_config, ModelConfig) else None
    return SurrogateSpec(
        model_configs=[other or default],
        metric_to_model_configs={name: [config] for name, config in named.items()},
        # A bound is for one outcome, a batched model for several.
        allow_batched_models=False,
    )


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
    for option in _SHARED[:2]:
        if isinstance(options.get(option), Mapping):
            raise ValueError(f"{option} is one number for all outcomes, not a mapping.")
    options = {**options, **(options.get("options") or {})}
    others = {k: each for k, each in options.items() if k not in LENGTHS}
    named = {k: set(each) for k, each in others.items() if is_by_outcome(k, each)}
    if spec.metric_to_model_configs:
        named["model_config"] = set(spec.metric_to_model_configs)
    known = set[str]().union(*named.values())
    for option in LENGTHS:
        if is_by_outcome(option, options.get(option), known):
            named[option] = set(options[option])
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
    names = () if name is None else (name,)
    return {
        option: each[name] if is_by_outcome(option, each, names) else each
        for option, each in options.items()
    }


def is_by_outcome(option: str, value: Any, names: Collection[str] = ()) -> bool:
    r"""Whether an option has an entry for each outcome, of which some are ``names``.

    Length scales may be by the names of parameters instead, or as well, within an outcome.
    """
    if not isinstance(value, Mapping) or option in _SHARED:
        return False
    nested = any(isinstance(each, Mapping) for each in value.values())
    return option not in LENGTHS or nested or bool(value.keys() & set(names))


def with_columns(options: Options, parameters: Sequence[str]) -> dict[str, Any]:
    r"""Options with lists for length scales by the names of parameters.

    ``parameters`` are those of the input columns of the bound.
    """

    def listed(option: str, each: Any) -> Any:
        if not isinstance(each, Mapping):
            return each
        if option in LENGTHS and set(parameters) <= each.keys():
            return [each[name] for name in parameters]
        return {k: listed(option if option in LENGTHS else k, v) for k, v in each.items()}

    return {option: listed(option, each) for option, each in options.items()}


def resolved(
    acqf_class: type[KernelUCB], options: Options, names: Sequence[str]
) -> dict[str, Any]:
    r"""Options for a bound of the outcomes ``names``, with lists in the place of names."""
    if acqf_class is not ScalarizedUCB:
        return options_of(options, names[0])
    own = {
        option: [each[name] for name in names] if is_by_outcome(option, each) else each
        for option, each in options.items()
    }
    if nested := options.get("options"):
        own["options"] = [options_of(nested, name) for name in names]
    return own


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
