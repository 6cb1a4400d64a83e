r"""Budgeted GPs with inducing points drawn by posterior variance (Calandriello et al.).

Data flow: ``observations, distribution, span -> strategy -> gp -> model``, whose states
``saved`` checks, and ``allocator`` for BoTorch's own variational GP; the linear algebra is
in ``kernelucb._numerics.nystrom``.
"""

from kernelucb.models.bkb.allocator import BKBInducingPointAllocator
from kernelucb.models.bkb.model import BKBModel
from kernelucb.models.bkb.strategy import BKBVariationalStrategy

__all__ = ["BKBInducingPointAllocator", "BKBModel", "BKBVariationalStrategy"]
