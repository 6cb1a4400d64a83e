r"""BoTorch models for ``BKBUCB``, ``MetaUCB`` and ``MetaPI``; they stand in ``papers``."""

from kernelucb.papers import (
    BKBInducingPointAllocator,
    BKBModel,
    BKBVariationalStrategy,
    CosineFeatures,
    DiscreteMetaModel,
    FeatureMetaModel,
)

__all__ = [
    "BKBInducingPointAllocator",
    "BKBModel",
    "BKBVariationalStrategy",
    "CosineFeatures",
    "DiscreteMetaModel",
    "FeatureMetaModel",
]
