r"""One run: a method plays one function."""

from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.papers.srinivas_2010.learners import METHODS, make_learner
from benchmarks.papers.srinivas_2010.priors import function_of, prior_of
from benchmarks.runner import stream


def play(task: dict[str, Any]) -> dict[str, Any]:
    r"""Points played, regret of each, and wall-clock time of choosing and updating.

    First point and noise are the same for all methods.
    """
    source, seed, trial = task["source"], task["seed"], task["trial"]
    sizes = {"points": task["points"]} if "points" in task else {}
    prior = prior_of(source, task["noise_share"], **sizes)
    function = function_of(prior, source, task["functions"], seed, trial)
    first = stream(seed, "first", source, trial)
    noise = stream(seed, "noise", source, trial)
    learner = make_learner(prior, METHODS[task["method"]], task["delta"])
    arms, regret, seconds = [], [], 0.0
    for number in range(task["rounds"]):
        start = perf_counter()
        arm = learner.select() if number else int(first.integers(prior.size))
        outcome = float(function[arm]) + prior.noise_std * noise.standard_normal()
        learner.observe(arm, outcome)
        seconds += perf_counter() - start
        arms.append(arm)
        regret.append(float(function.max() - function[arm]))
    if not np.all(np.isfinite(regret)):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    return {"arms": arms, "regret": regret, "seconds": seconds}
