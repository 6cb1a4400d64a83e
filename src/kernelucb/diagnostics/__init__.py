r"""What explains and checks, and is no bound: norms in words, contradictions, gains."""

from kernelucb.diagnostics.consistency import ConsistencyCheck, check_consistency
from kernelucb.diagnostics.information_gain import information_gain
from kernelucb.diagnostics.norm_description import NormDescription, describe_norm_bound

__all__ = [
    "ConsistencyCheck",
    "NormDescription",
    "check_consistency",
    "describe_norm_bound",
    "information_gain",
]
