r"""Information gain of Gaussian observations, by enumeration. Srinivas et al. (2010)."""

import itertools

import torch
from torch import Tensor


def gain(K: Tensor, sigma: float) -> float:
    r"""``I(y; f) = 1/2 ln det(I + K / sigma^2)``, Eq. (3)."""
    matrix = torch.eye(len(K)).to(K) + K / sigma**2
    return 0.5 * float(torch.linalg.slogdet(matrix).logabsdet)


def maximum_gain(K: Tensor, sigma: float, rounds: int) -> float:
    r"""``gamma_T``, Eq. (7): the best multiset of ``rounds`` points of the domain."""
    choices = itertools.combinations_with_replacement(range(len(K)), rounds)
    return max(gain(K[list(c)][:, list(c)], sigma) for c in choices)


def greedy_gain(K: Tensor, sigma: float, rounds: int) -> float:
    r"""Gain of the points chosen one by one, each to gain most, by enumeration."""
    chosen: list[int] = []
    for _ in range(rounds):
        best = max(
            range(len(K)), key=lambda j: gain(K[[*chosen, j]][:, [*chosen, j]], sigma)
        )
        chosen.append(best)
    return gain(K[chosen][:, chosen], sigma)
