r"""One band for each outcome of a model, which share a failure probability."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any, cast

from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.checks import probability, whole_number
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.input_constructors import parameters_of
from kernelucb.acquisition.martingale_mixture import MartingaleMixtureUCB
from kernelucb.confidence.norm.tracker import NormBoundLike, NormTracker
from kernelucb.confidence.unknown_noise import UnknownNoise
from kernelucb.regression.from_model import per_output, single_output_models

NormBounds = NormBoundLike | Sequence[NormBoundLike]
Noise = float | Tensor | UnknownNoise | None
BoundClasses = type[KernelUCB] | Sequence[type[KernelUCB]]
BoundOptions = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
Builder = Callable[..., KernelUCB]

# What describes a kernel of its own, of bounds that do not take these themselves.
OWN_KERNEL = ("kernel", "lengthscale", "outputscale", "mean")


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
    r"""One band for each outcome, all of which hold at once.

    Each has the failure probability ``delta / num_bounds``. The outcomes and their noises
    may depend on each other in any way. The bands are for ``OutcomeConstraints``,
    ``SafeSet``, ``ConstrainedUCB`` and ``ScalarizedUCB``; one that is used twice counts
    once among their assumptions.

    Source: the union bound over the theorem of the class ``bound``.

    Example:
        >>> bands = outcome_bands(model, norm_bound=[10.0, 3.0], noise_std=[0.1, 0.02])
        >>> acqf = ConstrainedUCB(bands[0], OutcomeConstraints(bands[1], 0.9))

    Args:
        models: A ``ModelListGP``, a ``SingleTaskGP`` with several columns, or several
            models with one output each. Each keeps its own kernel.
        norm_bound: See ``MartingaleMixtureUCB``; one for all outcomes or one for each.
        noise_std: The same.
        delta: Failure probability of all bands together.
        num_bounds: Into how many parts ``delta`` is divided; the number of outcomes by
            default. A larger number leaves something for bands that are built elsewhere.
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
    builders = band_builders(len(singles), bound, norm_bound, noise_std, options)
    return list(build_bands(builders, singles, range(len(singles)), delta, count).values())


def band_builders(
    count: int,
    bound: BoundClasses,
    norm_bound: NormBounds,
    noise_std: Any,
    options: BoundOptions,
) -> list[Builder]:
    r"""What makes the band of each outcome from its model and ``delta``."""
    columns = zip(
        per_output("bound", bound, count),
        _norms(norm_bound, count),
        per_output("noise_std", noise_std, count),
        per_output("options", options, count),
        strict=True,
    )
    return [_builder(*column) for column in columns]


def _norms(norm_bound: Any, count: int) -> list[Any]:
    r"""A norm bound for each outcome, from one for all or a sequence.

    Raises:
        ValueError: If a sequence has another length, or outcomes share a tracker.
    """
    norms = per_output("norm_bound", norm_bound, count)
    trackers = [id(norm) for norm in norms if isinstance(norm, NormTracker)]
    if len(set(trackers)) < len(trackers):
        raise ValueError(
            "norm_bound: a NormTracker is for one outcome; give each outcome its own."
        )
    return norms


def _builder(
    bound: type[KernelUCB], norm_bound: Any, noise_std: Any, options: Any
) -> Builder:
    parameters: Mapping[str, Any] = signature(bound).parameters
    named = {"norm_bound": norm_bound, "noise_std": noise_std}
    own = {n: v for n, v in named.items() if n in parameters or v is not None}
    further = dict(options or {})
    if taken := further.keys() & {"model", "delta", *named}:
        names = ", ".join(sorted(taken))
        raise ValueError(f"options holds {names}; give that as an argument of its own.")
    build: Any = bound
    if further.keys() - parameters.keys() and hasattr(bound, "from_model"):
        build = cast(Any, bound).from_model  # described by names and numbers
        parameters = {each.name: each for each in parameters_of(bound)}
    unknown = (own.keys() | further.keys()) - parameters.keys()
    if unknown:
        names = ", ".join(sorted(map(str, unknown)))
        raise ValueError(f"{bound.__name__} has no option {names}; see help of the class.")
    return partial(build, **own, **further)


def build_bands(
    builders: Sequence[Builder],
    models: Sequence[Any],
    used: Iterable[int],
    delta: float,
    num_bounds: int,
) -> dict[int, KernelUCB]:
    r"""The band of each used outcome, by its number, at ``delta / num_bounds``."""
    share = probability("delta", delta) / num_bounds
    return {j: builders[j](models[j], delta=share) for j in used}
