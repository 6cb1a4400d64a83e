r"""A confidence band as a value: a set of functions, and how it was built."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from functools import cached_property, partial, singledispatch, wraps
from inspect import signature
from operator import attrgetter
from typing import Any, ParamSpec, Protocol, cast

import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import (
    finite,
    finite_scalar,
    probability,
    tensor,
    whole_number,
)
from kernelucb._numerics.estimates import Estimate, Number, draft_of
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.combined import WeightedSum
from kernelucb.confidence.limits import (
    DesignSource,
    Noise,
    RangeSource,
    ReplicateSource,
    Source,
)
from kernelucb.confidence.pointwise import DEFAULT_NORM
from kernelucb.confidence.sets import ConfidenceSet, Described
from kernelucb.data import KernelRegression
from kernelucb.data.counts import LikelihoodRegression
from kernelucb.data.exact import data_of
from kernelucb.data.from_model import ModelData, observed_inputs, per_output
from kernelucb.data.outcome_map import IDENTITY, OutcomeMap, check_identity
from kernelucb.exceptions import SinglePrecisionWarning

Arguments = ParamSpec("Arguments")
ONE_POINT = (
    " The bound scores one point at a time; for q > 1 use optimize_acqf with "
    "sequential=True, or return_acq_values=False where an optimiser asks for a joint value."
)
# Assumptions that an argument of a builder states; norm bounds that are too small for every
# kernel of a family contradict the kernels.
_STATED = {"norm_bound": ("norm", "kernel", "domain"), "noise_std": ("noise",)}


_NO_SHARE = (
    "This band has no delta to share, or no noise scale of its own; use "
    "MartingaleMixtureUCB or KernelFamilyUCB with noise_std."
)
_INSTEAD = (
    "use Standardize or no outcome transform, or add up the bands themselves (bounds(X) of "
    "each, in outcome units)"
)


class Band(Described):
    r"""A confidence band over points, for one outcome or a weighted sum of outcomes.

    The band of a bound is ``acqf.band``; ``BandUCB(band)`` is the acquisition function of a
    band. To use a band of your own, derive from this class and define ``bounds``,
    ``assumptions`` and ``prior_std``.

    Args:
        confidence_set: The set of functions that explain the data.

    Attributes:
        confidence_set: As given; None for a band that is no set of functions.
        data: The data, with attributes ``dimension`` and ``num_observations``, such as a
            ``KernelRegression``.
        observed: ``n x d`` observed inputs, as ``bounds`` takes them; None if not known.
        norm_bounds: Norm bounds in use, outcome units, one for each kernel; larger than
            those given where the data contradict these. Those that were estimated count as
            estimated when given to another bound.
        noise_interval: Lower and upper bound on the noise scale from the data, outcome
            units; None where the noise scale was given.
        constants: Numbers of the theorem by their names, such as ``beta`` or ``alpha``.
        lengthscales: Shortest length scale of each kernel of a family, in its order.
        parts: The bands that this band combines; empty for a single band.
        direction: 1 where large outcomes are sought, -1 where small ones are.
    """

    confidence_set: ConfidenceSet | None = None
    data: Any = None
    observed: Tensor | None = None
    noise: Noise | None = None
    given_norm: Number | None = None  # prior units, where no outcome enters it
    norm_bounds: tuple[Number, ...] = ()
    appraise: Callable[[], Sequence[float]] | None = None  # gives the least norms
    consistent: tuple[bool, ...] = ()  # of each kernel of a family
    function_constraints: Any = None  # fit and norm of the mixture's functions
    noise_interval: tuple[Estimate, Estimate] | None = None
    constants: Mapping[str, Number] = {}
    lengthscales: tuple[float, ...] = ()
    output_weights: tuple[float, ...] = (1.0,)  # of the outcomes in a sum
    parts: "Sequence[Band]" = ()
    direction: int = 1
    # One in so many rounds searches the whole of a union, the others its first part (None)
    widest_every: int | None = 1
    # How the band is built: from other arguments, and from other parts
    rebuild: "partial[Band] | None" = None
    combine: "Callable[[Sequence[Band]], Band] | None" = None
    # Maps the factors of ``relaxed`` to arguments of ``rebuild``
    relaxation: Callable[..., dict[str, Any]] | None = None
    # The band without limits on values; these limits; and what is less than given in the
    # band from which this one was relaxed
    plain: "Band | None" = None
    sources: tuple[Source, ...] = ()
    flaws: tuple[Assumption, ...] = ()

    def __init__(
        self, confidence_set: ConfidenceSet | None = None, **fields: object
    ) -> None:
        self.confidence_set = confidence_set
        vars(self).update(fields)

    @property
    def key(self) -> int:
        r"""Identity of the band's set, which counts once whatever is sought with it."""
        return id(self if self.confidence_set is None else self.confidence_set)

    def seeking(self, direction: int) -> "Band":
        r"""The same band, with which large (1) or small (-1) outcomes are sought."""
        if direction == self.direction:
            return self
        band = copy(self)  # of the same set, so that both are one band wherever bands count
        band.direction = direction
        return band

    @property
    def assumptions(self) -> Assumptions:
        r"""The assumptions of the guarantee: given, estimated or violated."""
        return self.required_set.assumptions

    @property
    def delta(self) -> float | None:
        r"""Failure probability; None where the theorem does not state one number."""
        return self.assumptions.delta

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome, units of ``latent_bounds``."""
        return self.required_set.regression.prior_std

    @cached_property  # a search for each kernel, which most users of a band do not need
    def least_norms(self) -> tuple[Estimate, ...]:
        r"""Lower bound on the norm under each kernel, outcome units.

        Under all assumptions but that on the norm; counts as estimated.
        """
        return () if self.appraise is None else tuple(map(Estimate, self.appraise()))

    @property
    def outcome_map(self) -> OutcomeMap:
        r"""From outcomes to the scale of the set: the identity, ``Log``, ``Power``, ...

        Norm bound, noise scale, acquisition values, ``prior_std`` and everything that the
        set says are on that scale; ``bounds`` is in outcome units.
        """
        no_set = self.confidence_set is None
        return IDENTITY if no_set else self.required_set.regression.outcome_map

    @property
    def required_set(self) -> ConfidenceSet:
        r"""The set of functions of a band that has one."""
        if self.confidence_set is None:
            raise UnsupportedError(
                f"{type(self).__name__} is no set of functions; define bounds, assumptions "
                "and prior_std, and limit the bands from which it is made."
            )
        return self.confidence_set

    def bounds(self, X: Tensor, /) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at ``n x d`` points, ``n`` values each, outcome units.

        For a model of transformed outcomes (``outcome_map``) the band is ``latent_bounds``
        mapped back: a band of the same probability for the median of an outcome, not for
        its mean. For ``LikelihoodUCB`` a band for the success probability or the rate.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``n x d``.
            InputDataError: If a value is not finite.
        """
        lower, upper = self.outcome_map.inverse(self._sides(X)).to(X.dtype)
        return lower, upper

    def at_worst(self, X: Tensor) -> Tensor:
        r"""What ``n x d`` points are worth at least, outcome units; more is better.

        The lower bound where large outcomes are sought, minus the upper one where small.
        """
        lower, upper = self.bounds(X)
        return lower if self.direction == 1 else -upper

    def latent_at_worst(self, X: Tensor) -> Tensor:
        r"""``at_worst`` on the scale of the set, ``n`` values; differentiable, float64."""
        whole, sign = self.required_set, self.direction
        points = whole.project(X)
        return sign * points.baseline - whole.support(points, -sign)

    def latent_bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""``bounds`` on the scale of ``outcome_map``: that of ``log(Y)`` for ``Log``."""
        if self.confidence_set is None:
            return self.bounds(X)
        lower, upper = self._sides(X).to(X.dtype)
        return lower, upper

    def _sides(self, X: Tensor) -> Tensor:
        r"""Lower and upper bound on the scale of the set, ``2 x n``."""
        check_points("X", X, self.required_set.regression.dimension)
        return in_parts(X, lambda part: torch.stack(self.required_set.bounds(part)))

    def max_gain_over(
        self, X: Tensor, reference: Tensor, sign: int = 1, cheap: bool = False
    ) -> Tensor:
        r"""Upper bound on ``sign * (f(x) - f(reference))``, ``n`` values.

        ``X`` is ``n x d``, ``reference`` ``1 x d``; units of ``latent_bounds``. The largest
        gain of a function of the set; with ``cheap`` somewhat more, without a search.
        Without a ``confidence_set``, the difference of two sides of the band.
        """
        if self.confidence_set is not None:
            return self.confidence_set.max_gain_over(X, reference, sign, cheap)
        above, below = self.latent_bounds(X), self.latent_bounds(reference)
        return above[1] - below[0] if sign > 0 else below[1] - above[0]

    @property
    def arguments(self) -> Mapping[str, Any]:
        r"""Arguments of the builder, from which the band is built again."""
        return {} if self.rebuild is None else self.rebuild.keywords

    def at(self, *, delta: float | None = None, **changes: object) -> "Band":
        r"""The band of the same data with other arguments; limits on values are kept.

        An argument that is given anew is a new assumption: a larger norm bound in place of
        one that the data contradict. The new band gets a copy of a ``NormTracker``, and the
        norm bound in use in place of any other tracker.

        Args:
            delta: Failure probability; of a sum one that its single bands share.
            changes: Arguments of the bound, such as ``norm_bound`` and ``noise_std``. A sum
                passes them to its single bands: one value for all distinct bands or one for
                each.

        Raises:
            TypeError: If the bound has no argument of this name.
            UnsupportedError: If the band cannot be computed anew.
        """
        renewed = {each for name in changes for each in _STATED.get(name, ())}
        flaws = tuple(x for x in self.flaws if x.kind not in renewed)
        plain = self.plain or self
        # Of the whole, of which the set takes its part
        of_set = None if delta is None else delta / self._deltas
        if self.combine is not None:
            band = replaced(plain, changed_bands([plain], delta=of_set, **changes))
        else:
            band = _rebuilt(
                plain, changes if delta is None else {**changes, "delta": of_set}
            )
        return band.limited(self.sources, flaws, self.direction)

    @property
    def _deltas(self) -> float:
        r"""Failure probability of the whole over that of the set."""
        return 1.0 + sum(source.ratio for source in self.sources)

    def relaxed(
        self,
        norm_factor: float = 1.0,
        noise_factor: float = 1.0,
        lengthscale: float | None = None,
    ) -> "Band":
        r"""The band of the same data under a larger norm bound and a larger noise scale.

        The bands of all factors rest on one event: with probability ``1 - delta``, whatever
        the true norm, every band holds whose norm bound and noise scale are large enough,
        in every round at once. So the factors may be chosen after a look at the bands. The
        event does not depend on the norm bound that was given, except that the runs of a
        fixed design are weighed for that norm bound, which was fixed before. No assumption
        has a better status than in this band.

        Source: ours; proven in ``docs/mathematics.md``.

        Args:
            norm_factor: Multiple of the norm bound in use, above 0.
            noise_factor: Multiple of the noise scale, at least 1.
            lengthscale: For a family of length scales, the shortest length scale to keep,
                units of the kernels' inputs: all kernels stay that cover length scales
                from there upwards. No other band changes.

        Raises:
            ValueError: If a factor is out of its range.
            UnsupportedError: If the theorem of the band does not give such an event, or the
                band has no noise scale that could be larger.
        """
        plain = self.plain or self
        if self.combine is not None:
            terms = {x.key: x.relaxed(norm_factor, noise_factor) for x in terms_of(plain)}
            band = replaced(plain, terms)
        elif self.relaxation is None:
            raise UnsupportedError(
                f"The sets of {type(self).__name__} are not one event for all norm bounds; "
                "use MartingaleMixtureUCB, KernelFamilyUCB or LikelihoodUCB."
            )
        else:
            changes = self.relaxation(self, norm_factor, noise_factor, lengthscale)
            band = _rebuilt(plain, changes)
        # Limits stay those of the noise scale at which they were stated.
        sources = tuple(source.relaxed(noise_factor) for source in self.sources)
        flaws = [x for x in self.assumptions.items if x.status is not Status.GIVEN]
        return band.limited(sources, tuple(flaws), self.direction)

    def within(self, lower: float = -math.inf, upper: float = math.inf) -> "Band":
        r"""The same band of a function that is known to lie in a range everywhere.

        An example is a yield between 0 and 100. Band, gains, certificates, stops, safe sets
        and guards are then for functions in the range. The acquisition value stays the
        plain upper bound, which still ranks points whose bounds all reach the end of the
        range. The range is for the function: noisy outcomes may lie outside. ``at`` keeps
        the range, and a later range replaces it. If the band at an observed input lies
        outside the range, the assumption "range" is violated and the band is left as it
        was; bounds from inducing points do not make this check, and say so.

        Source: ours; the same event as the band's, so the same probability.

        Args:
            lower: Least value of the function (of its median, under ``Log`` and the like),
                outcome units.
            upper: Largest value.

        Raises:
            ValueError: If ``lower`` is not below ``upper``.
            UnsupportedError: If the band is no set of functions.
        """
        if not lower < upper:
            raise ValueError(f"lower must be below upper, got {lower:g} and {upper:g}.")
        sources = [each for each in self.sources if not each.is_range]
        flaws = tuple(each for each in self.flaws if each.name != "range")
        new = RangeSource(0.0, lower=lower, upper=upper)
        return (self.plain or self).limited((*sources, new), flaws, self.direction)

    def with_replicates(self, num_inputs: int | None = None, share: float = 0.5) -> "Band":
        r"""The same band, intersected at observed inputs with intervals for their means.

        The mean of repeated outcomes at an input may bound the function more tightly there
        than all data under a kernel and a norm bound; so on a finite set the band is never
        much wider than plain means. The inputs may depend on earlier outcomes.
        Certificates, stops, safe sets, guards and acquisition values use the narrower band.

        Source: Robbins (1970) and a union bound over inputs; the combination with the band
        is ours. Band and intervals hold together in every round at once at the band's
        ``delta``.

        Args:
            num_inputs: Number of different inputs that may ever be observed, fixed
                beforehand (the length of a list of candidates); when absent the ``k``-th
                new input counts with ``1 / (k (k + 1))``.
            share: Share of ``delta`` that the intervals take; the band keeps the rest.

        Raises:
            ValueError: If a number is out of its range, or more inputs were observed.
            UnsupportedError: If the noise scale is not known.
        """
        if num_inputs is not None:
            whole_number("num_inputs", num_inputs)
        return self._beside(partial(ReplicateSource, num_inputs=num_inputs), share)

    def with_fixed_design(
        self,
        num_runs: int | Sequence[int],
        *,
        candidates: Tensor | None = None,
        bounds: Tensor | None = None,
        share: float = 0.5,
    ) -> "Band":
        r"""The same band, intersected with intervals from a design fixed in advance.

        For inputs of the first ``num_runs`` observations that were fixed before any of
        their outcomes was seen (a factorial or Sobol design, a table of earlier runs, the
        largest variance of a fixed kernel). Weighted means of these outcomes have intervals
        without the price of adaptive inputs: much narrower than the band where the noise
        dominates (many runs, a smooth kernel), but not where the norm bound does.

        Source: ``docs/mathematics.md``, "A design that looks at no outcomes"; sub-Gaussian
        noise, independent of the design. Holds with the band at ``delta``, in every round
        at once: later rounds do not change these intervals. The weights are the best for
        the norm bound that the band was given, fixed before the outcomes (for 10 prior
        units where it was estimated); ``at`` and ``relaxed`` keep them, but designs of
        several bands with several norm bounds are as many events.

        Args:
            num_runs: Number of runs, counted from the first observation; or the sizes of
                several batches, each fixed given the earlier batches. Fixed beforehand as
                well: the same design at another number of runs needs a ``delta`` of its
                own.
            candidates: ``N x d`` points at which the intervals hold, fixed beforehand.
            bounds: ``2 x d`` limits of a box at all of whose points the intervals hold,
                instead of ``candidates``.
            share: Share of ``delta`` that the intervals take; the band keeps the rest.

        Raises:
            ValueError: If a number is out of its range, or neither or both of
                ``candidates`` and ``bounds`` are given.
            UnsupportedError: If the band has not one kernel with one norm bound and a known
                noise scale.
        """
        sizes = [num_runs] if isinstance(num_runs, int) else list(num_runs)
        sizes = tuple(whole_number("num_runs", size) for size in sizes)
        if (candidates is None) == (bounds is None):
            raise ValueError("Give candidates or bounds: where the intervals count.")
        domain = cast(Tensor, bounds if candidates is None else candidates)
        name = "bounds" if candidates is None else "candidates"
        check_points(name, domain, self.required_set.regression.dimension)
        _ = self.required_norm  # refused before anything is computed
        source = partial(
            DesignSource,
            num_runs=sizes,
            domain=tuple(map(tuple, domain.double().tolist())),
            is_box=candidates is None,
            norm=self.given_norm or DEFAULT_NORM,
        )
        return self._beside(source, share)

    def _beside(self, kind: Callable[[float], Source], share: float) -> "Band":
        r"""Add a source of limits, so that the whole keeps the band's ``delta``."""
        share = probability("share", share)
        if self.delta is None or self.noise is None:
            raise UnsupportedError(_NO_SHARE)
        band = self.at(delta=(1.0 - share) * self.delta)
        listed = *self.sources, kind(self._deltas * share / (1.0 - share))
        ordered = sorted(listed, key=attrgetter("is_range"))
        return (band.plain or band).limited(tuple(ordered), self.flaws, self.direction)

    def limited(
        self, sources: tuple[Source, ...], flaws: tuple[Assumption, ...], direction: int
    ) -> "Band":
        r"""Cut this plain band by each source, with no assumption better than a flaw."""
        if not sources and not flaws:
            return self.seeking(direction)
        band, whole = copy(self), self.required_set
        for source in sources:
            whole = source.within(self, whole, self.delta or 0.0)
        whole = draft_of(whole)  # without sources it is the plain band's set
        whole.assumptions = whole.assumptions.no_better_than(flaws)
        band.plain, band.sources, band.flaws = self, sources, flaws
        band.confidence_set, band.direction = whole, direction
        return band

    @property
    def prior_norm(self) -> Number | None:
        r"""The norm bound in use, prior units; None unless the band has one kernel."""
        is_ball = isinstance(self.data, KernelRegression) and len(self.norm_bounds) == 1
        if not is_ball or self.required_set.model_error > 0.0:
            return None
        return self.norm_bounds[0] / self.data.outcome_scale

    @property
    def required_norm(self) -> Number:
        r"""``prior_norm`` of a band that has one."""
        if self.prior_norm is None:
            raise UnsupportedError(
                "A fixed design needs one kernel with one norm bound, and the band has "
                "another set. Use MartingaleMixtureUCB."
            )
        return self.prior_norm

    @property
    def required_noise(self) -> Noise:
        r"""``noise`` of a band that has one."""
        if self.noise is None:
            raise UnsupportedError(_NO_SHARE)
        return self.noise

    @property
    def smallest_norm_bound(self) -> Number:
        r"""Smallest norm bound that ``relaxed`` multiplies, outcome units; NaN without."""
        return min(self.norm_bounds, default=math.nan)

    @property
    def noise_scale(self) -> Number | None:
        r"""Largest noise scale, outcome units; None if ``relaxed`` cannot enlarge it."""
        if self.parts:
            found = [part.noise_scale for part in self.parts]
            scales = [scale for scale in found if scale is not None]
            return max(scales) if len(scales) == len(found) else None
        if self.noise is None or not self.noise.relaxed:
            return None
        return self.assumptions["noise"].number(float(self.noise.data.noise_std.max()))

    @property
    def least_norm_factor(self) -> Estimate:
        r"""Least norm over norm bound: smallest of several kernels, largest of bands."""
        if self.parts:
            return max(term.least_norm_factor for term in terms_of(self))
        if not self.least_norms:
            raise UnsupportedError(f"{type(self).__name__} has no least consistent norm.")
        pairs = zip(self.least_norms, self.norm_bounds, strict=True)
        return Estimate(min(float(least) / float(bound) for least, bound in pairs))

    def _described(self) -> dict[str, Any]:
        norms = dict.fromkeys(f"{norm:.6g}" for norm in self.norm_bounds)
        return {
            "norm_bound": " and ".join(norms) or None,
            "delta": self.assumptions.delta,
            "num_observations": None if self.data is None else self.data.num_observations,
        }


class HasBand(Protocol):
    r"""An acquisition function of a band."""

    @property
    def band(self) -> Band:
        r"""The band."""
        ...


BandLike = Band | HasBand


def rebuildable(
    reads: Callable[..., object] = data_of,
) -> Callable[[Callable[Arguments, Band]], Callable[Arguments, Band]]:
    r"""Let the bands of a builder keep its arguments, from which ``at`` builds again.

    ``reads`` maps the model to the numbers that the builder takes in its place.
    """

    def decorator(builder: Callable[Arguments, Band]) -> Callable[Arguments, Band]:
        names = signature(builder)

        @wraps(builder)
        def build(*values: Arguments.args, **options: Arguments.kwargs) -> Band:
            # By name, so that `at` can replace each of them.
            given: dict[str, Any] = names.bind(*values, **options).arguments
            if not isinstance(given["model"], KernelRegression | LikelihoodRegression):
                given["model"] = reads(given["model"])
            # Copies, since models, kernels and tensors may change afterwards.
            arguments = {name: _copied(each) for name, each in given.items()}
            band: Band = cast(Any, builder)(**arguments)
            band.rebuild = partial(build, **arguments)  # can be pickled: no closure
            return band

        return build

    return decorator


@singledispatch
def _copied(value: object) -> object:
    r"""A copy of tensors, kernels and lists; anything else as it is."""
    return value


_copied.register(Kernel, deepcopy)
_copied.register(Mean, deepcopy)
_copied.register(Sequence, deepcopy)


@_copied.register(Tensor)
def _(value: Tensor) -> Tensor:
    return value.detach().clone()  # `deepcopy` refuses a tensor with a graph


@_copied.register(ModelData)
def _(value: ModelData) -> ModelData:
    return value  # numbers that nobody changes, in a tuple


def _rebuilt(band: Band, changes: Mapping[str, object]) -> Band:
    r"""Build a single band again, with some arguments of its builder changed."""
    if band.rebuild is None:
        raise UnsupportedError(f"{type(band).__name__} cannot be computed anew.")
    given: dict[str, Any] = {**band.rebuild.keywords, **changes}
    same_noise = band.noise is not None and band.noise.relaxed
    same_noise = same_noise and not changes.keys() & {"model", "noise_std"}
    if same_noise and isinstance(band.data, KernelRegression):
        # Where the noise stays, so does the decomposition.
        given |= {"model": band.data, "noise_std": None}
    if "tracker" not in changes and given.pop("tracker", None) is not None:
        given.setdefault("norm_bound", *band.norm_bounds)
    if "norm_bound" in given:  # the new band does not change a tracker
        given["norm_bound"] = deepcopy(given["norm_bound"])
    return band.rebuild.func(**given)


def weighted_sum(
    bands: Sequence[BandLike],
    weights: Sequence[float] | Tensor,
    offset: float = 0.0,
    output_weights: Sequence[float] | None = None,
) -> Band:
    r"""The band of ``offset + sum_j w_j f_j``; the failure probabilities add up.

    A band of weight zero is left out; ``output_weights`` are those of all outputs of a
    model, by default ``weights``.

    Raises:
        ValueError: If there are no bands, or the number of weights differs.
        UnsupportedError: If an outcome is transformed by more than ``Standardize``.
        BotorchTensorDimensionError: If the bands' inputs differ in dimension.
    """
    listed = per_output("weights", weights, len(bands))
    values = [finite_scalar("weights", weight) for weight in listed]
    used = {j: weight for j, weight in enumerate(values) if weight != 0.0}
    if not used:
        raise ValueError("bands is empty or all weights are zero; a sum needs an outcome.")
    parts = [band_of("bands", bands[j]) for j in used]
    for part in parts:
        check_identity(part.outcome_map, "A weighted sum", _INSTEAD)
    check_dimensions("bands", parts)
    named = {(f"output {j + 1}",): p.assumptions for j, p in zip(used, parts, strict=True)}
    assumptions = Assumptions.joined(named, "the band of the weighted sum holds")
    every = tuple(values if output_weights is None else output_weights)
    numbers = tuple(used.values()), finite_scalar("offset", offset)
    whole = WeightedSum([p.required_set for p in parts], *numbers, assumptions)
    observed = [part.observed for part in parts if part.observed is not None]
    return Band(
        whole,
        data=whole.regression,
        observed=torch.cat(observed) if len(observed) == len(parts) else None,
        norm_bounds=tuple(dict.fromkeys(n for part in parts for n in part.norm_bounds)),
        parts=parts,
        # A partial, since a closure cannot be pickled.
        combine=partial(
            weighted_sum, weights=whole.weights, offset=offset, output_weights=every
        ),
        output_weights=every,
    )


def inputs_of(model: object) -> Tensor | None:
    r"""Observed inputs of a model or its data, ``n x d``; None if not known."""
    try:
        return observed_inputs(model)
    except UnsupportedError:
        return None


def band_of(name: str, value: object) -> Band:
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


def replaced(band: Band, terms: Mapping[int, Band]) -> Band:
    r"""Rebuild a band from other single bands, by the ``key`` of those they replace."""
    if band.combine is None:
        return terms[band.key]
    whole = band.combine([replaced(part, terms) for part in band.parts])
    return whole.limited(band.sources, band.flaws, band.direction)


def joined_assumptions(bands: Mapping[str, Band], claim: str) -> Assumptions:
    r"""The joint assumptions of several named bands, in which each band counts once.

    ``claim`` is the statement that follows, in words. A weighted sum rests on the bands of
    its terms. A band that has two names, or is a term of several sums, adds its failure
    probability once.
    """
    parts = {names: term.assumptions for names, term in _named_terms(bands)}
    return Assumptions.joined(parts, claim)


def named_terms(bands: Mapping[str, Band]) -> dict[str, Band]:
    r"""The distinct single bands of named bands, such as ``"objective (term 1)"``."""
    return {", ".join(names): band for names, band in _named_terms(bands)}


def _named_terms(bands: Mapping[str, Band]) -> list[tuple[tuple[str, ...], Band]]:
    r"""Each distinct single band with all its names."""
    names: dict[int, list[str]] = {}  # a band may have several, and counts once
    distinct: dict[int, Band] = {}
    for name, band in bands.items():
        terms = terms_of(band)
        for i, term in enumerate(terms, 1):
            part = f"{name} (term {i})" if name else f"term {i}"
            label = name if len(terms) == 1 else part
            names.setdefault(term.key, []).append(label)
            distinct[term.key] = term
    return [(tuple(names[key]), band) for key, band in distinct.items()]


def changed_bands(
    bands: Sequence[Band], *, delta: float | None = None, **changes: object
) -> dict[int, Band]:
    r"""The single bands of several bands with other arguments, by their ``key``.

    Each change is one value for all distinct single bands or one for each, in their order;
    ``delta`` is the joint failure probability, divided in the same proportions as before.
    """
    terms = list({term.key: term for band in bands for term in terms_of(band)}.values())
    arguments: list[dict[str, Any]] = [{} for _ in terms]
    for name, value in changes.items():
        listed = per_output(name, value, len(terms))
        for each, entry in zip(arguments, listed, strict=True):
            each[name] = entry
    if delta is not None:
        # A term whose theorem states no number gets 0, which its builder refuses.
        shares = [term.assumptions.delta or 0.0 for term in terms]
        for each, share in zip(arguments, shares, strict=True):
            each["delta"] = delta * share / sum(shares)
    pairs = zip(terms, arguments, strict=True)
    return {term.key: term.at(**each) for term, each in pairs}


def check_dimensions(name: str, bands: Sequence[Band]) -> None:
    r"""Refuse bands on inputs of different dimension; ``name`` is for the message."""
    columns = {band.data.dimension for band in bands if band.data is not None}
    if len(columns) > 1:
        raise BotorchTensorDimensionError(
            f"The {name} are on inputs of {sorted(columns)} columns; they must agree: give "
            "every model all input columns, those that do not matter for it too."
        )


def check_points(name: str, X: Tensor, dimension: int, q: bool = False) -> None:
    r"""Refuse points that are not ``n x d`` (``b x 1 x d`` with ``q``) or not finite."""
    shape = tuple(tensor(name, X).shape)
    if not (len(shape) >= 2 and shape[-2] == 1 if q else len(shape) == 2):
        raise BotorchTensorDimensionError(
            f"{name} must be `{'b x 1' if q else 'n'} x d`, got shape {shape}."
            f"{ONE_POINT if q else ''}"
        )
    if shape[-1] != dimension:
        raise BotorchTensorDimensionError(
            f"{name} has {shape[-1]} columns; the model was trained on {dimension}."
        )
    finite(name, X)
    if X.dtype != torch.float64:
        warnings.warn(
            f"{name} is {X.dtype}; the bound is computed in float64 and cast back, "
            "which rounds it. Use float64 tensors throughout.",
            SinglePrecisionWarning,
            stacklevel=4,  # the line that calls `Band.bounds`
        )
