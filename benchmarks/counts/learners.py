r"""Bands of a success probability on fixed candidates, which learn outcome by outcome."""

import math
from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from benchmarks.counts.configuration import RegretTask
from benchmarks.counts.exact_set import Basis, ExactSet, penalised
from benchmarks.counts.problems import Problem, grid
from benchmarks.counts.rivals import GaussianBand, losses_of
from benchmarks.counts.variational import VariationalBand

_INDUCING = 25  # points of a grid
_GAP = 1e-2  # of log odds, by which the convex set may be computed too large
Interval = tuple[Tensor, Tensor]


class Learner(ABC):
    r"""Chooses by an interval for the probability of every candidate.

    Args:
        candidates: ``m x d``, the same in every round.
    """

    is_random = False

    def __init__(self, task: RegretTask, problem: Problem, candidates: Tensor) -> None:
        self.task, self.problem, self.candidates = task, problem, candidates

    @abstractmethod
    def bounds(self, arms: list[int], Y: Tensor) -> Interval:
        r"""After the outcomes ``Y`` of these candidates."""


class Ours(Learner):
    r"""``LikelihoodUCB``."""

    def bounds(self, arms: list[int], Y: Tensor) -> Interval:
        return self.problem.band(self.candidates[arms], Y).bounds(self.candidates)


class Random(Ours):
    r"""Uniform choices; the band recommends in the end."""

    is_random = True


class Gaussian(Learner):
    r"""A sub-Gaussian band on outcomes 0 and 1."""

    def __init__(self, task: RegretTask, problem: Problem, candidates: Tensor) -> None:
        super().__init__(task, problem, candidates)
        self.band = GaussianBand(problem, task.misfit)

    def bounds(self, arms: list[int], Y: Tensor) -> Interval:
        return self.band.bounds(self.candidates[arms], Y, self.candidates)


class Running(Learner):
    r"""The convex set of running estimators; lower ends after the last round only."""

    def __init__(self, task: RegretTask, problem: Problem, candidates: Tensor) -> None:
        super().__init__(task, problem, candidates)
        self.basis = Basis(problem.kernel, candidates[:0], candidates)
        self.estimate = np.zeros(self.basis.queries.shape[1])
        self.limit = math.log(1.0 / problem.delta)

    def bounds(self, arms: list[int], Y: Tensor) -> Interval:
        setting, losses = self.problem.setting, losses_of(self.problem, Y)
        mean, last = setting.mean, slice(len(arms) - 1, len(arms))
        self.basis.rows = rows = self.basis.queries[arms]
        self.limit += float(losses.part(last)(mean + rows[last] @ self.estimate)[0].sum())
        self.estimate = penalised(rows, losses, mean, self.task.penalty, self.estimate)
        exact = ExactSet(self.basis, losses, mean, setting.norm_bound, self.limit, _GAP)
        upper = torch.from_numpy(exact.ends(1.0) + _GAP).sigmoid()
        if len(arms) < self.task.rounds:
            return torch.zeros_like(upper), upper
        return torch.from_numpy(exact.ends(-1.0) - _GAP).sigmoid(), upper


class Variational(Learner):
    r"""Two standard deviations of BoTorch's variational model."""

    def __init__(self, task: RegretTask, problem: Problem, candidates: Tensor) -> None:
        super().__init__(task, problem, candidates)
        inducing = grid(_INDUCING, task.setting.dimension)
        self.band = VariationalBand(inducing, task.variational_iterations)

    def bounds(self, arms: list[int], Y: Tensor) -> Interval:
        self.band.fit(self.candidates[arms], Y)
        return self.band.bounds(self.candidates)


LEARNERS: dict[str, type[Learner]] = {
    "LikelihoodUCB": Ours,
    "Gaussian band": Gaussian,
    "running estimators": Running,
    "variational GP": Variational,
    "random": Random,
}
