r"""The interface of a confidence band, and the joint assumptions of several bands."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor

from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.sets import ConfidenceSet, Described
from kernelucb.regression.from_model import per_output
from kernelucb.regression.outcome_map import IDENTITY, OutcomeMap

if TYPE_CHECKING:
    from kernelucb.confidence.outcome_constraints import OutcomeConstraints


class Band(Described):
    r"""A confidence band over points, for one outcome or a weighted sum of outcomes.

    To use a band of your own, derive from this class and define ``bounds``,
    ``assumptions`` and ``prior_std``. All other members have defaults for a band in outcome
    units without a set of functions.
    """

    # Limits on other outcomes that a search keeps to.
    outcome_constraints: "OutcomeConstraints | None" = None

    @property
    def objective_band(self) -> "Band":
        r"""The objective's band, if this band has constraints; else this band."""
        return self

    @property
    def assumptions(self) -> Assumptions:
        r"""The assumptions of the guarantee: given, estimated or violated."""
        raise NotImplementedError

    @property
    def delta(self) -> float | None:
        r"""Failure probability; None where the theorem does not state one number."""
        return self.assumptions.delta

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome, units of ``latent_bounds``."""
        raise NotImplementedError

    def bounds(self, X: Tensor, /) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at ``n x d`` points, ``n`` values each, outcome units."""
        raise NotImplementedError

    @property
    def data(self) -> Any:
        r"""The data of the band, such as a ``State``; None where they are not known.

        Callers read the attributes ``dimension`` and ``num_observations`` of the data.
        """
        return None

    @property
    def parts(self) -> "Sequence[Band]":
        r"""The bands that this band combines; empty for a single band."""
        return ()

    @property
    def norm_bounds(self) -> tuple[float, ...]:
        r"""Norm bounds in use, outcome units; empty where the band has no norm bound."""
        norms = [norm for part in self.parts for norm in part.norm_bounds]
        return tuple(dict.fromkeys(norms))

    @property
    def smallest_norm_bound(self) -> float:
        r"""Smallest norm bound that ``relaxed`` multiplies, outcome units; NaN without."""
        return min(self.norm_bounds, default=math.nan)

    @property
    def confidence_set(self) -> ConfidenceSet | None:
        r"""The set of functions that explain the data; None where there is none."""
        return None

    @property
    def outcome_map(self) -> OutcomeMap:
        r"""Map from outcomes to the scale of the set, on which norm and noise scale are."""
        return IDENTITY

    @property
    def direction(self) -> int:
        r"""1 where large outcomes are sought, -1 where small ones are."""
        return 1

    def latent_bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""``bounds`` on the scale of ``outcome_map``."""
        return self.bounds(X)

    def max_gain_over(
        self, X: Tensor, reference: Tensor, sign: int = 1, cheap: bool = False
    ) -> Tensor:
        r"""Upper bound on ``sign * (f(x) - f(reference))``, ``n`` values.

        See ``ConfidenceSet.max_gain_over``; units of ``latent_bounds``. Without a
        ``confidence_set``, the difference of two sides of the band.
        """
        if self.confidence_set is not None:
            return self.confidence_set.max_gain_over(X, reference, sign, cheap)
        above, below = self.latent_bounds(X), self.latent_bounds(reference)
        return above[1] - below[0] if sign > 0 else below[1] - above[0]

    def at(self, **changes: Any) -> Self:
        r"""The band of the same data with another norm bound, noise scale or ``delta``.

        Raises:
            UnsupportedError: If the band cannot be computed anew.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot be computed anew.")

    def within(self, lower: float = -math.inf, upper: float = math.inf) -> Self:
        r"""The same band of a function that is known to lie in a range everywhere.

        Raises:
            UnsupportedError: If the band knows of no set of functions.
        """
        raise UnsupportedError(
            f"{type(self).__name__} takes no range; give it to its parts: "
            "band.within(lower, upper)."
        )

    def with_replicates(self, num_inputs: int | None = None, share: float = 0.5) -> Self:
        r"""The same band, cut at observed inputs to what their outcomes alone say.

        Raises:
            UnsupportedError: If the band is not of one outcome with a known noise scale.
        """
        raise UnsupportedError(
            f"{type(self).__name__} takes no replicates; give them to its parts: "
            "band.with_replicates()."
        )

    @property
    def observed(self) -> Tensor | None:
        r"""``n x d`` observed inputs, as ``bounds`` takes them; None if not known."""
        return None

    @property
    def noise_scale(self) -> float | None:
        r"""Largest noise scale, outcome units; None if ``relaxed`` cannot enlarge it."""
        scales = [part.noise_scale for part in self.parts]
        return None if None in scales or not scales else max(filter(None, scales))

    @property
    def lengthscales(self) -> tuple[float, ...]:
        r"""Shortest length scale of each kernel of a family, in its order; else empty."""
        return ()

    @property
    def least_norm_factor(self) -> float:
        r"""Least consistent norm over the norm bound; for several bands the largest.

        Counts as estimated, as does what is computed from it.
        """
        if not self.parts:
            raise UnsupportedError(f"{type(self).__name__} has no least consistent norm.")
        return max(term.least_norm_factor for term in terms_of(self))

    def relaxed(
        self,
        norm_factor: float = 1.0,
        noise_factor: float = 1.0,
        lengthscale: float | None = None,
    ) -> Self:
        r"""The band of the same data under a larger norm bound and a larger noise scale.

        The bands of all factors rest on one event: with probability ``1 - delta``, whatever
        the true norm, every band holds whose norm bound and noise scale are large enough,
        in every round at once. So the factors may be chosen after a look at the bands. The
        event does not depend on the norm bound that was given, except that the runs of a
        fixed design are weighed for that norm bound, which was fixed before.

        Source: ours; proven in ``docs/mathematics.md``.

        Args:
            norm_factor: Multiple of the norm bound in use, above 0.
            noise_factor: Multiple of the noise scale, at least 1.
            lengthscale: For a family of length scales, the shortest length scale to keep,
                units of the kernels' inputs: all kernels stay that cover length scales
                from there upwards. No other band changes.

        Raises:
            UnsupportedError: If the theorem of the band does not give such an event.
        """
        raise UnsupportedError(
            f"The sets of {type(self).__name__} are not one event for all norm bounds; use "
            "MartingaleMixtureUCB, KernelFamilyUCB or LikelihoodUCB."
        )

    def _described(self) -> dict[str, Any]:
        known = dict.fromkeys(f"{norm:.6g}" for norm in self.norm_bounds)
        return {
            "norm_bound": " and ".join(known) or None,
            "delta": self.assumptions.delta,
            "num_observations": getattr(self.data, "num_observations", None),
        }


def band_of(name: str, value: Any) -> Band:
    r"""The band of an acquisition function, or a band itself.

    Raises:
        UnsupportedError: For an object that has no band, such as a model.
    """
    band = value if isinstance(value, Band) else getattr(value, "band", None)
    if not isinstance(band, Band):
        raise UnsupportedError(
            f"{name} must be an instance of Band, got {type(value).__name__}: a confidence "
            "band over points, such as MartingaleMixtureUCB."
        )
    return band


def terms_of(band: Band) -> list[Band]:
    r"""The single bands that a band combines, at any depth; a single band itself."""
    return [each for part in band.parts for each in terms_of(part)] or [band]


def joined_assumptions(bands: Mapping[str, Band], claim: str) -> Assumptions:
    r"""The joint assumptions of several named bands, in which each band counts once.

    ``claim`` is the statement that follows, in words. A weighted sum rests on the bands of
    its terms. A band that has two names, or is a term of several sums, adds its failure
    probability once.
    """
    parts = {name: term.assumptions for name, term in named_terms(bands).items()}
    return Assumptions.joined(parts, claim)


def named_terms(bands: Mapping[str, Band]) -> dict[str, Band]:
    r"""The distinct single bands of named bands, such as ``"objective (term 1)"``."""
    names: dict[int, list[str]] = {}
    distinct: dict[int, Band] = {}
    for name, band in bands.items():
        terms = terms_of(band)
        for i, term in enumerate(terms, 1):
            part = f"{name} (term {i})" if name else f"term {i}"
            label = name if len(terms) == 1 else part
            names.setdefault(id(term), []).append(label)
            distinct[id(term)] = term
    return {", ".join(names[key]): band for key, band in distinct.items()}


def changed_bands(
    bands: Sequence[Band], *, delta: float | None = None, **changes: Any
) -> dict[int, Band]:
    r"""The single bands of several bands with other arguments, by their ``id``.

    Each change is one value for all distinct single bands or one for each, in their order;
    ``delta`` is the joint failure probability, divided in the same proportions as before.
    """
    terms = list({id(term): term for band in bands for term in terms_of(band)}.values())
    own = [{} for _ in terms]
    for name, value in changes.items():
        for each, entry in zip(own, per_output(name, value, len(terms)), strict=True):
            each[name] = entry
    if delta is not None:
        shares = [term.assumptions.delta or 0.0 for term in terms]
        for each, share in zip(own, shares, strict=True):
            each["delta"] = delta * share / sum(shares)
    pairs = zip(terms, own, strict=True)
    return {id(term): term.at(**each) for term, each in pairs}


def check_dimensions(name: str, bands: Sequence[Band]) -> None:
    r"""Refuse bands on inputs of different dimension; ``name`` is for the message."""
    known = {band.data.dimension for band in bands if band.data is not None}
    if len(known) > 1:
        raise BotorchTensorDimensionError(
            f"The {name} are on inputs of {sorted(known)} columns; they must agree: give "
            "every model all input columns, those that do not matter for it too."
        )
