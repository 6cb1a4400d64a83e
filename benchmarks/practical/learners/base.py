r"""What a method is: an object for each run, which may carry state along."""

from abc import ABC, abstractmethod
from typing import ClassVar

from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from benchmarks.practical.model import LeanGP
from benchmarks.practical.problems import DEFAULT_SEARCH, Environment, Search


class Learner(ABC):
    r"""Chooses the maximiser of an acquisition function on the model of each round.

    Subclasses take the options of a method as arguments of ``__init__``.

    Attributes:
        rules: All of them by name, for ``rule`` in ``config.toml``.
        search: How the acquisition function is maximised.
    """

    rules: ClassVar[dict[str, type["Learner"]]] = {}
    search: Search = DEFAULT_SEARCH

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.rules[cls.__name__] = cls

    def select(self, model: LeanGP, environment: Environment, count: int) -> Tensor:
        r"""The points to evaluate next, ``count x d``."""
        return environment.maximize(self.acquisition(model), count, self.search)

    @abstractmethod
    def acquisition(self, model: LeanGP) -> AcquisitionFunction:
        r"""The acquisition function on the model of all observations so far.

        Called once a round, in the order of the rounds; for more points at once it needs
        ``set_X_pending``, or all of them together with the option ``joint``.
        """
