r"""Errors and warnings of kernelucb, all of them BoTorch's kinds.

Bad scalars raise ``ValueError``; tensors and models raise BoTorch's own
``BotorchTensorDimensionError``, ``InputDataError`` and ``UnsupportedError``.
Only what BoTorch has no name for is defined here.
"""

from botorch.exceptions import BotorchError, BotorchWarning, InputDataWarning


class InconsistentConfidenceSetWarning(BotorchWarning):
    r"""No function satisfies the stated assumptions and the data; one was relaxed."""


class NoSafePointError(BotorchError):
    r"""No point is known to be safe."""


class StateError(BotorchError, ValueError):
    r"""A saved state does not fit the object, or was changed; nothing was loaded."""


class UncertifiedError(BotorchError):
    r"""Something that acts on a guarantee was given a band that has none."""


class SinglePrecisionWarning(InputDataWarning):
    r"""The input was single precision; the bound was computed in double precision."""


class SolverError(BotorchError):
    r"""A conic solver stopped without a solution as accurate as asked for."""


__all__ = [
    "InconsistentConfidenceSetWarning",
    "NoSafePointError",
    "SinglePrecisionWarning",
    "SolverError",
    "StateError",
    "UncertifiedError",
]
