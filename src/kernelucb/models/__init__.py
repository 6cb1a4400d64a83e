r"""BoTorch models beside the exact GP; the bounds read them as they read any model."""

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
