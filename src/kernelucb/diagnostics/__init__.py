r"""Diagnostics, which are no bounds: norms in words, consistency, information gain."""

from kernelucb.diagnostics.consistency import (
    ConsistencyCheck,
    NormDescription,
    check_consistency,
    describe_norm_bound,
)
from kernelucb.diagnostics.information_gain import information_gain

__all__ = [
    "ConsistencyCheck",
    "NormDescription",
    "check_consistency",
    "describe_norm_bound",
    "information_gain",
]
