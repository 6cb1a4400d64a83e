r"""Bands of kernels on a finite set of arms, from the library's family of kernels."""

from dataclasses import dataclass
from functools import cached_property

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.unknown_kernel.problems import Problem
from kernelucb.confidence.base import ConfidenceSet
from kernelucb.confidence.family.data import Appraisal, NoisyData
from kernelucb.regression import KernelRegression
from kernelucb.regression.from_model import ModelData
from kernelucb.regression.prior import Prior


@dataclass(frozen=True)
class Member:
    r"""A kernel and a norm bound under it."""

    prior: Prior
    norm_bound: float

    @classmethod
    def of(cls, kernel: Kernel, norm_bound: float) -> "Member":
        r"""From a kernel without a mean."""
        return cls(Prior(kernel, None), norm_bound)


class MemberBand:
    r"""The exact band of a member for some data, computed as far as it is asked for.

    Args:
        member: Kernel and norm bound.
        problem: Arms, noise scale, delta.
        played: Indices of the arms played so far.
        outcomes: What was observed there.
    """

    def __init__(
        self, member: Member, problem: Problem, played: list[int], outcomes: list[float]
    ) -> None:
        self.member, self.problem = member, problem
        self.played, self.outcomes = played, outcomes

    @cached_property
    def _data(self) -> NoisyData:
        r"""The data as ``KernelFamilyUCB`` has them, without further arguments."""
        outcomes = torch.tensor(self.outcomes, dtype=torch.float64)
        data = ModelData(
            self.member.prior,
            self.problem.arms[self.played],
            outcomes,
            torch.full_like(outcomes, self.problem.noise_std),
            self.problem.dimension,
            frozenset(),
        )
        return NoisyData(data, "filters", self.problem.delta)

    @cached_property
    def regression(self) -> KernelRegression:
        r"""The data, decomposed."""
        return self._data.state(self.member.prior, frozenset())

    @property
    def consistent(self) -> bool:
        r"""Whether a function of at most the norm bound is in the set."""
        return self._appraised.least_norm <= self.member.norm_bound

    @cached_property
    def upper(self) -> Tensor:
        r"""Upper bounds at all arms."""
        return self._points.baseline + self._set.support(self._points, 1).value

    @cached_property
    def lower(self) -> Tensor:
        r"""Lower bounds at all arms."""
        return self._points.baseline - self._set.support(self._points, -1).value

    @cached_property
    def mean(self) -> Tensor:
        r"""Posterior mean of a Gaussian process with this kernel at the played arms."""
        return self.regression.mean(self.problem.arms[self.played])

    @cached_property
    def _appraised(self) -> Appraisal:
        return self._data.appraised(self.regression, self.member.norm_bound)

    @cached_property
    def _set(self) -> ConfidenceSet:
        return self._appraised.confidence_set()[0]

    @cached_property
    def _points(self):
        return self._set.project(self.problem.arms)
