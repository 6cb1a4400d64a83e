r"""A Sallen-Key filter, searched by Ax: its default strategy and those of this package.

Resistors and capacitors are parameters on a log scale; the objective is minus the error
(dB) of the gain. Sobol points and noise follow from the seed, so that methods share them;
Ax's default takes the centre of the space first, in place of the last of these points.
"""

import logging
from collections.abc import Callable
from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.runner import Moments, markdown_table, paired_difference, quiet, stream
from benchmarks.runner.simulators import SALLEN_KEY
from kernelucb import MartingaleMixtureUCB

# Kilohm and nanofarad: the ends of the simulator.
BOX = {"R1": (1.0, 100.0), "R2": (1.0, 100.0), "C1": (0.1, 100.0), "C2": (0.1, 100.0)}
AX = "ax_default"


def _ours(**search: Any) -> Callable[[SimpleNamespace], Any]:
    r"""A strategy of the package for the trials of a seed."""

    def strategy(task: SimpleNamespace) -> Any:
        from kernelucb import ax

        options: dict[str, Any] = {"num_initial": task.initial, "seed": task.seed}
        return ax.generation_strategy(MartingaleMixtureUCB, **options, **search)

    return strategy


_NEI = "qLogNoisyExpectedImprovement"
# A method's label and its strategy; without one Ax takes its default.
STRATEGIES: dict[str, tuple[str, Callable[[SimpleNamespace], Any] | None]] = {
    AX: ("Ax's default", None),
    "guarded_every_4": (
        "Guarded qLogNEI, every fourth by U",
        _ours(search=_NEI, search_options={"ucb_every": 4}),
    ),
    "mixture_ucb": ("MartingaleMixtureUCB", _ours()),
}


def error_of(parameters: dict[str, Any]) -> float:
    r"""Error (dB) of the circuit without noise."""
    ends = [(parameters[name], *ends) for name, ends in BOX.items()]
    setting = [np.log(x / low) / np.log(high / low) for x, low, high in ends]
    return -float(SALLEN_KEY(np.array(setting))[0])


def play(settings: dict[str, Any]) -> dict[str, Any]:
    r"""One experiment.

    Returns:
        ``errors``: true error (dB) of every trial. ``recommended``: of the arm that Ax
        recommends after the last one. ``seconds``: processor time of a trial that is not
        an initial one.
    """
    from ax.utils.common.random import with_rng_seed

    task = SimpleNamespace(**settings)
    noise = stream(task.seed, "noise", "circuit")
    # Without Ax's and pandas' remarks on Ax's code.
    with quiet(), with_rng_seed(task.seed):
        client, errors, start = _client(task), list[float](), 0.0
        while len(errors) < task.trials:
            if len(errors) == task.initial:
                start = process_time()
            for index, arm in client.get_next_trials(max_trials=1).items():
                errors.append(error_of(arm))
                outcome = task.noise_std * noise.standard_normal() - errors[-1]
                client.complete_trial(index, {"gain": float(outcome)})
        seconds = (process_time() - start) / (task.trials - task.initial)
        recommended = error_of(client.get_best_parameterization()[0])
    return {"errors": errors, "recommended": recommended, "seconds": seconds}


def _client(task: SimpleNamespace) -> Any:
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig
    from ax.utils.common.logger import set_stderr_log_level

    set_stderr_log_level(logging.WARNING)  # it remarks on every trial
    client = Client(random_seed=task.seed)
    side = {"parameter_type": "float", "scaling": "log"}
    box = [RangeParameterConfig(name=n, bounds=ends, **side) for n, ends in BOX.items()]
    client.configure_experiment(parameters=box, name="circuit")
    client.configure_optimization(objective="gain")
    strategy = STRATEGIES[task.method][1]
    if strategy is None:
        budget = {"initialization_budget": task.initial}
        client.configure_generation_strategy(initialization_random_seed=task.seed, **budget)
    else:
        client.set_generation_strategy(strategy(task))
    return client


def columns_of(played: pd.DataFrame) -> dict[str, np.ndarray]:
    r"""Errors of each seed by what they are of."""
    best = np.minimum.accumulate([*played["errors"]], axis=1)
    every = range(10, best.shape[1] + 1, 10)
    columns = {f"best of {number}": best[:, number - 1] for number in every}
    return columns | {"recommended": played["recommended"].to_numpy()}


def circuit_table(played: pd.DataFrame) -> list[str]:
    r"""Mean errors of the methods, and paired differences from Ax's default."""
    groups = dict([*played.sort_values("seed").groupby("method", sort=False)])
    errors = {method: columns_of(runs) for method, runs in groups.items()}
    names, rows, differences = [*next(iter(errors.values()))], [], []
    for method, columns in errors.items():
        label = STRATEGIES[method][0]
        cells = [_text(Moments.of(columns[name])) for name in names]
        rows.append([label, *cells, f"{groups[method]['seconds'].mean():.2f}"])
        if method != AX and AX in errors:
            theirs = errors[AX]
            pairs = (paired_difference(columns[n], theirs[n]) for n in names)
            differences.append([label, *map(_text, pairs)])
    return [
        f"True error (dB) of the gain, mean ± standard error over "
        f"{played['seed'].nunique()} seeds, and processor time.",
        "",
        *markdown_table(["method", *names, "seconds a trial"], rows),
        "",
        f"Differences from {STRATEGIES[AX][0]}, paired over the seeds.",
        "",
        *markdown_table(["method", *names], differences),
    ]


def _text(moments: Moments) -> str:
    return f"{moments.mean:.3f} ± {moments.standard_error:.2g}"
