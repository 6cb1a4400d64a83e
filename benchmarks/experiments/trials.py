r"""One Ax experiment with outcome constraints, trial by trial."""

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import process_time
from typing import Any

import numpy as np
import torch
from ax.api.client import Client
from ax.exceptions.core import AxError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.utils.sampling import manual_seed
from torch import Tensor

import kernelucb.ax
from benchmarks.experiments.configuration import ExperimentTask
from benchmarks.experiments.constraints import ConstrainedProblem, constrained_problem
from benchmarks.runner import stream
from kernelucb import MartingaleMixtureUCB
from kernelucb.ax.bounds import FittedBound, strategy_of
from kernelucb.exceptions import NoSafePointError, UncertifiedError

_DIGITS = 12  # Ax stores 15

Trial = tuple[int, dict[str, float]]
# Gives a client its strategy, and returns the trial that is open by then, if there is one.
Method = Callable[[Client, ConstrainedProblem, ExperimentTask], Trial | None]


@dataclass(frozen=True)
class Run:
    r"""True values, without noise.

    Attributes:
        objective: Of every trial.
        slack: The smallest slack of every trial; negative where it violates a constraint.
        recommended: Objective and smallest slack of the arm that is recommended in the end;
            empty where none is.
        start: Objective of the safe arm, or not a number.
        optimum: Largest objective of a feasible point.
        seconds: Processor time of the whole run.
        missed: Recipes of the problem's ``grid`` at which an outcome is outside its band.
        width: Half the median width there of the objective's band.
    """

    objective: list[float]
    slack: list[float]
    recommended: list[float]
    start: float
    optimum: float
    seconds: float
    missed: int = 0
    width: float = math.nan


def play(task: ExperimentTask) -> Run:
    r"""Play one task. It depends on nothing else that was drawn in this process."""
    own = stream(task.protocol.seed, "own", task.problem_name, task.seed)
    with (
        manual_seed(int(own.integers(2**31))),
        warnings.catch_warnings(),
        _without_logs(),
    ):
        warnings.simplefilter("ignore")  # Ax's deprecations, BoTorch's restarts
        return _play(task)


@contextmanager
def _without_logs() -> Iterator[None]:
    r"""Ax says every trial aloud, through loggers with levels of their own."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _play(task: ExperimentTask) -> Run:
    begin, problem = process_time(), constrained_problem(task)
    client = _client(problem, task)
    trial = METHODS[task.method](client, problem, task)
    random = stream(task.protocol.seed, "noise", task.problem_name, task.seed)
    noise = np.array(problem.noise_std) * random.standard_normal(
        (task.trials, len(problem.names))
    )
    played = []
    for row in noise:
        try:
            index, parameters = trial or next(iter(client.get_next_trials(1).items()))
        except UncertifiedError:  # the data contradict the band: no trial is known safe
            break
        point = problem.point(parameters)
        played.append(point)
        trial = None
        observed = (problem.outcomes(point)[0] + torch.from_numpy(row)).tolist()
        columns = zip(problem.names, observed, problem.noise_std, strict=True)
        client.complete_trial(
            index,
            raw_data={name: (round(y, _DIGITS), noise) for name, y, noise in columns},
        )
    best = _recommended(client, problem, task)
    run = _run(problem, torch.cat(played), best, begin)
    if task.method == "Ax" or not problem.grid:
        return run
    return replace(run, **_bands(client, problem))


def _bands(client: Client, problem: ConstrainedProblem) -> dict[str, Any]:
    r"""How many recipes the bands miss, and how wide that of the objective is."""
    strategy = strategy_of(client)
    fitted = FittedBound(strategy, strategy.experiment)
    X = fitted.inputs(problem.grid)
    truth = problem.outcomes(torch.cat([problem.point(each) for each in problem.grid]))
    missed, width = torch.zeros(len(X), dtype=torch.bool), math.nan
    for i, name in enumerate(problem.names):
        lower, upper = fitted.bands[name].bounds(X)
        missed |= (truth[:, i] < lower) | (truth[:, i] > upper)
        if i == 0:
            width = float((upper - lower).median()) / 2.0
    return {"missed": int(missed.sum()), "width": width}


def _run(problem: ConstrainedProblem, played: Tensor, best: Tensor | None, begin: float):
    start = math.nan
    if problem.start is not None:
        start = float(problem.objective(problem.start[None]))
    recommended = []
    if best is not None:
        slack = problem.slacks(best).amin(-1)
        recommended = [float(problem.objective(best)), float(slack)]
    return Run(
        problem.objective(played).tolist(),
        problem.slacks(played).amin(-1).tolist(),
        recommended,
        start,
        problem.optimum,
        process_time() - begin,
    )


def _client(problem: ConstrainedProblem, task: ExperimentTask) -> Client:
    client = Client(random_seed=task.seed)
    client.configure_experiment(parameters=problem.parameters)
    client.configure_optimization(
        objective=problem.names[0], outcome_constraints=problem.constraints
    )
    return client


def _recommended(
    client: Client, problem: ConstrainedProblem, task: ExperimentTask
) -> Tensor | None:
    r"""The arm that the method recommends in the end; None if it has none."""
    try:
        if task.method == "Ax":
            return problem.point(client.get_best_parameterization()[0])
        return problem.point(kernelucb.ax.recommended_arm(client).parameters)
    except (NoSafePointError, AxError, ValueError):  # Ax's, where nothing is feasible
        return None


def _parameters(point: Tensor) -> dict[str, float]:
    return {f"x{i}": value for i, value in enumerate(point.tolist())}


def _ordinary(
    client: Client, problem: ConstrainedProblem, task: ExperimentTask
) -> Trial | None:
    r"""Ax's own strategy; it is told of the safe arm by a first trial there."""
    client.configure_generation_strategy(initialization_random_seed=task.seed)
    if problem.start is None or not task.is_safe:
        return None
    arm = _parameters(problem.start)
    return client.attach_trial(dict(arm)), arm


def _bounded(**arguments: Any) -> Method:
    r"""A strategy of this package; what is known of a problem is given to it."""

    def configure(
        client: Client, problem: ConstrainedProblem, task: ExperimentTask
    ) -> None:
        client.set_generation_strategy(_strategy(problem, task, **arguments))

    return configure


def _strategy(
    problem: ConstrainedProblem, task: ExperimentTask, **arguments: Any
) -> GenerationStrategy:
    protocol = task.protocol
    given = problem.given if arguments.pop("is_given", True) else {}
    options: dict[str, Any] = {"delta": task.delta, **given}
    if arguments["constraints"] == "safe" and problem.start is not None:
        arguments |= {"safe_arms": [_parameters(problem.start)], "num_initial": 1}
    if not arguments.pop("is_thorough", False):
        arguments["optimizer_options"] = {
            "num_restarts": protocol.restarts,
            "raw_samples": protocol.raw_samples,
            "options": {"maxiter": protocol.iterations},
        }
    return kernelucb.ax.generation_strategy(
        MartingaleMixtureUCB, options, seed=task.seed, **arguments
    )


_SEARCH = {
    "search": "qLogNoisyExpectedImprovement",
    "search_options": {"ucb_every": 4},
}
METHODS: dict[str, Method] = {
    "safe": _bounded(constraints="safe"),
    "safe, wider every 3rd": _bounded(constraints="safe", expand_every=3),
    "explored": _bounded(constraints="explored"),
    "explored, qLogNEI": _bounded(constraints="explored", **_SEARCH),
    "certified": _bounded(constraints="explored", search=_SEARCH["search"]),
    "certified, upper bound every 4th": _bounded(constraints="explored", **_SEARCH),
    "estimated": _bounded(constraints="explored", search=_SEARCH["search"], is_given=False),
    "certified, Ax's optimiser": _bounded(
        constraints="explored", search=_SEARCH["search"], is_thorough=True
    ),
    "estimated, Ax's optimiser": _bounded(
        constraints="explored",
        search=_SEARCH["search"],
        is_given=False,
        is_thorough=True,
    ),
    "Ax": _ordinary,
}
