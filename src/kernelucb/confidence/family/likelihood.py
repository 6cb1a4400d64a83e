r"""How the set of one kernel of a family is made from successes or counts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kernelucb.confidence.assumptions import Assumptions
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.family.tracker import FamilyKey
from kernelucb.confidence.fit.mixture import covariance_scales
from kernelucb.confidence.likelihood.evidence import Ratio
from kernelucb.confidence.likelihood.problem import least_norm_mode, likelihood_set
from kernelucb.confidence.likelihood.tangents import CutEllipsoid
from kernelucb.confidence.norm.tracker import given_norm
from kernelucb.confidence.statements import PriorKnowledge
from kernelucb.regression.likelihood.losses import Likelihood
from kernelucb.regression.likelihood.regression import LikelihoodRegression, Mode


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
        band = likelihood_set(state, norm_bound, self.ratio, level=appraised.level)
        return band, appraised.least.norm

    def assumptions(self, known: PriorKnowledge, norm_bound: float) -> Assumptions:
        r"""See ``Settings``."""
        norm = given_norm(norm_bound)
        assumptions = self.ratio.assumptions(self.kind, known.estimated, norm)
        return assumptions.by(CutEllipsoid.source)

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
