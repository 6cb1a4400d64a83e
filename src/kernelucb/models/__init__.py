r"""BoTorch models for ``BKBUCB``, ``MetaUCB`` and ``MetaPI``."""

from kernelucb.models.bkb import BKBModel
from kernelucb.models.candidates import DiscreteMetaModel
from kernelucb.models.features import CosineFeatures, FeatureMetaModel

__all__ = [
    "BKBModel",
    "CosineFeatures",
    "DiscreteMetaModel",
    "FeatureMetaModel",
]
