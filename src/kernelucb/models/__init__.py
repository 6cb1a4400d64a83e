r"""BoTorch models beside the exact GP; the bounds read them as they read any model."""

from kernelucb.models.meta import CosineFeatures, DiscreteMetaModel, FeatureMetaModel

__all__ = ["CosineFeatures", "DiscreteMetaModel", "FeatureMetaModel"]
