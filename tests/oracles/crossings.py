r"""Many sequences of a bandit on a few arms at once, and the supermartingales along them.

Everything is in units of the claimed noise scale. A prior is a covariance matrix of the
arms; of several priors each is updated by every observation. The evidence of a prior
against the true function ``f``, whose values at the arms are known here,

    ``log M_t = 1/2 sum_s [ (y_s - f(x_s))^2 - (y_s - m_s)^2 / (1 + v_s) - ln(1 + v_s) ]``

with the predictions ``m_s, v_s`` made before outcome ``s``, is a supermartingale of mean
at most one wherever the noise is conditionally 1-sub-Gaussian and the arms are chosen from
the past, whatever they are chosen for. It reaches ``1 / delta`` in any round with
probability at most ``delta`` (Ville). This is Flynn & Reeb (2024), Theorem 4.1.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor


class Sequences:
    r"""``N`` sequences after the rounds so far, with ``J`` priors on ``A`` arms.

    Attributes:
        truth: ``N x A`` values of the true functions.
        mean: ``N x J x A`` posterior means.
        covariance: ``N x J x A x A`` posterior covariances.
        form: ``N x J`` values of ``y^T (I + K)^-1 y``.
        log_det: ``N x J`` values of ``ln det(I + K)``.
        surprise: ``N x J`` shares of the last outcome in ``(form + log_det) / 2``.
        energy: ``N`` sums of squared noise.
        counts: ``N x A`` numbers of plays.
        sums: ``N x A`` sums of the outcomes.
        arms: ``N`` indices for each round.
        outcomes: ``N`` outcomes for each round.
    """

    def __init__(self, priors: Tensor, truth: Tensor) -> None:
        size = (len(truth), *priors.shape)
        self.truth = truth
        self.covariance = priors.expand(size).clone()
        self.mean = truth.new_zeros(size[:-1])
        self.form, self.log_det, self.surprise = truth.new_zeros(3, *size[:2])
        self.energy = truth.new_zeros(len(truth))
        self.counts, self.sums = truth.new_zeros(2, *truth.shape)
        self.arms: list[Tensor] = []
        self.outcomes: list[Tensor] = []

    @property
    def variance(self) -> Tensor:
        r"""``N x J x A`` posterior variances."""
        return self.covariance.diagonal(dim1=-2, dim2=-1).clamp_min(0.0)

    @property
    def log_martingales(self) -> Tensor:
        r"""``N x J`` values of ``log M_t``."""
        return 0.5 * (self.energy.unsqueeze(-1) - self.form - self.log_det)

    def observe(self, arms: Tensor, noise: Tensor) -> None:
        r"""One more round: ``N`` arms, and the noise of their outcomes."""
        column = arms.unsqueeze(-1)
        outcomes = self.truth.gather(1, column).squeeze(-1) + noise
        index = arms.reshape(-1, 1, 1).expand_as(self.mean[..., :1])
        error = outcomes.unsqueeze(-1) - self.mean.gather(-1, index).squeeze(-1)
        rows = index.unsqueeze(-1).expand_as(self.covariance[..., :1, :])
        row = self.covariance.gather(-2, rows).squeeze(-2)
        total = 1.0 + row.gather(-1, index)
        self.mean += row / total * error.unsqueeze(-1)
        root = row / total.sqrt()
        self.covariance -= root.unsqueeze(-1) * root.unsqueeze(-2)
        total = total.squeeze(-1)
        form, log_det = error.square() / total, total.log()
        self.form += form
        self.log_det += log_det
        self.surprise = 0.5 * (form + log_det)
        self.energy += noise.square()
        self.counts.scatter_add_(1, column, torch.ones_like(self.truth))
        self.sums.scatter_add_(1, column, outcomes.unsqueeze(-1))
        self.arms.append(arms)
        self.outcomes.append(outcomes)


Rule = Callable[[Sequences], Tensor]
Noise = Callable[[int, torch.Generator], Tensor]


def gaussian(count: int, random: torch.Generator) -> Tensor:
    return torch.randn(count, dtype=torch.float64, generator=random)


def rademacher(count: int, random: torch.Generator) -> Tensor:
    r"""Exactly 1-sub-Gaussian, the extreme case of bounded noise."""
    return 2.0 * torch.randint(2, (count,), generator=random).double() - 1.0


def nearest_miss(sequences: Sequences) -> Tensor:
    r"""The arm whose estimate is off by most standard deviations: noise that is bad already
    is made worse. No learner could do it, but it uses the past only.
    """
    deviation = (sequences.mean[:, 0] - sequences.truth).abs()
    return (deviation / (1e-9 + sequences.variance[:, 0]).sqrt()).argmax(-1)


def optimistic(norm: float, delta: float) -> Rule:
    r"""The arm with the largest upper bound of Flynn & Reeb (2024), Cor. 4.6, ``c = 1``."""

    def rule(sequences: Sequences) -> Tensor:
        squared = sequences.log_det[:, :1] + 2.0 * math.log(1.0 / delta) + norm**2
        return (sequences.mean[:, 0] + (squared * sequences.variance[:, 0]).sqrt()).argmax(
            -1
        )

    return rule


def played(
    priors: Tensor,
    truth: Tensor,
    rounds: int,
    rule: Rule,
    noise: Noise,
    seed: int,
    loudness: float = 1.0,
) -> Iterator[Sequences]:
    r"""The sequences after each round.

    Args:
        priors: ``J x A x A``; rules read the first.
        truth: ``N x A`` values of the true functions.
        rounds: Number of rounds.
        rule: Chooses ``N`` arms.
        noise: Draws ``N`` values of unit scale.
        seed: Of the noise.
        loudness: The true noise scale, where the claim (one) is wrong.
    """
    random, sequences = torch.Generator().manual_seed(seed), Sequences(priors, truth)
    for _ in range(rounds):
        sequences.observe(rule(sequences), loudness * noise(len(truth), random))
        yield sequences
