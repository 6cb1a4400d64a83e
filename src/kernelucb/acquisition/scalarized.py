r"""Upper confidence bound of a weighted sum of several outcomes."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from botorch.acquisition.objective import PosteriorTransform
from botorch.exceptions import UnsupportedError
from botorch.models.model import Model
from torch import Tensor
from torch.nn import ModuleList

from kernelucb._numerics.checks import finite_scalar, probability
from kernelucb.acquisition.base import KernelUCB, affine_weights, part_at
from kernelucb.acquisition.martingale_mixture import MartingaleMixtureUCB
from kernelucb.acquisition.outcome_bands import (
    BoundClasses,
    BoundOptions,
    NormBounds,
    bands_of_outputs,
)
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.band import Band, check_dimensions
from kernelucb.confidence.combined import (
    CombinedPoints,
    CombinedSet,
    CombinedState,
    WeightedSum,
)
from kernelucb.regression.from_model import per_output, single_output_models
from kernelucb.regression.outcome_map import check_identity

_INSTEAD = (
    "use Standardize or no outcome transform, or add up the bands themselves (bounds(X) of "
    "each, in outcome units)"
)


class ScalarizedUCB(KernelUCB[CombinedState, CombinedPoints]):
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
        acqfs: A bound for each outcome, without a posterior transform. The sum of their
            ``delta`` is the failure probability.
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
        acqfs: Sequence[KernelUCB],
        weights: Sequence[float] | Tensor,
        *,
        offset: float = 0.0,
        maximize: bool = True,
        X_pending: Tensor | None = None,
    ) -> None:
        listed = per_output("weights", weights, len(acqfs))
        values = [finite_scalar("weights", weight) for weight in listed]
        used = {j: weight for j, weight in enumerate(values) if weight != 0.0}
        if not used:
            raise ValueError(
                "acqfs is empty or all weights are zero; a sum needs an outcome."
            )
        parts = [acqfs[j] for j in used]
        for acqf in parts:
            if acqf.posterior_transform is not None:
                raise UnsupportedError(
                    "A bound in the sum has a posterior transform; give its weight to "
                    "ScalarizedUCB."
                )
            check_identity(acqf.outcome_map, "A weighted sum", _INSTEAD)
        check_dimensions("acqfs", parts)
        assumptions = Assumptions.joined(
            {f"output {j + 1}": acqfs[j].assumptions for j in used},
            "the band of the weighted sum holds",
        )
        rule = WeightedSum(tuple(used.values()), finite_scalar("offset", offset))
        band = CombinedSet([acqf.confidence_set for acqf in parts], rule, assumptions)
        models: Any = ModuleList([acqf.model for acqf in parts])
        super().__init__(models, band, maximize, None, X_pending)
        self.acqfs, self.weights = ModuleList(parts), rule.weights
        self.output_weights = tuple(values)

    @classmethod
    def from_model(
        cls,
        model: Model | Sequence[Model],
        *,
        posterior_transform: PosteriorTransform | None = None,
        norm_bound: NormBounds = None,
        noise_std: Any = None,
        delta: float = 0.05,
        bound: BoundClasses = MartingaleMixtureUCB,
        options: BoundOptions = None,
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
        singles = single_output_models(model)
        weights, offset = affine_weights(posterior_transform, len(singles))
        used = [j for j, weight in enumerate(weights) if weight != 0.0]
        share = probability("delta", delta) / len(used)
        given = norm_bound, noise_std, bound, options
        bands = bands_of_outputs(singles, used, share, *given).values()
        return cls(
            **_with_zeros([*bands], weights),
            offset=offset,
            maximize=maximize,
            X_pending=X_pending,
        )

    @property
    def parts(self) -> Sequence[Band]:
        r"""The bounds of the outcomes whose weight is not zero."""
        return [acqf for acqf in self.acqfs if isinstance(acqf, KernelUCB)]

    def _parts_at(self, terms: Mapping[int, Band]) -> dict[str, Any]:
        parts = [part_at(part, terms) for part in self.parts]
        return _with_zeros(parts, self.output_weights)


def _with_zeros(parts: Sequence[Any], weights: Sequence[float]) -> dict[str, Any]:
    r"""Arguments with a band for each output; that of a weight of zero is not looked at."""
    used = iter(parts)
    acqfs = [parts[0] if weight == 0.0 else next(used) for weight in weights]
    return {"acqfs": acqfs, "weights": weights}
