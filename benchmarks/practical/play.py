r"""One run: a method plays a problem."""

import warnings
from dataclasses import dataclass
from time import process_time

import numpy as np
import torch
from botorch.utils.sampling import manual_seed
from linear_operator.utils.errors import NanError, NotPSDError
from torch import Tensor

from benchmarks.practical.configuration import Task
from benchmarks.practical.fitting import fitted_model, hyperparameters
from benchmarks.practical.learners import Learner, make_learner
from benchmarks.practical.model import LeanGP
from benchmarks.practical.problems import Environment, environment_of
from benchmarks.runner import stream


@dataclass(frozen=True)
class Run:
    r"""Result of a task. Regret is the optimum minus the true value.

    Attributes:
        regret: Of every evaluation, random starts first.
        recommended: Of the evaluated point with the largest posterior mean, after the
            random starts and after every evaluation; within a batch it is that before the
            batch.
        failed_fits: Batches in which the hyper-parameters of the round before were taken.
        failed_searches: Batches of random points in place of a search.
        repeated_searches: Batches in which BoTorch began the search anew by itself.
        fit_seconds: Processor time of all fits.
        search_seconds: Processor time of choosing all points.
    """

    regret: list[float]
    recommended: list[float]
    failed_fits: int
    failed_searches: int
    repeated_searches: int
    fit_seconds: float
    search_seconds: float


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

    def __init__(self, learner: Learner, environment: Environment) -> None:
        self.learner, self.environment = learner, environment
        self.failed = self.repeated = 0
        self.seconds = 0.0

    def next_points(self, model: LeanGP, count: int) -> Tensor:
        start = process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                points = self.learner.select(model, self.environment, count)
            except (NanError, NotPSDError, torch.linalg.LinAlgError):  # pyright: ignore
                random = [self.environment.random_point() for _ in range(count)]
                points = torch.stack(random)
                self.failed += 1
        # Subclasses, such as the warning of a jitter, are not about the search.
        self.repeated += any(warning.category is RuntimeWarning for warning in caught)
        self.seconds += process_time() - start
        return points


def play(task: Task) -> Run:
    r"""Play one task. It depends on nothing else that was drawn in this process."""
    own = stream(task.seed, "own", task.problem.name, task.method.name)
    with manual_seed(int(own.integers(2**31))):
        return _play(task)


def _play(task: Task) -> Run:
    environment, learner = environment_of(task), make_learner(task)
    history, search = _History(environment), _Search(learner, environment)
    for _ in range(task.starts):
        history.evaluate(environment.random_point())
    recommended, failed_fits, fit_seconds, previous = [], 0, 0.0, None
    left = task.problem.rounds
    while True:
        start = process_time()
        model, failed = fitted_model(*history.data(), previous)
        fit_seconds += process_time() - start
        failed_fits += failed
        previous = hyperparameters(model)
        recommended.append(history.recommended(model))
        if not left:
            break
        count = min(task.problem.batch, left)
        for point in search.next_points(model, count):
            history.evaluate(point)
        recommended += recommended[-1:] * (count - 1)
        left -= count
    if not np.all(np.isfinite(history.regret)):
        raise ArithmeticError(f"Regret that is not a number in {task}.")
    return Run(
        history.regret,
        recommended,
        failed_fits,
        search.failed,
        search.repeated,
        fit_seconds,
        search.seconds,
    )
