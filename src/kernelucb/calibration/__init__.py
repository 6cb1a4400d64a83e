r"""Claims calibrated by replaying a search on functions like its own."""

from kernelucb.calibration.claims import (
    Band,
    CalibratedClaim,
    CalibratedGapStopping,
    LevelSet,
    LevelShare,
    Margins,
    Regret,
    Run,
    Value,
)
from kernelucb.calibration.policy import (
    DefaultPolicy,
    Loop,
    PriorDraws,
    Simulator,
    Tables,
)
from kernelucb.calibration.replay import calibrate

__all__ = [
    "Band",
    "CalibratedClaim",
    "CalibratedGapStopping",
    "DefaultPolicy",
    "LevelSet",
    "LevelShare",
    "Loop",
    "Margins",
    "PriorDraws",
    "Regret",
    "Run",
    "Simulator",
    "Tables",
    "Value",
    "calibrate",
]
