r"""The acquisition function of a band, and how BoTorch and Ax build the bounds."""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, signature
from typing import Any, ClassVar, Self

from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import ACQF_INPUT_CONSTRUCTOR_REGISTRY
from botorch.acquisition.objective import (
    IdentityMCObjective,
    PosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import finite_scalar, tensor
from kernelucb.acquisition.turns import (
    Improvement,
    Turn,
    checked_turns,
    mean_and_repeats,
    norm_of_mean,
    turn_at,
)
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.band import ONE_POINT, Band, BandLike, band_of, check_points
from kernelucb.confidence.family import explores_for_all
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.confidence.sets import ConfidenceSet, Described
from kernelucb.data.exact import KernelRegression
from kernelucb.data.outcome_map import check_identity

# Optimisers of BoTorch that end with one value of all points: names end so.
_JOINT = ("_mixed", "_mixed_alternating", "_local_search")


def model_and_options(model: object, **options: object) -> dict[str, Any]:
    r"""Arguments of a class that takes the model itself."""
    return {"model": model, **options}


class WithoutBeta(AcquisitionFunction):
    r"""A function that has no ``beta``, the second argument of BoTorch's UCB."""

    plays_upper = True  # False where a class plays something else in turns of "upper"
    # The arguments of the class by their names, from a model and all that ``from_model``
    # takes, if the class has one, in its order
    arguments_from_model: ClassVar[Callable[..., dict[str, Any]]] = staticmethod(
        model_and_options
    )

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        r"""Refuse ``beta``, by name or in its place."""
        in_place = cls.plays_upper and {*map(type, arguments[1:2])} & {int, float}
        try:
            signature(cls.__init__).bind_partial(cls, *arguments)
        except TypeError:
            in_place = True
        if in_place or "beta" in options:
            raise TypeError(
                f"{cls.__name__} has no beta: its width follows from delta and the other "
                f"arguments, which are given by name. See help({cls.__name__})."
            )
        return super().__new__(cls)


class BandUCB(Described, WithoutBeta):
    r"""Upper side of a band: ``max f(x)`` over the functions that explain the data.

    The one acquisition function of all bounds; their classes build the band. With a
    ``ScalarizedPosteriorTransform`` of weight ``w`` and offset ``o`` the value is the bound
    on ``o + w f``, so a negative weight swaps the sides. ``bounds`` is the plain band,
    without sign, posterior transform or pending points.

    Args:
        band: The band; or an acquisition function that has one, whose band is taken.
        maximize: If False, the value is minus the lower bound; by default what is sought
            with the band.
        posterior_transform: A ``ScalarizedPosteriorTransform`` with one weight.
        X_pending: ``p x d`` points under evaluation; variances are conditioned on them.
        turns: Which function plays each point of a block, by the number of observed and
            pending points: ``"upper"``, the upper bound, alone by default;
            ``"improvement"``, the logarithm of the noisy expected improvement on the
            observed and pending points; ``"mean"``, the posterior mean,
            at no point whose value the kernel does not tell from that at an observed or
            pending one: they differ by less than about a hundredth of the outcomes'
            standard deviation, a priori. Where there is no other point, the upper bound
            plays.
        model: For BoTorch's tools that read ``model``; the bound does not.

    Raises:
        UnsupportedError: If ``band`` is no set of functions, or the transform is not of one
            outcome in outcome units.

    Attributes:
        band: The band, a value: ``acqf.band.at(delta=0.01)``, ``acqf.band.norm_bounds``.
        turn: Which function plays the next point.
        plays_others: Whether anything but the upper bound plays.
    """

    band: Band
    turn: Turn
    # Limits on other outcomes that a search keeps to
    outcome_constraints: OutcomeConstraints | None = None

    def __init__(
        self,
        band: BandLike,
        maximize: bool | None = None,
        posterior_transform: PosteriorTransform | None = None,
        X_pending: Tensor | None = None,
        model: object = None,
        turns: Sequence[Turn] = ("upper",),
    ) -> None:
        read: Any = model  # BoTorch declares a Model, and keeps whatever it is given
        super().__init__(model=read)
        self.turns = checked_turns(turns)
        self.plays_others = {*self.turns} != {"upper"}
        band = band_of("band", band)
        if band.confidence_set is None:
            raise UnsupportedError(
                f"{type(band).__name__} is no set of functions, whose largest values are "
                "sought; give a band such as that of MartingaleMixtureUCB."
            )
        if self.plays_others and not isinstance(band.data, KernelRegression):
            raise UnsupportedError(
                'Turns of "mean" and "improvement" need the posterior of an exact GP, '
                "which this band has not; leave out turns."
            )
        self._set = band.required_set  # a module: moves with the function
        self.maximize = band.direction == 1 if maximize is None else maximize
        self.posterior_transform = posterior_transform
        self._weight, self._offset = 1.0, 0.0
        if posterior_transform is not None:
            (self._weight,), self._offset = affine_weights(posterior_transform, 1)
        if abs(self._weight) != 1.0 or self._offset != 0.0:
            way = "use one of weight 1 or -1 without an offset, or none"
            check_identity(band.outcome_map, "A posterior transform", way)
        self.band = band.seeking(1 if self.maximize == (self._weight > 0) else -1)
        self.set_X_pending(X_pending)

    def _load_from_state_dict(self, *arguments: object, **options: object) -> None:
        # Tensors of another band beside the assumptions of this one would be no band.
        raise UnsupportedError(
            f"{type(self).__name__} loads no state: build it again from its arguments, or "
            "save it with pickle."
        )

    def bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at ``n x d`` points, two ``n``-vectors, outcome units."""
        return self.band.bounds(X)

    @property
    def assumptions(self) -> Assumptions:
        r"""The assumptions of the guarantee: given, estimated or violated."""
        return self.band.assumptions

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Condition variances on ``p x d`` points that are being evaluated (GP-BUCB).

        Means and radii stay as they are; ``bounds`` ignores pending points.

        Raises:
            BotorchTensorDimensionError: If ``X_pending`` is not ``p x d``.
            InputDataError: If a value is not finite.
        """
        X = None
        if X_pending is not None and tensor("X_pending", X_pending).numel() > 0:
            X = X_pending.detach().clone()
            check_points("X_pending", X, self.band.required_set.regression.dimension)
        num_pending = 0 if X is None else len(X)
        turn = turn_at(self.turns, self.band.data.num_observations + num_pending)
        source, data = self._searched(num_pending), self.band.data
        gain = None
        if turn == "improvement":  # which conditions a state of its own
            assert isinstance(data, KernelRegression)
            gain = Improvement(data, self.band.direction, X)
        elif X is not None:
            source = source.with_pending(X)
        # Conditioned first: a refused call changes nothing.
        self._scoring, self._X_pending, self.turn = source, X, turn
        self._improvement = gain

    @property
    def X_pending(self) -> Tensor | None:
        r"""``p x d`` points under evaluation. Assigning them is ``set_X_pending``."""
        # Some optimisers end with one value of all points, which a bound has not: they are
        # refused where they read this, before their search and its pending points. Whether
        # they will ask stands in their ``return_acq_values`` alone. BoTorch (0.18) hands it
        # to no method: until the search is over it reads this property, calls the function
        # at single points and sets pending points, with a joint value to come or without.
        # A refusal at the end would cost the search, and a guard of an analytic function
        # would refuse the second point first, in words about another fault.
        reader: Any = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        while reader.f_code.co_name == "X_pending":  # of a function around this one
            reader = reader.f_back
        name = reader.f_code.co_name
        if name.endswith(_JOINT) and reader.f_locals.get("return_acq_values"):
            raise BotorchTensorDimensionError(
                f"{name} asks for one value of all points at the end.{ONE_POINT}"
            )
        return self._X_pending

    @X_pending.setter
    def X_pending(self, X_pending: Tensor | None) -> None:
        # A property, since BoTorch's FixedFeatureAcquisitionFunction assigns it.
        self.set_X_pending(X_pending)

    def _searched(self, num_pending: int) -> ConfidenceSet:
        r"""The set whose upper bound is maximised while ``num_pending`` points are pending.

        Without a range, at whose end the bounds of many points would be equal.
        """
        whole: Any = self.band.required_set.to_search()
        every = self.band.widest_every
        if every == 1 or not self.plays_upper:
            return whole
        count = self.band.data.num_observations + num_pending
        return whole if explores_for_all(count, every) else whole.parts[0]

    def forward(self, X: Tensor) -> Tensor:
        r"""Value to maximise: the upper bound, or minus the lower if ``maximize=False``.

        In a turn of ``"mean"`` the posterior mean, or minus it; in one of ``"improvement"``
        the logarithm of an expected improvement, outcome units.

        Maps ``b x 1 x d`` candidate points, where ``b`` may be several dimensions, to a
        tensor of shape ``b``.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``b x 1 x d``, as with ``q > 1``.
            InputDataError: If a value is not finite.
        """
        if self._improvement is not None:
            return self._values(X, self._improvement) + math.log(abs(self._weight))
        return self._values(X, self._mean if self.turn == "mean" else self._value)

    def majorant(self, X: Tensor) -> Tensor:
        r"""Upper bound on ``forward`` without its search; ``forward`` if it has none."""
        if self.turn != "upper":
            return self(X)
        return self._values(X, partial(self._value, cheap=True))

    def _values(self, X: Tensor, value: Callable[[Tensor], Tensor]) -> Tensor:
        check_points("X", X, self.band.required_set.regression.dimension, q=True)
        batch_shape = X.shape[:-2] if X.dim() > 2 else X.shape[:1]
        values = in_parts(X.reshape(-1, X.shape[-1]), value)
        return values.reshape(batch_shape).to(X.dtype)

    def _value(self, X: Tensor, cheap: bool = False) -> Tensor:
        r"""Value of the upper bound at ``n x d`` points, ``n`` numbers.

        With ``cheap`` an upper bound on it, without a search.
        """
        support = self._scoring.majorant if cheap else self._scoring.support
        points, sign = self._scoring.project(X), 1.0 if self.maximize else -1.0
        weight, offset = sign * self._weight, sign * self._offset
        # For a negative weight the upper side is made of the set's lower one.
        half_width = support(points, 1 if weight > 0 else -1)
        return offset + weight * points.baseline + abs(weight) * half_width

    def _mean(self, X: Tensor) -> Tensor:
        r"""Value of the mean at ``n x d`` points, ``n`` numbers."""
        data: Any = self.band.data
        sign, scale = 1.0 if self.maximize else -1.0, abs(self._weight)
        points = data.project(X)
        mean, loss, repeats = mean_and_repeats(data, points, self._X_pending)
        value = sign * (self._offset + self._weight * mean) - scale * loss
        if bool(repeats.any()):
            # The upper bound in the same order, but below the mean everywhere: it plays
            # where there is no other point.
            unit = scale * data.prior_std
            lowest = (sign * (self._offset + self._weight * data.train_targets)).min()
            upper = (self._value(X[repeats]) - lowest) / unit
            below = upper.atan() - 4.0 - norm_of_mean(data)
            value = value.index_put((repeats,), lowest + unit * below)
        return value

    def _described(self) -> dict[str, Any]:
        return self.band._described()  # pyright: ignore[reportPrivateUsage]

    def playing_upper(self, whole: bool = False) -> "BandUCB":
        r"""The function that plays the upper bound of the same band in every turn.

        Of a family of kernels that is mostly the bound of its first kernel; with ``whole``,
        that of the union, which alone bounds a regret.
        """
        narrow = whole and self.band.widest_every != 1
        if self.plays_upper and not self.plays_others and not narrow:
            return self
        searched = copy(self.band)
        searched.widest_every = 1 if whole else searched.widest_every
        options = self.maximize, self.posterior_transform, self.X_pending, self.model
        return BandUCB(searched, *options)


def upper_bound_of(band: BandLike, whole: bool = False) -> BandUCB:
    r"""``playing_upper`` of a bound, or of the bound of a band."""
    given = band if isinstance(band, BandUCB) else BandUCB(band)
    return given.playing_upper(whole)


def model_of(band: BandLike) -> object:
    r"""The model that BoTorch's tools read from a bound; None for a band alone."""
    return getattr(band, "model", None)


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


# What BoTorch gives to every constructor, whether the function takes it or not.
_GIVEN_ANYWAY = ("training_data", "X_baseline", "bounds", "posterior_transform")


@dataclass(frozen=True)
class InputConstructor:
    r"""BoTorch's input constructor of a bound: what it is given becomes its arguments.

    It takes the arguments of ``from_model`` of the class, or of the class where it has
    none, and refuses those that would otherwise be ignored silently (constraints,
    objectives, thresholds). BoTorch asks for the arguments of the class, where
    ``from_model`` gives an object: both take them from ``arguments_from_model``.

    Attributes:
        acqf_class: The class of the bound.
        parameters: By name, the model and the options that Ax and BoTorch may give.
    """

    acqf_class: type[WithoutBeta]
    parameters: Mapping[str, Parameter]

    def __call__(self, model: object, **given: object) -> dict[str, Any]:
        r"""The arguments of the class.

        Raises:
            UnsupportedError: If something is given that no bound of the class keeps.
            TypeError: If something is given that nobody knows.
        """
        options = {n: value for n, value in given.items() if n in self.parameters}
        name = self.acqf_class.__name__
        for other in given.keys() - options.keys():
            if (reason := _REJECTED.get(other)) is not None:
                value = given[other]
                if value is not None and not isinstance(value, IdentityMCObjective):
                    raise UnsupportedError(f"{name} does not take `{other}`: {reason}.")
            elif other not in _GIVEN_ANYWAY:
                raise TypeError(
                    f"Unexpected keyword argument `{other}` when constructing input "
                    f"arguments for {name}."
                )
        arguments = self.acqf_class.arguments_from_model
        # What ``from_model`` would take for an option that is not given
        named = signature(arguments).parameters.keys() & self.parameters.keys() - {"model"}
        defaults = {n: self.parameters[n].default for n in named}
        return arguments(model, **defaults | options)


def register_input_constructor(acqf_class: type[WithoutBeta]) -> type[WithoutBeta]:
    r"""Register a BoTorch input constructor with the arguments of the class itself."""
    parameters = {parameter.name: parameter for parameter in parameters_of(acqf_class)}
    # Not by BoTorch's decorator, which reads names from the signature of a function.
    constructor = InputConstructor(acqf_class, parameters)
    ACQF_INPUT_CONSTRUCTOR_REGISTRY[acqf_class] = constructor
    return acqf_class


def builder_of(acqf_class: type[AcquisitionFunction]) -> Callable[..., Any]:
    r"""``from_model`` of a class, or the class itself where it has none."""
    return getattr(acqf_class, "from_model", acqf_class)


def parameters_of(acqf_class: type[AcquisitionFunction]) -> list[Parameter]:
    r"""The model, and the options that Ax and BoTorch may give.

    The parameters of ``from_model``, whose ``**options`` are those of the class, or else of
    the class.
    """
    given = signature(builder_of(acqf_class)).parameters
    named = {n: each for n, each in given.items() if each.kind is not Parameter.VAR_KEYWORD}
    further = signature(acqf_class).parameters if len(named) < len(given) else {}
    return [*named.values(), *(each for n, each in further.items() if n not in named)]
