r"""Diagnostics, which are no bounds: norms in words, consistency, information gain."""

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
