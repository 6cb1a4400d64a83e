r"""Choosing points: the best of very many candidates, and Thompson sampling."""

from kernelucb.optim.thompson import KernelThompsonSampling

__all__ = ["KernelThompsonSampling"]
