r"""How the set of one kernel of a family is made from the data: additive noise."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, Self

from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.combined import CombinedSet, PlusError
from kernelucb.confidence.family.tracker import FamilyKey
from kernelucb.confidence.fit.choice import (
    Filters,
    Fit,
    MartingaleMixture,
    fit_of,
    fit_source,
)
from kernelucb.confidence.fit.filters import ALONE, Shares
from kernelucb.confidence.fit.mixture import covariance_scales
from kernelucb.confidence.fit.prequential import PREDICTED, PrequentialRadius
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.problem import (
    Appraised,
    known_noise_problem,
)
from kernelucb.confidence.norm.tracker import given_norm
from kernelucb.confidence.statements import PriorKnowledge, rkhs_assumptions
from kernelucb.regression import KernelRegression

_WORDS: dict[type, str] = {Filters: "filters", MartingaleMixture: "martingale"}
# The norm bound that covariance scale 1 goes with, prior units.
_UNIT_NORM = 10.0


class Settings(Protocol):
    r"""What all members share; their regressions are those of the family's data."""

    @property
    def model_error(self) -> float:
        r"""How far ``f`` may lie from a function of bounded norm, outcome units."""
        ...

    @property
    def doubt(self) -> str:
        r"""What may be wrong beside norm bounds and kernels."""
        ...

    def for_each_of(self, count: int) -> Self:
        r"""Those of each of several kernels whose fits must all hold."""
        ...

    def appraised(self, state: Any, norm_bound: float) -> Any:
        r"""The fit of the data under one kernel; ``least.norm`` is its least norm."""
        ...

    def confidence_set(
        self, state: Any, norm_bound: float, appraised: Any
    ) -> tuple[ConfidenceSet[Any, Any], float]:
        r"""The set of one kernel, widened with a warning if empty, and its least norm."""
        ...

    def assumptions(self, known: PriorKnowledge, norm_bound: float) -> Assumptions:
        r"""What the set of one kernel rests on."""
        ...

    def key(self, kernels: Sequence[str], norm_bounds: Sequence[float]) -> FamilyKey:
        r"""What a tracker remembers, from digests of the kernels."""
        ...


class MixtureSettings(NamedTuple):
    r"""Those of outcomes with additive noise; see ``KernelFamilyUCB``."""

    fit: Fit
    delta: float
    model_error: float
    shares: Shares = ALONE

    @property
    def doubt(self) -> str:
        r"""See ``Settings``."""
        return "the noise scale is too small"

    def for_each_of(self, count: int) -> "MixtureSettings":
        r"""Those of each of several kernels whose fits must all hold.

        Their mixtures of filters are parts of one, in which the energy of the noise stands
        once; predictions of outcomes are the same for all; other fits share ``delta``.
        """
        fit = fit_of(self.fit)
        if isinstance(fit, Filters):
            return self._replace(shares=Shares.of_each(count))
        if isinstance(fit, MartingaleMixture):
            return self._replace(delta=self.delta / count)
        return self

    def fit_at(self, norm_bound: float) -> Fit:
        r"""The fit, with a scale that is tied to the norm where none is given.

        ``s^2 k`` with ``B / s`` then gives the same band.
        """
        return fit_of(self.fit, tied_scale(norm_bound))

    def appraised(self, state: KernelRegression, norm_bound: float) -> Appraised:
        r"""The fit of the data under one kernel."""
        given = norm_bound, self.model_error, self.shares
        return Appraised.of(state, self.fit_at(norm_bound), self.delta, *given)

    def confidence_set(
        self,
        state: KernelRegression,
        norm_bound: float,
        appraised: Appraised,
    ) -> tuple[ConfidenceSet[Any, Any], float]:
        r"""See ``Settings``."""
        fit, error = self.fit_at(norm_bound), self.model_error
        problem = known_noise_problem(state, norm_bound, fit, self.delta, appraised, error)
        assumptions = problem.assumptions.by(ExactSet.source)
        band: ConfidenceSet[Any, Any] = ExactSet(
            problem.regression, problem.constraints, assumptions
        )
        if error > 0.0:
            band = CombinedSet([band], PlusError(error), band.assumptions)
        return band, problem.least_consistent_norm

    def assumptions(self, known: PriorKnowledge, norm_bound: float) -> Assumptions:
        r"""See ``Settings``."""
        source = fit_source(self.fit_at(norm_bound), 1.0, self.model_error)
        norm = given_norm(norm_bound)
        assumptions = rkhs_assumptions(source, known, self.delta, norm)
        if isinstance(self.fit, PrequentialRadius):
            assumptions = assumptions.with_extra(PREDICTED)
        return assumptions.by(ExactSet.source)

    def key(self, kernels: Sequence[str], norm_bounds: Sequence[float]) -> FamilyKey:
        r"""See ``Settings``."""
        named = {"filters": Filters(), "martingale": MartingaleMixture()}
        fit = named[self.fit] if isinstance(self.fit, str) else self.fit
        scale = None if isinstance(fit, PrequentialRadius) else fit.covariance_scale
        return FamilyKey(
            kernels=tuple(kernels),
            norm_bounds=tuple(norm_bounds),
            delta=self.delta,
            model_error=self.model_error,
            fit=_WORDS.get(type(fit), type(fit).__name__),
            covariance_scales=() if scale is None else covariance_scales(scale),
        )


def tied_scale(norm_bound: float) -> float:
    r"""The covariance scale of a kernel with a norm bound; see ``MixtureSettings``."""
    return (norm_bound / _UNIT_NORM) ** 2
