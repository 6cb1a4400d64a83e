r"""Test functions of the demo, all to be minimised, all of known norm."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from functools import cache, partial

import torch
from botorch.test_functions import (
    Ackley,
    Branin,
    Hartmann,
    Levy,
    Rosenbrock,
    SyntheticTestFunction,
)
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from kernelucb._demo.expansion import Expansion, interpolate, matern, sobol


@dataclass(frozen=True)
class Original:
    r"""The well-known function that a black box goes through, and how closely."""

    title: str
    minimum: float  # to six decimals
    largest: float  # largest difference on ``points`` points it was not fitted to
    typical: float  # root mean square difference there
    points: int
    kink: bool  # whether a kink gives it no finite norm under the kernel


@dataclass(frozen=True)
class Problem:
    r"""A black box on a box, with what is known about it."""

    name: str  # what ``--function`` takes
    function: Expansion
    original: Original | None = None  # None where the kernel defines the black box

    @property
    def bounds(self) -> Tensor:
        r"""``2 x d`` corners of the box."""
        return self.function.bounds

    @property
    def dimension(self) -> int:
        r"""Number of inputs."""
        return self.bounds.shape[-1]

    @property
    def kernel(self) -> ScaleKernel:
        r"""The kernel that defines the norm, on inputs scaled to the unit cube."""
        return self.function.kernel

    @property
    def mean(self) -> float:
        r"""The prior mean."""
        return self.function.mean

    @property
    def norm_bound(self) -> float:
        r"""The norm, rounded up to four digits."""
        rounded = Context(prec=4, rounding=ROUND_CEILING).create_decimal(self.function.norm)
        return float(rounded)


@cache
def make_problem(name: str) -> Problem:
    r"""The problem of that name, a key of ``PROBLEMS``."""
    return Problem(name, *PROBLEMS[name]())


def _through(
    title: str,
    function: Callable[[Tensor], Tensor],
    bounds: Tensor,
    minimisers: Tensor,
    length: float,
    kink: bool = False,
) -> tuple[Expansion, Original]:
    black_box = interpolate(function, bounds, minimisers, length)
    points = sobol(bounds, 4096, seed=777)
    difference = black_box(points) - function(points)
    original = Original(
        title=title,
        minimum=round(float(function(minimisers).min()), 6),
        largest=float(difference.abs().max()),
        typical=float(difference.square().mean().sqrt()),
        points=len(points),
        kink=kink,
    )
    return black_box, original


def _synthetic(
    title: str, make: Callable[[], SyntheticTestFunction], length: float, kink: bool = False
) -> tuple[Expansion, Original]:
    function = make()
    return _through(
        title,
        lambda X: function.evaluate_true(X).detach(),
        torch.as_tensor(function.bounds).double(),
        torch.as_tensor(function.optimizers).double(),
        length,
        kink,
    )


def _forrester() -> tuple[Expansion, Original]:
    r"""Forrester, Sobester & Keane (2008): two valleys on the unit interval."""
    return _through(
        "the Forrester function",
        lambda X: ((6 * X - 2).square() * torch.sin(12 * X - 4)).squeeze(-1),
        torch.tensor([[0.0], [1.0]], dtype=torch.float64),
        torch.tensor([[0.7572488]], dtype=torch.float64),
        length=0.3,
    )


def _drawn(norm: float = 10.0, num_centres: int = 20) -> tuple[Expansion, None]:
    r"""A random expansion of norm 10 under Matern 3/2, as Flynn & Reeb (2024) use."""
    kernel = matern(1.5, length=0.1, variance=1.0)
    generator = torch.Generator().manual_seed(4)
    centres = torch.rand(num_centres, 1, generator=generator, dtype=torch.float64)
    weights = torch.randn(num_centres, generator=generator, dtype=torch.float64)
    bounds = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    build = partial(Expansion, 0.0, kernel, centres, bounds=bounds)
    # A hair less than the norm asked for, which therefore bounds it despite round-off.
    weights *= norm * (1.0 - 1e-9) / build(weights=weights).norm
    return build(weights=weights), None


# Ackley's kink: near its minimum it behaves like |x|, which on the plane lies in the
# Sobolev space H^s for s < 2 only, and the space of Matern 5/2 there is H^3.5 (Wendland
# 2005, Corollary 10.48). The others are smooth up to the faces, so their norms are finite.
_make_ackley = partial(Ackley, dim=2, bounds=[(-5.0, 5.0)] * 2)
PROBLEMS: dict[str, Callable[[], tuple[Expansion, Original | None]]] = {
    "branin": partial(_synthetic, "Branin", Branin, length=0.5),
    "hartmann3": partial(_synthetic, "Hartmann 3", partial(Hartmann, dim=3), length=0.3),
    "hartmann6": partial(_synthetic, "Hartmann 6", partial(Hartmann, dim=6), length=0.5),
    "ackley": partial(_synthetic, "Ackley", _make_ackley, length=0.2, kink=True),
    "levy": partial(_synthetic, "Levy", partial(Levy, dim=2), length=0.2),
    "rosenbrock": partial(_synthetic, "Rosenbrock", partial(Rosenbrock, dim=2), length=0.5),
    "forrester": _forrester,
    "rkhs": _drawn,
}
