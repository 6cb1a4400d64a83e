r"""BoTorch models for ``BKBUCB``, ``MetaUCB`` and ``MetaPI``."""

from kernelucb.models.bkb import BKBModel
from kernelucb.models.meta import CosineFeatures, DiscreteMetaModel, FeatureMetaModel
from kernelucb.models.variational import (
    BKBInducingPointAllocator,
    BKBVariationalStrategy,
)

__all__ = [
    "BKBInducingPointAllocator",
    "BKBModel",
    "BKBVariationalStrategy",
    "CosineFeatures",
    "DiscreteMetaModel",
    "FeatureMetaModel",
]
