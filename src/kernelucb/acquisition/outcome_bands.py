r"""One band for each outcome of a model, at a joint failure probability."""

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import Any

from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import probability, whole_number
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.input_constructors import builder_of, parameters_of
from kernelucb.acquisition.martingale_mixture import MartingaleMixtureUCB
from kernelucb.confidence.noise import UnknownNoise
from kernelucb.confidence.norm import NormBoundLike, NormTracker
from kernelucb.regression.from_model import per_output, single_output_models

NormBounds = NormBoundLike | Sequence[NormBoundLike]
Noise = float | Tensor | UnknownNoise | None
BoundClasses = type[KernelUCB] | Sequence[type[KernelUCB]]
BoundOptions = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


def outcome_bands(
    models: Model | Sequence[Model],
    *,
    norm_bound: NormBounds = None,
    noise_std: Noise | Sequence[Noise] = None,
    delta: float = 0.05,
    num_bounds: int | None = None,
    bound: BoundClasses = MartingaleMixtureUCB,
    options: BoundOptions = None,
) -> list[KernelUCB]:
    r"""One band for each outcome; all bands hold at once with probability ``1 - delta``.

    Each band has the failure probability ``delta / num_bounds``. The outcomes and their
    noises may depend on each other in any way. Use the bands in ``OutcomeConstraints``,
    ``SafeSet``, ``ConstrainedUCB`` and ``ScalarizedUCB``, where a band that is used twice
    counts once.

    Source: the union bound over the theorem of the class ``bound``.

    Example:
        >>> bands = outcome_bands(model, norm_bound=[10.0, 3.0], noise_std=[0.1, 0.02])
        >>> acqf = ConstrainedUCB(bands[0], OutcomeConstraints(bands[1], 0.9))

    Args:
        models: A ``ModelListGP``, a ``SingleTaskGP`` with several columns, or several
            models with one output each. Each keeps its own kernel.
        norm_bound: See ``MartingaleMixtureUCB``; one for all outcomes or one for each.
        noise_std: See ``MartingaleMixtureUCB``; one for all outcomes or one for each.
        delta: Failure probability of all bands together.
        num_bounds: Number of equal parts of ``delta``; by default the number of outcomes. A
            larger number leaves parts for bands that are built elsewhere.
        bound: Class of the bands, one for all outcomes or one for each.
        options: Further arguments of that class, one mapping for all outcomes or one for
            each, such as the ``kernels`` of a ``KernelFamilyUCB``, or of its
            ``from_model``, for a band with a kernel of its own.

    Raises:
        ValueError: If a scalar is out of its range, or a sequence has the wrong length.
        UnsupportedError: If a model cannot be represented.
    """
    singles = single_output_models(models)
    if not singles:
        raise ValueError("models is empty; give at least one.")
    count = len(singles) if num_bounds is None else whole_number("num_bounds", num_bounds)
    if count < len(singles):
        raise ValueError(
            f"num_bounds is {count}, below the number of outcomes {len(singles)}."
        )
    share, used = probability("delta", delta) / count, range(len(singles))
    given = norm_bound, noise_std, bound, options
    return list(bands_of_outputs(singles, used, share, *given).values())


def bands_of_outputs(
    models: Sequence[Any],
    used: Iterable[int],
    delta: float,
    norm_bound: NormBounds,
    noise_std: Any,
    bound: BoundClasses,
    options: BoundOptions,
    of_one: Mapping[int, Mapping[str, Any]] | None = None,
) -> dict[int, KernelUCB]:
    r"""The band of each used output, by its number, each of failure probability ``delta``.

    Arguments are one value for all outputs or one for each; ``of_one`` holds further
    arguments of single outputs, by their numbers.
    """
    norms = per_output("norm_bound", norm_bound, len(models))
    trackers = [id(norm) for norm in norms if isinstance(norm, NormTracker)]
    if len(set(trackers)) < len(trackers):
        raise ValueError(
            "norm_bound: a NormTracker is for one outcome; give each outcome its own."
        )
    noises, bounds, further = (
        per_output(name, value, len(models))
        for name, value in (
            ("noise_std", noise_std),
            ("bound", bound),
            ("options", options),
        )
    )
    bands: dict[int, KernelUCB] = {}
    for j in used:
        named = {"norm_bound": norms[j], "noise_std": noises[j]}
        builder, arguments = _checked(bounds[j], named, further[j] or {})
        own = (of_one or {}).get(j, {})
        bands[j] = builder(models[j], delta=delta, **arguments, **own)
    return bands


def _checked(
    bound: type[KernelUCB], named: Mapping[str, Any], further: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    r"""What builds a band, and its arguments, which it takes."""
    taken = set(signature(bound).parameters)
    own = {n: value for n, value in named.items() if n in taken or value is not None}
    if twice := further.keys() & {"model", "delta", *named}:
        names = ", ".join(sorted(twice))
        raise ValueError(f"options holds {names}; give that as an argument of its own.")
    builder: Any = bound
    if further.keys() - taken:  # described by names and numbers
        builder, taken = builder_of(bound), {each.name for each in parameters_of(bound)}
    if unknown := (own.keys() | further.keys()) - taken:
        names = ", ".join(sorted(map(str, unknown)))
        raise ValueError(f"{bound.__name__} has no option {names}; see help of the class.")
    return builder, {**own, **further}
