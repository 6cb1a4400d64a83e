r"""Confidence bounds for finite sets of arms, one observation at a time."""

from kernelucb.bandit.family_bandit import FamilyBandit
from kernelucb.bandit.kernel_bandit import KernelBandit

__all__ = ["FamilyBandit", "KernelBandit"]
