r"""What a method is: an object for each run, which may carry state along."""

from abc import ABC, abstractmethod

from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from benchmarks.practical.model import LeanGP
from benchmarks.practical.problems import DEFAULT_SEARCH, Environment, Search


class Learner(ABC):
    r"""Chooses the maximiser of an acquisition function on the model of each round.

    Attributes:
        search: How the acquisition function is maximised.
    """

    search: Search = DEFAULT_SEARCH

    def select(self, model: LeanGP, environment: Environment, count: int) -> Tensor:
        r"""The points to evaluate next, ``count x d``."""
        return environment.maximize(self.acquisition(model), count, self.search)

    @abstractmethod
    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        r"""The acquisition function on the model of all observations so far.

        Called once a round, in the order of the rounds; for more points at once it needs
        ``set_X_pending``, or all of them together with the option ``joint``.
        """
