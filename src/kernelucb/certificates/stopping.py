r"""Stopping with a reason: the certified gap is small enough."""

from typing import NamedTuple

from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb.certificates.regret import Bound, RegretCertificate, regret_certificate


class StoppingDecision(NamedTuple):
    r"""Whether to stop, and why.

    Attributes:
        stop: Whether the certificate is rigorous and small enough.
        reason: In words.
        certificate: What it rests on.
    """

    stop: bool
    reason: str
    certificate: RegretCertificate


class CertifiedGapStopping:
    r"""Stop when no point can be better than the recommended one by more than ``gap``.

    May be asked after every round and acted on in any: an anytime bound's probability is
    for all rounds together. It does not stop on a heuristic certificate, nor on one whose
    assumptions the data contradict.

    Source: see ``regret_certificate``.

    Example:
        >>> stopping = CertifiedGapStopping(0.1, bounds=bounds)
        >>> while not stopping(acqf).stop:
        ...     ...
    """

    def __init__(
        self,
        gap: float,
        candidates: Tensor | None = None,
        *,
        bounds: Tensor | None = None,
        max_evaluations: int = 100_000,
    ) -> None:
        r"""Stopping rule.

        Args:
            gap: Largest regret to accept, outcome units.
            candidates: ``n x d`` points, the whole domain. Either these or ``bounds``.
            bounds: ``2 x d`` lower and upper limits of a box of up to 3 dimensions.
            max_evaluations: See ``regret_certificate``.

        Raises:
            ValueError: If not exactly one of ``candidates`` and ``bounds`` is given, or
                ``gap`` is not above 0.
        """
        self.gap = positive_scalar("gap", gap)
        if (candidates is None) == (bounds is None):
            raise ValueError("Give either candidates or bounds, the domain to certify on.")
        self.candidates, self.bounds = candidates, bounds
        self.max_evaluations = max_evaluations

    def __call__(self, acqf: Bound) -> StoppingDecision:
        r"""Decide from the bound of the data so far."""
        certificate = regret_certificate(
            acqf,
            self.candidates,
            bounds=self.bounds,
            max_evaluations=self.max_evaluations,
        )
        reached = f"at most {certificate.gap:.4g} from the optimum, accepted {self.gap:.4g}"
        if not certificate.certified:
            return StoppingDecision(
                False, f"not certified on this box: {reached}", certificate
            )
        if certificate.assumptions.violated:
            reason = f"the data contradict an assumption: {reached}"
            return StoppingDecision(False, reason, certificate)
        return StoppingDecision(certificate.gap <= self.gap, reached, certificate)
