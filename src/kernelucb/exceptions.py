r"""Errors and warnings of kernelucb, derived from BoTorch's errors and warnings.

Bad scalars raise ``ValueError``; tensors and models raise BoTorch's own
``BotorchTensorDimensionError``, ``InputDataError`` and ``UnsupportedError``.
Only errors that BoTorch has no name for are defined here.
"""

from botorch.exceptions import BotorchError, BotorchWarning, InputDataWarning


class InconsistentConfidenceSetWarning(BotorchWarning):
    r"""The data contradict the assumptions; the message says what the band does instead."""


class NoSafePointError(BotorchError):
    r"""No point is known to be safe."""


class UncertifiedError(BotorchError):
    r"""A rule that acts on a guarantee was given a band without a guarantee."""


class ReplayError(BotorchError):
    r"""A replay cannot be repeated, or a file of replays is of other settings."""


class SinglePrecisionWarning(InputDataWarning):
    r"""The input was not float64; the bound was computed in float64 and rounded back."""


class SolverError(BotorchError):
    r"""A conic solver found no solution of the required accuracy."""


__all__ = [
    "InconsistentConfidenceSetWarning",
    "NoSafePointError",
    "ReplayError",
    "SinglePrecisionWarning",
    "SolverError",
    "UncertifiedError",
]
