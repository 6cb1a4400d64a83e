r"""Certified gaps on Branin under kernels of very different norms.

Branin on the unit cube with mean 0 and standard deviation 1 over the candidates. Under a
smooth kernel its norm is so large that round-off hides part of what a function of that norm
says of the outcomes (``docs/mathematics.md``, "Round-off").
"""

from types import SimpleNamespace
from typing import Any

import torch
from botorch import test_functions
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor

from benchmarks.runner import fixed_kernel, stream
from kernelucb import (
    KernelFamily,
    KernelFamilyUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    regret_certificate,
)


def play_branin(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Play the largest upper bound, and certify the recommended point now and then.

    Returns:
        Gap, mean width and regret at each number of observations, in units of Branin, and
        whether the band ever missed it.
    """
    part = SimpleNamespace(**settings)
    X, values, unit = _branin(part.candidates)
    drawn = stream(part.stream, "branin", part.seed)
    noise = (
        part.noise_std
        / unit
        * torch.from_numpy(drawn.standard_normal(max(part.observations)))
    )
    indices = [int(drawn.integers(part.candidates))]
    kernels = [fixed_kernel(*ball[:2]) for ball in part.balls]
    norms = [norm_bound for _, _, norm_bound in part.balls]
    gaps, widths, regrets, missed = [], [], [], False
    while True:
        outcomes = values[indices] + noise[: len(indices)]
        state = KernelRegression(X[indices], outcomes, kernels[0], part.noise_std / unit)
        band = (
            MartingaleMixtureUCB(state, norm_bound=norms[0], delta=part.delta)
            if len(kernels) == 1
            else KernelFamilyUCB(
                state,
                KernelFamily(kernels, combine="all"),
                norm_bound=norms,
                delta=part.delta,
            )
        )
        lower, upper = band.bounds(X)
        missed = missed or bool(((values < lower - 1e-9) | (values > upper + 1e-9)).any())
        if len(indices) in part.observations:
            certificate = regret_certificate(band, X)
            at = (certificate.recommended == X).all(-1)
            gaps.append(unit * certificate.gap)
            widths.append(unit * float((upper - lower).mean()))
            regrets.append(unit * float(values.max() - values[at].max()))
        if len(indices) == max(part.observations):
            found = {"gaps": gaps, "widths": widths, "regrets": regrets}
            return found | {"missed": missed}
        indices.append(int(upper.argmax()))


def _branin(count: int) -> tuple[Tensor, Tensor, float]:
    r"""Candidates, negative standardised values there, and one standard deviation."""
    box = torch.stack([torch.zeros(2), torch.ones(2)]).double()
    X = draw_sobol_samples(box, n=count, q=1, seed=1).squeeze(1)
    function = test_functions.Branin(negate=True)
    lower, upper = function.bounds.double()
    values = function(lower + (upper - lower) * X)
    unit = float(values.std())
    return X, (values - values.mean()) / unit, unit
