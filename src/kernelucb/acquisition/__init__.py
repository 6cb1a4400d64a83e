r"""Acquisition functions: thin BoTorch classes around the confidence sets."""

from kernelucb.acquisition.bkb import BKBUCB
from kernelucb.acquisition.constrained import ConstrainedUCB
from kernelucb.acquisition.constrained_inputs import constrained_inputs
from kernelucb.acquisition.family import KernelFamilyUCB
from kernelucb.acquisition.family_inputs import family_inputs, kernel_inputs
from kernelucb.acquisition.guarded import GuardedAcquisition
from kernelucb.acquisition.guarded_inputs import guarded_inputs
from kernelucb.acquisition.input_constructors import register_input_constructor
from kernelucb.acquisition.likelihood import LikelihoodUCB
from kernelucb.acquisition.likelihood_inputs import likelihood_inputs
from kernelucb.acquisition.martingale_mixture import MartingaleMixtureUCB
from kernelucb.acquisition.meta import MetaPI, MetaUCB
from kernelucb.acquisition.named import IGPUCB, AbbasiYadkoriUCB, WangDeFreitasUCB
from kernelucb.acquisition.outcome_bands import outcome_bands
from kernelucb.acquisition.scalarized import ScalarizedUCB, scalarized_inputs
from kernelucb.acquisition.sketched import SketchedMartingaleMixtureUCB
from kernelucb.acquisition.srinivas import SrinivasUCB
from kernelucb.acquisition.streaming import StreamingKernelUCB

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

for _bound in BOUNDS:
    register_input_constructor(_bound, kernel_inputs)
for _bound in (*META_ACQUISITIONS, BKBUCB, SketchedMartingaleMixtureUCB):
    register_input_constructor(_bound)
register_input_constructor(ScalarizedUCB, scalarized_inputs)
register_input_constructor(ConstrainedUCB, constrained_inputs)
register_input_constructor(KernelFamilyUCB, family_inputs)
register_input_constructor(GuardedAcquisition, guarded_inputs)
register_input_constructor(LikelihoodUCB, likelihood_inputs)

__all__ = [
    "AbbasiYadkoriUCB",
    "BKBUCB",
    "BOUNDS",
    "ConstrainedUCB",
    "GuardedAcquisition",
    "IGPUCB",
    "KernelFamilyUCB",
    "LikelihoodUCB",
    "MartingaleMixtureUCB",
    "META_ACQUISITIONS",
    "MetaPI",
    "MetaUCB",
    "ScalarizedUCB",
    "SketchedMartingaleMixtureUCB",
    "SrinivasUCB",
    "StreamingKernelUCB",
    "WangDeFreitasUCB",
    "outcome_bands",
]
