r"""Martingale-mixture confidence sets (Flynn & Reeb 2024)."""

from kernelucb.confidence.martingale_mixture.analytic import ANALYTIC_SOURCE, analytic_band
from kernelucb.confidence.martingale_mixture.convex import ConvexSet
from kernelucb.confidence.martingale_mixture.dual import ExactSet, GridSet
from kernelucb.confidence.martingale_mixture.regularizers import (
    grid_regularizers,
    regularizer_range,
)
from kernelucb.confidence.martingale_mixture.witness import Witness, attaining_function

__all__ = [
    "ANALYTIC_SOURCE",
    "ConvexSet",
    "ExactSet",
    "GridSet",
    "Witness",
    "analytic_band",
    "attaining_function",
    "grid_regularizers",
    "regularizer_range",
]
