r"""Stopping with a reason: the certified gap is small enough."""

from typing import NamedTuple

from torch import Tensor

from kernelucb._numerics.checks import positive_scalar
from kernelucb.certificates.regret import Bound, RegretCertificate, regret_certificate
from kernelucb.confidence.assumptions import Status


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
    for all rounds together. It does not stop on a heuristic certificate, nor on a bound
    that is not anytime or whose assumptions the data contradict. Assumptions that were
    estimated do not keep it from stopping; the reason names them.

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

    def __call__(self, acqf: Bound, recommended: Tensor | None = None) -> StoppingDecision:
        r"""Decide from the bound of the data so far.

        Args:
            acqf: An acquisition function of this package.
            recommended: ``d`` or ``1 x d`` point to certify; see ``regret_certificate``.
        """
        certificate = regret_certificate(
            acqf,
            self.candidates,
            bounds=self.bounds,
            recommended=recommended,
            max_evaluations=self.max_evaluations,
        )
        reached = f"at most {certificate.gap:.4g} from the optimum, accepted {self.gap:.4g}"
        obstacle = _obstacle(certificate)
        if obstacle is not None:
            return StoppingDecision(False, f"{obstacle}: {reached}", certificate)
        estimated = [
            item.name
            for item in certificate.assumptions.items
            if item.status is Status.ESTIMATED
        ]
        if estimated:
            reached += f", if these estimates hold: {', '.join(estimated)}"
        return StoppingDecision(certificate.gap <= self.gap, reached, certificate)


def _obstacle(certificate: RegretCertificate) -> str | None:
    r"""Why a certificate may not be acted on, however small its gap."""
    if not certificate.certified:
        return "not certified on this box"
    if certificate.assumptions.violated:
        return "the data contradict an assumption"
    if not certificate.assumptions.anytime:
        return "the bound does not hold at a round that the data choose"
    return None
