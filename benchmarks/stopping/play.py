r"""One run of a search, at which all rules look after every evaluation."""

import warnings
from typing import Any

import numpy as np
import torch

from benchmarks.reliability.claims import NOISE, Problem, next_of
from benchmarks.stopping.problems import GROUPS, target_of
from benchmarks.stopping.rules import START, Look, rules_for
from kernelucb.regression.from_model import fitted_default

SHARE = 0.05  # of the function's range: the regret to accept
_REFIT = 5


def play(settings: dict[str, Any]) -> dict[str, Any]:
    r"""Evaluations at the stop of each rule, 0 if never, and the regrets of all looks.

    Regrets are those of the recommended settings, over the function's range.
    """
    seed, name = settings["seed"], settings["problem"]
    target, budget = target_of(name, seed), settings["budget"]
    problem = Problem(target.pool, target.values, None)
    torch.manual_seed(seed)
    noise_std, random = NOISE * target.spread, np.random.default_rng(seed)
    noise = torch.from_numpy(noise_std * random.standard_normal(budget))
    taken = random.permutation(len(target.pool))[:START].tolist()
    rules, memory = rules_for(target, GROUPS[name]), {}
    stops, regrets, model = dict.fromkeys(rules, 0), [], None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # experimental APIs; norms that data contradict
        while True:
            X, Y = target.pool[taken], target.values[taken] + noise[: len(taken)]
            anew = model is None or len(taken) % _REFIT == 0
            model = fitted_default(X, Y, like=None if anew else model)
            accepted = SHARE * target.spread
            with torch.no_grad():
                look = Look(target, [*taken], Y, noise_std, accepted, model, memory)
                regret = target.values.max() - target.values[look.best]
                regrets.append(round(float(regret) / target.spread, 5))
            for each, rule in rules.items():
                if stops[each] == 0 and rule.stops(look):
                    stops[each] = len(taken)
            if len(taken) == budget:
                return {"stops": stops, "regrets": regrets}
            taken.append(next_of(problem, "qlognei", taken, model))
