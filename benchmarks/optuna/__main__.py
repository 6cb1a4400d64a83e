r"""Command line: ``python -m benchmarks.optuna samplers``."""

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import optuna
import optunahub
import pandas as pd
import torch
from botorch.test_functions import Branin, Hartmann, Levy, SyntheticTestFunction

from benchmarks.runner import markdown_table, quiet, stream
from benchmarks.runner.study import Settings, Study, Summary, grid

STUDY = Study("benchmarks.optuna", "The sampler for Optuna's hub beside Optuna's own.")
HUB = Path(__file__).parents[2] / "contrib" / "optunahub" / "package"
STARTS, TRIALS = 10, 40
Objective = Callable[[optuna.Trial], float]


def _of_floats(function: SyntheticTestFunction, trial: optuna.Trial) -> float:
    sides = function.bounds.mT.tolist()
    x = [trial.suggest_float(f"x{i}", low, high) for i, (low, high) in enumerate(sides)]
    return float(function(torch.tensor([x], dtype=torch.float64)))


def _network(trial: optuna.Trial) -> float:
    r"""Like the loss of a network: a rate and a width on log scales, layers, a kind."""
    rate = math.log10(trial.suggest_float("rate", 1e-5, 1e-1, log=True))
    width = math.log2(trial.suggest_int("width", 8, 1024, log=True))
    layers = trial.suggest_int("layers", 1, 6)
    kind = trial.suggest_categorical("kind", ["relu", "tanh", "gelu"])
    best = -2.5 + 0.2 * (layers - 3)  # the best rate depends on the depth
    loss = 0.15 * (rate - best) ** 2 + 0.03 * (width - 7.0) ** 2 + 0.02 * (layers - 3) ** 2
    return loss + {"relu": 0.05, "tanh": 0.15, "gelu": 0.0}[kind]


# An objective, its least value and the noise.
FUNCTIONS: dict[str, tuple[Objective, float, float]] = {
    "Branin": (partial(_of_floats, Branin()), 0.397887, 1.0),
    "Hartmann 3": (partial(_of_floats, Hartmann(3)), -3.86278, 0.05),
    "Hartmann 6": (partial(_of_floats, Hartmann(6)), -3.32237, 0.05),
    "Levy 4": (partial(_of_floats, Levy(4)), 0.0, 0.5),
    "network": (_network, 0.0, 0.02),
}


def _ours(seed: int) -> Any:
    name = "samplers/martingale_mixture_ucb"
    module = optunahub.load_local_module(name, registry_root=str(HUB))
    return module.MartingaleMixtureUCBSampler(n_startup_trials=STARTS, seed=seed)


SAMPLERS: dict[str, Callable[[int], Any]] = {
    "MartingaleMixtureUCB": _ours,
    "GPSampler": lambda seed: optuna.samplers.GPSampler(
        seed=seed, n_startup_trials=STARTS, deterministic_objective=False
    ),
    "TPESampler": lambda seed: optuna.samplers.TPESampler(
        seed=seed, n_startup_trials=STARTS, multivariate=True
    ),
    "RandomSampler": lambda seed: optuna.samplers.RandomSampler(seed=seed),
}


@quiet()
def play(settings: Settings) -> dict[str, Any]:
    r"""True regret of the best trial so far, and of the trial with the best outcome."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    objective, least, noise_std = FUNCTIONS[settings["function"]]
    noise = stream(settings["seed"], "noise", settings["function"])
    regret, outcomes, started = list[float](), list[float](), process_time()

    def noisy(trial: optuna.Trial) -> float:
        value = objective(trial)
        regret.append(value - least)
        outcomes.append(value + noise_std * float(noise.standard_normal()))
        return outcomes[-1]

    study = optuna.create_study(sampler=SAMPLERS[settings["sampler"]](settings["seed"]))
    study.optimize(noisy, n_trials=settings["trials"])
    shown = regret[int(np.argmin(outcomes))]
    return {"best": min(regret), "shown": shown, "seconds": process_time() - started}


RUNS = grid(
    {"trials": TRIALS, "seed": range(10)},
    {"function": [*FUNCTIONS], "sampler": [*SAMPLERS]},
)


@STUDY.table("samplers", RUNS, play)
def samplers(runs: pd.DataFrame) -> Summary:
    r"""Regret of the best trial on five functions, noise unknown."""
    lines = []
    for function, part in runs.groupby("function", sort=False):
        for sampler, own in part.groupby("sampler", sort=False):
            cells = [
                f"{own[name].mean():.3g} ± {own[name].sem():.2g}"
                for name in ("best", "shown")
            ]
            lines.append([function, sampler, *cells, f"{own['seconds'].mean():.0f}"])
    header = ["function", "sampler", "regret of the best trial"]
    header += ["regret of the trial with the best outcome", "seconds"]
    text = (
        f"Means ± standard errors over 10 seeds, {TRIALS} trials, {STARTS} of them random."
    )
    return Summary(None, [text, "", *markdown_table(header, lines)])


if __name__ == "__main__":
    STUDY.main()
