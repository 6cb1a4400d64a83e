r"""The data of a family, and how the set of each kernel is made: with noise, or counts."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

from botorch.exceptions import UnsupportedError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.checks import probability
from kernelucb.confidence.assumptions import Assumptions, PriorKnowledge, rkhs_assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.combined import CombinedSet, PlusError
from kernelucb.confidence.fit.choice import (
    Filters,
    Fit,
    MartingaleMixture,
    MixtureFit,
    check_fit,
    data_fit,
    fit_of,
    fit_source,
)
from kernelucb.confidence.fit.filters import ALONE, Shares
from kernelucb.confidence.fit.prequential import PREDICTED, PrequentialRadius
from kernelucb.confidence.fit.radius import CovarianceScale, covariance_scales
from kernelucb.confidence.likelihood.evidence import Ratio
from kernelucb.confidence.likelihood.problem import least_norm_mode, likelihood_set
from kernelucb.confidence.likelihood.tangents import SOURCES
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.problem import known_noise_problem
from kernelucb.confidence.norm.least import LeastNorm, for_least_norm
from kernelucb.confidence.norm.tracker import given_norm
from kernelucb.regression import KernelRegression
from kernelucb.regression.exact import data_of
from kernelucb.regression.from_model import ModelData
from kernelucb.regression.likelihood.regression import LikelihoodRegression
from kernelucb.regression.prior import Prior

# The norm bound that covariance scale 1 goes with, prior units.
_UNIT_NORM = 10.0


class FamilyData(ABC):
    r"""The data of a model, whatever its prior, and what all kernels' sets share.

    Attributes:
        data: The model in numbers.
        delta: Failure probability.
        model_error: How far ``f`` may lie from a function of bounded norm, outcome units.
        doubt: What may be wrong beside norm bounds and kernels, in words.
    """

    data: Any
    delta: Any
    model_error: Any = 0.0
    doubt: ClassVar[str]

    def prior(self, kernel: Kernel, mean: Mean | None) -> Prior:
        r"""The prior of a kernel and a mean in outcome units, checked to fit the inputs."""
        return self.data.prior.replaced(kernel, mean, self.data.train_inputs)

    @property
    @abstractmethod
    def precision(self) -> Tensor:
        r"""How precise each of ``n`` outcomes is, which no later round changes.

        Noise scales, outcome units, or numbers of trials, or exposures.
        """

    @property
    @abstractmethod
    def fit_in_words(self) -> tuple[str, CovarianceScale | None]:
        r"""What bounds the distance to the data, and its scale if that was given."""

    @abstractmethod
    def each_of(self, count: int) -> Self:
        r"""The same for each of several kernels whose fits must all hold."""

    @abstractmethod
    def state(self, prior: Prior, estimated: frozenset[str]) -> Any:
        r"""The regression under a prior."""

    @abstractmethod
    def appraised(self, state: Any, norm_bound: float) -> Any:
        r"""The fit of the data under one kernel; its ``norm`` is the least one."""

    @abstractmethod
    def confidence_set(
        self, state: Any, norm_bound: float, appraised: Any
    ) -> tuple[ConfidenceSet[Any, Any], float]:
        r"""The set of one kernel, widened with a warning if empty, and its least norm."""

    @abstractmethod
    def assumptions(self, known: PriorKnowledge, norm_bound: float) -> Assumptions:
        r"""What the set of one kernel rests on."""

    def key(self, kernels: Sequence[str], norm_bounds: Sequence[float]) -> dict[str, Any]:
        r"""What must stay the same over the rounds, from digests of the priors."""
        fit, scale = self.fit_in_words
        return {
            "kernels": list(kernels),
            "norm_bounds": list(norm_bounds),
            "delta": self.delta,
            "fit": fit,
            "covariance_scales": [] if scale is None else [*covariance_scales(scale)],
            "model_error": self.model_error,
        }


@dataclass(frozen=True, eq=False)
class NoisyData(FamilyData):
    r"""Outcomes with additive noise; see ``KernelFamilyUCB``."""

    data: ModelData
    fit: Fit
    delta: float
    model_error: float = 0.0
    shares: Shares = ALONE
    doubt = "the noise scale is too small"

    @property
    def precision(self) -> Tensor:
        r"""See ``FamilyData``."""
        return self.data.noise_std

    @property
    def fit_in_words(self) -> tuple[str, CovarianceScale | None]:
        r"""See ``FamilyData``."""
        given = self.fit.covariance_scale if isinstance(self.fit, MixtureFit) else None
        return type(fit_of(self.fit)).__name__, given

    def each_of(self, count: int) -> "NoisyData":
        r"""Their mixtures of filters are parts of one, which has the noise's energy once.

        Predictions of outcomes are the same for all; other fits share ``delta``.
        """
        fit = fit_of(self.fit)
        if isinstance(fit, Filters):
            return replace(self, shares=Shares.of_each(count))
        if isinstance(fit, MartingaleMixture):
            return replace(self, delta=self.delta / count)
        return self

    def state(self, prior: Prior, estimated: frozenset[str]) -> KernelRegression:
        r"""See ``FamilyData``."""
        known = self.data.estimated_anyway | estimated
        return KernelRegression.from_data(self.data._replace(prior=prior, estimated=known))

    def _fit_at(self, norm_bound: float) -> Fit:
        return fit_of(self.fit, tied_scale(norm_bound))

    def appraised(self, state: KernelRegression, norm_bound: float) -> LeastNorm:
        r"""See ``FamilyData``."""
        given = self.delta, norm_bound, self.model_error, self.shares
        return for_least_norm(data_fit(self._fit_at(norm_bound), state, *given))

    def confidence_set(
        self, state: KernelRegression, norm_bound: float, appraised: LeastNorm
    ) -> tuple[ConfidenceSet[Any, Any], float]:
        r"""See ``FamilyData``."""
        given = norm_bound, self._fit_at(norm_bound), self.delta, appraised
        problem = known_noise_problem(state, *given, self.model_error)
        assumptions = problem.assumptions.by(ExactSet.source)
        band: ConfidenceSet[Any, Any] = ExactSet(
            problem.regression, problem.constraints, assumptions
        )
        if self.model_error > 0.0:
            band = CombinedSet([band], PlusError(self.model_error), band.assumptions)
        return band, problem.least_consistent_norm

    def assumptions(self, known: PriorKnowledge, norm_bound: float) -> Assumptions:
        r"""See ``FamilyData``."""
        source = fit_source(self._fit_at(norm_bound), self.model_error)
        norm = given_norm(norm_bound)
        assumptions = rkhs_assumptions(source, known, self.delta, norm)
        if isinstance(self.fit, PrequentialRadius):
            assumptions = assumptions.with_extra(PREDICTED)
        return assumptions.by(ExactSet.source)


def tied_scale(norm_bound: float) -> float:
    r"""The covariance scale of a kernel with a norm bound, where none is given.

    ``s^2 k`` with ``B / s`` then gives the same band.
    """
    return (norm_bound / _UNIT_NORM) ** 2


class AppraisedOutcomes(NamedTuple):
    r"""How likely the outcomes must be under one kernel.

    Attributes:
        level: Largest sum of the losses.
        norm: Least norm of a function that reaches it; infinite where none does.
    """

    level: float
    norm: float


@dataclass(frozen=True, eq=False)
class CountData(FamilyData):
    r"""Outcomes that are successes or counts; see ``LikelihoodUCB``."""

    data: LikelihoodRegression
    ratio: Ratio
    doubt = "the outcomes do not follow the likelihood"

    @property
    def delta(self) -> float:
        r"""See ``FamilyData``."""
        return self.ratio.delta

    @property
    def precision(self) -> Tensor:
        r"""See ``FamilyData``."""
        return self.data.outcomes.amounts

    @property
    def fit_in_words(self) -> tuple[str, CovarianceScale | None]:
        r"""See ``FamilyData``."""
        return self.data.outcomes.kind, self.ratio.covariance_scale

    def each_of(self, count: int) -> "CountData":
        r"""They share ``delta``."""
        return replace(self, ratio=self.ratio._replace(delta=self.delta / count))

    def state(self, prior: Prior, estimated: frozenset[str]) -> LikelihoodRegression:
        r"""See ``FamilyData``."""
        data, known = self.data, self.data.estimated_anyway | estimated
        own = data.train_inputs, data.outcomes, data.dimension
        return LikelihoodRegression.from_parts(prior, *own, known)

    def appraised(
        self, state: LikelihoodRegression, norm_bound: float
    ) -> AppraisedOutcomes:
        r"""See ``FamilyData``."""
        level = self.ratio.level(state)
        return AppraisedOutcomes(level, least_norm_mode(state, level).norm)

    def confidence_set(
        self, state: LikelihoodRegression, norm_bound: float, appraised: AppraisedOutcomes
    ) -> tuple[ConfidenceSet[Any, Any], float]:
        r"""See ``FamilyData``."""
        band = likelihood_set(state, norm_bound, self.ratio, appraised.level)
        return band, appraised.norm

    def assumptions(self, known: PriorKnowledge, norm_bound: float) -> Assumptions:
        r"""See ``FamilyData``."""
        given = self.data.outcomes.kind, known.estimated, given_norm(norm_bound)
        return self.ratio.assumptions(*given).by(SOURCES["ellipsoid"])


def family_data(
    model: Any,
    noise_std: float | Tensor | None,
    fit: Fit,
    delta: float,
    model_error: float,
) -> FamilyData:
    r"""What all kernels share; arguments as for ``KernelFamilyUCB``.

    Raises:
        ValueError: If a scalar is out of its range, or an argument has no meaning beside
            ``fit``.
        UnsupportedError: If the model cannot be represented, or an argument has no meaning
            for successes and counts.
    """
    probability("delta", delta)
    if isinstance(model, LikelihoodRegression):
        without_meaning = {
            "noise_std": noise_std is not None,
            "fit": not (isinstance(fit, MartingaleMixture) or fit == "filters"),
            "model_error": model_error > 0.0,
        }
        if names := [name for name, given in without_meaning.items() if given]:
            raise UnsupportedError(
                f"{' and '.join(names)} would have no meaning for a LikelihoodRegression: "
                "its outcomes are successes or counts, whose likelihood says how they "
                "vary. Leave that out."
            )
        return CountData(model, Ratio.of(delta, fit))
    check_fit(fit, delta, noise_std=noise_std)
    data = data_of(model, noise_std)
    predicted = isinstance(fit, PrequentialRadius)
    if predicted and fit.num_observations == len(data.train_targets):
        data = data.with_noise_std(fit.noise_std)
    return NoisyData(data, fit, delta, model_error)
