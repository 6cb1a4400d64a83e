r"""Kernel bandits: finite, changing sets of arms, one observation at a time."""

from kernelucb.bandit.kernel_bandit import KernelBandit

__all__ = ["KernelBandit"]
