r"""Acquisition functions: thin BoTorch classes around the confidence sets."""

from kernelucb.acquisition.bounds import MartingaleMixtureUCB
from kernelucb.acquisition.constrained import ConstrainedUCB
from kernelucb.acquisition.family import KernelFamilyUCB
from kernelucb.acquisition.guarded import GuardedAcquisition
from kernelucb.acquisition.likelihood import LikelihoodUCB
from kernelucb.acquisition.lowrank import SketchedMartingaleMixtureUCB
from kernelucb.acquisition.outcomes import ScalarizedUCB, outcome_bands
from kernelucb.acquisition.ucb import BandUCB, register_input_constructor
from kernelucb.acquisition.undecided import LevelSetAmbiguity, ParetoWidth

for _bound in (
    MartingaleMixtureUCB,
    SketchedMartingaleMixtureUCB,
    KernelFamilyUCB,
    LikelihoodUCB,
    ScalarizedUCB,
    ConstrainedUCB,
):
    register_input_constructor(_bound)

__all__ = [
    "BandUCB",
    "ConstrainedUCB",
    "GuardedAcquisition",
    "KernelFamilyUCB",
    "LevelSetAmbiguity",
    "LikelihoodUCB",
    "MartingaleMixtureUCB",
    "ParetoWidth",
    "ScalarizedUCB",
    "SketchedMartingaleMixtureUCB",
    "outcome_bands",
]
