r"""Radius and norm bound of the martingale mixture as observations come in."""

import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb.bandit.history import History, Systems
from kernelucb.bandit.observations import Observations, Query
from kernelucb.bandit.rule import Rule
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.martingale_mixture import (
    Constraints,
    Radius,
    combined_radius,
    consistent_constraints,
)
from kernelucb.confidence.norm import least_norm
from kernelucb.exceptions import InconsistentConfidenceSetWarning
from kernelucb.regression import KernelRegression

_WITNESSES = 256


class CurrentSet(NamedTuple):
    r"""The confidence set after the observations so far.

    Attributes:
        constraints: Fit and norm constraint.
        squared_radius: Squared radius of the fit, noise units.
        relaxed: The stateless set, where no function satisfied the constraints.
    """

    constraints: Constraints
    squared_radius: float
    relaxed: ConfidenceSet | None


class Witness(NamedTuple):
    r"""A fixed function of norm at most the bound, and how far the data are from it.

    Attributes:
        regularizer: ``tau`` of the ridge estimate that it was.
        weights: ``n`` weights of the covariances with the first ``n`` inputs.
        squared_misfit: Squared distance to all data, noise units.
    """

    regularizer: float
    weights: Tensor
    squared_misfit: float


class Consistency:
    r"""Follows the radius, and whether some function satisfies both constraints.

    One function that does, the witness, settles that in ``O(n)`` a round and usually for
    many rounds. It is renewed in ``O(n^3)``; while the norm bound is next to the least
    consistent norm, or below it, that may be needed in every round.

    Args:
        rule: The bound and its parameters.
        observations: The data.

    Attributes:
        witness: The function last found to satisfy both.
        warned: Whether the user has been told of a contradiction.
    """

    def __init__(self, rule: Rule, observations: Observations) -> None:
        self.rule, self.observations = rule, observations
        self.witness: Witness | None = None
        self.warned = False

    def propose(self, tau: float) -> None:
        r"""Start with the ridge estimate at ``tau`` as witness."""
        self.witness = self._ridge_estimate(tau)

    def observe(self, query: Query, target: float) -> None:
        r"""Hold one more observation against the witness.

        Args:
            query: Its input, seen by the observations before it.
            target: Its outcome minus the prior mean, in noise units.
        """
        if self.witness is not None:
            weights = self.witness.weights
            fitted = float(weights @ query.covariance[: len(weights), 0])
            misfit = self.witness.squared_misfit + (target - fitted) ** 2
            self.witness = self.witness._replace(squared_misfit=misfit)

    def current(self, history: History) -> CurrentSet:
        r"""The confidence set, relaxed with a warning where it is empty."""
        taus = self.rule.references.to(self.observations.inputs)
        radius, squared = self._radius(history.systems("radius", taus))
        constraints = Constraints(radius, self.rule.norm_bound, None)
        current = CurrentSet(constraints, squared, None)
        if self.observations.count == 0 or self._satisfied(squared):
            return current
        tau = radius.reference if self.witness is None else self.witness.regularizer
        self.witness = self._ridge_estimate(tau)
        return current if self._satisfied(squared) else self._examined(current)

    def _radius(self, systems: Systems) -> tuple[Radius, float]:
        fit = systems.fit()
        forms = fit.quadratic_form

        def form(reference: float) -> Tensor:
            return forms[int((fit.regularizers == reference).nonzero()[0])]

        radius = combined_radius(
            fit.regularizers,
            fit.log_det,
            lambda reference: forms - form(reference),
            self.rule.delta,
        )
        return radius, float(form(radius.reference)) + radius.surplus

    def _satisfied(self, squared_radius: float) -> bool:
        return self.witness is not None and self.witness.squared_misfit <= squared_radius

    def _ridge_estimate(self, tau: float) -> Witness | None:
        r"""The ridge estimate at ``tau``, if its norm is within the bound."""
        data, noise = self.observations, self.rule.noise_std
        matrix = data.prior.covariance(data.inputs, data.inputs) / noise**2
        targets = (data.outcomes - data.prior.mean(data.inputs)) / noise
        matrix.diagonal().add_(tau)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if int(failed):
            return None
        weights = torch.cholesky_solve(targets.unsqueeze(-1), factor)[:, 0]
        square = float(weights @ weights)
        squared_norm = float(weights @ targets) - tau * square
        if squared_norm > self.rule.norm_bound**2:
            return None
        return Witness(tau, weights / noise**2, tau**2 * square)

    def _examined(self, current: CurrentSet) -> CurrentSet:
        r"""The set as the whole spectrum shows it; finds a new witness."""
        regression = self.observations.regression()
        radius, norm, _ = current.constraints
        tau = _most_consistent(regression, current.squared_radius, norm)
        self.witness = self._ridge_estimate(tau)
        if self._satisfied(current.squared_radius):
            return current
        if self.rule.tracker is not None:
            return self._estimated(regression, current)
        least = least_norm(regression, radius)
        with warnings.catch_warnings():
            if self.warned:
                warnings.simplefilter("ignore", InconsistentConfidenceSetWarning)
            self.warned = self.warned or least > norm
            constraints = consistent_constraints(
                regression, radius, norm, least, strict=False
            )
        if constraints.contradiction is None:
            return current
        return CurrentSet(
            constraints,
            constraints.radius.squared(regression),
            self.rule.constrained(regression, constraints),
        )

    def _estimated(self, regression: KernelRegression, current: CurrentSet) -> CurrentSet:
        r"""The set with a larger estimate of the norm bound; finds a new witness."""
        self.rule.estimate_norm(regression)
        constraints = current.constraints._replace(norm=self.rule.norm_bound)
        tau = _most_consistent(regression, current.squared_radius, constraints.norm)
        self.witness = self._ridge_estimate(tau)
        return current._replace(constraints=constraints)


def _most_consistent(
    regression: KernelRegression, squared_radius: float, norm: float
) -> float:
    r"""``tau`` whose ridge estimate satisfies both constraints by most."""
    lam, z = regression.eigenvalues, regression.targets
    lower = math.log10(regression.resolution)
    upper = math.log10(1e3 * (float(lam[-1]) + 1.0))
    taus = torch.logspace(lower, upper, _WITNESSES, dtype=lam.dtype, device=lam.device)
    weights = z / (lam + taus.unsqueeze(-1))
    misfits = (taus.unsqueeze(-1) * weights).square().sum(-1) / squared_radius
    norms = (lam * weights.square()).sum(-1) / norm**2
    return float(taus[torch.maximum(misfits, norms).argmin()])
