r"""Bounds of other authors: a file (or two) to be read beside each paper.

| file | paper |
|---|---|
| ``srinivas.py`` | Srinivas, Krause, Kakade & Seeger (2010): GP-UCB |
| ``abbasi_yadkori.py`` | Abbasi-Yadkori (2012): the self-normalised bound |
| ``wang_de_freitas.py`` | Wang & de Freitas (2014): a band of one round |
| ``chowdhury_gopalan.py`` | Chowdhury & Gopalan (2017): IGP-UCB |
| ``streaming.py``, ``thompson.py`` | Durand, Maillard & Pineau (2018): unknown noise |
| ``meta.py``, ``meta_model.py``, ``meta_candidates.py``, ``meta_features.py`` | Wang, Kim \
& Kaelbling (2018): earlier tasks |
| ``bkb.py``, ``bkb_model.py``, ``bkb_bandit.py``, ``bkb_variational.py`` | Calandriello, \
Carratino, Lazaric, Valko & Rosasco (2019): budgeted bandits |

A file has the theorem, the builder of the band and the acquisition function. Nothing of the
core imports them.
"""

from kernelucb.acquisition.ucb import register_input_constructor
from kernelucb.papers.abbasi_yadkori import AbbasiYadkoriUCB
from kernelucb.papers.bkb import BKBUCB
from kernelucb.papers.bkb_bandit import BKBBandit
from kernelucb.papers.bkb_model import BKBModel
from kernelucb.papers.bkb_variational import (
    BKBInducingPointAllocator,
    BKBVariationalStrategy,
)
from kernelucb.papers.chowdhury_gopalan import IGPUCB
from kernelucb.papers.meta import MetaPI, MetaUCB
from kernelucb.papers.meta_candidates import DiscreteMetaModel
from kernelucb.papers.meta_features import CosineFeatures, FeatureMetaModel
from kernelucb.papers.srinivas import (
    BoundedNorm,
    CompactDomain,
    FiniteDomain,
    SrinivasUCB,
)
from kernelucb.papers.streaming import StreamingKernelUCB, StreamingNoiseTracker
from kernelucb.papers.thompson import KernelThompsonSampling
from kernelucb.papers.wang_de_freitas import WangDeFreitasUCB

# Of an exact GP.
BOUNDS = AbbasiYadkoriUCB, IGPUCB, SrinivasUCB, WangDeFreitasUCB, StreamingKernelUCB

# For models with an estimated prior only.
META_ACQUISITIONS = MetaUCB, MetaPI

for _bound in (*BOUNDS, *META_ACQUISITIONS, BKBUCB):
    register_input_constructor(_bound)

__all__ = [
    "AbbasiYadkoriUCB",
    "BKBBandit",
    "BKBInducingPointAllocator",
    "BKBModel",
    "BKBUCB",
    "BKBVariationalStrategy",
    "BOUNDS",
    "BoundedNorm",
    "CompactDomain",
    "CosineFeatures",
    "DiscreteMetaModel",
    "FeatureMetaModel",
    "FiniteDomain",
    "IGPUCB",
    "KernelThompsonSampling",
    "META_ACQUISITIONS",
    "MetaPI",
    "MetaUCB",
    "SrinivasUCB",
    "StreamingKernelUCB",
    "StreamingNoiseTracker",
    "WangDeFreitasUCB",
]
