r"""Upper confidence bound of an objective where constraints may be satisfied."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from torch import Tensor
from torch.nn import Module, ModuleList

from kernelucb._numerics.arguments import checked
from kernelucb._numerics.checks import nonnegative_scalar
from kernelucb._numerics.domains import checked_points
from kernelucb.acquisition.base import KernelUCB
from kernelucb.acquisition.constrained_inputs import Limits, constrained_inputs
from kernelucb.acquisition.edge import infeasibility_penalty, unit_of
from kernelucb.acquisition.martingale_mixture import MartingaleMixtureUCB
from kernelucb.acquisition.outcome_bands import (
    BoundClasses,
    BoundOptions,
    Noise,
    NormBounds,
)
from kernelucb.acquisition.saved import BuiltOnce, plain_limits
from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.joined import joined_assumptions
from kernelucb.confidence.outcome_constraints import OutcomeConstraints, check_dimensions
from kernelucb.regression.from_model import observed_inputs
from kernelucb.regression.outcome_map import OutcomeMap


class ConstrainedUCB(BuiltOnce):
    r"""Upper confidence bound of an objective among the points that may be feasible.

    Both the objective and the constraints are taken at their best: the value is the upper
    bound of the objective, and a point is left out only where the band of a constraint
    excludes it. So points that violate a constraint are tried as long as they may satisfy
    it; where that is not acceptable, use ``SafeSet`` with ``optimize_acqf_safely``. What is
    recommended in the end should be certainly feasible, as ``outcome_constraints`` say and
    ``regret_certificate`` and ``optimum_report`` ask.

    **What holds.** While all bands hold (see ``assumptions``), with ``temperature=0``, the
    largest value found and no points pending, the chosen point ``x`` falls short of the
    best feasible value by at most the width of the objective's band at ``x``, and violates
    each constraint by at most the width of that constraint's band there. If no point of the
    domain may be feasible, none is feasible.

    A positive ``temperature`` makes the edge smooth for ``optimize_acqf``: inside, values
    fall by at most 0.02 units for each constraint at its edge; outside by 0.7 units at four
    ``temperature`` and by one for every further one, the unit being the spread of the upper
    bound around the observed points. A candidate may lie outside by a few ``temperature``.
    With ``temperature=0`` the restriction is exact; use that with
    ``optimize_acqf_discrete``. If no candidate may be feasible, the one that comes closest
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

    Attributes:
        band: As given.
        temperature: As given.
        outcome_constraints: The constraints as given (BoTorch's initialisers read
            ``constraints`` of an acquisition function as functions of samples).
    """

    @checked
    def __init__(
        self,
        band: KernelUCB,
        constraints: OutcomeConstraints,
        *,
        observed: Tensor | None = None,
        temperature: float = 0.02,
        X_pending: Tensor | None = None,
    ) -> None:
        r"""Constrain the search by an upper bound.

        Args:
            band: Any bound of this package, of the objective; a ``ScalarizedUCB`` for a
                weighted sum of outcomes. One that also stands in ``constraints`` counts
                once among the failure probabilities.
            constraints: The constrained outcomes.
            observed: ``n x d`` points around which the spread of the upper bound is taken;
                by default those that the band's model has observed.
            temperature: Width of the edge, in prior standard deviations of the constrained
                outcome. Zero makes the restriction exact, with no gradient outside.
            X_pending: ``p x d`` points under evaluation; those of ``band`` when absent.
                The variances of the objective are conditioned on them; which points may be
                feasible does not depend on them.

        Raises:
            ValueError: If ``temperature`` is out of its range.
            BotorchTensorDimensionError: If the bands' inputs differ in dimension, or a
                tensor has the wrong shape.
            UnsupportedError: If the inputs that were observed are not known.
        """
        bands = list(constraints.bands.values())
        check_dimensions("bands of objective and constraints", [band, *bands])
        super().__init__(model=band.model)
        self.band, self.outcome_constraints = band, constraints
        self._constraint_bands = ModuleList([b for b in bands if isinstance(b, Module)])
        self.temperature = nonnegative_scalar("temperature", temperature)
        if observed is None and self.temperature > 0.0:
            observed = observed_inputs(band.model)
        self._unit = 1.0
        if observed is not None:
            points = checked_points("observed", observed, band.regression.dimension)
            with torch.no_grad():
                self._unit = unit_of(band, points, self.temperature)
        if X_pending is not None:
            self.set_X_pending(X_pending)

    @classmethod
    def from_model(
        cls,
        model: Model | Sequence[Model],
        *,
        constraints: Mapping[int, Limits],
        objective_index: int = 0,
        posterior_transform: PosteriorTransform | None = None,
        norm_bound: NormBounds = None,
        noise_std: Noise | Sequence[Noise] = None,
        delta: float = 0.05,
        bound: BoundClasses = MartingaleMixtureUCB,
        options: BoundOptions = None,
        maximize: bool = True,
        temperature: float = 0.02,
        X_pending: Tensor | None = None,
    ) -> "ConstrainedUCB":
        r"""Bands of the objective and of the constrained outputs of one model.

        Each output that is used gets a band of failure probability ``delta`` divided by
        their number, so that all hold at once with probability ``1 - delta``. An output
        that is both objective and constrained, or has two limits, has one band.

        Args:
            model: A ``ModelListGP``, a ``SingleTaskGP`` with several columns, or several
                models with one output each. Outputs may be without any use.
            constraints: ``{output: (lower, upper)}`` in outcome units, with None for no
                limit, as in BoTorch's ``LogConstrainedExpectedImprovement``.
            objective_index: Which output is the objective.
            posterior_transform: A ``ScalarizedPosteriorTransform``. With one weight it acts
                on the objective; with one for each output the objective is their weighted
                sum, and ``objective_index`` must be left out.
            norm_bound: See ``MartingaleMixtureUCB``; one for all outputs or one for each.
            noise_std: The same.
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
            UnsupportedError: If the model or the transform cannot be represented.
        """
        inputs = constrained_inputs(
            model,
            constraints=constraints,
            objective_index=objective_index,
            posterior_transform=posterior_transform,
            norm_bound=norm_bound,
            noise_std=noise_std,
            delta=delta,
            bound=bound,
            options=options,
            maximize=maximize,
            temperature=temperature,
            X_pending=X_pending,
        )
        return cls(**inputs)

    @property
    def confidence_set(self) -> ConfidenceSet[Any, Any]:
        r"""That of the objective."""
        return self.band.confidence_set

    @property
    def regression(self) -> Any:
        r"""The regression state of the objective."""
        return self.band.regression

    @property
    def maximize(self) -> bool:
        r"""Whether large values of the objective, after the transform, are sought."""
        return self.band.maximize

    @property
    def posterior_transform(self) -> PosteriorTransform | None:
        r"""That of the objective's band."""
        return self.band.posterior_transform

    @property
    def direction(self) -> int:
        r"""1 where large outcomes are sought, -1 where small ones are."""
        return self.band.direction

    @property
    def prior_std(self) -> float:
        r"""Prior standard deviation of the objective, units of ``latent_bounds``."""
        return self.band.prior_std

    @property
    def outcome_map(self) -> OutcomeMap:
        r"""From outcomes to the scale of the objective's set; see ``KernelUCB``."""
        return self.band.outcome_map

    @property
    def assumptions(self) -> Assumptions:
        r"""What the bands of objective and constraints rest on, all at once."""
        bands = {"objective": self.band, **self.outcome_constraints.bands}
        return joined_assumptions(bands, "the bands of objective and constraints hold")

    @property
    def X_pending(self) -> Tensor | None:
        r"""``p x d`` points under evaluation. Assigning them is ``set_X_pending``."""
        return self.band.X_pending

    @X_pending.setter
    def X_pending(self, X_pending: Tensor | None) -> None:
        # A property, since BoTorch's FixedFeatureAcquisitionFunction assigns it.
        self.band.X_pending = X_pending

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        r"""Condition the objective's variances on ``p x d`` points under evaluation."""
        self.band.set_X_pending(X_pending)

    def forward(self, X: Tensor) -> Tensor:
        r"""Value to maximise at ``b x 1 x d`` points; ``b`` may be several dimensions.

        Raises:
            BotorchTensorDimensionError: If ``X`` is not ``b x 1 x d``, as with ``q > 1``.
            InputDataError: If a value is not finite.
        """
        return self._restricted(self.band(X), X)

    def majorant(self, X: Tensor) -> Tensor:
        r"""Upper bound on ``forward`` without the search of the objective's bound."""
        return self._restricted(self.band.majorant(X), X)

    def bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The objective's band at ``n x d`` points; see ``KernelUCB.bounds``."""
        return self.band.bounds(X)

    def latent_bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""The same on the scale of the objective's set."""
        return self.band.latent_bounds(X)

    def _settings(self) -> Any:
        return self.temperature, self._unit, plain_limits(self.outcome_constraints)

    def _restricted(self, values: Tensor, X: Tensor) -> Tensor:
        penalty = infeasibility_penalty(self.outcome_constraints, X, self.temperature)
        return values - self._unit * penalty.reshape(values.shape).to(values)
