r"""What a confidence set says about an optimisation: how good, and when to stop."""

from kernelucb.certificates.breakdown import Breakdown, breakdown
from kernelucb.certificates.claims import Claim
from kernelucb.certificates.confirmation import Confirmation, confirmation
from kernelucb.certificates.planning import Plan, runs_needed
from kernelucb.certificates.regret import RegretCertificate, regret_certificate
from kernelucb.certificates.report import OptimumReport, PossibleCombination, optimum_report
from kernelucb.certificates.spaces import MixedSpace
from kernelucb.certificates.stopping import CertifiedGapStopping

__all__ = [
    "Breakdown",
    "CertifiedGapStopping",
    "Claim",
    "Confirmation",
    "MixedSpace",
    "OptimumReport",
    "Plan",
    "PossibleCombination",
    "RegretCertificate",
    "breakdown",
    "confirmation",
    "optimum_report",
    "regret_certificate",
    "runs_needed",
]
