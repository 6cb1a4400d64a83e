r"""One run: safe choices only, as far as the bound knows."""

from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.safety.problems import DELTA, NOISE_STD, random_problem
from kernelucb import KernelRegression, MartingaleMixtureUCB

THRESHOLD = 0.0


def play_edge(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Play the safe arm closest to the threshold, where a wrong bound shows first.

    ``claim`` is the norm bound relative to the true norm; None for the posterior mean minus
    two standard deviations, with no bound behind it.

    Returns:
        The number of ``unsafe`` evaluations; whether the data contradicted the norm bound
        before the first of them (``warned``); the share of the truly safe arms that were
        known to be safe at the end (``found``).
    """
    task = SimpleNamespace(**settings)
    problem = random_problem(task.trial)
    random = torch.Generator().manual_seed(task.trial)
    truth, arms, outcomes = problem.constraint.values, [problem.seed_arm], []
    warned_at, known = None, torch.zeros(len(truth), dtype=torch.bool)
    for number in range(task.rounds):
        noise = torch.randn((), dtype=torch.float64, generator=random)
        outcomes.append(truth[arms[-1]] + NOISE_STD * noise)
        data = problem.arms[arms], torch.stack(outcomes)
        state = KernelRegression(*data, problem.constraint.kernel, NOISE_STD)
        if task.claim is None:
            margin = state.mean(problem.arms) - 2.0 * state.variance(problem.arms).sqrt()
        else:
            norm_bound = task.claim * problem.constraint.norm
            acqf = MartingaleMixtureUCB(
                state, norm_bound=norm_bound, delta=DELTA, fit="martingale"
            )
            if acqf.assumptions.violated and warned_at is None:
                warned_at = number
            # Not by SafeSet, which refuses to go on where the data contradict the claim.
            margin = acqf.bounds(problem.arms)[0] - THRESHOLD
        known = margin >= 0.0
        known[arms] = True
        fresh = known.clone()
        fresh[arms] = False
        candidates = fresh if bool(fresh.any()) else known
        arms.append(int(torch.where(candidates, margin, torch.inf).argmin()))
    violations = [n for n, arm in enumerate(arms[1:]) if truth[arm] < THRESHOLD]
    first = violations[0] if violations else task.rounds
    safe = truth >= THRESHOLD
    return {
        "unsafe": len(violations),
        "warned": warned_at is not None and warned_at <= first,
        "found": float(known[safe].double().mean()),
    }
