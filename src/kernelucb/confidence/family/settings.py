r"""How the set of one kernel of a family is made from its data: with noise, or counts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, Self

from botorch.exceptions import UnsupportedError
from torch import Tensor

from kernelucb._numerics.checks import probability
from kernelucb._numerics.estimates import with_noise
from kernelucb.confidence.assumptions import Assumptions, PriorKnowledge, rkhs_assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.combined import CombinedSet, PlusError
from kernelucb.confidence.family.tracker import FamilyKey
from kernelucb.confidence.fit.choice import (
    Filters,
    Fit,
    MartingaleMixture,
    check_fit,
    fit_of,
    fit_source,
)
from kernelucb.confidence.fit.filters import ALONE, Shares
from kernelucb.confidence.fit.prequential import PREDICTED, PrequentialRadius
from kernelucb.confidence.fit.radius import covariance_scales
from kernelucb.confidence.likelihood.evidence import Ratio
from kernelucb.confidence.likelihood.problem import least_norm_mode, likelihood_set
from kernelucb.confidence.likelihood.tangents import SOURCES
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.problem import (
    Appraised,
    known_noise_problem,
)
from kernelucb.confidence.norm.tracker import given_norm
from kernelucb.regression import KernelRegression
from kernelucb.regression.family_data import CountData, FamilyData, NoisyData
from kernelucb.regression.likelihood.losses import Likelihood
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode

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
        source = fit_source(self.fit_at(norm_bound), self.model_error)
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


class AppraisedOutcomes(NamedTuple):
    r"""How likely the outcomes must be under one kernel.

    Attributes:
        level: Largest sum of the losses.
        least: The function of the least norm that reaches it; its norm is infinite where
            none does.
    """

    level: float
    least: Mode


class LikelihoodSettings(NamedTuple):
    r"""Those of successes or counts; see ``KernelFamilyUCB`` and ``LikelihoodUCB``."""

    kind: Likelihood
    ratio: Ratio

    @property
    def model_error(self) -> float:
        r"""None."""
        return 0.0

    @property
    def doubt(self) -> str:
        r"""See ``Settings``."""
        return "the outcomes do not follow the likelihood"

    def for_each_of(self, count: int) -> "LikelihoodSettings":
        r"""See ``Settings``; they share ``delta``."""
        return self._replace(ratio=self.ratio._replace(delta=self.ratio.delta / count))

    def appraised(
        self, state: LikelihoodRegression, norm_bound: float
    ) -> AppraisedOutcomes:
        r"""See ``Settings``."""
        level = self.ratio.level(state)
        return AppraisedOutcomes(level, least_norm_mode(state, level))

    def confidence_set(
        self, state: LikelihoodRegression, norm_bound: float, appraised: AppraisedOutcomes
    ) -> tuple[ConfidenceSet[Any, Any], float]:
        r"""See ``Settings``."""
        band = likelihood_set(state, norm_bound, self.ratio, appraised.level)
        return band, appraised.least.norm

    def assumptions(self, known: PriorKnowledge, norm_bound: float) -> Assumptions:
        r"""See ``Settings``."""
        norm = given_norm(norm_bound)
        assumptions = self.ratio.assumptions(self.kind, known.estimated, norm)
        return assumptions.by(SOURCES["ellipsoid"])

    def key(self, kernels: Sequence[str], norm_bounds: Sequence[float]) -> FamilyKey:
        r"""See ``Settings``."""
        return FamilyKey(
            kernels=tuple(kernels),
            norm_bounds=tuple(norm_bounds),
            delta=self.ratio.delta,
            model_error=0.0,
            fit=self.kind,
            covariance_scales=covariance_scales(self.ratio.covariance_scale),
        )


def data_and_settings(
    model: Any,
    noise_std: float | Tensor | None,
    fit: Fit,
    delta: float,
    model_error: float,
) -> tuple[FamilyData, Settings]:
    r"""What all kernels share; arguments as for ``KernelFamilyUCB``.

    Raises:
        ValueError: If a scalar is out of its range, or an argument has no meaning beside
            ``fit``.
        UnsupportedError: If the model cannot be represented, or an argument has no meaning
            for successes and counts.
    """
    probability("delta", delta)
    if isinstance(model, LikelihoodRegression):
        _refuse_noise(
            noise_std=noise_std is None,
            fit=isinstance(fit, MartingaleMixture) or fit == "filters",
            model_error=not model_error,
        )
        counts = CountData.of(model)
        return counts, LikelihoodSettings(counts.outcomes.kind, Ratio.of(delta, fit))
    check_fit(fit, delta, noise_std=noise_std)
    data = _with_noise_of(fit, NoisyData.of(model, noise_std))
    return data, MixtureSettings(fit, delta, model_error)


def _refuse_noise(**left_out: bool) -> None:
    r"""Refuse arguments that are about additive noise."""
    names = [name for name, absent in left_out.items() if not absent]
    if names:
        raise UnsupportedError(
            f"{' and '.join(names)} would have no meaning for a LikelihoodRegression: its "
            "outcomes are successes or counts, whose likelihood says how they vary. Leave "
            "that out."
        )


def _with_noise_of(fit: Fit, data: NoisyData) -> NoisyData:
    r"""The data with the noise scales of a ``PrequentialRadius``, if it is the fit."""
    if not isinstance(fit, PrequentialRadius) or fit.num_observations != len(data.targets):
        return data
    estimated = with_noise(data.estimated, fit.noise_std)
    return replace(data, noise_std=fit.noise_std, estimated=estimated)
