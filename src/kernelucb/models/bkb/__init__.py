r"""Budgeted GPs with inducing points drawn by posterior variance (Calandriello et al.).

``strategy`` is GPyTorch's view of the state in ``kernelucb.regression.lowrank``, ``model``
BoTorch's; ``allocator`` is for BoTorch's own variational GP.
"""

from kernelucb.models.bkb.allocator import BKBInducingPointAllocator
from kernelucb.models.bkb.model import BKBModel
from kernelucb.models.bkb.strategy import BKBVariationalStrategy

__all__ = ["BKBInducingPointAllocator", "BKBModel", "BKBVariationalStrategy"]
