r"""The public names; the package root hands them out."""

from kernelucb.acquisition import (
    BandUCB as BandUCB,
    ConstrainedUCB as ConstrainedUCB,
    GuardedAcquisition as GuardedAcquisition,
    KernelFamilyUCB as KernelFamilyUCB,
    LevelSetAmbiguity as LevelSetAmbiguity,
    LikelihoodUCB as LikelihoodUCB,
    MartingaleMixtureUCB as MartingaleMixtureUCB,
    ParetoWidth as ParetoWidth,
    ScalarizedUCB as ScalarizedUCB,
    SketchedMartingaleMixtureUCB as SketchedMartingaleMixtureUCB,
    outcome_bands as outcome_bands,
)
from kernelucb.bandit import (
    FamilyBandit as FamilyBandit,
    KernelBandit as KernelBandit,
)
from kernelucb.certificates import (
    CertifiedGapStopping as CertifiedGapStopping,
    MixedSpace as MixedSpace,
    breakdown as breakdown,
    confirmation as confirmation,
    failure_probability as failure_probability,
    level_set as level_set,
    optimum_report as optimum_report,
    pareto_set as pareto_set,
    regret_certificate as regret_certificate,
    runs_needed as runs_needed,
)
from kernelucb.confidence.band import Band as Band
from kernelucb.confidence.fit import PrequentialRadius as PrequentialRadius
from kernelucb.confidence.norm import (
    NearNormBall as NearNormBall,
    NormTracker as NormTracker,
    least_consistent_norm as least_consistent_norm,
)
from kernelucb.confidence.tasks import (
    NormFromTasks as NormFromTasks,
    norm_from_simulator as norm_from_simulator,
    norm_from_tasks as norm_from_tasks,
)
from kernelucb.confidence.outcome_constraints import (
    OutcomeConstraints as OutcomeConstraints,
)
from kernelucb.confidence.noise import ReplicateNoise as ReplicateNoise
from kernelucb.confidence.noise import UnknownNoise as UnknownNoise
from kernelucb.diagnostics import (
    check_consistency as check_consistency,
    describe_norm_bound as describe_norm_bound,
    information_gain as information_gain,
)
from kernelucb._numerics.estimates import Estimate as Estimate
from kernelucb.page import report as report
from kernelucb.pairs import confirm as confirm
from kernelucb.papers import (
    BKBUCB as BKBUCB,
    IGPUCB as IGPUCB,
    AbbasiYadkoriUCB as AbbasiYadkoriUCB,
    BKBBandit as BKBBandit,
    BKBInducingPointAllocator as BKBInducingPointAllocator,
    BKBModel as BKBModel,
    BKBVariationalStrategy as BKBVariationalStrategy,
    BoundedNorm as BoundedNorm,
    CompactDomain as CompactDomain,
    CosineFeatures as CosineFeatures,
    DiscreteMetaModel as DiscreteMetaModel,
    FeatureMetaModel as FeatureMetaModel,
    FiniteDomain as FiniteDomain,
    KernelThompsonSampling as KernelThompsonSampling,
    MetaPI as MetaPI,
    MetaUCB as MetaUCB,
    SrinivasUCB as SrinivasUCB,
    StreamingKernelUCB as StreamingKernelUCB,
    StreamingNoiseTracker as StreamingNoiseTracker,
    WangDeFreitasUCB as WangDeFreitasUCB,
)
from kernelucb.plotting import plot_replicates as plot_replicates
from kernelucb.data import (
    KernelRegression as KernelRegression,
    NystromRegression as NystromRegression,
)
from kernelucb.data.kernel_family import lengthscale_family as lengthscale_family
from kernelucb.data.counts import LikelihoodRegression as LikelihoodRegression
from kernelucb.rounds import SequentialComparison as SequentialComparison
from kernelucb.safety import (
    ConstraintWidth as ConstraintWidth,
    SafeSet as SafeSet,
    optimize_acqf_safely as optimize_acqf_safely,
)
