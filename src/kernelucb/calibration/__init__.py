r"""Claims calibrated by replaying a search on functions like its own."""

from kernelucb.calibration.claims import (
    BandClaim,
    LevelSetClaim,
    LevelShareClaim,
    Margins,
    OptimumClaim,
    RegretClaim,
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
from kernelucb.calibration.run import CalibratedClaim, CalibratedGapStopping, Run

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
