r"""BoTorch plumbing of every confidence bound, once."""

import warnings
from abc import ABC
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Generic

import torch
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from torch import Tensor

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import finite, finite_scalar, tensor
from kernelucb._numerics.saving import fingerprint
from kernelucb.acquisition.saved import BuiltOnce
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet, PointsT, StateT, Support
from kernelucb.exceptions import SinglePrecisionWarning
from kernelucb.regression.likelihood.regression import LikelihoodRegression
from kernelucb.regression.outcome_map import OutcomeMap, check_identity
from kernelucb.regression.state import State

_Support = Callable[[Any, int], Support]


class KernelUCB(BuiltOnce, ABC, Generic[StateT, PointsT]):
    r"""Upper side of a confidence set as an acquisition function.

    Subclasses build the confidence set; everything that BoTorch asks of an acquisition
    function is here. With a ``ScalarizedPosteriorTransform`` of weight ``w`` and offset
    ``o`` the value is the bound on ``o + w f``, so a negative weight swaps the sides.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "__init__" in cls.__dict__:
            cls.__init__ = _without_beta(checked(cls.__init__))

    def __init__(
        self,
        model: Model | State | LikelihoodRegression,
        confidence_set: ConfidenceSet[StateT, PointsT],
        maximize: bool,
        posterior_transform: PosteriorTransform | None,
        X_pending: Tensor | None,
    ) -> None:
        super().__init__(model=model)  # pyright: ignore[reportArgumentType]
        self.confidence_set = confidence_set
        self.maximize = maximize
        self.posterior_transform = posterior_transform
        self._weight, self._offset = _scalarization(posterior_transform)
        if abs(self._weight) != 1.0 or self._offset != 0.0:
            way = "use one of weight 1 or -1 without an offset, or none"
            check_identity(self.outcome_map, "A posterior transform", way)
        self._warned_single_precision = False
        self.set_X_pending(X_pending)

    @property
    def regression(self) -> StateT:
        r"""The regression state that the bound was computed from."""
        return self.confidence_set.regression

    @property
    def direction(self) -> int:
        r"""1 where large outcomes are sought, -1 where small ones are."""
        return 1 if self.maximize == (self._weight > 0) else -1

    @property
    def assumptions(self) -> Assumptions:
        r"""What the guarantee rests on: given, estimated or violated."""
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
        return self._X_pending

    @X_pending.setter
    def X_pending(self, X_pending: Tensor | None) -> None:
        # A property, since BoTorch's FixedFeatureAcquisitionFunction assigns it.
        if X_pending is None or tensor("X_pending", X_pending).numel() == 0:
            self._X_pending = None
            self._scoring_set = self._searched(0)
            return
        if X_pending.dim() != 2:
            raise BotorchTensorDimensionError(
                f"X_pending must be `p x d`, got shape {tuple(X_pending.shape)}."
            )
        self._check_points("X_pending", X_pending)
        self._scoring_set = self._searched(len(X_pending)).with_pending(X_pending)
        self._X_pending = X_pending.detach()

    def _searched(self, num_pending: int) -> ConfidenceSet[StateT, PointsT]:
        r"""The set whose upper bound is maximised while ``num_pending`` points are out."""
        return self.confidence_set

    def get_extra_state(self) -> Tensor:
        r"""A fingerprint of how this bound was built, part of ``state_dict()``."""
        return fingerprint(self.confidence_set)

    def forward(self, X: Tensor) -> Tensor:
        r"""Value to maximise: the upper bound, or minus the lower if ``maximize=False``.

        Maps ``b x 1 x d`` candidate points, where ``b`` may be several dimensions, to a
        tensor of shape ``b``.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``b x 1 x d``, as with ``q > 1``.
            InputDataError: If a value is not finite.
        """
        return self._evaluate(X, self._scoring_set.support)

    def majorant(self, X: Tensor) -> Tensor:
        r"""Upper bound on ``forward`` without its search; ``forward`` if it has none."""
        return self._evaluate(X, self._scoring_set.majorant)

    def _evaluate(self, X: Tensor, support: _Support) -> Tensor:
        if tensor("X", X).dim() < 2 or X.shape[-2] != 1:
            raise BotorchTensorDimensionError(
                f"X must be `b x 1 x d`, got shape {tuple(X.shape)}. The bound scores one "
                "point at a time; for q > 1 use optimize_acqf with sequential=True, or "
                "return_acq_values=False where an optimiser asks for a joint value."
            )
        self._check_points("X", X)
        batch_shape = X.shape[:-2] if X.dim() > 2 else X.shape[:1]
        orientation = 1.0 if self.maximize else -1.0
        weight, offset = orientation * self._weight, orientation * self._offset

        def value(part: Tensor) -> Tensor:
            points = self._scoring_set.project(part)
            return self._value(points, weight, offset, support)

        values = in_parts(X.reshape(-1, X.shape[-1]), value)
        return values.reshape(batch_shape).to(X.dtype)

    def _value(
        self, points: PointsT, weight: float, offset: float, support: _Support
    ) -> Tensor:
        r"""Value to maximise at projected points, for the outcome ``offset + weight f``."""
        half_width = support(points, 1 if weight > 0 else -1).value
        return offset + weight * points.baseline + abs(weight) * half_width

    def bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound at ``n x d`` points, two ``n``-vectors in outcome units.

        The plain band, without sign, posterior transform or pending points. Where the model
        is of transformed outcomes (``outcome_map``), it is ``latent_bounds`` mapped back:
        a band of the same probability for the median of an outcome, not for its mean (of
        ``LikelihoodUCB``: for the success probability or the rate).

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``n x d``.
            InputDataError: If a value is not finite.
        """
        lower, upper = self.outcome_map.inverse(self._sides(X)).to(X.dtype)
        return lower, upper

    def latent_bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""``bounds`` on the scale of ``outcome_map``: of ``log(Y)``, for ``Log``.

        There norm bound and noise scale have their meaning. The same as ``bounds`` where
        that map is the identity; arguments and errors as there.
        """
        lower, upper = self._sides(X).to(X.dtype)
        return lower, upper

    def _sides(self, X: Tensor) -> Tensor:
        r"""Lower and upper bound on the scale of the confidence set, ``2 x n``."""
        if tensor("X", X).dim() != 2:
            raise BotorchTensorDimensionError(
                f"X must be `n x d`, got shape {tuple(X.shape)}."
            )
        self._check_points("X", X)
        return in_parts(X, lambda part: torch.stack(self.confidence_set.bounds(part)))

    def _check_points(self, name: str, X: Tensor) -> None:
        if X.shape[-1] != self.regression.dimension:
            raise BotorchTensorDimensionError(
                f"{name} has {X.shape[-1]} columns; the model was trained on "
                f"{self.regression.dimension}."
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


def _without_beta(construct: Callable[..., None]) -> Callable[..., None]:
    r"""A constructor that answers calls made for ``UpperConfidenceBound``."""
    own = signature(construct).parameters.values()
    positional = [p.name for p in own if p.kind is Parameter.POSITIONAL_OR_KEYWORD][1:]

    @wraps(construct)
    def constructor(self: KernelUCB, *arguments: Any, **options: Any) -> None:
        if "beta" in options or len(arguments) > len(positional):
            name, first = type(self).__name__, ", ".join(positional)
            raise TypeError(
                f"{name} has no beta, and takes by position only {first}: its width "
                "follows from delta and the other arguments, which are given by name. See "
                f"help({name})."
            )
        construct(self, *arguments, **options)

    return constructor


def _scalarization(transform: PosteriorTransform | None) -> tuple[float, float]:
    r"""Weight and offset of a posterior transform on one output."""
    if transform is None:
        return 1.0, 0.0
    if not isinstance(transform, ScalarizedPosteriorTransform):
        raise UnsupportedError(
            f"The posterior transform {type(transform).__name__} is not an affine map of "
            "the outcome; use ScalarizedPosteriorTransform with one weight."
        )
    weights = transform.get_buffer("weights")
    if weights.numel() != 1:
        raise UnsupportedError(
            f"The posterior transform has {weights.numel()} weights; the bound is for one "
            "output. Build one bound for each outcome."
        )
    weight = float(weights)
    if weight == 0.0:
        raise UnsupportedError("The posterior transform has weight 0; use another.")
    offset = finite_scalar("The offset of the posterior transform", transform.offset)
    return finite_scalar("The weight of the posterior transform", weight), offset
