r"""One Ax experiment with outcome constraints, trial by trial."""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from ax.api.client import Client
from ax.exceptions.core import AxError
from torch import Tensor

import kernelucb.ax
from benchmarks.experiments.problems import ConstrainedProblem, constrained_problem
from benchmarks.runner import quiet, seeded, stream
from kernelucb import MartingaleMixtureUCB
from kernelucb.ax.bounds import FittedBound, strategy_of
from kernelucb.exceptions import NoSafePointError, UncertifiedError

_DIGITS = 12  # Ax stores 15

_SEARCH = {"constraints": "explored", "search": "qLogNoisyExpectedImprovement"}
_MIXED = _SEARCH | {"search_options": {"ucb_every": 4}}
# Options of ``generation_strategy``. ``is_given``: the bound rests on what is known of the
# problem; ``is_thorough``: with Ax's own restarts and steps.
_METHODS: dict[str, dict[str, Any]] = {
    "safe": {"constraints": "safe"},
    "safe, wider every 3rd": {"constraints": "safe", "expand_every": 3},
    "explored": {"constraints": "explored"},
    "explored, qLogNEI": _MIXED,
    "certified": _SEARCH,
    "estimated": _SEARCH | {"is_given": False},
    "certified, Ax's optimiser": _SEARCH | {"is_thorough": True},
    "estimated, Ax's optimiser": _SEARCH | {"is_given": False, "is_thorough": True},
}


def play_experiment(settings: dict[str, Any]) -> dict[str, Any]:
    r"""One Ax experiment. It depends on nothing else that was drawn in this process.

    Returns:
        True values, without noise. ``objective`` and ``slack`` (the smallest; negative
        where it violates a constraint) of every trial; ``recommended``: both of the arm
        that is recommended in the end, empty where none is. ``first``: objective of the
        safe arm, or not a number. ``optimum``: largest objective of a feasible point.
        ``missed``: recipes of the problem's grid at which an outcome is outside its band;
        ``width``: half the median width there of the objective's band. ``seconds``: of
        processor time.
    """
    task = SimpleNamespace(**settings)
    names = "own", task.problem, task.seed
    with seeded(task.stream, *names), quiet(), _without_logs():
        return _play(task)  # deprecations of Ax's and restarts of BoTorch's warn


@contextmanager
def _without_logs() -> Iterator[None]:
    r"""Ax says every trial aloud, through loggers with levels of their own."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _play(task: SimpleNamespace) -> dict[str, Any]:
    begin, problem = process_time(), constrained_problem(task)
    client = Client(random_seed=task.seed)
    client.configure_experiment(parameters=problem.parameters)
    client.configure_optimization(
        objective=problem.names[0], outcome_constraints=problem.constraints
    )
    trial = _begun(client, problem, task)
    random = stream(task.stream, "noise", task.problem, task.seed)
    noise = random.standard_normal((task.trials, len(problem.names)))
    points = []
    for row in np.array(problem.noise_std) * noise:
        try:
            index, parameters = trial or next(iter(client.get_next_trials(1).items()))
        except UncertifiedError:  # the data contradict the band: no trial is known safe
            break
        point, trial = problem.point(parameters), None
        points.append(point)
        observed = (problem.outcomes(point)[0] + torch.from_numpy(row)).tolist()
        columns = zip(problem.names, observed, problem.noise_std, strict=True)
        data = {name: (round(y, _DIGITS), noise_std) for name, y, noise_std in columns}
        client.complete_trial(index, raw_data=data)
    best, start = _recommended(client, problem, task), problem.start
    played, recommended = torch.cat(points), []
    if best is not None:
        values = problem.objective(best), problem.slacks(best).amin(-1)
        recommended = [float(value) for value in values]
    return {
        "objective": problem.objective(played).tolist(),
        "slack": problem.slacks(played).amin(-1).tolist(),
        "recommended": recommended,
        "first": math.nan if start is None else float(problem.objective(start[None])),
        "optimum": problem.optimum,
        "seconds": process_time() - begin,
        **_bands(client, problem, task),
    }


def _bands(client: Client, problem: ConstrainedProblem, task: SimpleNamespace) -> dict:
    r"""How many recipes the bands miss, and how wide the objective's band is."""
    if task.method == "Ax" or not problem.grid:
        return {"missed": 0, "width": math.nan}
    strategy = strategy_of(client)
    fitted = FittedBound(strategy, strategy.experiment)
    X = fitted.inputs(problem.grid)
    truth = problem.outcomes(torch.cat([problem.point(each) for each in problem.grid]))
    sides = [fitted.bands[name].bounds(X) for name in problem.names]
    lower, upper = (torch.stack(each, -1) for each in zip(*sides, strict=True))
    missed = ((truth < lower) | (truth > upper)).any(-1)
    width = float((upper - lower)[:, 0].median()) / 2.0
    return {"missed": int(missed.sum()), "width": width}


def _recommended(
    client: Client, problem: ConstrainedProblem, task: SimpleNamespace
) -> Tensor | None:
    r"""The arm that the method recommends in the end; None if it has none."""
    try:
        if task.method == "Ax":
            return problem.point(client.get_best_parameterization()[0])
        return problem.point(kernelucb.ax.recommended_arm(client).parameters)
    except (NoSafePointError, AxError, ValueError):  # Ax's, where nothing is feasible
        return None


def _begun(
    client: Client, problem: ConstrainedProblem, task: SimpleNamespace
) -> tuple[int, dict[str, float]] | None:
    r"""Give the client its strategy; the trial that is open by then, if there is one.

    Ax's own strategy is told of the safe arm by a first trial there.
    """
    arm = {}
    if problem.start is not None:
        arm = {f"x{i}": value for i, value in enumerate(problem.start.tolist())}
    if task.method == "Ax":
        client.configure_generation_strategy(initialization_random_seed=task.seed)
        return (client.attach_trial(dict(arm)), arm) if arm and task.is_safe else None
    arguments = dict(_METHODS[task.method])
    given = problem.given if arguments.pop("is_given", True) else {}
    if arguments["constraints"] == "safe" and arm:
        arguments |= {"safe_arms": [arm], "num_initial": 1}
    if not arguments.pop("is_thorough", False):
        search = {"num_restarts": task.restarts, "raw_samples": task.raw_samples}
        search |= {"options": {"maxiter": task.iterations}}
        arguments["optimizer_options"] = search
    options = {"delta": task.delta, **given}
    strategy = kernelucb.ax.generation_strategy(
        MartingaleMixtureUCB, options, seed=task.seed, **arguments
    )
    client.set_generation_strategy(strategy)
    return None
