r"""What a bad run is: how it looks where it is stuck, and what would have rescued it.

Of thirty runs of each method (``compare`` on seeds 410 to 439, before there was a turn of
the improvement) the worst of every problem are played again as they were, and with another
choice, search or fit after a quarter of their rounds.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.utils.transforms import normalize
from torch import Tensor

from benchmarks.practical.fitting import Objective
from benchmarks.practical.learners import (
    Chooser,
    in_turns,
    log_nei,
    maximised,
)
from benchmarks.practical.model import LeanGP
from benchmarks.practical.play import played
from benchmarks.practical.problems import Environment, Synthetic, Table, environment_of
from benchmarks.runner import captioned
from benchmarks.runner.study import Settings, Summary

RUNS = Path(__file__).parent / "results" / "causes_runs.csv"
WORST = 3  # of the runs of a method on a problem
BAD = 0.2  # of the mean regret of random search
SINCE = 0.25  # of the rounds: from here on a change is played
AS_AX = {"restarts": 20, "raw_samples": 1024}
EFFORT = AS_AX | {"iterations": 200}
_SURE, _NEAR = 3.0, 0.3  # deviations; lengthscales
FUNCTIONS: dict[str, Callable[[LeanGP], AcquisitionFunction]] = {
    "mixture_ucb": in_turns("upper", "mean"),  # the default when these were played
    "q_log_nei": log_nei,
}


def worst_runs(path: Path = RUNS) -> list[Settings]:
    r"""Problem, seed and method of the worst runs that are bad, and what is bad there."""
    runs = pd.read_csv(path)
    bad = BAD * runs[runs["method"] == "random"].groupby("problem")["simple"].mean()
    own = runs[runs["method"].isin(FUNCTIONS)]
    worst = own.groupby(["problem", "method"], sort=False)["simple"].nlargest(WORST)
    rows = runs.loc[worst.index.get_level_values(-1)]
    rows = rows.assign(bad=rows["problem"].map(bad).round(6))
    is_bad = rows["simple"] > rows["bad"]
    return rows[is_bad][["problem", "seed", "method", "bad"]].to_dict("records")


def optima(environment: Environment) -> Tensor:
    r"""``k x d`` points of the unit cube at which the function is best."""
    match environment:
        case Table():
            return environment.rows[int(environment.true.argmax())].unsqueeze(0)
        case Synthetic():
            found = torch.as_tensor(environment.function.optimizers, dtype=torch.float64)
            return normalize(found, environment.box)
        case _:
            raise TypeError(f"No optimum is known of {type(environment).__name__}.")


@dataclass
class Watched:
    r"""A method, and what its model says of the optimum in every round.

    Attributes:
        beyond: By how many deviations the optimum's value is above its posterior mean.
        missed: Whether the acquisition function is larger at an optimum than where the
            search for its maximum ended.
        near: Lengthscales from the point that was chosen to the best one so far.
        longest: Lengthscales of the model: median.
        noise: Fitted noise, standard deviations of the outcomes.
    """

    choose: Chooser
    function: Callable[[LeanGP], AcquisitionFunction]
    kept: dict[str, list[float]] = field(default_factory=dict)

    def __call__(self, model: LeanGP, environment: Environment, count: int) -> Tensor:
        chosen = self.choose(model, environment, count)
        best, posterior = optima(environment), model.posterior(optima(environment))
        mean, std = posterior.mean[:, 0], posterior.variance[:, 0].sqrt()
        with torch.no_grad(), torch.random.fork_rng():  # a look changes no later choice
            function = self.function(model)
            values = function(torch.cat([chosen, best]).unsqueeze(-2))
        known = model.train_inputs[0]
        recommended = known[model.posterior(known).mean.argmax()]
        lengths = model.covar_module.lengthscale.detach()[0]
        row = {
            "beyond": float(((environment.optimum - mean) / std).min()),
            "missed": float(values[1:].max() > values[0] + 1e-6 * values[0].abs()),
            "near": float(((chosen[0] - recommended) / lengths).norm()),
            "length": float(lengths.median()),
            "noise": float(model.likelihood.noise.detach().sqrt()),
        }
        for name, value in row.items():
            self.kept.setdefault(name, []).append(value)
        return chosen


@dataclass
class Changed:
    r"""A method, and after so many points another."""

    before: Chooser
    after: Chooser
    since: int
    chosen: int = 0

    def __call__(self, model: LeanGP, environment: Environment, count: int) -> Tensor:
        choose = self.before if self.chosen < self.since else self.after
        self.chosen += count
        return choose(model, environment, count)


def _other_numbers(choose: Chooser) -> Chooser:
    r"""The same with other random numbers: what chance alone rescues."""

    def chosen(model: LeanGP, environment: Environment, count: int) -> Tensor:
        torch.rand(7)
        return choose(model, environment, count)

    return chosen


def _with_effort(choose: Chooser) -> Chooser:
    r"""Ax's restarts and samples."""

    def chosen(model: LeanGP, environment: Environment, count: int) -> Tensor:
        if isinstance(environment, Synthetic):  # all rows of a table are searched anyway
            environment.task = SimpleNamespace(**(vars(environment.task) | EFFORT))
        return choose(model, environment, count)

    return chosen


def _with_fit(choose: Chooser, fit: Callable[[LeanGP], LeanGP]) -> Chooser:
    return lambda model, environment, count: choose(fit(model), environment, count)


def best_fit(model: LeanGP) -> LeanGP:
    r"""The best of fits from the priors' modes and from other lengthscales and noises."""
    objective = Objective(model)
    best = objective.point()
    for lengths, noise in ((0.25, 1.0), (0.25, 0.01), (4.0, 1.0), (1.0, 100.0)):
        factors = np.log([1.0, noise, *[lengths] * (len(best) - 2)])
        start = np.concatenate([best[:1], objective.location]) + factors
        least = [-np.inf if low is None else low for low, _ in objective.bounds]
        if objective.fit(np.maximum(start, least)):
            best = min(best, objective.point(), key=lambda point: objective(point)[0])
    objective.move(best)
    return refreshed(model)


def refreshed(model: LeanGP) -> LeanGP:
    r"""After its hyper-parameters were changed."""
    model.train()
    return model.eval()


def shorter(model: LeanGP) -> LeanGP:
    r"""Lengthscales of two thirds: a model that is less sure."""
    lengths = model.covar_module.lengthscale.detach() * (2.0 / 3.0)
    model.covar_module.initialize(lengthscale=lengths)
    return refreshed(model)


CHANGES: dict[str, Callable[[Chooser], Chooser]] = {
    "as played": lambda choose: choose,
    "other random numbers": _other_numbers,
    "Ax's effort": _with_effort,
    "best of five fits": lambda choose: _with_fit(choose, best_fit),
    "shorter lengthscales": lambda choose: _with_fit(choose, shorter),
    "qLogNEI": lambda _: maximised(log_nei)(),
    "our turns": lambda _: maximised(FUNCTIONS["mixture_ucb"])(),
    "upper bound alone": lambda _: maximised(in_turns("upper"))(),
    "a turn of the improvement": lambda _: maximised(
        in_turns("upper", "improvement", "mean")
    )(),
}


def rescued(settings: Settings) -> dict[str, Any]:
    r"""A run with a change after a share of its rounds."""
    task = SimpleNamespace(**settings)
    function, change = FUNCTIONS[task.method], CHANGES[task.change]
    watched = Watched(maximised(function)(), function)
    before = watched if task.change == "as played" else watched.choose
    choose = Changed(before, change(before), round(SINCE * task.rounds))
    starts = min(task.starts_per_dimension * task.dimension, task.most_starts)
    found = played(task, environment_of(task), starts, choose=choose)
    return found | {"watched": watched.kept}


def causes(runs: pd.DataFrame) -> dict[str, Summary]:
    r"""What the worst runs look like where they are stuck, and what rescues them."""
    final = runs["regret"].map(min)
    runs = runs.assign(final=final, share=final / runs["bad"] * BAD)
    keys = ["method", "problem", "seed"]
    shares = runs.pivot_table(index=keys, columns="change", values="share")
    played = runs[runs["change"] == "as played"].set_index(keys)
    looks = pd.DataFrame([_stuck(row) for _, row in played.iterrows()], played.index)
    looks["share"] = shares["as played"]
    return {"": _rescues(shares), "looks": Summary(looks.reset_index().round(3), None)}


def _stuck(run: pd.Series) -> dict[str, float]:
    r"""Means over the rounds after the last improvement by a tenth, at least five."""
    best = np.minimum.accumulate(run["regret"])[-run["rounds"] - 1 :]
    improved = [i for i in range(1, len(best)) if best[i] < 0.9 * best[i - 1]]
    since = min(max(improved, default=0), run["rounds"] - 5)
    kept = {name: np.array(each)[since:] for name, each in run["watched"].items()}
    return {
        "stuck for": run["rounds"] - since,
        "sure": float((kept["beyond"] > _SURE).mean()),
        "missed": float(kept["missed"].mean()),
        "near": float((kept["near"] < _NEAR).mean()),
        "length": float(np.median(kept["length"])),
        "noise": float(np.median(kept["noise"])),
    }


def _rescues(shares: pd.DataFrame) -> Summary:
    r"""Bad runs by method and problem, and how many are no longer bad with a change."""
    bad = shares[shares["as played"] > BAD]
    rows = []
    for names, part in bad.groupby(["method", "problem"], sort=False):
        row = dict(zip(("method", "problem"), names, strict=True)) | {"bad runs": len(part)}
        rows.append(row | {c: int((part[c] <= BAD).sum()) for c in [*CHANGES][1:]})
    table = pd.DataFrame(rows)
    sums = table.groupby("method", sort=False).sum(numeric_only=True).reset_index()
    table = pd.concat([table, sums.assign(problem="all")])
    cells = [[str(cell) for cell in row] for row in table.to_numpy()]
    text = (
        f"Of the {WORST} worst of 30 runs of a method on a problem those that end above "
        f"{BAD:g} of random search's mean regret, and how many of them a change after "
        f"{SINCE:.0%} of their rounds brings below it."
    )
    return Summary(table, captioned(text, [*table.columns], cells))
