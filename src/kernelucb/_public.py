r"""The public names; the package root hands them out."""

from kernelucb.acquisition import (
    BKBUCB,
    IGPUCB,
    AbbasiYadkoriUCB,
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
from kernelucb.confidence.family.kernels import KernelFamily
from kernelucb.confidence.fit.choice import Filters, MartingaleMixture
from kernelucb.confidence.fit.prequential import PrequentialRadius
from kernelucb.confidence.martingale_mixture.forms import Analytic, Grid
from kernelucb.confidence.norm.least import least_consistent_norm
from kernelucb.confidence.norm.tracker import NearNormBall, NormTracker
from kernelucb.confidence.outcome_constraints import OutcomeConstraints
from kernelucb.confidence.replicate_noise import ReplicateNoise
from kernelucb.confidence.streaming import StreamingNoiseTracker
from kernelucb.confidence.unknown_noise import UnknownNoise
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
    "Analytic",
    "BKBBandit",
    "BKBUCB",
    "CertifiedGapStopping",
    "ConstrainedUCB",
    "FamilyBandit",
    "Filters",
    "Grid",
    "GuardedAcquisition",
    "IGPUCB",
    "KernelBandit",
    "KernelFamily",
    "KernelFamilyUCB",
    "KernelRegression",
    "KernelThompsonSampling",
    "LikelihoodRegression",
    "LikelihoodUCB",
    "MartingaleMixture",
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
