r"""The e-processes of the mixture of filters, one observation at a time.

Written from their definition, in units of the noise: with ``e_s`` the noise of observation
``s``, a scale ``c`` and an energy ``l`` in [0, 1),

    ``M_n = E_g prod_s sqrt(1 - l) exp(l e_s^2 / 2 + g_s e_s - g_s^2 / (2 (1 - l)))``

over a Gaussian process ``g ~ N(0, c K)`` that knows nothing of the data. Up to a factor
that ``g`` does not enter, ``exp(g e - g^2 / (2 (1 - l)))`` is the likelihood of an outcome
``(1 - l) e`` under noise of variance ``1 - l``. So ``g`` given the past is the posterior of
an ordinary Gaussian process, "the smoothed residual", and only its mean and variance at
the present input enter a factor of ``M``.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from oracles.crossings import Noise, Sequences


def log_step(noise: Tensor, mean: Tensor, variance: Tensor, energy: Tensor) -> Tensor:
    r"""``log (M_n / M_{n-1})``, given mean and variance of ``g`` at the present input.

    It is ``sqrt(1 - l) exp(l e^2 / 2) E exp(g e - p g^2 / 2)``, ``p = 1 / (1 - l)``, over
    the normal ``g``: complete the square.
    """
    precision = 1.0 / (1.0 - energy)
    spread = 1.0 + precision * variance
    form = 2.0 * mean * noise + variance * noise.square() - precision * mean.square()
    gain = form / spread - spread.log() - precision.log()
    return 0.5 * (energy * noise.square() + gain)


class Filters:
    r"""``J`` members on ``A`` arms along ``N`` sequences of noise.

    Attributes:
        mean: ``N x J x A`` means of ``g`` given the past, the smoothed residuals.
        covariance: ``N x J x A x A`` covariances of ``g`` given the past.
        log_values: ``N x J`` values of ``log M``.
    """

    def __init__(self, gram: Tensor, scales: Tensor, energies: Tensor, count: int) -> None:
        r"""``gram`` is ``A x A`` in units of the noise; ``J`` scales and energies."""
        size = (count, len(scales), *gram.shape)
        self.energies = energies
        self.covariance = (scales.reshape(-1, 1, 1) * gram).expand(size).clone()
        self.mean = gram.new_zeros(size[:-1])
        self.log_values = gram.new_zeros(size[:2])

    def observe(self, arms: Tensor, noise: Tensor) -> None:
        r"""One more round: ``N`` arms, and the noise of their outcomes."""
        index = arms.reshape(-1, 1, 1).expand_as(self.mean[..., :1])
        rows = index.unsqueeze(-1).expand_as(self.covariance[..., :1, :])
        row = self.covariance.gather(-2, rows).squeeze(-2)
        mean = self.mean.gather(-1, index).squeeze(-1)
        variance = row.gather(-1, index).squeeze(-1)
        own, noise = 1.0 - self.energies, noise.unsqueeze(-1)
        self.log_values = self.log_values + log_step(noise, mean, variance, self.energies)
        total = (variance + own).unsqueeze(-1)
        self.mean += row * ((own * noise - mean).unsqueeze(-1) / total)
        root = row / total.sqrt()
        self.covariance -= root.unsqueeze(-1) * root.unsqueeze(-2)


Player = Callable[[Sequences, Filters], Tensor]


def followed(
    filters: Filters,
    game: Sequences,
    rounds: int,
    player: Player,
    noise: Noise,
    seed: int,
    loudness: float = 1.0,
) -> Iterator[Tensor]:
    r"""``N x J`` values of ``log M`` after each round.

    The player sees all there is to see of the past. ``loudness`` is the true noise scale,
    where the claim (one) is wrong.
    """
    random = torch.Generator().manual_seed(seed)
    for _ in range(rounds):
        arms, draws = player(game, filters), loudness * noise(len(game.truth), random)
        filters.observe(arms, draws)
        game.observe(arms, draws)
        yield filters.log_values


def log_closed_form(
    gram: Tensor, noise: Tensor, scale: float, energy: float
) -> tuple[Tensor, Tensor, Tensor]:
    r"""``log M = (e^T A e - b) / 2`` by dense linear algebra, with ``A`` and ``b``.

    ``A = l I + (1 - l) W (W + (1 - l) I)^-1`` and
    ``b = ln det(I + W / (1 - l)) - n ln(1 - l)`` with ``W = c K``, for ``n`` observations,
    repeated or not.
    """
    identity, own = torch.eye(len(noise), dtype=gram.dtype), 1.0 - energy
    W = scale * gram
    A = energy * identity + own * torch.linalg.solve(W + own * identity, W)
    b = torch.logdet(identity + W / own) - len(noise) * math.log(own)
    return 0.5 * (noise @ A @ noise - b), A, b


def uniform(count: int, random: torch.Generator) -> Tensor:
    r"""Of variance one; 1-sub-Gaussian, as ``sinh(a h) / (a h) <= exp(a^2 h^2 / 6)``."""
    unit = 2.0 * torch.rand(count, dtype=torch.float64, generator=random) - 1.0
    return math.sqrt(3.0) * unit


def largest_smoothed_residual(member: int) -> Player:
    r"""The arm at which a member's smoothed residual may be largest, and so its next gain.

    One deviation on top lets it leave an arm at which it has nothing more to gain.
    """

    def player(game: Sequences, filters: Filters) -> Tensor:
        variance = filters.covariance[:, member].diagonal(dim1=-2, dim2=-1)
        return (filters.mean[:, member].abs() + variance.clamp_min(0.0).sqrt()).argmax(-1)

    return player
