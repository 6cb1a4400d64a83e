r"""Stop when no point can be better by more than is accepted."""

import logging

from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb._numerics.domains import FixedFeatures, check_one_domain, points_or_box
from kernelucb.certificates.regret import certificate_of
from kernelucb.certificates.spaces import MixedSpace
from kernelucb.certificates.task import Task
from kernelucb.certificates.words import StoppingDecision
from kernelucb.confidence.band import BandLike
from kernelucb.confidence.outcome_constraints import OutcomeConstraints

_LOG = logging.getLogger(__name__)


class CertifiedGapStopping:
    r"""Stop when no point can be better than the recommended point by more than ``gap``.

    The rule may be asked after every round, since it stops on anytime bounds only. With
    certified bounds, and if the given assumptions are true, the probability of ever
    stopping at a recommended point more than ``gap`` below the optimum is at most
    ``delta``. A bound with an estimated assumption is refused unless
    ``allow_estimated=True``; the probability of an error is then unknown, and the reason
    says so. The rule never stops if the maximum over the domain is not rigorous, or if the
    bound is not anytime, does not hold at all points at once, or has a violated assumption.

    Source: see ``regret_certificate``, which explains the other arguments and errors.

    Args:
        gap: Largest regret to accept, outcome units.
        allow_estimated: Whether to stop on a bound whose kernel, mean, noise or norm was
            estimated.

    Example:
        >>> stopping = CertifiedGapStopping(0.1, bounds=bounds)
        >>> while not stopping(acqf).stop:
        ...     ...
    """

    @points_or_box
    def __init__(
        self,
        gap: float,
        candidates: Tensor | None = None,
        *,
        bounds: Tensor | None = None,
        space: MixedSpace | None = None,
        max_evaluations: int = 100_000,
        allow_estimated: bool = False,
    ) -> None:
        self.gap = positive_scalar("gap", gap)
        check_one_domain(candidates=candidates, bounds=bounds, space=space)
        self.candidates, self.bounds, self.space = candidates, bounds, space
        self.max_evaluations = max_evaluations
        self.allow_estimated = allow_estimated

    def __call__(
        self,
        acqf: BandLike,
        recommended: Tensor | None = None,
        *,
        fixed_features: FixedFeatures | None = None,
        constraints: OutcomeConstraints | None = None,
    ) -> StoppingDecision:
        r"""Decide from the bound of the data so far; see ``regret_certificate``.

        Raises:
            UncertifiedError: If the bound has an estimated assumption and
                ``allow_estimated`` is not set.
        """
        domain = self.candidates, self.bounds, self.space, fixed_features
        task = Task.of(acqf, constraints, domain, recommended)
        task.assumptions.check_certified(type(self).__name__, self.allow_estimated)
        certificate = certificate_of(task, max_evaluations=self.max_evaluations)
        stop = not certificate.obstacle and certificate.gap <= self.gap
        reason = certificate.reason(self.gap)
        _LOG.info("%s: %s.", "Stop" if stop else "Go on", reason)
        return StoppingDecision(stop, reason, certificate)
