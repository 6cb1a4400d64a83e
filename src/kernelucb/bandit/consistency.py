r"""Radius and norm bound of the martingale mixture as observations come in."""

import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from kernelucb.bandit.history import History, Systems
from kernelucb.bandit.observations import Observations
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


class Consistency:
    r"""Follows the radius, and whether some function satisfies both constraints.

    One ridge estimate that does, the witness, settles that in ``O(n^2)`` and usually for
    many rounds. Only without one is the least consistent norm computed, in ``O(n^3)``.

    Args:
        rule: The bound and its parameters.
        observations: The data.

    Attributes:
        witness: Regulariser of the ridge estimate last found to satisfy both.
        warned: Whether the user has been told of a contradiction.
    """

    def __init__(self, rule: Rule, observations: Observations) -> None:
        self.rule, self.observations = rule, observations
        self.witness: float | None = None
        self.warned = False

    def current(self, history: History) -> CurrentSet:
        r"""The confidence set, relaxed with a warning where it is empty."""
        norm = self.rule.norm_bound
        taus = self.rule.references.to(self.observations.inputs)
        systems = history.systems("radius", taus)
        radius, squared = self._radius(systems)
        current = CurrentSet(Constraints(radius, norm, None), squared, None)
        if self.witness is not None:
            like = torch.tensor([self.witness]).to(taus)
            if self._satisfied(history.systems("witness", like), squared):
                return current
        if self._satisfied(systems, squared):
            return current
        return self._examined(current)

    def _radius(self, systems: Systems) -> tuple[Radius, float]:
        fit = systems.fit()
        forms = fit.quadratic_form

        def form(reference: float) -> Tensor:
            return forms[fit.regularizers == reference][0]

        radius = combined_radius(
            fit.regularizers,
            fit.log_det,
            lambda reference: forms - form(reference),
            self.rule.delta,
        )
        return radius, float(form(radius.reference)) + radius.surplus

    def _satisfied(self, systems: Systems, squared: float) -> bool:
        tau, weights = systems.regularizers, systems.squared_weights()
        norms = systems.fit().quadratic_form / tau - tau * weights
        fits = tau.square() * weights <= squared
        return bool((fits & (norms <= self.rule.norm_bound**2)).any())

    def _examined(self, current: CurrentSet) -> CurrentSet:
        r"""The set as the whole spectrum shows it; finds a new witness."""
        regression = self.observations.regression()
        radius, norm, _ = current.constraints
        self.witness = _witness(regression, current.squared_radius, norm)
        if self.witness is not None:
            return current
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


def _witness(
    regression: KernelRegression, squared_radius: float, norm: float
) -> float | None:
    r"""The regulariser whose ridge estimate satisfies both constraints by most."""
    lam, z = regression.eigenvalues, regression.targets
    lower = math.log10(regression.resolution)
    upper = math.log10(1e3 * (float(lam[-1]) + 1.0))
    taus = torch.logspace(lower, upper, _WITNESSES, dtype=lam.dtype, device=lam.device)
    weights = z / (lam + taus.unsqueeze(-1))
    misfits = (taus.unsqueeze(-1) * weights).square().sum(-1) / squared_radius
    norms = (lam * weights.square()).sum(-1) / norm**2
    largest, best = torch.maximum(misfits, norms).min(dim=0)
    return float(taus[best]) if float(largest) <= 1.0 else None
