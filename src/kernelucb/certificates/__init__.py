r"""Statements of a confidence set about an optimisation: how good, and when to stop."""

from kernelucb.certificates.claims import breakdown
from kernelucb.certificates.level_sets import failure_probability, level_set
from kernelucb.certificates.pareto import pareto_set
from kernelucb.certificates.planning import confirmation, runs_needed
from kernelucb.certificates.regret import CertifiedGapStopping, regret_certificate
from kernelucb.certificates.report import optimum_report
from kernelucb.certificates.spaces import MixedSpace
from kernelucb.certificates.words import (
    Breakdown,
    Claim,
    Confirmation,
    FailureProbability,
    LevelSet,
    OptimumReport,
    ParetoSet,
    Plan,
    PossibleCombination,
    RegretCertificate,
)

__all__ = [
    "Breakdown",
    "CertifiedGapStopping",
    "Claim",
    "Confirmation",
    "FailureProbability",
    "LevelSet",
    "MixedSpace",
    "OptimumReport",
    "ParetoSet",
    "Plan",
    "PossibleCombination",
    "RegretCertificate",
    "breakdown",
    "confirmation",
    "failure_probability",
    "level_set",
    "optimum_report",
    "pareto_set",
    "regret_certificate",
    "runs_needed",
]
