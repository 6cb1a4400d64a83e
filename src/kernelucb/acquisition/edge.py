r"""The edge of where an acquisition function may search: exact, or smooth."""

from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor
from torch.nn.functional import softplus

from kernelucb.confidence.outcome_constraints import OutcomeConstraints

# More than the value of any acquisition function, also in single precision.
_EXCLUDED = 1e30
_PROBES = 64
# Where paying starts, in temperatures: inside, a point pays less than exp(-4) = 0.018.
_SHIFT = 4.0


def edge_penalty(margin: Tensor, temperature: float) -> Tensor:
    r"""What points pay whose margin is below 0, in units of the acquisition function.

    Smooth: less than 0.02 inside, 0.7 at a margin of minus four ``temperature`` and about
    one more for every further one. With ``temperature=0`` nothing inside, and outside more
    than any acquisition function is worth.
    """
    if temperature == 0.0:
        return torch.where(margin < 0.0, _EXCLUDED * (1.0 - margin), 0.0)
    return softplus(-_SHIFT - margin / temperature)


def infeasibility_penalty(
    constraints: OutcomeConstraints, X: Tensor, temperature: float
) -> Tensor:
    r"""What ``... x d`` points pay for the constraints that their bands contradict.

    Each constraint has an edge of its own, so the gradient leads back to all of them.
    """
    _, possible = constraints.margins(X)
    return edge_penalty(possible, temperature).sum(0)


def unit_of(acqf: AcquisitionFunction | Any, points: Tensor, temperature: float) -> float:
    r"""How much one unit of a penalty is, for the values of an acquisition function.

    One where these are logarithms or the edge is exact; else how much they vary around
    ``n x d`` points.
    """
    if acqf._log or temperature == 0.0:  # pyright: ignore[reportPrivateUsage]
        return 1.0
    box = torch.stack([points.amin(0), points.amax(0)])
    probes = draw_sobol_samples(box, n=_PROBES, q=1, seed=0)
    values = acqf(torch.cat([probes, points.unsqueeze(-2)]))
    spread = float(values.max() - values.min())
    return spread if spread > 0.0 else 1.0
