r"""BoTorch plumbing of every confidence bound, once."""

import copy
import math
import sys
import warnings
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any, Generic, Self, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import (
    finite,
    finite_scalar,
    positive_scalar,
    probability,
    tensor,
    whole_number,
)
from kernelucb._numerics.digits import as_given, coordinate
from kernelucb._numerics.estimates import (
    EstimatedNumber,
    draft_of,
    estimated,
    is_estimate,
)
from kernelucb.confidence.assumptions import Assumption, Assumptions, Status
from kernelucb.confidence.band import Band, changed_bands, terms_of
from kernelucb.confidence.base import ConfidenceSet, PointsT, StateT, Support
from kernelucb.confidence.combined import CombinedSet, searched, within
from kernelucb.confidence.fit.prequential import PrequentialRadius
from kernelucb.confidence.martingale_mixture.problem import announce
from kernelucb.confidence.norm.tracker import ball_and_error
from kernelucb.confidence.pointwise import (
    DEFAULT_NORM,
    DesignSource,
    KnownRange,
    Replicates,
    ReplicateSource,
    Source,
)
from kernelucb.confidence.replicate_noise import ReplicateNoise
from kernelucb.confidence.unknown_noise import UnknownNoise
from kernelucb.exceptions import SinglePrecisionWarning
from kernelucb.regression import KernelRegression
from kernelucb.regression.counts import LikelihoodRegression
from kernelucb.regression.exact import data_of
from kernelucb.regression.from_model import ModelData, observed_inputs
from kernelucb.regression.kernel_family import Lengths
from kernelucb.regression.named import check_lengths, fixed_kernel, fixed_mean
from kernelucb.regression.outcome_map import OutcomeMap, check_identity
from kernelucb.regression.state import State

_Support = Callable[[Any, int], Support]
# Assumptions that an argument of the constructor states; norm bounds that are too small
# for every kernel of a family contradict the kernels.
_STATED = {"norm_bound": ("norm", "kernel"), "noise_std": ("noise",)}
_ONE_POINT = (
    " The bound scores one point at a time; for q > 1 use optimize_acqf with "
    "sequential=True, or return_acq_values=False where an optimiser asks for a joint value."
)


# Optimisers of BoTorch that end with one value of all points (names end so), and read the
# pending points before they search for the first of several.
_JOINT = ("_mixed", "_mixed_alternating", "_local_search")


def _copied(value: Any) -> Any:
    r"""A tensor or a list that its owner may change; anything else as it is."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    return list(value) if type(value) is list else value


class BuiltBand(Band, AcquisitionFunction):
    r"""A band that ``at`` builds again from its constructor's arguments."""

    _arguments: dict[str, Any]

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        r"""Keep the arguments; answer calls made for BoTorch's UCB."""
        own = signature(cls)
        try:
            given = own.bind_partial(*arguments, **options).arguments
        except TypeError as error:
            kinds = own.parameters.items()
            first = [n for n, each in kinds if each.kind is each.POSITIONAL_OR_KEYWORD]
            raise TypeError(
                f"{error}. {cls.__name__} has no beta, and takes by position only "
                f"{', '.join(first)}: its width follows from delta and the other "
                f"arguments, which are given by name. See help({cls.__name__})."
            ) from None
        self = super().__new__(cls)
        # Copies, since `at` builds from these later on.
        self._arguments = {name: _copied(each) for name, each in given.items()}
        return self

    def _load_from_state_dict(self, *arguments: Any, **options: Any) -> None:
        # Tensors of another band beside the assumptions of this one would be no band.
        raise UnsupportedError(
            f"{type(self).__name__} loads no state: build it again from its arguments, or "
            "save it with pickle."
        )

    def at(self, **changes: Any) -> Self:
        r"""The band of the same data with other arguments.

        Trackers are not changed: the new band gets a copy of a ``NormTracker``, and the
        norm bound in use in place of any other tracker.

        Args:
            changes: Arguments of the constructor, such as ``norm_bound``, ``noise_std``
                and ``delta``. A combination passes them to its single bands: one value for
                all distinct bands or one for each, and a ``delta`` that the bands share.

        Raises:
            TypeError: If the constructor has no argument of this name.
        """
        own = signature(type(self)).parameters
        arguments = self._arguments | changes
        if "X_pending" in own:
            arguments["X_pending"] = changes.get("X_pending", self.X_pending)
        if "tracker" not in changes and arguments.pop("tracker", None) is not None:
            arguments.setdefault("norm_bound", *self.norm_bounds)
        if "norm_bound" in arguments:
            arguments["norm_bound"] = copy.deepcopy(arguments["norm_bound"])
        of_parts = {name: changes[name] for name in changes if name not in own}
        if of_parts and self.parts:
            kept = {name: each for name, each in arguments.items() if name in own}
            arguments = kept | self._parts_at(changed_bands([self], **of_parts))
        return self._again(arguments)

    def _again(self, arguments: dict[str, Any]) -> Self:
        r"""The same from other arguments."""
        return type(self)(**arguments)

    def _parts_at(self, terms: Mapping[int, Band]) -> dict[str, Any]:
        r"""Arguments that hold the parts, from the terms in their place by ``id``."""
        return {}

    def relaxed(
        self,
        norm_factor: float = 1.0,
        noise_factor: float = 1.0,
        lengthscale: float | None = None,
    ) -> Self:
        r"""See ``Band``; of a combination, each part."""
        if not self.parts:
            changes = self._relaxation(norm_factor, noise_factor, lengthscale)
            return self.at(**changes)
        factors = norm_factor, noise_factor
        terms = {id(term): term.relaxed(*factors) for term in terms_of(self)}
        return self._again(self._arguments | self._parts_at(terms))

    def _relaxation(
        self, norm_factor: float, noise_factor: float, lengthscale: float | None
    ) -> dict[str, Any]:
        r"""Changes of the arguments for ``relaxed``."""
        return {"": Band.relaxed(self)}  # refused


def part_at(band: Any, terms: Mapping[int, Band]) -> Any:
    r"""A band with its single bands replaced, by the ``id`` of the replaced bands."""
    if id(band) in terms:
        return terms[id(band)]
    return band._again(band._arguments | band._parts_at(terms))


class KernelUCB(BuiltBand, ABC, Generic[StateT, PointsT]):
    r"""Upper side of a confidence set as an acquisition function.

    Subclasses build the confidence set; this class holds the methods that BoTorch requires.
    With a ``ScalarizedPosteriorTransform`` of weight ``w`` and offset ``o`` the value is
    the bound on ``o + w f``, so a negative weight swaps the sides.

    Attributes:
        norm_bound: The norm bound in use, outcome units; None if the bound has no norm
            bound.
    """

    norm_bound: float | None = None
    _range: tuple[float, float] | None = None  # outcome units
    _sources: tuple[Source, ...] = ()  # what else is known of values
    # What kept the band from which this one was relaxed from a guarantee
    _flaws: tuple[Assumption, ...] = ()

    def __init__(
        self,
        model: Model | State | LikelihoodRegression,
        confidence_set: ConfidenceSet[StateT, PointsT],
        maximize: bool,
        posterior_transform: PosteriorTransform | None,
        X_pending: Tensor | None,
    ) -> None:
        super().__init__(model=model)  # pyright: ignore[reportArgumentType]
        self._set = confidence_set
        self._kept: list[CombinedSet] = []  # the set within the range
        self.maximize = maximize
        self.posterior_transform = posterior_transform
        self._weight, self._offset = 1.0, 0.0
        if posterior_transform is not None:
            (self._weight,), self._offset = affine_weights(posterior_transform, 1)
        if abs(self._weight) != 1.0 or self._offset != 0.0:
            way = "use one of weight 1 or -1 without an offset, or none"
            check_identity(self.outcome_map, "A posterior transform", way)
        self._warned_single_precision = False
        self._X_pending, self._scoring_set = None, self._searched(0)
        if X_pending is not None:
            self.set_X_pending(X_pending)

    def at(self, **changes: Any) -> Self:
        r"""See ``BuiltBand``; where the noise stays, so does the decomposition.

        An argument that is given anew is a new assumption: a larger norm bound in place of
        one that the data contradict.
        """
        again = self._at(**changes)
        renewed = {each for name in changes for each in _STATED.get(name, ())}
        flaws = tuple(
            each for each in again._flaws if each.name.rpartition(": ")[2] not in renewed
        )
        if len(flaws) == len(again._flaws):
            return again
        return again._knowing(again._range, again._sources, flaws)

    def _at(self, **changes: Any) -> Self:
        state, given = self.regression, self._arguments
        if "delta" in changes:  # of the whole, of which the set takes its part
            changes["delta"] = changes["delta"] / self._deltas
        if (
            changes.keys() & {"model", "noise_std"}
            or "noise_std" not in signature(type(self)).parameters
            or isinstance(given.get("noise_std"), UnknownNoise | ReplicateNoise)
            or not isinstance(state, KernelRegression)
        ):
            return super().at(**changes)
        again = super().at(model=state, noise_std=None, **changes)
        again.model = self.model
        again._arguments["model"] = given["model"]
        again._arguments["noise_std"] = given.get("noise_std")
        return again

    def _again(self, arguments: dict[str, Any]) -> Self:
        band = super()._again(arguments)
        if "model" in arguments and arguments["model"] is self._arguments["model"]:
            band.model = self.model  # for BoTorch; no bound reads it
        return band._knowing(self._range, self._sources, self._flaws)

    def _taken(self, model: Any) -> Any:
        r"""The numbers of a model, of which ``at`` builds: later changes do not count."""
        if not isinstance(model, KernelRegression | LikelihoodRegression):
            model = self._arguments["model"] = data_of(model)
        return model

    @property
    def _deltas(self) -> float:
        r"""Failure probability of the whole over that of the set."""
        return 1.0 + sum(source.ratio for source in self._sources)

    def relaxed(
        self,
        norm_factor: float = 1.0,
        noise_factor: float = 1.0,
        lengthscale: float | None = None,
    ) -> Self:
        r"""See ``Band``."""
        band = super().relaxed(norm_factor, noise_factor, lengthscale)
        # Sources for the noise scale at which they were stated.
        sources = tuple(
            replace(each, noise_factor=noise_factor * each.noise_factor)
            for each in self._sources
        )
        flaws = [x for x in self.assumptions.items if x.status is not Status.GIVEN]
        return band._knowing(self._range, sources, tuple(flaws))

    @property
    def confidence_set(self) -> ConfidenceSet[StateT, PointsT]:
        r"""The set of functions that explain the data, and stay in a known range."""
        ranged: Any = self._kept
        return ranged[0] if ranged else self._set

    @property
    def outcome_range(self) -> tuple[float, float] | None:
        r"""Least and largest value of ``f`` anywhere, outcome units; None if not known."""
        return self._range

    @property
    def observed(self) -> Tensor | None:
        r"""See ``Band``."""
        try:
            if self.parts:
                return torch.cat([cast(Tensor, part.observed) for part in self.parts])
            return observed_inputs(self._arguments.get("model"))
        except (UnsupportedError, TypeError):  # a part does not know its inputs
            return None

    @property
    def noise_scale(self) -> float | None:
        r"""See ``Band``."""
        if self.parts:
            return super().noise_scale
        scales = _noise_scales(self)
        if scales is None:
            return None
        return self.assumptions["noise"].number(float(scales.max()))

    @property
    def least_norm_factor(self) -> float:
        r"""See ``Band``."""
        least = getattr(self, "least_consistent_norm", None)
        if least is None or self.norm_bound is None:
            return super().least_norm_factor
        return EstimatedNumber(least / self.norm_bound)

    def within(self, lower: float = -math.inf, upper: float = math.inf) -> Self:
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
        """
        if not lower < upper:
            raise ValueError(f"lower must be below upper, got {lower:g} and {upper:g}.")
        flaws = tuple(each for each in self._flaws if each.name != "range")
        return self._knowing((lower, upper), self._sources, flaws)

    def with_replicates(self, num_inputs: int | None = None, share: float = 0.5) -> Self:
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
        return self._beside(ReplicateSource, share, num_inputs=num_inputs)

    def with_fixed_design(
        self,
        num_runs: int | Sequence[int],
        *,
        candidates: Tensor | None = None,
        bounds: Tensor | None = None,
        share: float = 0.5,
    ) -> Self:
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
        domain = bounds if candidates is None else candidates
        name = "bounds" if candidates is None else "candidates"
        self._check_points(name, cast(Tensor, domain), "n x d")
        if self._prior_norm is None:
            raise UnsupportedError(
                "A fixed design needs one kernel with one norm bound; "
                f"{type(self).__name__} has another set. Use MartingaleMixtureUCB."
            )
        return self._beside(
            DesignSource,
            share,
            num_runs=sizes,
            domain=tuple(map(tuple, cast(Tensor, domain).double().tolist())),
            is_box=candidates is None,
            norm=self._given_norm or DEFAULT_NORM,
        )

    @property
    def _given_norm(self) -> float | None:
        r"""The norm bound as given, prior units; None where the outcomes enter it."""
        given, _ = ball_and_error(self._arguments.get("norm_bound"))
        if not isinstance(given, float | int | Tensor) or is_estimate(given):
            return None
        return float(given) / cast(KernelRegression, self.regression).outcome_scale

    @property
    def _prior_norm(self) -> float | None:
        r"""The norm bound in use, prior units; None unless the band has a single kernel."""
        state = self.regression
        if not isinstance(state, KernelRegression) or self.parts:
            return None
        if self.norm_bound is None or self._set.model_error > 0.0:
            return None
        return float(self.norm_bound) / state.outcome_scale

    def _beside(self, kind: type[Source], share: float, **options: Any) -> Self:
        r"""The band beside another source of knowledge, both at the same ``delta``."""
        share = probability("share", share)
        if self.delta is None or self._numbers() is None:
            raise UnsupportedError(
                f"This {type(self).__name__} has no delta to share, or no noise scale of "
                "its own; use MartingaleMixtureUCB or KernelFamilyUCB with noise_std."
            )
        total, known = self.delta, self._deltas
        source = kind(known * share / (1.0 - share), **options)
        sources = (*self._sources, source)
        band = self.at(delta=(1.0 - share) * total)
        return band._knowing(self._range, sources, self._flaws)

    def _knowing(
        self,
        known_range: tuple[float, float] | None,
        sources: tuple[Source, ...],
        flaws: tuple[Assumption, ...],
    ) -> Self:
        r"""The band with another range, other sources and flaws, of the same set."""
        if known_range is None and not sources and not flaws and not self._flaws:
            return self
        band = draft_of(self)
        band._range, band._sources, band._kept = known_range, sources, []
        band._flaws = flaws
        own: Any = self._set
        if sources:
            own = self._with_sources(own, sources)
        if known_range is not None:
            own = self._in_range(own, *known_range)
        own = draft_of(own)
        own.assumptions = own.assumptions.no_better_than(flaws)
        band._kept = [own]
        band._X_pending, band._scoring_set = None, band._searched(0)
        if self._X_pending is not None:
            band.set_X_pending(self._X_pending)
        return band

    def _with_sources(
        self, own: ConfidenceSet[Any, Any], sources: Sequence[Source]
    ) -> ConfidenceSet[Any, Any]:
        r"""The set, cut by each source; its assumptions count all of them."""
        delta, assumptions = cast(float, own.assumptions.delta), own.assumptions
        data, levels, factor = cast(ModelData, self._numbers()), 1, 1.0
        if isinstance(noise := self._arguments.get("noise_std"), ReplicateNoise):
            levels, factor = noise.num_levels, noise.factor(delta)
        for source in sources:
            fixed = replace(source, noise_factor=factor * source.noise_factor)
            share = source.ratio * delta / levels
            known = fixed.limits(data, self._prior_norm, share)
            assumptions = assumptions.spending(source.theorem, source.ratio * delta)
            assumptions = assumptions.with_extra(source.assumption)
            if isinstance(known, Replicates):
                item = self._contradiction(own, known, assumptions)
                assumptions = assumptions if item is None else assumptions.with_item(item)
            own = within(own, known, assumptions)
        return own

    def _numbers(self) -> ModelData | None:
        r"""Data with noise scales that are numbers; None where the band knows of none."""
        given = self._arguments.get("noise_std")
        if isinstance(given, ReplicateNoise):
            given = given.scales(
                cast(Tensor, self.observed), cast(float, self._set.assumptions.delta)
            )
        elif _noise_scales(self) is None:
            return None
        return data_of(self._arguments["model"], given)

    def _contradiction(
        self, own: ConfidenceSet[Any, Any], known: Replicates, assumptions: Assumptions
    ) -> Assumption | None:
        r"""The norm as violated, where an input's outcomes lie outside the band there."""
        if self.observed is None:
            return None
        lower, upper = own.bounds(self.observed)
        limits = known.limits(self.observed)
        apart = (limits.lower > upper) | (limits.upper < lower)
        if not bool(apart.any()) or assumptions.violated:
            return None
        row = [coordinate(each) for each in self.observed[apart][0].tolist()]
        statement = (
            f"{assumptions['norm'].statement}; the outcomes at ({', '.join(row)}) alone "
            "contradict this: their mean lies outside the band (or noise_std is too small)"
        )
        item = Assumption("norm", statement, Status.VIOLATED)
        announce(item, "The outcomes' own interval is used there.")
        return item

    def _in_range(
        self, own: ConfidenceSet[Any, Any], lower: float, upper: float
    ) -> CombinedSet:
        r"""The set within a range, outcome units, which the data may contradict."""
        ends = self.outcome_map.forward(torch.tensor([lower, upper], dtype=torch.float64))
        limits = f"between {as_given(lower)} and {as_given(upper)}"
        if math.isinf(lower):
            limits = f"at most {as_given(upper)}"
        elif math.isinf(upper):
            limits = f"at least {as_given(lower)}"
        estimate = is_estimate(lower) or is_estimate(upper)
        status = Status.ESTIMATED if estimate else Status.GIVEN
        item = Assumption("range", f"f is {limits} everywhere", status)
        inputs = self.observed
        if inputs is None:
            unchecked = "not compared with the data, whose inputs the bound does not know"
            item = replace(item, statement=f"{item.statement} ({unchecked})")
            inputs = torch.zeros(0, self.regression.dimension, dtype=torch.float64)
        least, most = own.bounds(inputs)
        if bool((least > ends[1]).any() | (most < ends[0]).any()):
            wrong = (
                f"{item.statement}; the data contradict this: the band lies outside at an "
                "input that was observed (or norm bound or noise scale are too small)"
            )
            item = replace(item, statement=wrong, status=Status.VIOLATED)
            announce(item, "The band is left as it was.")
            ends = torch.tensor([-math.inf, math.inf])
        assumptions = own.assumptions.with_extra(item).with_item(item)
        return within(own, KnownRange(*ends.tolist()), assumptions)

    @property
    def regression(self) -> StateT:
        r"""The regression state that the bound was computed from."""
        return self._set.regression

    @property
    def data(self) -> Any:
        r"""See ``Band``: the regression state."""
        return self.regression

    @property
    def norm_bounds(self) -> tuple[float, ...]:
        r"""See ``Band``."""
        return super().norm_bounds if self.norm_bound is None else (self.norm_bound,)

    @property
    def direction(self) -> int:
        r"""1 where large outcomes are sought, -1 where small ones are."""
        return 1 if self.maximize == (self._weight > 0) else -1

    @property
    def assumptions(self) -> Assumptions:
        r"""The assumptions of the guarantee: given, estimated or violated."""
        return self.confidence_set.assumptions

    @property
    def outcome_map(self) -> OutcomeMap:
        r"""From outcomes to the scale that the confidence set is on.

        Strictly increasing: the identity, or the model's ``Log``, ``Power`` or ``Bilog``.
        Norm bound, noise scale, acquisition values, ``prior_std`` and everything that the
        confidence set says are on that scale; ``bounds`` is in outcome units.
        """
        return self.regression.outcome_map

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the outcome, units of ``latent_bounds``."""
        return self.regression.prior_std

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Condition variances on ``p x d`` points that are being evaluated (GP-BUCB).

        Means and radii stay as they are; ``bounds`` ignores pending points.

        Raises:
            BotorchTensorDimensionError: If ``X_pending`` is not ``p x d``.
            InputDataError: If a value is not finite.
        """
        if X_pending is not None:
            tensor("X_pending", X_pending)
        super().set_X_pending(X_pending)  # a copy without gradient, assigned below

    @property
    def X_pending(self) -> Tensor | None:
        r"""``p x d`` points under evaluation. Assigning them is ``set_X_pending``."""
        reader: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while reader.f_code.co_name == "X_pending":  # of a function around this one
            reader = reader.f_back
        name = reader.f_code.co_name
        if name.endswith(_JOINT) and reader.f_locals.get("return_acq_values"):
            raise BotorchTensorDimensionError(
                f"{name} asks for one value of all points at the end.{_ONE_POINT}"
            )
        return self._X_pending

    @X_pending.setter
    def X_pending(self, X_pending: Tensor | None) -> None:
        # A property, since BoTorch's FixedFeatureAcquisitionFunction assigns it.
        if X_pending is None or tensor("X_pending", X_pending).numel() == 0:
            self._X_pending, self._scoring_set = None, self._searched(0)
            return
        self._check_points("X_pending", X_pending, "p x d")
        self._scoring_set = self._searched(len(X_pending)).with_pending(X_pending)
        self._X_pending = X_pending.detach()

    def _searched(self, num_pending: int) -> ConfidenceSet[StateT, PointsT]:
        r"""The set whose upper bound is maximised while ``num_pending`` points are pending.

        Without a known range, at whose end the bounds of many points would be equal.
        """
        plain: Any = searched(self.confidence_set)
        return plain

    def forward(self, X: Tensor) -> Tensor:
        r"""Value to maximise: the upper bound, or minus the lower if ``maximize=False``.

        Maps ``b x 1 x d`` candidate points, where ``b`` may be several dimensions, to a
        tensor of shape ``b``.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``b x 1 x d``, as with ``q > 1``.
            InputDataError: If a value is not finite.
        """
        return self._values(X, self._scoring_set.support)

    def majorant(self, X: Tensor) -> Tensor:
        r"""Upper bound on ``forward`` without its search; ``forward`` if it has none."""
        return self._values(X, self._scoring_set.majorant)

    def _values(self, X: Tensor, support: _Support) -> Tensor:
        r"""Acquisition values of ``b x 1 x d`` points by a support function."""
        self._check_points("X", X, "b x 1 x d")
        batch_shape = X.shape[:-2] if X.dim() > 2 else X.shape[:1]
        values = in_parts(X.reshape(-1, X.shape[-1]), partial(self._value, support))
        return values.reshape(batch_shape).to(X.dtype)

    def _value(self, support: _Support, X: Tensor) -> Tensor:
        r"""Acquisition values of ``n x d`` points, ``n`` numbers."""
        points, sign = self._scoring_set.project(X), 1.0 if self.maximize else -1.0
        weight, offset = sign * self._weight, sign * self._offset
        half_width = support(points, 1 if weight > 0 else -1).value
        return offset + weight * points.baseline + abs(weight) * half_width

    def bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at ``n x d`` points, two ``n``-vectors in outcome units.

        The plain band, without sign, posterior transform or pending points. For a model of
        transformed outcomes (``outcome_map``) the band is ``latent_bounds`` mapped back: a
        band of the same probability for the median of an outcome, not for its mean. For
        ``LikelihoodUCB`` it is a band for the success probability or the rate.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``n x d``.
            InputDataError: If a value is not finite.
        """
        lower, upper = self.outcome_map.inverse(self._sides(X)).to(X.dtype)
        return lower, upper

    def latent_bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""``bounds`` on the scale of ``outcome_map``: that of ``log(Y)`` for ``Log``.

        Norm bound and noise scale are on this scale. Equal to ``bounds`` where the map is
        the identity; arguments, shapes and errors as for ``bounds``.
        """
        lower, upper = self._sides(X).to(X.dtype)
        return lower, upper

    def _sides(self, X: Tensor) -> Tensor:
        r"""Lower and upper bound on the scale of the confidence set, ``2 x n``."""
        self._check_points("X", X, "n x d")
        return in_parts(X, lambda part: torch.stack(self.confidence_set.bounds(part)))

    def _check_points(self, name: str, X: Tensor, shape: str) -> None:
        given, dimension = tuple(tensor(name, X).shape), self._set.regression.dimension
        one = shape == "b x 1 x d"
        if not (len(given) >= 2 and given[-2] == 1 if one else len(given) == 2):
            raise BotorchTensorDimensionError(
                f"{name} must be `{shape}`, got shape {given}.{_ONE_POINT if one else ''}"
            )
        if given[-1] != dimension:
            raise BotorchTensorDimensionError(
                f"{name} has {given[-1]} columns; the model was trained on {dimension}."
            )
        finite(name, X)
        if X.dtype != torch.float64 and not self._warned_single_precision:
            self._warned_single_precision = True
            warnings.warn(
                f"{name} is {X.dtype}; the bound is computed in float64 and cast back, "
                "which rounds it. Use float64 tensors throughout.",
                SinglePrecisionWarning,
                stacklevel=3,
            )


class RegressionUCB(KernelUCB[KernelRegression]):
    r"""A bound from the regression of an exact GP."""

    @classmethod
    def from_model(
        cls,
        model: Model | KernelRegression,
        *,
        kernel: str | None = None,
        lengthscale: Lengths | None = None,
        outputscale: float = 1.0,
        mean: float = 0.0,
        **options: Any,
    ) -> Self:
        r"""Build the bound from a model, optionally with another kernel and mean.

        With a ``kernel`` the bound takes only the data from the model. So the model may be
        refitted in every round for a search, while the bound's prior stays fixed.

        Args:
            model: A single-output exact GP (``SingleTaskGP``) or a ``KernelRegression``.
            kernel: ``"rbf"``, ``"matern12"``, ``"matern32"`` or ``"matern52"``; when absent
                kernel and mean are those of the model.
            lengthscale: With a kernel: one number, or one for each column of the model's
                inputs, in their units after its input transform.
            outputscale: Prior variance, outcome units squared.
            mean: Prior mean, outcome units.
            options: Further arguments of the class.

        Raises:
            ValueError: If the kernel is unknown or without length scale, a number is out of
                its range, or length scale, output scale or mean come without a kernel.
            BotorchTensorDimensionError: If there is another number of length scales.
        """
        if kernel is None:
            if lengthscale is not None or outputscale != 1.0 or mean != 0.0:
                raise ValueError(
                    "lengthscale, outputscale and mean go with the name of a kernel; give "
                    'one, such as kernel="matern52", or leave them out.'
                )
            return cls(model=model, **options)
        noise = options.get("noise_std")
        known = None if isinstance(noise, UnknownNoise | ReplicateNoise) else noise
        chosen = fixed_kernel(kernel, lengthscale, outputscale)
        data = data_of(model, known)
        check_lengths(lengthscale, data.train_inputs)
        prior = data.prior.replaced(chosen, fixed_mean(mean), data.train_inputs)
        data = data._replace(prior=prior, estimated=data.estimated_anyway)
        return cls(model=KernelRegression.from_data(data), **options)


def relaxed_numbers(
    band: KernelUCB,
    norm_factor: float,
    noise_factor: float,
    norm_bound: float | None = None,
) -> dict[str, Any]:
    r"""A larger norm bound, and larger noise scales, as arguments of ``at``.

    ``norm_bound`` is multiplied by ``norm_factor``; by default the norm bound in use.

    Raises:
        ValueError: If a factor is out of its range.
        UnsupportedError: If the band has no noise scale that could be larger.
    """
    used = band.norm_bound if norm_bound is None else norm_bound
    assert used is not None
    norm_bound = positive_scalar("norm_factor", norm_factor) * float(used)
    norm_bound = band.assumptions["norm"].number(norm_bound)
    changes: dict[str, Any] = {"norm_bound": norm_bound}
    if noise_factor == 1.0:
        return changes
    if not noise_factor > 1.0:
        raise ValueError(f"noise_factor must be at least 1, got {noise_factor}.")
    scales = _noise_scales(band)
    if scales is None:
        raise UnsupportedError(
            f"This {type(band).__name__} has no noise scale of its own that could be "
            "larger; only its norm bound can be."
        )
    noise = noise_factor * scales
    given = band.assumptions["noise"].status is Status.GIVEN
    return changes | {"noise_std": noise if given else estimated(noise)}


def _noise_scales(band: KernelUCB) -> Tensor | None:
    r"""Noise scales, outcome units; None where they are not the band's to change."""
    given = band._arguments.get("noise_std")  # pyright: ignore[reportPrivateUsage]
    known = "noise_std" in signature(type(band)).parameters
    predicted = isinstance(getattr(band, "fit", None), PrequentialRadius)
    counts = isinstance(band.model, LikelihoodRegression)
    unknown = isinstance(given, UnknownNoise | ReplicateNoise)
    if not known or predicted or counts or unknown:
        return None
    model = band._arguments["model"]  # pyright: ignore[reportPrivateUsage]
    return data_of(model, given).noise_std  # pyright: ignore[reportArgumentType]


def affine_weights(
    transform: PosteriorTransform | None, *counts: int
) -> tuple[list[float], float]:
    r"""Weights and offset of a transform; ``counts`` are the allowed numbers of weights.

    Raises:
        UnsupportedError: If the transform is not affine, has another number of weights, or
            all weights are 0.
    """
    if not isinstance(transform, ScalarizedPosteriorTransform):
        raise UnsupportedError(
            f"The posterior transform {type(transform).__name__} is not an affine map of "
            "the outcome; use ScalarizedPosteriorTransform with one weight for each."
        )
    name = "The weight of the posterior transform"
    listed = transform.get_buffer("weights").double().tolist()
    weights = [finite_scalar(name, weight) for weight in listed]
    if len(weights) not in counts:
        raise UnsupportedError(
            f"The posterior transform has {len(weights)} weights; the model has "
            f"{counts[-1]} output{'s' if counts[-1] > 1 else ''}. For a sum of several use "
            "ScalarizedUCB."
        )
    if not any(weights):
        raise UnsupportedError("All weights of the posterior transform are 0; use another.")
    offset = finite_scalar("The offset of the posterior transform", transform.offset)
    return weights, offset
