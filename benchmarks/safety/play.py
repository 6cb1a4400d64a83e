r"""Safe choices only, as far as the bound knows, on constraints of known RKHS norm."""

from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.runner import KnownFunction, fixed_kernel, line
from kernelucb import KernelRegression, MartingaleMixtureUCB

NOISE_STD, DELTA, THRESHOLD, ARMS, LENGTHSCALE = 0.2, 0.1, 0.0, 40, 0.2


class Outcome(NamedTuple):
    kernel: Kernel
    values: Tensor
    norm: float


def constraint_of(seed: int, norm: float) -> Outcome:
    r"""On the arms, with the sign that makes its largest value the larger one."""
    random = torch.Generator().manual_seed(2 * seed + 1)
    kernel, arms = fixed_kernel("matern52", LENGTHSCALE), line(ARMS)
    centres = torch.rand(12, 1, dtype=torch.float64, generator=random)
    weights = torch.randn(12, dtype=torch.float64, generator=random)
    drawn = KnownFunction(kernel, centres, weights)
    values = drawn(arms)
    sign = 1.0 if values.max() > -values.min() else -1.0
    function = drawn.scaled(sign * norm)
    return Outcome(kernel, function(arms), float(function.norm))


def edge(margin: Tensor, safe: Tensor, played: list[int]) -> int:
    r"""The safe arm of least margin, if there is one of those not played yet.

    There a wrong bound shows first.
    """
    fresh = safe.clone()
    fresh[played] = False
    candidates = fresh if bool(fresh.any()) else safe
    return int(torch.where(candidates, margin, torch.inf).argmin())


def play_edge(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Play the safe arm closest to the threshold.

    ``claim`` is the norm bound relative to the true norm; None for the posterior mean minus
    two standard deviations, with no bound behind it.

    Returns:
        The number of ``unsafe`` evaluations; whether the data contradicted the norm bound
        before the first of them (``warned``); the share of the truly safe arms that were
        known to be safe at the end (``found``).
    """
    task = SimpleNamespace(**settings)
    constraint, places = constraint_of(task.trial, 2.0), line(ARMS)
    random = torch.Generator().manual_seed(task.trial)
    truth, outcomes = constraint.values, []
    arms = [int(truth.argmax())]
    warned_at, known = None, torch.zeros(len(truth), dtype=torch.bool)
    for number in range(task.rounds):
        noise = torch.randn((), dtype=torch.float64, generator=random)
        outcomes.append(truth[arms[-1]] + NOISE_STD * noise)
        data = places[arms], torch.stack(outcomes)
        state = KernelRegression(*data, constraint.kernel, NOISE_STD)
        if task.claim is None:
            margin = state.mean(places) - 2.0 * state.variance(places).sqrt()
        else:
            norm_bound = task.claim * constraint.norm
            acqf = MartingaleMixtureUCB(
                state, norm_bound=norm_bound, delta=DELTA, fit="martingale"
            )
            if acqf.assumptions.violated and warned_at is None:
                warned_at = number
            # Not by SafeSet, which refuses to go on where the data contradict the claim.
            margin = acqf.bounds(places)[0] - THRESHOLD
        known = margin >= 0.0
        known[arms] = True
        arms.append(edge(margin, known, arms))
    violations = [n for n, arm in enumerate(arms[1:]) if truth[arm] < THRESHOLD]
    first = violations[0] if violations else task.rounds
    safe = truth >= THRESHOLD
    return {
        "unsafe": len(violations),
        "warned": warned_at is not None and warned_at <= first,
        "found": float(known[safe].double().mean()),
    }
