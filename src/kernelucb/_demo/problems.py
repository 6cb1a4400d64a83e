r"""Test functions of the demo, all to be minimised."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from botorch.test_functions import (
    Ackley,
    Branin,
    Hartmann,
    Levy,
    Rosenbrock,
    SyntheticTestFunction,
)
from gpytorch.kernels import Kernel, MaternKernel
from torch import Tensor


@dataclass(frozen=True)
class Problem:
    r"""A function on a box.

    Attributes:
        name: What ``--function`` takes.
        function: Maps ``n x d`` points to ``n`` values without noise.
        bounds: ``2 x d`` corners of the box.
        minimum: The smallest value.
        kernel: The kernel whose space the function is known to lie in, if any.
        norm: Its norm there, if known.
    """

    name: str
    function: Callable[[Tensor], Tensor]
    bounds: Tensor
    minimum: float
    kernel: Kernel | None = None
    norm: float | None = None

    @property
    def dimension(self) -> int:
        r"""Number of inputs."""
        return self.bounds.shape[-1]


def make_problem(name: str) -> Problem:
    r"""The problem of that name, a key of ``PROBLEMS``."""
    return PROBLEMS[name](name)


def _synthetic(make: Callable[[], SyntheticTestFunction]) -> Callable[[str], Problem]:
    def problem(name: str) -> Problem:
        function = make()
        return Problem(
            name=name,
            function=lambda X: function.evaluate_true(X).detach(),
            bounds=torch.as_tensor(function.bounds).double(),
            minimum=float(function.optimal_value),
        )

    return problem


def _forrester(name: str) -> Problem:
    r"""Forrester, Sobester & Keane (2008): two valleys on the unit interval."""
    return Problem(
        name=name,
        function=lambda X: ((6 * X - 2).square() * torch.sin(12 * X - 4)).squeeze(-1),
        bounds=torch.tensor([[0.0], [1.0]], dtype=torch.float64),
        minimum=-6.02074,
    )


def _known_norm(name: str, norm: float = 10.0, num_centres: int = 20) -> Problem:
    r"""A kernel expansion whose kernel and norm are known, as Flynn & Reeb (2024) use."""
    kernel = MaternKernel(nu=1.5).double().requires_grad_(False)
    kernel.initialize(lengthscale=0.2)
    generator = torch.Generator().manual_seed(4)
    centres = torch.rand(num_centres, 1, generator=generator, dtype=torch.float64)
    centres = 2.0 * centres - 1.0
    weights = torch.randn(num_centres, generator=generator, dtype=torch.float64)
    gram = kernel(centres, centres).to_dense()
    weights = weights * (norm / (weights @ gram @ weights).sqrt())

    def function(X: Tensor) -> Tensor:
        return kernel(X, centres).to_dense() @ weights

    grid = torch.linspace(-1.0, 1.0, 20001, dtype=torch.float64).unsqueeze(-1)
    return Problem(
        name=name,
        function=function,
        bounds=torch.tensor([[-1.0], [1.0]], dtype=torch.float64),
        minimum=float(function(grid).min()),
        kernel=kernel,
        norm=norm,
    )


PROBLEMS: dict[str, Callable[[str], Problem]] = {
    "branin": _synthetic(lambda: Branin()),
    "hartmann3": _synthetic(lambda: Hartmann(dim=3)),
    "hartmann6": _synthetic(lambda: Hartmann(dim=6)),
    "ackley": _synthetic(lambda: Ackley(dim=2)),
    "levy": _synthetic(lambda: Levy(dim=2)),
    "rosenbrock": _synthetic(lambda: Rosenbrock(dim=2)),
    "forrester": _forrester,
    "rkhs": _known_norm,
}
