r"""Budgeted GPs with inducing points drawn by posterior variance (Calandriello et al.).

``strategy`` is GPyTorch's view of the state in ``kernelucb.regression.lowrank``, ``model``
BoTorch's.
"""

from kernelucb.models.bkb.model import BKBModel
from kernelucb.models.bkb.strategy import BKBVariationalStrategy

__all__ = ["BKBModel", "BKBVariationalStrategy"]
