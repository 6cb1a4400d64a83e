r"""Claims calibrated by replaying a search on functions like its own."""

from kernelucb.calibration.claims import (
    Band,
    LevelSet,
    LevelShare,
    Margins,
    Regret,
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
    "DefaultPolicy",
    "LevelSet",
    "LevelShare",
    "Loop",
    "Margins",
    "PriorDraws",
    "Regret",
    "Simulator",
    "Tables",
    "Value",
    "calibrate",
]
