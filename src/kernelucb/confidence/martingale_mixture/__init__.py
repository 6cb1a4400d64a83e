r"""Martingale-mixture confidence sets (Flynn & Reeb 2024)."""

from kernelucb.confidence.martingale_mixture.analytic import analytic_band
from kernelucb.confidence.martingale_mixture.constraints import (
    Constraints,
    consistent_constraints,
    radius_beside_dropped,
)
from kernelucb.confidence.martingale_mixture.convex import ConvexSet
from kernelucb.confidence.martingale_mixture.dual import ExactSet, GridSet
from kernelucb.confidence.martingale_mixture.radius import (
    CovarianceScale,
    Radius,
    combined_radius,
    covariance_scales,
    mixture_radius,
    sketched_radius,
)
from kernelucb.confidence.martingale_mixture.regularizers import (
    grid_regularizers,
    regularizer_range,
)
from kernelucb.confidence.martingale_mixture.unknown_noise import JointSet, NoiseBounds
from kernelucb.confidence.martingale_mixture.witness import Witness, attaining_function

__all__ = [
    "Constraints",
    "ConvexSet",
    "CovarianceScale",
    "ExactSet",
    "GridSet",
    "JointSet",
    "NoiseBounds",
    "Radius",
    "Witness",
    "analytic_band",
    "attaining_function",
    "combined_radius",
    "consistent_constraints",
    "covariance_scales",
    "grid_regularizers",
    "mixture_radius",
    "radius_beside_dropped",
    "regularizer_range",
    "sketched_radius",
]
