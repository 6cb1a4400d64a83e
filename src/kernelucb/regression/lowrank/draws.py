r"""Random draws of inducing points, the same on every device."""

import torch
from numpy.random import SeedSequence
from torch import Tensor

_PURPOSE = 0x424B42  # any number


def inclusion_probabilities(
    variance: Tensor, counts: Tensor, alpha: float, qbar: float
) -> Tensor:
    r"""Probability ``min(1, qbar count var / alpha)`` that an input becomes inducing.

    From ``n`` latent variances of the previous step and numbers of observations.

    Source: Calandriello et al. (2019), Algorithm 1, with one draw for all observations at
    an input: as probable as any of their own draws, or more, which Theorem 1 allows.
    """
    return (qbar / alpha * counts * variance).clamp(max=1.0)


def draw(probabilities: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    r"""Indices of the inputs drawn, ascending and never none, and the generator's state.

    Where no input is drawn, the most probable one is taken. ``state`` is that of a
    ``torch.Generator``.
    """
    uniform, state = uniform_numbers(len(probabilities), state)
    drawn = (uniform.to(probabilities.device) < probabilities).nonzero().squeeze(-1)
    if len(drawn) == 0:
        drawn = probabilities.argmax().reshape(1)
    return drawn, state


def draw_some(weights: Tensor, size: int, state: Tensor) -> tuple[Tensor, Tensor]:
    r"""Like ``draw``, with a given number of inputs, nearly in proportion to weights.

    Those with the smallest ``u / weight`` for uniform ``u``; all where there are no more.

    Source: Ohlsson (1998), sequential Poisson sampling.
    """
    uniform, state = uniform_numbers(len(weights), state)
    order = (uniform.to(weights.device) / weights).argsort()
    return order[:size].sort().values, state


def first_state(seed: int) -> Tensor:
    r"""State of a generator that ``torch.manual_seed(seed)`` has nothing in common with.

    With the same numbers as in random inputs, draws would depend on where these lie.
    """
    mixed = SeedSequence([_PURPOSE, seed % 2**64]).generate_state(1)
    return torch.Generator().manual_seed(int(mixed[0])).get_state()


def uniform_numbers(count: int, state: Tensor) -> tuple[Tensor, Tensor]:
    r"""``count`` float64 numbers in [0, 1) on the CPU, and the generator's next state."""
    generator = torch.Generator()
    generator.set_state(state.cpu())
    numbers = torch.rand(count, dtype=torch.float64, generator=generator)
    return numbers, generator.get_state()
