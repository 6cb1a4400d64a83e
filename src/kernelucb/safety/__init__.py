r"""Staying where constraints are known to hold, while optimising."""

from kernelucb.safety.expansion import ConstraintWidth
from kernelucb.safety.optimize import optimize_acqf_safely
from kernelucb.safety.safe_set import SafeSet
from kernelucb.safety.starts import gen_safe_initial_conditions

__all__ = [
    "ConstraintWidth",
    "SafeSet",
    "gen_safe_initial_conditions",
    "optimize_acqf_safely",
]
