r"""The data of a family of kernels, and the set of each kernel: for noise or counts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from botorch.exceptions import UnsupportedError
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from torch import Tensor

from kernelucb._numerics.checks import probability
from kernelucb.confidence.assumptions import Assumptions, PriorKnowledge, rkhs_assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.combined import CombinedSet, PlusError
from kernelucb.confidence.counts import SOURCE, least_norm_mode, likelihood_set
from kernelucb.confidence.evidence import Ratio
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
from kernelucb.confidence.fit.prequential import PREDICTED, PrequentialRadius
from kernelucb.confidence.martingale_mixture.dual import ExactSet
from kernelucb.confidence.martingale_mixture.problem import known_noise_problem
from kernelucb.confidence.norm.least import for_least_norm
from kernelucb.confidence.norm.tracker import given_norm
from kernelucb.regression import KernelRegression
from kernelucb.regression.counts import LikelihoodRegression
from kernelucb.regression.exact import data_of
from kernelucb.regression.from_model import ModelData
from kernelucb.regression.prior import Prior

# The norm bound that covariance scale 1 goes with, prior units.
_UNIT_NORM = 10.0
# Covariance scales for all norm bounds at once: those of norm bounds from 0.16 to 41,000.
EVERY_SCALE = tuple(16.0**power for power in range(-3, 7))


class Appraisal(NamedTuple):
    r"""The least norm under one kernel, and the kernel's set."""

    least_norm: (
        float  # outcome units; the kernel is contradicted where it is above the bound
    )
    # Makes the kernel's set, widened with a warning if empty, and a least norm that allows
    # for round-off
    confidence_set: Callable[[], tuple[ConfidenceSet[Any, Any], float]]


class _OfAnyPrior:
    r"""The data of a model without its prior, and the settings that all kernels share."""

    data: Any  # the model in numbers
    delta: Any  # failure probability
    model_error: Any = 0.0

    def prior(self, kernel: Kernel, mean: Mean | None) -> Prior:
        r"""The prior of a kernel and a mean in outcome units, checked to fit the inputs."""
        return self.data.prior.replaced(kernel, mean, self.data.train_inputs)


@dataclass(frozen=True, eq=False)
class NoisyData(_OfAnyPrior):
    r"""Outcomes with additive noise; see ``KernelFamilyUCB``.

    Attributes:
        model_error: How far ``f`` may lie from a function of bounded norm, outcome units.
        doubt: Further cause of a contradiction, beside norm bounds and kernels, in words.
    """

    data: ModelData
    fit: Fit
    delta: float
    model_error: float = 0.0
    doubt = "the noise scale is too small"

    @property
    def precision(self) -> Tensor:
        r"""Noise scales, outcome units."""
        return self.data.noise_std

    @property
    def is_tied(self) -> bool:
        r"""Whether the event depends on the norm bounds."""
        return is_tied(self.fit)

    def state(self, prior: Prior, estimated: frozenset[str]) -> KernelRegression:
        r"""The regression under a prior."""
        known = self.data.estimated_anyway | estimated
        return KernelRegression.from_data(self.data._replace(prior=prior, estimated=known))

    def appraised(self, state: KernelRegression, norm_bound: float) -> Appraisal:
        r"""Least norm and set of one kernel, by its regression state."""
        fit = fit_of(self.fit, tied_scale(norm_bound))
        mixture = data_fit(fit, state, self.delta, norm_bound, self.model_error)
        found = for_least_norm(mixture)

        def confidence_set() -> tuple[ConfidenceSet[Any, Any], float]:
            known = norm_bound, fit, self.delta, found, self.model_error
            problem = known_noise_problem(state, *known)
            sides = problem.constraints, problem.assumptions.by(ExactSet.source)
            band: ConfidenceSet[Any, Any] = ExactSet(problem.regression, *sides)
            if self.model_error > 0.0:
                band = CombinedSet([band], PlusError(self.model_error), band.assumptions)
            return band, problem.least_consistent_norm

        return Appraisal(found.norm, confidence_set)

    def assumptions(self, known: PriorKnowledge, norm_bound: float) -> Assumptions:
        r"""The assumptions of the set of one kernel."""
        source = fit_source(fit_of(self.fit, tied_scale(norm_bound)), self.model_error)
        norm = given_norm(norm_bound)
        assumptions = rkhs_assumptions(source, known, self.delta, norm)
        if isinstance(self.fit, PrequentialRadius):
            assumptions = assumptions.with_extra(PREDICTED)
        return assumptions.by(ExactSet.source)


def is_tied(fit: Fit) -> bool:
    r"""Whether a family's fit depends on the norm bounds, so these must be fixed before."""
    fit = fit_of(fit)
    if not isinstance(fit, MixtureFit):
        return False
    of_filters = isinstance(fit, Filters) and not fit.every_norm
    return of_filters or fit.covariance_scale is None


def tied_scale(norm_bound: float) -> float:
    r"""The covariance scale of a kernel with a norm bound, where none is given.

    Kernel ``s^2 k`` with norm bound ``B / s`` then gives the same band as ``k`` with ``B``.
    """
    return (norm_bound / _UNIT_NORM) ** 2


@dataclass(frozen=True, eq=False)
class CountData(_OfAnyPrior):
    r"""Outcomes that are successes or counts; see ``LikelihoodUCB``."""

    data: LikelihoodRegression
    ratio: Ratio
    doubt, is_tied = "the outcomes do not follow the likelihood", False

    @property
    def delta(self) -> float:
        r"""See ``NoisyData``."""
        return self.ratio.delta

    @property
    def precision(self) -> Tensor:
        r"""Numbers of trials, or exposures."""
        return self.data.outcomes.amounts

    def state(self, prior: Prior, estimated: frozenset[str]) -> LikelihoodRegression:
        r"""See ``NoisyData``."""
        data, known = self.data, self.data.estimated_anyway | estimated
        own = data.train_inputs, data.outcomes, data.dimension
        return LikelihoodRegression.from_parts(prior, *own, known)

    def appraised(self, state: LikelihoodRegression, norm_bound: float) -> Appraisal:
        r"""See ``NoisyData``."""
        level = self.ratio.level(state)
        least = least_norm_mode(state, level).norm  # infinite where none is likely enough

        def confidence_set() -> tuple[ConfidenceSet[Any, Any], float]:
            return likelihood_set(state, norm_bound, self.ratio, level), least

        return Appraisal(least, confidence_set)

    def assumptions(self, known: PriorKnowledge, norm_bound: float) -> Assumptions:
        r"""See ``NoisyData``."""
        given = self.data.outcomes.kind, known.estimated, given_norm(norm_bound)
        return self.ratio.assumptions(*given).by(SOURCE)


FamilyData = NoisyData | CountData


def family_data(
    model: Any,
    noise_std: float | Tensor | None,
    fit: Fit,
    delta: float,
    model_error: float,
) -> FamilyData:
    r"""The data that all kernels share; arguments as for ``KernelFamilyUCB``.

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
