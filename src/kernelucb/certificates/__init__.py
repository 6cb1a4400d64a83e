r"""Statements of a confidence set about an optimisation: how good, and when to stop."""

from kernelucb.certificates.claims import breakdown
from kernelucb.certificates.planning import confirmation, runs_needed
from kernelucb.certificates.regret import CertifiedGapStopping, regret_certificate
from kernelucb.certificates.report import optimum_report
from kernelucb.certificates.spaces import MixedSpace
from kernelucb.certificates.words import (
    Breakdown,
    Claim,
    Confirmation,
    OptimumReport,
    Plan,
    PossibleCombination,
    RegretCertificate,
)

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
