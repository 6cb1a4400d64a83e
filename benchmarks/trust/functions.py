r"""Functions whose kernel and norm are known, and well-known test functions."""

from collections.abc import Callable
from functools import cache

import torch
from botorch import test_functions
from botorch.utils.transforms import unnormalize
from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.runner import KnownFunction, line, sobol_points, stream

POINTS, CENTRES, WIDE_SECTIONS = 200, 12, 7
_CANDIDATES = 256


@torch.no_grad()
def drawn_values(kind: str, kernel: Kernel, norm: float, seed: int) -> Tensor:
    r"""Values on ``line(POINTS)`` of a function of exactly this norm under the kernel.

    Args:
        kind: ``"random"``: an expansion with ``CENTRES`` uniform centres and standard
            normal weights. ``"spike"``: a wide low hill and a narrow high one.
        kernel: Of the expansion.
        norm: The expansion is scaled to it.
        seed: Of the function.
    """
    random = stream(seed, "function", kind)
    if kind == "random":
        centres = torch.from_numpy(random.random((CENTRES, 1)))
        weights = torch.from_numpy(random.standard_normal(CENTRES))
    else:
        centres, weights = _spike(kernel, *random.random(3).tolist())
    function = KnownFunction(kernel, centres, weights)
    return function(line(POINTS)) * (norm / function.norm)


def _spike(kernel: Kernel, first: float, second: float, side: float):
    r"""Centres and weights of the two hills, of heights 1 and 4, from uniform numbers.

    The wide hill has weight 1 times the sum of ``WIDE_SECTIONS`` kernel sections half a
    length scale apart, divided by its height; the narrow one is a single section of
    weight 4. Wide at 0.2 to 0.4 and narrow at 0.7 to 1, or the mirror image.
    """
    length = float(kernel.lengthscale)
    steps = torch.arange(WIDE_SECTIONS, dtype=torch.float64) - (WIDE_SECTIONS - 1) / 2
    wide = (0.2 + 0.2 * first + 0.5 * length * steps).unsqueeze(-1)
    middle = wide[WIDE_SECTIONS // 2].unsqueeze(-1)
    weights = torch.ones(WIDE_SECTIONS, dtype=torch.float64)
    weights /= kernel(middle, wide).to_dense().sum()
    centres = torch.cat([wide, torch.full_like(middle, 0.7 + 0.3 * second)])
    weights = torch.cat([weights, weights.new_tensor([4.0])])
    return (centres if side < 0.5 else 1.0 - centres), weights


def _forrester(X: Tensor) -> Tensor:
    r"""Forrester, Sobester & Keane (2008)."""
    return ((6 * X - 2).square() * torch.sin(12 * X - 4)).squeeze(-1)


TEST_FUNCTIONS: dict[str, tuple[int, Callable | None]] = {
    "Forrester": (1, None),
    "Levy 1": (1, lambda: test_functions.Levy(dim=1)),
    "Ackley 1": (1, lambda: test_functions.Ackley(dim=1)),
    "Rastrigin 1": (1, lambda: test_functions.Rastrigin(dim=1)),
    "Branin": (2, lambda: test_functions.Branin()),
    "Six-hump camel": (2, lambda: test_functions.SixHumpCamel()),
    "Ackley 2": (2, lambda: test_functions.Ackley(dim=2)),
    "Michalewicz 2": (2, lambda: test_functions.Michalewicz(dim=2)),
}


@cache
def test_function(name: str) -> tuple[Tensor, Tensor]:
    r"""Candidates in the unit cube and the function's values there, to be maximised.

    The usual function with its sign changed, in units of its own mean and standard
    deviation over the candidates: even in one dimension, Sobol points in two.
    """
    dimension, make = TEST_FUNCTIONS[name]
    candidates = line(POINTS) if dimension == 1 else sobol_points(_CANDIDATES, 2, 0)
    if make is None:
        values = -_forrester(candidates)
    else:
        function = make()
        box = torch.as_tensor(function.bounds, dtype=torch.float64)
        values = -function.evaluate_true(unnormalize(candidates, box))
    return candidates, (values - values.mean()) / values.std()
