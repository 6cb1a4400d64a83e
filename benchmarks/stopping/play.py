r"""One run of a search, at which all rules look after every evaluation."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from benchmarks.runner import quiet
from benchmarks.stopping.problems import GROUPS, Target, target_of
from benchmarks.stopping.rules import START, Look, rules_for

SHARES = 0.05, 0.2  # of the function's range: regrets to accept; the first is told
NOISE = 0.02  # of the function's range
_REFIT = 5


def fitted_default(X: Tensor, Y: Tensor, like: SingleTaskGP | None) -> SingleTaskGP:
    r"""BoTorch's default model, fitted, or with the parameters of another."""
    model = SingleTaskGP(X, Y.unsqueeze(-1), outcome_transform=Standardize(1))
    if like is None:
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        return model.eval()
    saved = like.state_dict().items()
    kept = {name: value for name, value in saved if "outcome_transform" not in name}
    model.load_state_dict(kept, strict=False)
    return model.eval()


def search(target: Target, seed: int, budget: int) -> Iterator[Look]:
    r"""The run so far, after each evaluation from the random starts on."""
    torch.manual_seed(seed)
    noise_std, random = NOISE * target.spread, np.random.default_rng(seed)
    noise = torch.from_numpy(noise_std * random.standard_normal(budget))
    taken = random.permutation(len(target.pool))[:START].tolist()
    model, memory, accepted = None, dict[str, Any](), SHARES[0] * target.spread
    while True:
        X, Y = target.pool[taken], target.values[taken] + noise[: len(taken)]
        anew = model is None or len(taken) % _REFIT == 0
        model = fitted_default(X, Y, like=None if anew else model)
        yield Look(target, [*taken], Y, noise_std, accepted, model, memory)
        if len(taken) == budget:
            return
        taken.append(next_of(target.pool, taken, model))


@torch.no_grad()
def regret_of(look: Look) -> float:
    r"""Of the recommended setting, over the function's range."""
    target = look.target
    regret = target.values.max() - target.values[look.best]
    return round(float(regret) / target.spread, 5)


@quiet()  # of experimental APIs, and norms that data contradict
def play(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Stops of all rules, what they bound after the last evaluation, and true regrets.

    Evaluations at the stop for each regret to accept, 0 if never. Regrets are those of the
    recommended settings, after each evaluation; they and the bounds are over the range.
    """
    name, budget = settings["problem"], settings["budget"]
    target = target_of(name, settings["seed"])
    rules = rules_for(target, GROUPS[name])
    stops = {each: [0] * len(SHARES) for each in rules}
    bounds, regrets = {}, []
    for look in search(target, settings["seed"], budget):
        regrets.append(regret_of(look))
        count = len(look.taken)
        for each, rule in rules.items():
            if not (count == budget or 0 in stops[each]):
                continue
            answer = rule.answer(look)
            bound = float(answer) / target.spread
            if isinstance(answer, bool):  # whether all that is accepted is reached
                bound = 0.0 if answer else math.inf
            elif count == budget:
                bounds[each] = round(bound, 4) if math.isfinite(bound) else None
            stops[each] = [
                stop or count * (bound <= share)
                for stop, share in zip(stops[each], SHARES, strict=True)
            ]
    return {"stops": stops, "bounds": bounds, "regrets": regrets}


@torch.no_grad()
def next_of(pool: Tensor, taken: list[int], model: Any) -> int:
    r"""Position of the setting that qLogNEI chooses among those not taken."""
    open_pool = torch.ones(len(pool), dtype=torch.bool)
    open_pool[taken] = False
    positions = open_pool.nonzero().flatten()
    sampler = SobolQMCNormalSampler(torch.Size([32]), seed=0)
    search = qLogNoisyExpectedImprovement(
        model, pool[taken], sampler=sampler, prune_baseline=True
    )
    parts = pool[positions].unsqueeze(1).split(256)
    scores = torch.cat([search(part) for part in parts])
    return int(positions[scores.argmax()])
