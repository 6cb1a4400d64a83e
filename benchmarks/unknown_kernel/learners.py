r"""Learners with bands: one that knows the kernel, and families of kernels."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from benchmarks.runner import fixed_kernel
from benchmarks.unknown_kernel.members import Member, MemberBand
from benchmarks.unknown_kernel.problems import Problem
from kernelucb import KernelFamily, lengthscale_family


class Learner(ABC):
    r"""Chooses an arm by its index, then sees its outcome.

    Subclasses take the problem, whose ``kernel`` only the oracle may read and whose values
    none, and the options of a method.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.played: list[int] = []
        self.outcomes: list[float] = []

    def observe(self, arm: int, outcome: float) -> None:
        r"""Take in one outcome."""
        self.played.append(arm)
        self.outcomes.append(outcome)

    @abstractmethod
    def select(self) -> int:
        r"""The arm to play next."""

    @abstractmethod
    def means(self) -> Tensor:
        r"""Posterior means, under the learner's own model, at the arms played so far."""

    def recommended(self) -> int:
        r"""The played arm with the largest posterior mean."""
        return self.played[int(self.means().argmax())]


class Oracle(Learner):
    r"""The exact band of the true kernel and its norm bound."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.member = Member.of(problem.kernel, problem.norm_bound)

    def band(self) -> MemberBand:
        r"""The band of all data so far."""
        return MemberBand(self.member, self.problem, self.played, self.outcomes)

    def select(self) -> int:
        return int(self.band().upper.argmax())

    def means(self) -> Tensor:
        return self.band().mean


class Family(Learner):
    r"""The union of the bands of all members that no round has contradicted.

    Members go from the longest length scale to the shortest, and have the library's
    covering kernels, so that every length scale between the ends is covered. A member is
    checked when its band is asked for; its set holds at all rounds at once, so it may be
    checked at any of them.

    Args:
        problem: What is played.
        select: ``"simplest"`` plays the upper bound of the longest member that is left,
            ``"widest"`` that of the union, ``"alternate"`` the second in some rounds and
            the first in the others.
    """

    def __init__(self, problem: Problem, select: Any) -> None:
        super().__init__(problem)
        told, longest = problem.family, problem.family.longest
        kernel = fixed_kernel(problem.kernel_name, longest)
        family = lengthscale_family(kernel, told.shortest, longest, told.ratio)
        self.family = KernelFamily(family, select=select)
        self.members = [
            Member.of(cover.kernel, problem.norm_bound * cover.norm_factor)
            for cover in family.covering(problem.dimension)
        ]
        # Number of observations that contradicted it.
        self.eliminated = [0] * len(self.members)
        self._bands: dict[int, MemberBand] = {}

    def observe(self, arm: int, outcome: float) -> None:
        super().observe(arm, outcome)
        self._bands = {}

    def band(self, index: int) -> MemberBand:
        r"""The band of one member for all data so far, eliminated or not."""
        if index not in self._bands:
            self._bands[index] = MemberBand(
                self.members[index], self.problem, list(self.played), list(self.outcomes)
            )
        return self._bands[index]

    def is_left(self, index: int) -> bool:
        r"""Whether a member is not contradicted, by this round or an earlier one."""
        if not self.eliminated[index] and not self.band(index).consistent:
            self.eliminated[index] = len(self.played)
        return not self.eliminated[index]

    def simplest(self) -> int:
        r"""The longest member that is left; the shortest one where none is."""
        last = len(self.members) - 1
        return next((i for i in range(last + 1) if self.is_left(i)), last)

    def survivors(self) -> list[int]:
        r"""All members that are left; the shortest one where none is."""
        return [i for i in range(len(self.members)) if self.is_left(i)] or [
            len(self.members) - 1
        ]

    def upper(self) -> Tensor:
        r"""Upper bounds of the union at all arms."""
        return torch.stack([self.band(i).upper for i in self.survivors()]).amax(0)

    def lower(self) -> Tensor:
        r"""Lower bounds of the union at all arms."""
        return torch.stack([self.band(i).lower for i in self.survivors()]).amin(0)

    def select(self) -> int:
        if self.family.explores_for_all(len(self.played)):
            return int(self.upper().argmax())
        return int(self.band(self.simplest()).upper.argmax())

    def means(self) -> Tensor:
        return self.band(self.simplest()).mean
