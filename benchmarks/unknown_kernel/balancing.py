r"""Rivals with a regret theorem for a length scale that is not known."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.runner import fixed_kernel
from benchmarks.unknown_kernel.learners import Learner
from benchmarks.unknown_kernel.problems import Problem


class Posterior(NamedTuple):
    r"""A Gaussian process at all arms.

    Attributes:
        mean: At all arms.
        deviation: At all arms.
        information: Half the log-determinant of ``I + K / noise variance``.
    """

    mean: Tensor
    deviation: Tensor
    information: float


class _GPUCB(Learner):
    r"""GP-UCB (Chowdhury & Gopalan 2017, Theorem 2) at a length scale of each round.

    With the information gain of the data in place of its maximum, as Ziomek et al. (2024)
    have it, and the norm bound ``(longest / length)^(d/2) B`` of both rivals.
    """

    lengthscale: float  # of this round

    def __init__(self, problem: Problem, failure: float) -> None:
        super().__init__(problem)
        self.failure = failure
        self._kernels: dict[float, Tensor] = {}

    def norm_bound(self, lengthscale: float) -> float:
        r"""That holds under a shorter length scale than the longest one."""
        longer = self.task.longest / lengthscale
        return self.problem.norm_bound * longer ** (self.task.dimension / 2)

    def posterior(self, lengthscale: float) -> Posterior:
        r"""At all arms, for all data so far."""
        if lengthscale not in self._kernels:
            kernel = fixed_kernel(self.task.kernel, lengthscale)
            self._kernels[lengthscale] = kernel(self.problem.arms).to_dense()
        table, variance = self._kernels[lengthscale], self.task.noise_std**2
        columns = table[:, self.played]
        gram = columns[self.played].clone()
        gram.diagonal().add_(variance)
        factor = torch.linalg.cholesky(gram)
        outcomes = torch.tensor(self.outcomes, dtype=torch.float64)
        whitened = torch.linalg.solve_triangular(factor, columns.mT, upper=False)
        targets = torch.linalg.solve_triangular(factor, outcomes[:, None], upper=False)
        deviation = (1.0 - whitened.square().sum(0)).clamp_min(0.0).sqrt()
        half = float(factor.diagonal().log().sum())
        information = half - 0.5 * len(outcomes) * math.log(variance)
        return Posterior((whitened.mT @ targets)[:, 0], deviation, information)

    def upper(self, lengthscale: float) -> tuple[Tensor, Tensor]:
        r"""Upper bounds at all arms, and the widths above the means."""
        posterior = self.posterior(lengthscale)
        inside = posterior.information + 1.0 + math.log(1.0 / self.failure)
        factor = self.norm_bound(lengthscale) + self.task.noise_std * math.sqrt(2 * inside)
        widths = factor * posterior.deviation
        return posterior.mean + widths, widths

    def means(self) -> Tensor:
        return self.posterior(self.lengthscale).mean[self.played]


class ShrinkingLengthscale(_GPUCB):
    r"""A-GP-UCB (Berkenkamp, Schoellig & Krause 2019).

    The length scale is ``longest / g(t)``, not below the shortest one, with
    ``g(t) = t^exponent``, and the norm bound grows with it.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem, problem.task.delta)
        self.number = 0

    @property
    def lengthscale(self) -> float:
        growth = max(self.number, 1) ** self.task.exponent
        return max(self.task.shortest, self.task.longest / growth)

    def select(self) -> int:
        self.number += 1
        return int(self.upper(self.lengthscale)[0].argmax())


@dataclass(eq=False)
class _Base:
    r"""One of the learners that are balanced: its rounds' outcomes and widths."""

    lengthscale: float
    outcomes: list[float]
    widths: list[float]

    @property
    def rounds(self) -> int:
        return len(self.outcomes)


class LengthscaleBalancing(_GPUCB):
    r"""LB-GP-UCB (Ziomek, Adachi & Osborne 2024, Algorithm 1).

    Candidates ``longest e^(-i/d)`` down to the shortest one, which is known here, all from
    the first round on. The one with the least suspected regret
    ``sqrt(T gamma_T) (B + sqrt(gamma_T))`` over its own rounds is played, with ``gamma_T``
    as in Proposition 2.2. It is dropped as in the proof of Lemma B.2, which adds the noise
    term to the left side of the test; Algorithm 1 as printed subtracts it there.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem, problem.task.delta / 2)
        whole, step = self.task.longest / self.task.shortest, 1.0 / self.task.dimension
        count = math.ceil(math.log(whole) / step - 1e-9)
        lengths = [self.task.longest * math.exp(-i * step) for i in range(count)]
        lengths.append(self.task.shortest)
        self.candidates = [_Base(length, [], []) for length in lengths]
        self._dropped: list[_Base] = []
        self._next: tuple[_Base, float] | None = None

    @property
    def left(self) -> list[_Base]:
        return [base for base in self.candidates if base not in self._dropped]

    def suspected_regret(self, base: _Base) -> float:
        r"""After one more round of its own, up to a constant."""
        rounds, d = base.rounds + 1, self.task.dimension
        log_rounds = math.log(rounds)
        if self.task.kernel == "rbf":
            gain = log_rounds ** (d + 1)
        else:
            growth = d * (d + 1) / (5.0 + d * (d + 1))
            gain = rounds**growth * log_rounds ** (5.0 / (5.0 + d))
        gain /= base.lengthscale**d
        bound = self.norm_bound(base.lengthscale)
        return math.sqrt(rounds) * (bound * math.sqrt(gain) + gain)

    def select(self) -> int:
        base = min(self.left, key=self.suspected_regret)
        upper, widths = self.upper(base.lengthscale)
        arm = int(upper.argmax())
        self._next = base, float(widths[arm])
        return arm

    def observe(self, arm: int, outcome: float) -> None:
        super().observe(arm, outcome)
        if self._next is not None:
            base, width = self._next
            base.outcomes.append(outcome)
            base.widths.append(width)
            self._next = None
            self._drop()

    def _drop(self) -> None:
        left = self.left
        if not all(base.rounds for base in left):
            return
        number = sum(base.rounds for base in self.candidates)
        size = len(self.candidates) * math.pi**2 * number**2 / (3.0 * self.task.delta)
        noise = 2.0 * self.task.noise_std**2 * math.log(size)
        mean = np.array([np.mean(base.outcomes) for base in left])
        error = np.array([math.sqrt(noise / base.rounds) for base in left])
        widths = np.array([2.0 * np.mean(base.widths) for base in left])
        stay = mean + widths + error >= (mean - error).max()
        self._dropped += [base for base, stays in zip(left, stay, strict=True) if not stays]

    @property
    def lengthscale(self) -> float:
        return min(self.left, key=self.suspected_regret).lengthscale
