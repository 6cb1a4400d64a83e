r"""One run: safe choices only, as far as the bound knows."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from benchmarks.safety.problems import (
    DELTA,
    NOISE_STD,
    Outcome,
    Problem,
    random_problem,
    two_hills,
)
from kernelucb import KernelRegression, MartingaleMixtureUCB

THRESHOLD = 0.0


def observe(outcome: Outcome, arms: list[int], random: torch.Generator) -> Tensor:
    noise = torch.randn((), dtype=torch.float64, generator=random)
    return outcome.values[arms[-1]] + NOISE_STD * noise


def state_of(problem: Problem, arms: list[int], outcomes: list[Tensor], of: Outcome):
    return KernelRegression(problem.arms[arms], torch.stack(outcomes), of.kernel, NOISE_STD)


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
        outcomes.append(observe(problem.constraint, arms, random))
        state = state_of(problem, arms, outcomes, problem.constraint)
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


def play_expansion(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Distance of the recommended arm from the best arm that is connected to the seed.

    Returns:
        The ``regret`` after each round, and whether an ``unsafe`` arm was played.
    """
    task = SimpleNamespace(**settings)
    hills = task.problem == "two hills"
    problem = two_hills() if hills else random_problem(1000 + task.trial)
    random = torch.Generator().manual_seed(task.trial)
    arms, outcomes, levels = [problem.seed_arm], [], []
    best = float(problem.objective.values[_connected(problem)].max())
    regret, unsafe = [], False
    for number in range(task.rounds):
        outcomes.append(observe(problem.objective, arms, random))
        levels.append(observe(problem.constraint, arms, random))
        lower, upper = _bounds(problem, arms, outcomes, problem.objective)
        floor, ceiling = _bounds(problem, arms, levels, problem.constraint)
        safe = floor >= THRESHOLD
        safe[arms] = True
        recommended = int(torch.where(safe, lower, -torch.inf).argmax())
        regret.append(best - float(problem.objective.values[recommended]))
        widest = task.rule == "alternate" and number % 2 == 1
        score = ceiling - floor if widest else upper
        arms.append(int(torch.where(safe, score, -torch.inf).argmax()))
        unsafe |= bool(problem.constraint.values[arms[-1]] < THRESHOLD)
    return {"regret": regret, "unsafe": unsafe}


def _bounds(
    problem: Problem, arms: list[int], outcomes: list[Tensor], of: Outcome
) -> tuple[Tensor, Tensor]:
    state = state_of(problem, arms, outcomes, of)
    acqf = MartingaleMixtureUCB(
        state, norm_bound=of.norm, delta=DELTA, fit="martingale", form="analytic"
    )
    return acqf.bounds(problem.arms)


def _connected(problem: Problem) -> Tensor:
    r"""Arms that can be reached from the seed without leaving the true safe set."""
    unsafe = problem.constraint.values < THRESHOLD
    indices = torch.arange(len(unsafe))
    below = indices[unsafe & (indices < problem.seed_arm)]
    above = indices[unsafe & (indices > problem.seed_arm)]
    first = int(below.max()) + 1 if len(below) else 0
    last = int(above.min()) if len(above) else len(unsafe)
    return indices[first:last]
