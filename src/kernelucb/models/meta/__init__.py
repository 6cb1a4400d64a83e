r"""Priors estimated from earlier tasks (Wang, Kim & Kaelbling 2018)."""

from kernelucb.models.meta.base import MetaModel
from kernelucb.models.meta.discrete import Completion, DiscreteMetaModel, complete_matrix
from kernelucb.models.meta.feature import CosineFeatures, FeatureMetaModel

__all__ = [
    "Completion",
    "CosineFeatures",
    "DiscreteMetaModel",
    "FeatureMetaModel",
    "MetaModel",
    "complete_matrix",
]
