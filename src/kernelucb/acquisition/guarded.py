r"""Any acquisition function, within the possible maximisers of a band."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.acquisition import OneShotAcquisitionFunction
from botorch.acquisition.analytic import AnalyticAcquisitionFunction
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.multi_objective.base import (
    MultiObjectiveAnalyticAcquisitionFunction,
    MultiObjectiveMCAcquisitionFunction,
)
from botorch.acquisition.multi_objective.objective import MCMultiOutputObjective
from botorch.acquisition.objective import (
    IdentityMCObjective,
    LinearMCObjective,
    MCAcquisitionObjective,
    PosteriorTransform,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from botorch.optim.parameter_constraints import evaluate_feasibility
from botorch.utils.constraints import get_outcome_constraint_transforms
from torch import Tensor

from kernelucb._numerics.arrays import in_parts
from kernelucb._numerics.checks import as_double, nonnegative_scalar, whole_number
from kernelucb._numerics.domains import (
    FixedFeatures,
    LinearConstraints,
    checked_box,
    checked_inequalities,
    checked_points,
    fixed_candidates,
)
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.constrained import (
    AroundBand,
    ConstrainedUCB,
    Limits,
    constraint_matrix,
    edge_penalty,
    objective_weights,
    unit_of,
)
from kernelucb.acquisition.input_constructors import (
    builder_of,
    input_parameters,
    search_class,
)
from kernelucb.acquisition.martingale_mixture import MartingaleMixtureUCB
from kernelucb.confidence.band import Band, check_band
from kernelucb.confidence.family.kernels import GOLDEN_RATIO
from kernelucb.regression.from_model import observed_inputs, single_output_models

Options = Mapping[str, Any]

_FOR_SEVERAL = (
    MultiObjectiveAnalyticAcquisitionFunction,
    MultiObjectiveMCAcquisitionFunction,
)
_OF_EACH_OUTCOME = (IdentityMCObjective, MCMultiOutputObjective)


class GuardedAcquisition(AroundBand):
    r"""An acquisition function within the possible maximisers of a band.

    The band says what is known of the function, the acquisition function says where to look
    next. This one takes any of BoTorch's, analytic or Monte Carlo, and keeps it to the
    possible maximisers: the points ``x`` at which some function of the band's confidence
    set is at least what it is at the ``reference``, the observed point with the largest
    lower bound. Where the true function is in the set (with the probability that
    ``band.assumptions`` states, on what they rest on) and the reference is in the domain
    that is searched, every maximiser over the domain is one of them: the guard takes
    nothing away that can be the optimum. With ``maximize=False`` all of this is about
    minimisers.

    **The domain.** Give ``bounds``, ``fixed_features`` and ``inequality_constraints`` of
    ``optimize_acqf`` here too, where they leave out observed points: the guard cannot see
    them there. With a context (``fixed_features``) that ``optimize_acqf`` alone is told of,
    the reference comes from another one, and all of this context may be excluded.

    **Constraints.** Within a ``ConstrainedUCB`` it also keeps to the points that may be
    feasible, and the reference is the best of the observed points that are certainly
    feasible; while none is, nothing is asked of the objective. Then every maximiser among
    the feasible candidates is kept.

    Inside that set values are those of ``acqf``, up to 0.02 units at its edge. Outside they
    fall steeply and smoothly, with a gradient that leads back: by 0.7 units at four
    ``temperature`` and by one for every further one, the unit being one where ``acqf`` is a
    logarithm and the spread of its values around the observed points elsewhere. So
    ``optimize_acqf`` works as with ``acqf``, with ``q > 1`` (jointly for Monte Carlo
    functions, ``sequential=True`` where ``acqf`` takes pending points, and always with
    ``ucb_every``), constraints and fixed features. A candidate may lie outside by a few
    ``temperature``. With ``temperature=0`` the restriction is exact; use that with
    ``optimize_acqf_discrete``, where no gradient is needed. The set always holds the
    ``reference``; if no candidate is in it, the one that may come closest to the reference
    is chosen.

    **What holds.** What ``band.assumptions`` say; most bounds allow inputs that any rule
    chooses from the past (``WangDeFreitasUCB`` does not). No bound on the regret of
    ``acqf`` itself follows. With ``ucb_every=k`` one point in each block of ``k`` is chosen
    by the band's own upper bound: where the band holds the function, the best of these
    points has a regret of at most the mean width of the band at them when they were chosen,
    which is what bounds the simple regret of the pure rule (if the largest upper bound was
    found, with no points pending). Of any ``T`` points chosen one after the other at least
    ``T // k - 1`` are of this kind.

    Source: ours, from the band's own theorem (``docs/mathematics.md``, "Guarded search").

    Example:
        >>> band = MartingaleMixtureUCB(model, norm_bound=10.0, noise_std=0.1)
        >>> acqf = GuardedAcquisition(qLogNoisyExpectedImprovement(model, X), band)
        >>> candidate, _ = optimize_acqf(acqf, bounds, q=1, num_restarts=8,
        ...                              raw_samples=256)
        >>> lower, upper = band.bounds(candidate)

    Attributes:
        acqf: As given.
        reference: ``1 x d``, the observed point, moved into the domain, whose lower bound
            is largest (whose upper bound is smallest, where small outcomes are sought);
            ``0 x d``, which excludes nothing, if none keeps the constraints for certain.
    """

    reference: Tensor
    _others = ("acqf.", "model.")
    _claim = "every best feasible point is within the guard, with temperature=0,"

    def __init__(
        self,
        acqf: AcquisitionFunction,
        band: KernelUCB[Any, Any] | ConstrainedUCB,
        *,
        observed: Tensor | None = None,
        bounds: Tensor | None = None,
        fixed_features: FixedFeatures | None = None,
        inequality_constraints: LinearConstraints | None = None,
        temperature: float = 0.02,
        ucb_every: int | None = None,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Guard an acquisition function.

        Args:
            acqf: What is maximised within the guard: an acquisition function of BoTorch
                that takes ``b x q x d`` points. It may be on another model than the band,
                such as one that is refitted in every round.
            band: A bound of this package, for the same objective and direction; a
                ``ConstrainedUCB`` where other outcomes must keep to thresholds.
            observed: ``n x d`` points among which the reference is chosen; by default those
                that the band's model has observed. Any points will do that lie in the
                domain, or are moved there by the next three arguments: for
                ``optimize_acqf_discrete`` its ``choices``.
            bounds: ``2 x d`` limits of the domain, as ``optimize_acqf`` has them. Points
                outside are moved to the nearest point inside.
            fixed_features: Columns that are given, such as a context, and their values, as
                ``optimize_acqf`` has them, whatever their bounds. All points are moved
                there.
            inequality_constraints: Linear constraints on single points, as
                ``optimize_acqf`` has them; an equality is two. After those moves, points
                that violate one by more than BoTorch's tolerance of 1e-8 are left out.
            temperature: Width of the edge, in prior standard deviations of the band and of
                each constrained outcome. Zero makes the restriction exact and leaves no
                gradient outside.
            ucb_every: One point in each block of so many is the one with the largest value
                of ``band``, its upper bound. Which one follows from the number of
                observations and pending points. By default none is.
            X_pending: ``p x d`` points under evaluation, for ``acqf`` and ``band``; those
                of ``acqf`` when absent.

        Raises:
            UnsupportedError: If ``acqf`` is a one-shot function, one with an output for
                each point of the batch or one for several objectives, if it seeks the other
                direction than ``band``, or if the inputs that were observed are not known.
            ValueError: If a scalar is out of its range, a column does not exist, or lower
                limits are not below upper ones.
            BotorchTensorDimensionError: If ``observed`` is not ``n x d``, or ``bounds`` are
                not ``2 x d``.
        """
        _check_guard(acqf, band)
        super().__init__(model=getattr(acqf, "model", band.model))
        self.acqf, self.band, self.outcome_constraints = (
            acqf,
            band,
            band.outcome_constraints,
        )
        self._log = acqf._log  # pyright: ignore[reportPrivateUsage]
        self.temperature = nonnegative_scalar("temperature", temperature)
        self.ucb_every = None if ucb_every is None else whole_number("ucb_every", ucb_every)
        points = observed_inputs(band.model) if observed is None else observed
        points = checked_points("observed", points, self.band.data.dimension)
        dimension = points.shape[1]
        if bounds is not None:
            points = points.clamp(*checked_box(bounds, dimension).to(points))
        points = fixed_candidates(points, fixed_features)
        inequalities = checked_inequalities(inequality_constraints or [], dimension)
        allowed = evaluate_feasibility(points.unsqueeze(-2), inequalities)
        self.register_buffer("reference", _best_known(band, points[allowed]))
        self._unit = unit_of(acqf, points, self.temperature)
        inherited = getattr(acqf, "X_pending", None)
        self._told = inherited is not None
        self.set_X_pending(inherited if X_pending is None else X_pending)

    @classmethod
    def from_model(
        cls,
        model: Model,
        *,
        search: str | type[AcquisitionFunction] = "qLogNoisyExpectedImprovement",
        search_options: Options | None = None,
        band: type[KernelUCB] = MartingaleMixtureUCB,
        band_options: Options | None = None,
        temperature: float = 0.02,
        ucb_every: int | None = None,
        training_data: Any = None,
        X_baseline: Tensor | None = None,
        bounds: Any = None,
        fixed_features: FixedFeatures | None = None,
        inequality_constraints: LinearConstraints | None = None,
        posterior_transform: PosteriorTransform | None = None,
        constraints: Mapping[int, Limits] | Sequence[Callable[..., Any]] | None = None,
        constraints_tuple: tuple[Tensor, Tensor] | None = None,
        objective_index: int = 0,
        objective: MCAcquisitionObjective | None = None,
        X_pending: Tensor | None = None,
    ) -> Self:
        r"""A guarded search from a model and the two classes, or their names.

        With outcome constraints the bands are those of ``ConstrainedUCB.from_model``, which
        share ``delta``, and the search is told of the constraints, too.

        Args:
            model: For both.
            search: Class of the acquisition function that is guarded, or its name, under
                which BoTorch has its input constructor.
            search_options: Arguments of its input constructor beside those of this method.
            band: Class of the band; with constraints that of each outcome, also where the
                objective is a sum of several.
            band_options: Its arguments.
            temperature: See the class, as for the next one.
            ucb_every: The same.
            training_data: BoTorch's data sets, which some acquisition functions ask for.
            X_baseline: ``n x d`` observed points, which some acquisition functions ask for
                and whose lower bounds are compared; by default those that the model has
                observed.
            bounds: Ranges ``(lower, upper)`` of the ``d`` inputs, which limit the domain;
                some acquisition functions ask for them, too.
            fixed_features: See the class, as for the next one.
            inequality_constraints: The same.
            posterior_transform: For both.
            constraints: See ``ConstrainedUCB.from_model``, as for the next two.
            constraints_tuple: The same.
            objective_index: The same.
            objective: A ``LinearMCObjective``, as Ax gives it with constraints, in place of
                ``posterior_transform``.
            X_pending: ``p x d`` points under evaluation, for both.

        Raises:
            UnsupportedError: If there is no such acquisition function, or it has no input
                constructor, or it takes no constraints where there are some.
            ValueError: If a constraint has no limit or no output, or the objective is given
                twice.
        """
        searched, own = search_class(search), dict(band_options or {})
        transform = _transform(objective, posterior_transform)
        told: dict[str, Any] = {"posterior_transform": transform}
        if constraints is not None or constraints_tuple is not None:
            if "constraints" not in input_parameters(searched):
                raise UnsupportedError(
                    f"{searched.__name__} takes no constraints; search with "
                    "qLogNoisyExpectedImprovement, say."
                )
            count = len(single_output_models(model))
            limits = constraint_matrix(constraints, constraints_tuple, count)
            weights, _ = objective_weights(transform, objective_index, count)
            shared = ("norm_bound", "noise_std", "delta")
            bounded = ConstrainedUCB.from_model(
                model,
                constraints_tuple=limits,
                objective_index=objective_index,
                posterior_transform=transform,
                bound=band,
                temperature=temperature,
                **{name: own.pop(name) for name in shared if name in own},
                options=own,
            )
            listed = as_double([weights.get(j, 0.0) for j in range(count)])
            told = {"constraints": get_outcome_constraint_transforms(limits)}
            told["objective"] = LinearMCObjective(listed)
        elif objective_index != 0:
            raise UnsupportedError(
                "objective_index is taken only with constraints; without, the objective is "
                "what posterior_transform says."
            )
        else:
            bounded = builder_of(band)(model, **{"posterior_transform": transform} | own)
        told |= {"training_data": training_data, "X_baseline": X_baseline, "bounds": bounds}
        told = {name: value for name, value in told.items() if value is not None}
        construct = get_acqf_input_constructor(searched)
        return cls(
            acqf=searched(**construct(model=model, **told, **(search_options or {}))),
            band=bounded,
            observed=observed_inputs(model) if X_baseline is None else X_baseline,
            bounds=None if bounds is None else as_double(bounds).mT,
            fixed_features=fixed_features,
            inequality_constraints=inequality_constraints,
            temperature=temperature,
            ucb_every=ucb_every,
            X_pending=X_pending,
        )

    @property
    def X_pending(self) -> Tensor | None:
        r"""``p x d`` points under evaluation. Assigning them is ``set_X_pending``."""
        return self._X_pending

    @X_pending.setter
    def X_pending(self, X_pending: Tensor | None) -> None:
        # A property, since BoTorch's FixedFeatureAcquisitionFunction assigns it.
        count = 0 if X_pending is None else len(X_pending)
        points = X_pending if count > 0 else None
        self.band.set_X_pending(points)
        self._is_ucb_turn = self.ucb_every is not None and is_ucb_turn(
            self.band.data.num_observations + count, self.ucb_every
        )
        # Some functions forget their own when told of none, and analytic ones refuse to be.
        if not self._is_ucb_turn and (count > 0 or self._told):
            if isinstance(self.acqf, AnalyticAcquisitionFunction):
                raise UnsupportedError(
                    f"{type(self.acqf).__name__} is analytic and cannot account for "
                    f"pending points, and there are {count} (X_pending; in Ax, trials that "
                    "are running or abandoned). Guard a Monte Carlo function, such as "
                    "qLogNoisyExpectedImprovement."
                )
            self.acqf.set_X_pending(points)
            self._told = count > 0
        self._X_pending = points

    def forward(self, X: Tensor) -> Tensor:
        r"""Value to maximise at ``b x q x d`` candidates, where ``b`` may be several.

        Raises:
            BotorchTensorDimensionError: If ``X`` does not fit the band or ``acqf``, or has
                ``q > 1`` with ``ucb_every``.
        """
        if self.ucb_every is not None and X.shape[-2] != 1:
            raise BotorchTensorDimensionError(
                f"X has q = {X.shape[-2]}. With ucb_every points are chosen one after the "
                "other: use optimize_acqf with sequential=True, or return_acq_values=False "
                "where an optimiser asks for a joint value at the end."
            )
        return self.band(X) if self._is_ucb_turn else self._within(self.acqf(X), X)

    def _penalty(self, X: Tensor) -> Tensor:
        excess = self.excess(X) / self.prior_std
        return edge_penalty(excess, self.temperature) + super()._penalty(X)

    def excess(self, X: Tensor) -> Tensor:
        r"""How much better than the ``reference`` a point may be, units of the band's set.

        Maps ``n x d`` points to ``n`` values: the largest of ``f(x) - f(reference)`` over
        the confidence set (of its negative, where small outcomes are sought; the
        difference of both sides of the band where the set is not one of functions), or a
        little more, since it is taken from a grid instead of searched. Where it is negative
        the point is no possible maximiser. Pending points do not change it. Infinite while
        there is no reference.
        """
        if len(self.reference) == 0:
            return torch.full_like(X[:, 0], torch.inf)
        gain = self.objective_band.max_gain_over
        given = {"reference": self.reference, "sign": self.direction, "cheap": True}
        return in_parts(X, partial(gain, **given))

    def _settings(self) -> Any:
        return super()._settings(), self.ucb_every

    def _described(self) -> dict[str, Any]:
        names = {"acqf": type(self.acqf).__name__, "band": type(self.band).__name__}
        return {**names, **super()._described()}


def is_ucb_turn(count: int, every: int) -> bool:
    r"""Whether the point after ``count`` others is the one of its block of ``every``.

    Its place in the block moves by the golden ratio: no batch size always misses it.
    """
    block, place = divmod(count, every)
    return place == int(block * GOLDEN_RATIO % 1.0 * every)


@torch.no_grad()
def _best_known(band: Any, X: Tensor) -> Tensor:
    r"""The one of ``n x d`` points, ``1 x d``, that is worth the most at least.

    Of those that are certainly feasible, where there are constraints; none, ``0 x d``, if
    no point is.
    """
    confidence_set, sign = band.confidence_set, band.direction

    def worst(part: Tensor) -> Tensor:
        points = confidence_set.project(part)
        return sign * points.baseline - confidence_set.support(points, -sign).value

    if band.outcome_constraints is not None:
        X = X[band.outcome_constraints.is_feasible(X)]
    return X[in_parts(X, worst).argmax()].unsqueeze(0) if len(X) > 0 else X


def _check_guard(acqf: AcquisitionFunction, band: KernelUCB | ConstrainedUCB) -> None:
    r"""Refuse what has several objectives or seeks the other direction, and one-shot."""
    check_band("band", band)
    name, direction = type(acqf).__name__, _direction(acqf)
    if isinstance(acqf, OneShotAcquisitionFunction):
        raise UnsupportedError(
            f"{name} is a one-shot function: its points are candidates and fantasies "
            "together. Guard another one, such as qLogNoisyExpectedImprovement."
        )
    if _is_of_several(acqf):
        raise UnsupportedError(
            f"{name} is for several outcomes, and the band is for one objective: a point "
            "that cannot be its optimum may be the best for another. Give an objective or "
            "posterior_transform that makes one of them, or search without a guard."
        )
    if direction * band.direction < 0:
        names = {1: "large", -1: "small"}
        raise UnsupportedError(
            f"{name} seeks {names[direction]} outcomes and the band "
            f"{names[band.direction]} ones; give both the same maximize and "
            "posterior_transform."
        )


def _is_of_several(acqf: AcquisitionFunction) -> bool:
    r"""Whether it is for several objectives, or nothing makes one of several outcomes."""
    if isinstance(acqf, _FOR_SEVERAL):
        return True
    objective: Any = getattr(acqf, "objective", None)
    transform: Any = getattr(acqf, "posterior_transform", None)
    is_one = (
        hasattr(acqf, "objective_index")
        or getattr(transform, "scalarize", False)
        or (objective is not None and not isinstance(objective, _OF_EACH_OUTCOME))
    )
    return not is_one and getattr(getattr(acqf, "model", None), "num_outputs", 1) > 1


def _direction(acqf: AcquisitionFunction) -> int:
    r"""1 if it surely seeks large outcomes, -1 if small ones, 0 if that is not known."""
    if isinstance(acqf, Band):
        return acqf.direction
    maximize = getattr(acqf, "maximize", None)
    sign = int(isinstance(getattr(acqf, "objective", None), IdentityMCObjective))
    if maximize is not None:
        sign = 1 if maximize else -1
    transform = getattr(acqf, "posterior_transform", None)
    if transform is None:
        return sign
    weights = getattr(transform, "weights", None)
    if not isinstance(weights, Tensor) or weights.numel() != 1:
        return 0
    return sign if float(weights) > 0.0 else -sign


def _transform(
    objective: MCAcquisitionObjective | None, transform: PosteriorTransform | None
) -> PosteriorTransform | None:
    r"""What makes the objective, as one transform."""
    if objective is None or isinstance(objective, IdentityMCObjective):
        return transform
    if transform is not None:
        raise ValueError(
            "objective and posterior_transform both say what the objective is; give one "
            "of them."
        )
    if not isinstance(objective, LinearMCObjective):
        raise UnsupportedError(
            f"The objective is {type(objective).__name__}; a band is for a weighted sum of "
            "outcomes, LinearMCObjective."
        )
    return ScalarizedPosteriorTransform(objective.get_buffer("weights"))
