r"""What a confidence set says about an optimisation: how good, and when to stop."""

from kernelucb.certificates.regret import RegretCertificate, regret_certificate
from kernelucb.certificates.report import OptimumReport, PossibleCombination, optimum_report
from kernelucb.certificates.spaces import MixedSpace
from kernelucb.certificates.stopping import CertifiedGapStopping

__all__ = [
    "CertifiedGapStopping",
    "MixedSpace",
    "OptimumReport",
    "PossibleCombination",
    "RegretCertificate",
    "optimum_report",
    "regret_certificate",
]
