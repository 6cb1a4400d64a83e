r"""From finished runs to numbers: mean average regret and paired differences."""

import numpy as np
import pandas as pd

from benchmarks.papers.srinivas_2010.configuration import Experiment, Method, Setting
from benchmarks.papers.srinivas_2010.play import Run
from benchmarks.papers.srinivas_2010.priors import prior_of, rows_of
from benchmarks.runner import RunStore, moments_table, spaced

BASELINE = "gp_ucb"


def average_regret(
    store: RunStore[Run], experiment: Experiment, method: Method
) -> np.ndarray:
    r"""Average regret ``R_t / t``, ``blocks x rounds``.

    Consecutive rows of a sensor network are nearly the same function, so that only blocks
    of them count as repetitions; trials with the same row belong to the same block.
    """
    regret = [store.load(task).regret for task in experiment.tasks_of(method)]
    curves = np.cumsum(regret, axis=1) / np.arange(1, experiment.setting.rounds + 1)
    block = _blocks(experiment.setting)
    return np.array([curves[block == number].mean(axis=0) for number in np.unique(block)])


def _blocks(setting: Setting) -> np.ndarray:
    r"""The block of each trial."""
    trials = np.arange(setting.trials)
    functions = setting.trials if setting.functions == "samples" else len(rows_of(setting))
    return trials % functions // setting.block


def curve_table(store: RunStore[Run], experiment: Experiment) -> pd.DataFrame:
    r"""Mean average regret and its difference to GP-UCB's at some rounds."""
    rounds = spaced(experiment.setting.rounds, 21)
    curves = {(m.name,): average_regret(store, experiment, m) for m in experiment.methods}
    table = moments_table(curves, ["method"], rounds).rename(columns={"n": "blocks"})
    differences = {name: curve - curves[BASELINE,] for name, curve in curves.items()}
    difference = moments_table(differences, ["method"], rounds)
    table["difference"] = difference["mean"]
    table["difference_standard_error"] = difference["standard_error"]
    table["trials"] = experiment.setting.trials
    columns = ["mean", "standard_error", "difference", "difference_standard_error"]
    for name, digits in zip(columns, ("5g", "3g", "5g", "3g"), strict=True):
        table[name] = table[name].map(f"{{:.{digits}}}".format)
    return table[["method", "round", *columns, "trials", "blocks"]]


def norms_of_functions(setting: Setting) -> tuple[np.ndarray, float]:
    r"""RKHS norms of the played rows, and the 95 % quantile for samples of the prior."""
    prior = prior_of(setting)
    norms = np.array([prior.norm(row) for row in rows_of(setting)])
    return norms, prior.norm_quantile(0.95)
