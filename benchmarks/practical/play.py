r"""One run: a method plays a problem."""

import math
import warnings
from collections.abc import Callable
from time import process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from botorch.utils.sampling import manual_seed
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor

from benchmarks.practical.fitting import fitted_model, hyperparameters
from benchmarks.practical.learners import METHODS, Chooser
from benchmarks.practical.model import LeanGP
from benchmarks.practical.problems import Environment, environment_of
from benchmarks.runner import stream


class _History:
    r"""What has been evaluated."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.points: list[Tensor] = []
        self.outcomes: list[float] = []
        self.regret: list[float] = []

    def evaluate(self, point: Tensor) -> None:
        self.points.append(point)
        self.outcomes.append(self.environment.observe(point))
        value = self.environment.value(point)
        self.regret.append(self.environment.optimum - value)

    def data(self) -> tuple[Tensor, Tensor]:
        return torch.stack(self.points), torch.tensor(self.outcomes, dtype=torch.float64)

    def recommended(self, model: LeanGP) -> float:
        mean = model.posterior(model.train_inputs[0]).mean
        return self.regret[int(mean.argmax())]


class _Search:
    r"""Choosing points, and what went wrong with it."""

    def __init__(self, choose: Chooser, environment: Environment) -> None:
        self.choose, self.environment = choose, environment
        self.failed = self.repeated = 0
        self.seconds = 0.0

    def next_points(self, model: LeanGP, count: int) -> Tensor:
        start = process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                points = self.choose(model, self.environment, count)
            except (NanError, NotPSDError, torch.linalg.LinAlgError):  # pyright: ignore
                random = [self.environment.random_point() for _ in range(count)]
                points = torch.stack(random)
                self.failed += 1
        # Subclasses, such as the warning of a jitter, are not about the search.
        self.repeated += any(warning.category is RuntimeWarning for warning in caught)
        self.seconds += process_time() - start
        return points


def play(settings: dict[str, Any]) -> dict[str, Any]:
    r"""One run. It depends on nothing else that was drawn in this process.

    Returns:
        Regret is the optimum minus the true value. ``regret``: of every evaluation, random
        starts first. ``recommended``: of the evaluated point with the largest posterior
        mean, after the random starts and after every evaluation; within a batch it is that
        before the batch. ``failed_fits``: batches in which the hyper-parameters of the
        round before were taken. ``failed_searches``: batches of random points in place of
        a search. ``repeated_searches``: batches in which BoTorch began the search anew by
        itself. ``fit_seconds``, ``search_seconds``: processor time.
    """
    task = SimpleNamespace(**settings)
    starts = min(task.starts_per_dimension * task.dimension, task.most_starts)
    return played(task, environment_of(task), starts)


def played(
    task: SimpleNamespace,
    environment: Environment,
    starts: int,
    refit: Callable[[int], bool] = lambda _: True,
    until: float = -math.inf,
    choose: Chooser | None = None,
) -> dict[str, Any]:
    r"""The same in an environment, with the number of random starts.

    Args:
        refit: Whether the hyper-parameters are refitted after so many points chosen.
        until: The run ends early where regret is no larger.
        choose: What chooses the points; by default the method of the task.
    """
    own = stream(task.seed, "own", task.problem, task.method)
    (_, make), left = METHODS[task.method], task.rounds
    history, search = _History(environment), _Search(choose or make(), environment)
    recommended, failed_fits, fit_seconds, previous = [], 0, 0.0, None
    with manual_seed(int(own.integers(2**31))):
        for _ in range(starts):
            history.evaluate(environment.random_point())
        while True:
            start = process_time()
            chosen = task.rounds - left
            model, failed = fitted_model(*history.data(), previous, refit(chosen))
            fit_seconds += process_time() - start
            failed_fits += failed
            previous = hyperparameters(model)
            recommended.append(history.recommended(model))
            if not left or min(history.regret) <= until:
                break
            count = min(task.batch, left)
            for point in search.next_points(model, count):
                history.evaluate(point)
            recommended += recommended[-1:] * (count - 1)
            left -= count
    if not np.all(np.isfinite(history.regret)):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    return {
        "regret": history.regret,
        "recommended": recommended,
        "failed_fits": failed_fits,
        "failed_searches": search.failed,
        "repeated_searches": search.repeated,
        "fit_seconds": fit_seconds,
        "search_seconds": search.seconds,
    }
