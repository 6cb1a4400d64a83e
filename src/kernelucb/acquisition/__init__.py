r"""Acquisition functions: thin BoTorch classes around the confidence sets."""

from kernelucb.acquisition.bounds import (
    IGPUCB,
    AbbasiYadkoriUCB,
    MartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    WangDeFreitasUCB,
)
from kernelucb.acquisition.constrained import ConstrainedUCB
from kernelucb.acquisition.family import KernelFamilyUCB
from kernelucb.acquisition.guarded import GuardedAcquisition
from kernelucb.acquisition.likelihood import LikelihoodUCB
from kernelucb.acquisition.lowrank import BKBUCB, SketchedMartingaleMixtureUCB
from kernelucb.acquisition.meta import MetaPI, MetaUCB
from kernelucb.acquisition.outcomes import ScalarizedUCB, outcome_bands
from kernelucb.acquisition.ucb import BandUCB, register_input_constructor
from kernelucb.acquisition.undecided import LevelSetAmbiguity, ParetoWidth
from kernelucb.confidence.ridge import BoundedNorm, CompactDomain, FiniteDomain

BOUNDS = (
    MartingaleMixtureUCB,
    AbbasiYadkoriUCB,
    IGPUCB,
    SrinivasUCB,
    WangDeFreitasUCB,
    StreamingKernelUCB,
)

# For models with an estimated prior only.
META_ACQUISITIONS = (MetaUCB, MetaPI)

for _bound in (
    *BOUNDS,
    *META_ACQUISITIONS,
    BKBUCB,
    SketchedMartingaleMixtureUCB,
    KernelFamilyUCB,
    LikelihoodUCB,
    ScalarizedUCB,
    ConstrainedUCB,
):
    register_input_constructor(_bound)

__all__ = [
    "AbbasiYadkoriUCB",
    "BKBUCB",
    "BOUNDS",
    "BandUCB",
    "BoundedNorm",
    "CompactDomain",
    "ConstrainedUCB",
    "FiniteDomain",
    "GuardedAcquisition",
    "IGPUCB",
    "KernelFamilyUCB",
    "LevelSetAmbiguity",
    "LikelihoodUCB",
    "MartingaleMixtureUCB",
    "META_ACQUISITIONS",
    "MetaPI",
    "MetaUCB",
    "ParetoWidth",
    "ScalarizedUCB",
    "SketchedMartingaleMixtureUCB",
    "SrinivasUCB",
    "StreamingKernelUCB",
    "WangDeFreitasUCB",
    "outcome_bands",
]
