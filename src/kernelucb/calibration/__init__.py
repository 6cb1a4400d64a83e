r"""Claims calibrated by replaying a search on functions like its own."""

from kernelucb.calibration.claims import (
    BandClaim,
    CalibratedClaim,
    CalibratedGapStopping,
    LevelSetClaim,
    LevelShareClaim,
    Margins,
    OptimumClaim,
    RegretClaim,
    Run,
    ValueClaim,
)
from kernelucb.calibration.default import default_margins
from kernelucb.calibration.policy import (
    DefaultPolicy,
    Loop,
    PriorDraws,
    Simulator,
    Tables,
)
from kernelucb.calibration.replay import calibrate

__all__ = [
    "BandClaim",
    "CalibratedClaim",
    "CalibratedGapStopping",
    "DefaultPolicy",
    "LevelSetClaim",
    "LevelShareClaim",
    "Loop",
    "Margins",
    "OptimumClaim",
    "PriorDraws",
    "RegretClaim",
    "Run",
    "Simulator",
    "Tables",
    "ValueClaim",
    "calibrate",
    "default_margins",
]
