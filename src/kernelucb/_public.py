r"""The public names; the package root hands them out."""

from kernelucb.acquisition import (
    BKBUCB,
    IGPUCB,
    AbbasiYadkoriUCB,
    BandUCB,
    ConstrainedUCB,
    GuardedAcquisition,
    KernelFamilyUCB,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    MetaPI,
    MetaUCB,
    ScalarizedUCB,
    SketchedMartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    WangDeFreitasUCB,
)
from kernelucb.bandit import BKBBandit, FamilyBandit, KernelBandit
from kernelucb.certificates import (
    CertifiedGapStopping,
    MixedSpace,
    breakdown,
    confirmation,
    optimum_report,
    regret_certificate,
    runs_needed,
)
from kernelucb.confidence.band import Band
from kernelucb.confidence.noise import ReplicateNoise, UnknownNoise
from kernelucb.confidence.norm import NearNormBall, NormTracker, least_consistent_norm
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.confidence.prequential import PrequentialRadius
from kernelucb.confidence.streaming import StreamingNoiseTracker
from kernelucb.diagnostics import (
    check_consistency,
    describe_norm_bound,
    information_gain,
)
from kernelucb.optim import KernelThompsonSampling
from kernelucb.page.report import report
from kernelucb.regression import KernelRegression, NystromRegression
from kernelucb.regression.counts import LikelihoodRegression
from kernelucb.regression.kernel_family import lengthscale_family
from kernelucb.safety import SafeSet, optimize_acqf_safely

__all__ = [
    "AbbasiYadkoriUCB",
    "Band",
    "BandUCB",
    "BKBBandit",
    "BKBUCB",
    "CertifiedGapStopping",
    "ConstrainedUCB",
    "FamilyBandit",
    "GuardedAcquisition",
    "IGPUCB",
    "KernelBandit",
    "KernelFamilyUCB",
    "KernelRegression",
    "KernelThompsonSampling",
    "LikelihoodRegression",
    "LikelihoodUCB",
    "MartingaleMixtureUCB",
    "MetaPI",
    "MetaUCB",
    "MixedSpace",
    "NearNormBall",
    "NormTracker",
    "NystromRegression",
    "OutcomeConstraints",
    "PrequentialRadius",
    "ReplicateNoise",
    "SafeSet",
    "ScalarizedUCB",
    "SketchedMartingaleMixtureUCB",
    "SrinivasUCB",
    "StreamingKernelUCB",
    "StreamingNoiseTracker",
    "UnknownNoise",
    "WangDeFreitasUCB",
    "breakdown",
    "check_consistency",
    "confirmation",
    "describe_norm_bound",
    "information_gain",
    "least_consistent_norm",
    "lengthscale_family",
    "optimize_acqf_safely",
    "optimum_report",
    "regret_certificate",
    "report",
    "runs_needed",
]
