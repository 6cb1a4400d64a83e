r"""Martingale-mixture confidence sets (Flynn & Reeb 2024)."""

from kernelucb.confidence.martingale_mixture.analytic import analytic_band
from kernelucb.confidence.martingale_mixture.constraints import (
    Constraints,
    consistent_constraints,
)
from kernelucb.confidence.martingale_mixture.convex import ConvexSet
from kernelucb.confidence.martingale_mixture.dual import ExactSet, GridSet
from kernelucb.confidence.martingale_mixture.radius import Radius, mixture_radius
from kernelucb.confidence.martingale_mixture.witness import Witness, attaining_function

__all__ = [
    "Constraints",
    "ConvexSet",
    "ExactSet",
    "GridSet",
    "Radius",
    "Witness",
    "analytic_band",
    "attaining_function",
    "consistent_constraints",
    "mixture_radius",
]
