r"""The function of a repetition, and the kernel."""

from typing import Any

from gpytorch.kernels import Kernel

from benchmarks.runner import KnownFunction, fixed_kernel, stream

Settings = dict[str, Any]


def kernel_of(task: Settings) -> Kernel:
    r"""The Gaussian kernel."""
    return fixed_kernel("rbf", task["lengthscale"])


def true_function(task: Settings) -> KnownFunction:
    r"""The same for streams and all bandits; the paper's own is not published."""
    random = stream(task["seed"], "function", task["repetition"])
    return KnownFunction.draw(random, kernel_of(task), task["norm"], 1, task["centres"])
