r"""Ax experiments with a confidence bound, in raw outcome units (extra ``ax``).

Importing this module registers every bound for Ax's storage, so import it before an
experiment is saved, before it is reopened in a new process, and before a
``RegistryBundle`` is made, which copies the registries.
"""

try:
    from kernelucb.ax.bounds import (
        ArmDecision,
        CertifiedGapStoppingStrategy,
        ParetoFront,
        Recommendation,
        current_bound,
        describe_norm_bound,
        last_bound,
        optimum_report,
        pareto_front,
        recommended_arm,
    )
    from kernelucb.ax.calibrated import (
        AxPolicy,
        CalibratedDecision,
        CalibratedGapStoppingStrategy,
    )
    from kernelucb.ax.cards import (
        BandAnalysis,
        CalibratedGapAnalysis,
        FrontAnalysis,
        GapAnalysis,
    )
    from kernelucb.ax.options import meta_model_config
    from kernelucb.ax.strategy import generation_strategy, register_for_storage, save
except ImportError as error:
    raise ImportError(
        f"kernelucb.ax needs Ax 1.3 or later ({error}). Install it with: "
        "pip install 'kernelucb[ax]'"
    ) from error

register_for_storage()

__all__ = [
    "ArmDecision",
    "AxPolicy",
    "BandAnalysis",
    "CalibratedDecision",
    "CalibratedGapAnalysis",
    "CalibratedGapStoppingStrategy",
    "CertifiedGapStoppingStrategy",
    "FrontAnalysis",
    "GapAnalysis",
    "ParetoFront",
    "Recommendation",
    "current_bound",
    "describe_norm_bound",
    "generation_strategy",
    "last_bound",
    "meta_model_config",
    "optimum_report",
    "pareto_front",
    "recommended_arm",
    "save",
]
