r"""A call, and what is done with its result."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.attack.fuzz.world import world
from benchmarks.attack.verdicts import WrongError


class Target(NamedTuple):
    r"""A call.

    Attributes:
        name: For the report.
        call: Takes the arguments by name.
        arguments: Right ones.
        use: Uses the result, and raises ``WrongError`` where it is wrong.
    """

    name: str
    call: Callable[..., Any]
    arguments: Callable[[], dict[str, Any]]
    use: Callable[[Any], None]


def check_numbers(result: Any) -> None:
    r"""No NaN in a number, a tensor, or a tuple or list of these; tensors are floating."""
    if isinstance(result, (tuple, list)):
        for part in result:
            check_numbers(part)
    elif isinstance(result, Tensor):
        if result.is_complex() or bool(torch.isnan(result.double()).any()):
            raise WrongError(f"the result is {result.dtype} with NaN or complex values")
    elif isinstance(result, float) and result != result:
        raise WrongError("the result is NaN")


def check_sides(result: Any) -> None:
    r"""Lower and upper bounds: floating, finite and in order."""
    lower, upper = result
    if not (lower.is_floating_point() and upper.is_floating_point()):
        raise WrongError(f"bounds are {lower.dtype}")
    if not bool(torch.isfinite(lower).all() & torch.isfinite(upper).all()):
        raise WrongError("bounds are not finite")
    if not bool((lower <= upper + 1e-9 * (1.0 + upper.abs())).all()):
        raise WrongError("lower above upper")


def check_values(result: Tensor) -> None:
    r"""Floating values without NaN."""
    if not result.is_floating_point():
        raise WrongError(f"values are {result.dtype}")
    check_numbers(result)


def check_band(band: Any) -> None:
    r"""A band that answers at right points."""
    check_sides(band.bounds(world().queries))
    if hasattr(band, "forward"):
        check_values(band.forward(world().queries.unsqueeze(1)).detach())


def check_arms(bandit: Any) -> None:
    r"""A budgeted bandit that answers."""
    check_sides(bandit.bounds())


def check_state(state: Any) -> None:
    r"""A regression that answers."""
    check_values(state.mean(world().queries))
    check_values(state.variance(world().queries))


def check_posterior(model: Any) -> None:
    r"""A model that predicts."""
    posterior = model.posterior(world().queries)
    check_numbers([posterior.mean, posterior.variance])
