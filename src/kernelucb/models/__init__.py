r"""BoTorch models for ``BKBUCB``, ``MetaUCB`` and ``MetaPI``."""

from kernelucb.models.bkb import BKBModel
from kernelucb.models.meta import CosineFeatures, DiscreteMetaModel, FeatureMetaModel

__all__ = [
    "BKBModel",
    "CosineFeatures",
    "DiscreteMetaModel",
    "FeatureMetaModel",
]
