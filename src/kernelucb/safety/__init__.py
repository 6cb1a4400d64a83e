r"""Safe search: evaluate only points whose bands keep every constraint."""

from kernelucb.safety.safe_set import ConstraintWidth, SafeSet
from kernelucb.safety.search import gen_safe_initial_conditions, optimize_acqf_safely

__all__ = [
    "ConstraintWidth",
    "SafeSet",
    "gen_safe_initial_conditions",
    "optimize_acqf_safely",
]
