r"""Bands of several outcomes at a joint failure probability, and of their weighted sum."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from torch import Tensor
from torch.nn import Module, ModuleList

from kernelucb._numerics.checks import probability, whole_number
from kernelucb.acquisition.bounds import MartingaleMixtureUCB
from kernelucb.acquisition.ucb import BandUCB, affine_weights, builder_of, model_of
from kernelucb.confidence.band import Band, BandLike, weighted_sum
from kernelucb.confidence.noise import UnknownNoise
from kernelucb.confidence.norm import NormBoundLike, NormTracker
from kernelucb.data.from_model import per_output, single_output_models

NormBounds = NormBoundLike | Sequence[NormBoundLike]
Noise = float | Tensor | UnknownNoise | None
BoundClasses = type[BandUCB] | Sequence[type[BandUCB]]
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
) -> list[Band]:
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
    models: Sequence[Model],
    used: Iterable[int],
    delta: float,
    norm_bound: NormBounds,
    noise_std: Noise | Sequence[Noise],
    bound: BoundClasses,
    options: BoundOptions,
) -> dict[int, Band]:
    r"""The band of each used output, by its number, each of failure probability ``delta``.

    Arguments are one value for all outputs or one for each.
    """
    norms = per_output("norm_bound", norm_bound, len(models))
    # A tracker of two outcomes would take the norm of one for the other.
    trackers = [id(norm) for norm in norms if isinstance(norm, NormTracker)]
    if len(set(trackers)) < len(trackers):
        raise ValueError(
            "norm_bound: a NormTracker is for one outcome; give each outcome its own."
        )
    listed = {"noise_std": noise_std, "bound": bound, "options": options}
    noises, bounds, further = (
        per_output(name, value, len(models)) for name, value in listed.items()
    )
    bands: dict[int, Band] = {}
    for j in used:
        named = {"norm_bound": norms[j], "noise_std": noises[j]}
        named = {name: value for name, value in named.items() if value is not None}
        # Options by name, such as a kernel's, are those of ``from_model``.
        build = builder_of(bounds[j])
        bands[j] = build(models[j], delta=delta, **named, **(further[j] or {})).band
    return bands


def sum_of_outputs(
    model: Model | Sequence[Model],
    norm_bound: NormBounds,
    noise_std: Noise | Sequence[Noise],
    delta: float,
    bound: BoundClasses,
    options: BoundOptions,
    posterior_transform: PosteriorTransform | None,
    maximize: bool,
    X_pending: Tensor | None,
) -> dict[str, Any]:
    r"""Arguments of ``ScalarizedUCB`` from those of its ``from_model``."""
    singles = single_output_models(model)
    weights, offset = affine_weights(posterior_transform, len(singles))
    used = [j for j, weight in enumerate(weights) if weight != 0.0]
    share = probability("delta", delta) / len(used)
    given = norm_bound, noise_std, bound, options
    bands = bands_of_outputs(singles, used, share, *given)
    return {
        # The band of an output of weight zero is not looked at.
        "bands": [bands.get(j, bands[used[0]]) for j in range(len(singles))],
        "weights": weights,
        "offset": offset,
        "maximize": maximize,
        "X_pending": X_pending,
    }


class ScalarizedUCB(BandUCB):
    r"""Upper confidence bound of ``offset + sum_j w_j f_j`` from a band of each outcome.

    The band of the sum is the weighted sum of the bands, with sides swapped for negative
    weights. The sum's band holds if all bands hold: the failure probabilities add up, and
    the sum's band is anytime if every band is. Outcomes and their noises may depend on each
    other in any way.

    Source: the union bound over the theorems of the single bands.

    Example:
        >>> model = ModelListGP(yield_model, cost_model)
        >>> acqf = ScalarizedUCB.from_model(
        ...     model, norm_bound=[10.0, 4.0], noise_std=[0.1, 0.05], delta=0.05,
        ...     posterior_transform=ScalarizedPosteriorTransform(torch.tensor([1.0, -2.0])),
        ... )

    Args:
        bands: A band, or a bound without a posterior transform, for each outcome. The sum
            of their ``delta`` is the failure probability.
        weights: One weight for each outcome; outcomes of weight zero are left out.
        offset: Constant added to the sum, outcome units.
        maximize: If False, the value is minus the lower bound of the sum.
        X_pending: ``p x d`` points under evaluation, for all outcomes.

    Raises:
        ValueError: If there are no outcomes, or the number of weights differs.
        UnsupportedError: If a bound has a posterior transform.
        BotorchTensorDimensionError: If the outcomes' inputs differ in dimension.
    """

    def __init__(
        self,
        bands: Sequence[BandLike],
        weights: Sequence[float] | Tensor,
        *,
        offset: float = 0.0,
        maximize: bool = True,
        X_pending: Tensor | None = None,
    ) -> None:
        if any(getattr(each, "posterior_transform", None) for each in bands):
            raise UnsupportedError(
                "A bound in the sum has a posterior transform; give its weight to "
                "ScalarizedUCB."
            )
        band = weighted_sum(bands, weights, offset)
        models = map(model_of, bands)
        # Registered, so that they move to another device with the function.
        model = ModuleList([each for each in models if isinstance(each, Module)])
        super().__init__(band, maximize, None, X_pending, model)

    arguments_from_model = staticmethod(sum_of_outputs)

    @classmethod
    def from_model(
        cls,
        model: Model | Sequence[Model],
        *,
        norm_bound: NormBounds = None,
        noise_std: Noise | Sequence[Noise] = None,
        delta: float = 0.05,
        bound: BoundClasses = MartingaleMixtureUCB,
        options: BoundOptions = None,
        posterior_transform: PosteriorTransform | None = None,
        maximize: bool = True,
        X_pending: Tensor | None = None,
    ) -> Self:
        r"""Bound of a weighted sum of the outputs of a model.

        Each of the ``k`` outputs of nonzero weight gets a band of failure probability
        ``delta / k``, so that all bands hold at once with probability ``1 - delta``.

        ``model`` is a ``ModelListGP``, a ``SingleTaskGP`` with several columns, or several
        models with one output each; ``posterior_transform`` has one weight for each
        output. ``norm_bound``, ``noise_std`` and the further ``options`` are arguments of
        the class ``bound``: one value for all outputs or a sequence with one for each.

        Raises:
            ValueError: If a scalar is out of its range, or a sequence has the wrong length.
            UnsupportedError: If the model or the transform cannot be represented.
        """
        bands = norm_bound, noise_std, delta, bound, options
        given = *bands, posterior_transform, maximize, X_pending
        return cls(**cls.arguments_from_model(model, *given))
