r"""Priors estimated from earlier tasks (Wang, Kim & Kaelbling 2018)."""

from kernelucb.models.meta.base import MetaModel
from kernelucb.models.meta.completion import Completion, complete_matrix
from kernelucb.models.meta.cosine import CosineFeatures
from kernelucb.models.meta.discrete import DiscreteMetaModel
from kernelucb.models.meta.feature import FeatureMetaModel

__all__ = [
    "Completion",
    "CosineFeatures",
    "DiscreteMetaModel",
    "FeatureMetaModel",
    "MetaModel",
    "complete_matrix",
]
