r"""Acquisition functions: thin BoTorch classes around the confidence sets."""

from kernelucb.acquisition.input_constructors import register_input_constructor
from kernelucb.acquisition.martingale_mixture import MartingaleMixtureUCB
from kernelucb.acquisition.named import IGPUCB, AbbasiYadkoriUCB, WangDeFreitasUCB
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

for _bound in BOUNDS:
    register_input_constructor(_bound)

__all__ = [
    "AbbasiYadkoriUCB",
    "BOUNDS",
    "IGPUCB",
    "MartingaleMixtureUCB",
    "SrinivasUCB",
    "StreamingKernelUCB",
    "WangDeFreitasUCB",
]
