r"""BoTorch models for ``BKBUCB``, ``MetaUCB`` and ``MetaPI``."""

from kernelucb.models.bkb import (
    BKBInducingPointAllocator,
    BKBModel,
    BKBVariationalStrategy,
)
from kernelucb.models.meta import CosineFeatures, DiscreteMetaModel, FeatureMetaModel

__all__ = [
    "BKBInducingPointAllocator",
    "BKBModel",
    "BKBVariationalStrategy",
    "CosineFeatures",
    "DiscreteMetaModel",
    "FeatureMetaModel",
]
