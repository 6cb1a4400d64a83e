r"""Upper confidence bound of an objective where constraints may be satisfied."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.objective import PosteriorTransform, ScalarizedPosteriorTransform
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from botorch.models.model import Model
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor
from torch.nn import ModuleList
from torch.nn.functional import softplus

from kernelucb._numerics.checks import (
    as_double,
    finite,
    finite_scalar,
    nonnegative_scalar,
    probability,
)
from kernelucb._numerics.domains import checked_points
from kernelucb._numerics.estimates import draft_of
from kernelucb.acquisition.bounds import MartingaleMixtureUCB
from kernelucb.acquisition.outcomes import (
    BoundClasses,
    BoundOptions,
    Noise,
    NormBounds,
    bands_of_outputs,
)
from kernelucb.acquisition.ucb import (
    BandUCB,
    WithoutBeta,
    affine_weights,
    upper_bound_of,
)
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.band import (
    Band,
    band_of,
    check_dimensions,
    joined_assumptions,
    weighted_sum,
)
from kernelucb.confidence.outcome_constraints import OutcomeConstraints, Side
from kernelucb.confidence.sets import Described
from kernelucb.data.from_model import per_output, single_output_models

Limits = tuple[float | None, float | None]
Weights = Mapping[int, float]  # of the outputs in a sum, none of them zero

_EXCLUDED = 1e30  # above the value of any acquisition function, also in float32
_PROBES = 64  # Sobol points for the spread of a function's values
_SHIFT = 4.0  # temperatures outside at which 0.7 is paid; inside less than exp(-4) = 0.018


class AroundBand(Described, WithoutBeta):
    r"""A search restricted by the bands of an objective and of its constraints.

    Attributes:
        upper_bound: The acquisition function of the objective's band.
        outcome_constraints: The constraints, if any (BoTorch's initialisers read
            ``constraints`` of an acquisition function as functions of samples).
        temperature: Width of the edge, in prior standard deviations.
    """

    upper_bound: "BandUCB | ConstrainedUCB"
    outcome_constraints: OutcomeConstraints | None
    temperature: float
    _unit: float  # unit of the penalty of points outside
    _claim: str  # statement that follows if all bands hold

    @property
    def band(self) -> Band:
        r"""The objective's band."""
        return self.upper_bound.band

    def bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Lower and upper bound of the objective at ``n x d`` points, outcome units."""
        return self.band.bounds(X)

    @property
    def assumptions(self) -> Assumptions:
        r"""The joint assumptions of the bands of objective and constraints."""
        if self.outcome_constraints is None:
            return self.band.assumptions
        bands = {"objective": self.band, **self.outcome_constraints.bands}
        return joined_assumptions(bands, self._claim)

    def _described(self) -> dict[str, Any]:
        bound: Described = self.upper_bound
        return {**bound._described(), "delta": self.assumptions.delta}

    def _penalty(self, X: Tensor) -> Tensor:
        r"""Penalty of ``n x d`` points for violated constraints, ``n`` values.

        Each constraint has an edge of its own, so the gradient leads back to all of them.
        """
        if self.outcome_constraints is None:
            return X.new_zeros(len(X))
        _, possible = self.outcome_constraints.margins(X)
        return edge_penalty(possible, self.temperature).sum(0)

    def _within(self, values: Tensor, X: Tensor) -> Tensor:
        r"""Values of ``b x q x d`` candidates minus the penalties of their points."""
        shape = X.shape[:-1] if X.dim() > 2 else (1, *X.shape[:-1])
        penalty = self._penalty(X.reshape(-1, X.shape[-1])).reshape(shape).sum(-1)
        return values - self._unit * penalty.to(values)


def constrained_outputs(
    model: Model | Sequence[Model],
    constraints: Mapping[int, Limits] | Sequence[Callable[[Tensor], Tensor]] | None,
    constraints_tuple: tuple[Tensor, Tensor] | None,
    objective_index: int | Sequence[int],
    posterior_transform: PosteriorTransform | None,
    norm_bound: NormBounds,
    noise_std: Noise | Sequence[Noise],
    delta: float,
    bound: BoundClasses,
    options: BoundOptions,
    maximize: bool,
    temperature: float,
    X_pending: Tensor | None,
) -> dict[str, Any]:
    r"""Arguments of ``ConstrainedUCB`` from those of its ``from_model``."""
    singles = single_output_models(model)
    count, further = len(singles), {"maximize", "posterior_transform", "X_pending"}
    for each in per_output("options", options, count):
        if given := sorted(further & {*(each or {})}):
            raise ValueError(
                f"options holds {given[0]}, which is for the objective alone; give it "
                "as an argument of its own."
            )
    rows = constraint_rows(constraints, constraints_tuple, count)
    weights, offset = objective_weights(posterior_transform, objective_index, count)
    (index, weight), *others = weights.items()
    used = sorted({*weights, *(j for row, _ in rows for j in row)})
    summed = bool(others) or any(index in row and len(row) > 1 for row, _ in rows)
    share, given = probability("delta", delta) / len(used), (bound, options)
    bands = bands_of_outputs(singles, used, share, norm_bound, noise_std, *given)

    def total(terms: Weights, offset: float = 0.0) -> Band:
        return weighted_sum([bands[j] for j in terms], [*terms.values()], offset)

    limited: list[tuple[Band, float, Side]] = []
    for row, limit in rows:
        (output, factor), *rest = row.items()
        if rest:
            limited.append((total(row), limit, "<="))
        else:
            side = "<=" if factor > 0.0 else ">="
            limited.append((bands[output], limit / factor, side))
    of, thresholds, sides = zip(*limited, strict=True)
    transform = None
    if not summed and (weight, offset) != (1.0, 0.0):
        transform = ScalarizedPosteriorTransform(as_double([weight]), offset)
    objective = total(weights, offset) if summed else bands[index]
    chosen = BandUCB(objective, maximize, transform, model=singles[index])
    return {
        "band": chosen,
        "constraints": OutcomeConstraints(of, thresholds, sides=sides),
        "temperature": temperature,
        "X_pending": X_pending,
    }


class ConstrainedUCB(AroundBand):
    r"""Upper confidence bound of an objective among the points that may be feasible.

    Both the objective and the constraints are taken at their best: the value is the upper
    bound of the objective, and a point is excluded only if the band of a constraint lies on
    the wrong side of its threshold. So a point that violates a constraint may be tried
    while the band leaves it possible; where a violation is not acceptable, use ``SafeSet``
    with ``optimize_acqf_safely``. Recommend certainly feasible points only
    (``outcome_constraints.is_feasible``), as ``regret_certificate`` and ``optimum_report``
    do.

    **What holds.** While all bands hold (see ``assumptions``), with ``temperature=0``, the
    largest value found and no points pending, the chosen point ``x`` falls short of the
    best feasible value by at most the width of the objective's band at ``x``, and violates
    each constraint by at most the width of the constraint's band at ``x``. If no point of
    the domain is possibly feasible, no point is feasible. Of a ``KernelFamilyUCB`` the
    first is true in the rounds that search all of its kernels (``widest_every``).

    A positive ``temperature`` makes the edge smooth for ``optimize_acqf``: inside, values
    fall by at most 0.02 units for each constraint at its edge; outside by 0.7 units at a
    distance of four ``temperature`` and by one unit for every further ``temperature``. The
    unit is the spread of the upper bound around the observed points. A candidate may lie
    outside by a few ``temperature``.
    With ``temperature=0`` the restriction has no edge; use that with
    ``optimize_acqf_discrete``. If no candidate is possibly feasible, the closest candidate
    is chosen.

    Source: the rule CONFIG of Xu et al. (2023), with the bands' own theorems in place of
    theirs, and with a smooth edge (ours).

    Example:
        >>> model = ModelListGP(yield_model, purity_model)
        >>> acqf = ConstrainedUCB.from_model(
        ...     model, objective_index=0, constraints={1: (0.9, None)},
        ...     norm_bound=[10.0, 2.0], noise_std=[0.1, 0.01], delta=0.05,
        ... )
        >>> candidate, _ = optimize_acqf(acqf, bounds, q=1, num_restarts=8,
        ...                              raw_samples=256)
        >>> usable = X[acqf.outcome_constraints.is_feasible(X)]

    """

    _claim = "the bands of objective and constraints hold"

    def __init__(
        self,
        band: BandUCB | Band,
        constraints: OutcomeConstraints,
        *,
        observed: Tensor | None = None,
        temperature: float = 0.02,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Constrain the search by an upper bound.

        Args:
            band: The objective's bound, which may be a ``ScalarizedUCB`` for a weighted sum
                of outcomes; or a band. A band that is also in ``constraints`` counts
                once among the failure probabilities.
            constraints: The constrained outcomes.
            observed: ``n x d`` points around which the spread of the upper bound is taken;
                by default those that the band's model has observed.
            temperature: Width of the edge, in prior standard deviations of the constrained
                outcome. With zero there is no edge, and no gradient outside.
            X_pending: ``p x d`` points under evaluation; those of ``band`` when absent.
                The variances of the objective are conditioned on them; which points may be
                feasible does not depend on them.

        Raises:
            ValueError: If ``temperature`` is out of its range.
            BotorchTensorDimensionError: If the bands' inputs differ in dimension, or a
                tensor has the wrong shape.
            UnsupportedError: If the inputs that were observed are not known.
        """
        upper_bound = upper_bound_of(band)
        objective, bands = band_of("band", band), [*constraints.bands.values()]
        check_dimensions("bands of objective and constraints", [objective, *bands])
        super().__init__(model=upper_bound.model)
        self.upper_bound, self.outcome_constraints = upper_bound, constraints
        # Registered, so that they move to another device with the function.
        sets = [each.confidence_set for each in bands]
        self._sets = ModuleList([each for each in sets if each is not None])
        self.temperature, self._unit = nonnegative_scalar("temperature", temperature), 1.0
        if self.temperature > 0.0:
            points = observed_points(objective, observed)
            self._unit = unit_of(upper_bound, points, self.temperature)
        if X_pending is not None:
            self.set_X_pending(X_pending)

    arguments_from_model = staticmethod(constrained_outputs)

    @classmethod
    def from_model(
        cls,
        model: Model | Sequence[Model],
        *,
        constraints: Mapping[int, Limits]
        | Sequence[Callable[[Tensor], Tensor]]
        | None = None,
        constraints_tuple: tuple[Tensor, Tensor] | None = None,
        objective_index: int | Sequence[int] = 0,
        posterior_transform: PosteriorTransform | None = None,
        norm_bound: NormBounds = None,
        noise_std: Noise | Sequence[Noise] = None,
        delta: float = 0.05,
        bound: BoundClasses = MartingaleMixtureUCB,
        options: BoundOptions = None,
        maximize: bool = True,
        temperature: float = 0.02,
        X_pending: Tensor | None = None,
    ) -> Self:
        r"""Bands of the objective and of the constrained outputs of one model.

        Each output that is used gets a band of failure probability ``delta`` divided by
        their number, so that all hold at once with probability ``1 - delta``. An output
        that is both objective and constrained, or has two limits, has one band.

        Args:
            model: A ``ModelListGP``, a ``SingleTaskGP`` with several columns, or several
                models with one output each. Outputs that are neither objective nor
                constrained are ignored.
            constraints: ``{output: (lower, upper)}`` in outcome units, with None for no
                limit, as in BoTorch's ``LogConstrainedExpectedImprovement``. Functions of
                samples, which BoTorch and Ax give beside ``constraints_tuple``, are not
                read.
            constraints_tuple: ``(A, b)``, ``k x m`` and ``k x 1``, for the constraints
                ``A f(x) <= b`` on ``m`` outputs (a row may weigh several), instead.
            objective_index: Which output is the objective.
            posterior_transform: A ``ScalarizedPosteriorTransform``. With one weight it acts
                on the objective; with one for each output the objective is their weighted
                sum, and ``objective_index`` must be left out.
            norm_bound: See ``MartingaleMixtureUCB``; one for all outputs or one for each.
            noise_std: See ``MartingaleMixtureUCB``; one for all outputs or one for each.
            delta: Failure probability of all bands together.
            bound: Class of the bands, one for all outputs or one for each.
            options: Further arguments of that class, one mapping for all outputs or one for
                each.
            maximize: If False, small values of the objective are sought.
            temperature: See the class.
            X_pending: ``p x d`` points under evaluation.

        Raises:
            ValueError: If a scalar is out of its range, a sequence has the wrong length, or
                a constraint has no limit, limits in the wrong order or no such output.
            BotorchTensorDimensionError: If ``(A, b)`` do not fit the outputs.
            UnsupportedError: If constraints are given as functions alone, or the model or
                the transform cannot be represented.
        """
        asked = constraints, constraints_tuple, objective_index, posterior_transform
        bands = norm_bound, noise_std, delta, bound, options
        given = *asked, *bands, maximize, temperature, X_pending
        return cls(**cls.arguments_from_model(model, *given))

    def playing_upper(self, whole: bool = False) -> "ConstrainedUCB":
        r"""The same search with ``BandUCB.playing_upper`` of the objective."""
        search = draft_of(self)
        search.upper_bound = self.upper_bound.playing_upper(whole)
        return search

    # BoTorch's generators of starting points read these two.

    @property
    def maximize(self) -> bool:
        r"""Whether large values of the objective, after the transform, are sought."""
        return self.upper_bound.maximize

    @property
    def posterior_transform(self) -> PosteriorTransform | None:
        r"""The transform of the objective's band."""
        return self.upper_bound.posterior_transform

    @property
    def X_pending(self) -> Tensor | None:
        r"""``p x d`` points under evaluation, on which the objective's variances are
        conditioned; assigning them is ``set_X_pending``.
        """
        return self.upper_bound.X_pending

    @X_pending.setter
    def X_pending(self, X_pending: Tensor | None) -> None:
        # BoTorch's FixedFeatureAcquisitionFunction and its ``set_X_pending`` assign it.
        self.upper_bound.X_pending = X_pending

    def forward(self, X: Tensor) -> Tensor:
        r"""Value to maximise at ``b x 1 x d`` points; ``b`` may be several dimensions.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``b x 1 x d``, as with ``q > 1``.
            InputDataError: If a value is not finite.
        """
        return self._within(self.upper_bound(X), X)

    def majorant(self, X: Tensor) -> Tensor:
        r"""Upper bound on ``forward`` without the search of the objective's bound."""
        return self._within(self.upper_bound.majorant(X), X)


def _weights(row: Sequence[float]) -> Weights:
    return {j: weight for j, weight in enumerate(row) if weight != 0.0}


def objective_weights(
    transform: PosteriorTransform | None, index: int | Sequence[int], count: int
) -> tuple[Weights, float]:
    r"""The objective as a weighted sum of outputs: weights and offset."""
    if not isinstance(index, int):
        raise UnsupportedError(
            "objective_index names several objectives, and a bound is for one; weigh them "
            "by a posterior_transform, or give limits for all but one in constraints."
        )
    _check_output("objective_index", index, count)
    if transform is None:
        return {index: 1.0}, 0.0
    weights, offset = affine_weights(transform, 1, count)
    if len(weights) == 1:
        return {index: weights[0]}, offset
    if index != 0:
        raise ValueError(
            "objective_index and a posterior transform with a weight for each output both "
            "say what the objective is; leave out objective_index."
        )
    return _weights(weights), offset


def constraint_rows(
    constraints: Mapping[int, Limits] | Sequence[Callable[[Tensor], Tensor]] | None,
    constraints_tuple: tuple[Tensor, Tensor] | None,
    count: int,
) -> list[tuple[Weights, float]]:
    r"""Weights and limit ``b`` of each constraint ``sum_j w_j f_j <= b`` on the outputs.

    Arguments and errors as for ``ConstrainedUCB.from_model``.
    """
    named = constraints if isinstance(constraints, Mapping) else {}
    if named and constraints_tuple is not None:
        raise ValueError(
            "constraints and constraints_tuple are both given (in Ax, the latter are those "
            "of the experiment); give one of them."
        )
    if constraints and not named and constraints_tuple is None:
        raise UnsupportedError(
            "constraints are functions of samples, from which no threshold can be read; "
            "give {output: (lower, upper)}, or constraints_tuple as Ax does."
        )
    rows: list[tuple[Weights, float]] = []
    if constraints_tuple is not None:
        matrix, b = (
            finite("constraints_tuple", each).double() for each in constraints_tuple
        )
        if matrix.shape != (len(b), count) or b.numel() != len(b):
            raise BotorchTensorDimensionError(
                f"constraints_tuple must be `k x {count}` and `k x 1`, got shapes "
                f"{tuple(matrix.shape)} and {tuple(b.shape)}."
            )
        rows += zip(map(_weights, matrix.tolist()), b.flatten().tolist(), strict=True)
    for output, pair in named.items():
        name = f"constraints[{output}]"
        _check_output(name, output, count)
        try:
            lower, upper = pair
        except (TypeError, ValueError):
            raise ValueError(f"{name} must be (lower, upper), got {pair!r}.") from None
        if lower is not None and upper is not None and lower >= upper:
            raise ValueError(
                f"{name}: the lower limit {lower:g} must be below the upper {upper:g}."
            )
        for sign, limit in ((-1.0, lower), (1.0, upper)):
            if limit is not None:
                value = finite_scalar(f"{name} (None for no limit)", limit)
                rows.append(({output: sign}, sign * value))
    if not rows or not all(weights for weights, _ in rows):
        raise ValueError(
            "constraints has no limit, or constraints_tuple a row without weights; give "
            "limits, such as constraints={1: (0.9, None)}, or use a bound without any, "
            "such as MartingaleMixtureUCB or ScalarizedUCB."
        )
    return rows


def _check_output(name: str, output: int, count: int) -> None:
    if not 0 <= output < count:
        outputs = "0" if count == 1 else f"0 to {count - 1}"
        raise ValueError(f"{name}: the model has the outputs {outputs}, not {output}.")


def edge_penalty(margin: Tensor, temperature: float) -> Tensor:
    r"""Penalty for margins below 0, in units of ``unit_of``; shape of ``margin``.

    Smooth: less than 0.02 inside, 0.7 at a margin of minus four ``temperature`` and about
    one more for every further ``temperature``. With ``temperature=0`` the penalty is 0
    inside, and outside larger than any acquisition value.
    """
    if temperature == 0.0:
        return torch.where(margin < 0.0, _EXCLUDED * (1.0 - margin), 0.0)
    return softplus(-_SHIFT - margin / temperature)


def observed_points(band: Band, observed: Tensor | None) -> Tensor:
    r"""Return ``observed``, ``n x d`` points, or else the observed inputs of the band."""
    points = band.observed if observed is None else observed
    if points is None:
        raise UnsupportedError(
            f"{type(band).__name__} does not know the inputs that were observed; give them "
            "as `observed`."
        )
    return checked_points("observed", points, band.data.dimension)


@torch.no_grad()
def unit_of(acqf: AcquisitionFunction, points: Tensor, temperature: float) -> float:
    r"""Size of one unit of a penalty, for the values of an acquisition function.

    1 if the values are logarithms or ``temperature`` is 0; else the spread of the values
    around ``n x d`` points.
    """
    if acqf._log or temperature == 0.0:  # pyright: ignore[reportPrivateUsage]
        return 1.0
    # Sobol dimensions follow the columns' values: the order of columns does not matter.
    _, place = points.sort(0).values.T.unique(dim=0, return_inverse=True)
    unit = torch.stack([torch.zeros_like(points[0]), torch.ones_like(points[0])])
    shares = draw_sobol_samples(unit, n=_PROBES, q=1, seed=0)[..., place]
    probes = torch.lerp(points.amin(0), points.amax(0), shares)
    values = acqf(torch.cat([probes, points.unsqueeze(-2)]))
    spread = float(values.max() - values.min())
    return spread if spread > 0.0 else 1.0
