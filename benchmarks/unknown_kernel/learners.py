r"""Learners on finitely many arms: with bands, and BoTorch's model refitted."""

from abc import ABC, abstractmethod
from functools import cached_property

import torch
from botorch import acquisition
from botorch.acquisition import AcquisitionFunction
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.practical.fitting import fitted_model, hyperparameters
from benchmarks.practical.model import LeanGP
from benchmarks.unknown_kernel.problems import Problem, family_of
from kernelucb import Filters, KernelFamily, MartingaleMixtureUCB
from kernelucb.confidence.family.data import tied_scale
from kernelucb.regression import KernelRegression


class Learner(ABC):
    r"""Chooses an arm by its index, then sees its outcome.

    Subclasses take the problem, whose ``kernel`` only the oracle may read and whose values
    none.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.task = problem, problem.task
        self.played: list[int] = []
        self.outcomes: list[float] = []

    def observe(self, arm: int, outcome: float) -> None:
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


class MemberBand:
    r"""The band of a kernel for a learner's data so far; sides computed when asked for."""

    def __init__(self, kernel: Kernel, norm_bound: float, learner: Learner) -> None:
        self.arms, task = learner.problem.arms, learner.task
        self._inputs = self.arms[learner.played]
        outcomes = torch.tensor(learner.outcomes, dtype=torch.float64)
        self._state = KernelRegression(self._inputs, outcomes, kernel, task.noise_std)
        fit = Filters(tied_scale(norm_bound))  # as of ``KernelFamilyUCB``
        self._acqf = MartingaleMixtureUCB(
            self._state, norm_bound=norm_bound, delta=task.delta, fit=fit
        )
        # Whether a function of at most the norm bound is in the set.
        self.consistent = self._acqf.least_consistent_norm <= norm_bound

    @cached_property
    def upper(self) -> Tensor:
        return self._acqf(self.arms[:, None])

    @cached_property
    def lower(self) -> Tensor:
        return self._acqf.bounds(self.arms)[0]

    @cached_property
    def mean(self) -> Tensor:
        r"""Posterior mean of a Gaussian process with this kernel at the played arms."""
        return self._state.mean(self._inputs)


class Oracle(Learner):
    r"""The exact band of the true kernel and its norm bound."""

    def band(self) -> MemberBand:
        return MemberBand(self.problem.kernel, self.problem.norm_bound, self)

    def select(self) -> int:
        return int(self.band().upper.argmax())

    def means(self) -> Tensor:
        return self.band().mean


class Family(Learner):
    r"""The union of the bands of all members that no round has contradicted.

    Members go from the longest length scale to the shortest, and have the library's
    covering kernels, so that every length scale between the ends is covered. A member is
    checked when its band is asked for; its set holds at all rounds at once, so it may be
    checked at any of them. The task's ``select`` is ``KernelFamily``'s.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        family = family_of(self.task)
        self.family = KernelFamily(family, select=self.task.select)
        self.members = [
            (cover.kernel, problem.norm_bound * cover.norm_factor)
            for cover in family.covering(self.task.dimension)
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
            self._bands[index] = MemberBand(*self.members[index], self)
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
        every = range(len(self.members))
        return [i for i in every if self.is_left(i)] or [every[-1]]

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


class Refitted(Learner):
    r"""What people use today: BoTorch's default model, refitted in every round.

    The task's ``rule`` is ``"FittedMixture"``, ``"UpperConfidenceBound"``, whose beta is
    the ``option``, or ``"LogNoisyExpectedImprovement"``, whose number of samples it is.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._previous = None

    def _model(self) -> LeanGP:
        outcomes = torch.tensor(self.outcomes, dtype=torch.float64)
        inputs = self.problem.arms[self.played]
        model, _ = fitted_model(inputs, outcomes, self._previous)
        self._previous = hyperparameters(model)
        return model

    def _acquisition(self, model: LeanGP) -> AcquisitionFunction:
        if self.task.rule == "FittedMixture":
            return MartingaleMixtureUCB(model)
        if self.task.rule == "UpperConfidenceBound":
            return acquisition.UpperConfidenceBound(model, self.task.option)
        sampler = SobolQMCNormalSampler(torch.Size([self.task.option]))
        return acquisition.qLogNoisyExpectedImprovement(
            model, model.train_inputs[0], sampler, prune_baseline=True
        )

    @torch.no_grad()
    def select(self) -> int:
        # The fit needs gradients, and asks for them itself.
        values = self._acquisition(self._model())(self.problem.arms[:, None])
        return int(values.argmax())

    def means(self) -> Tensor:
        model = self._model()
        return model.posterior(model.train_inputs[0]).mean.detach().squeeze(-1)
