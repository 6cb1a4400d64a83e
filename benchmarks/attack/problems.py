r"""Random problems whose truth is known, and what round-off may hide of it."""

import math
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean, LinearMean, Mean, ZeroMean
from torch import Tensor

from benchmarks.attack import oracle
from benchmarks.attack.kernels import (
    count_of,
    decades,
    drawn_inputs,
    drawn_queries,
    random_kernel,
    smallest_length,
)
from benchmarks.runner import stream

EPS = float(np.finfo(np.float64).eps)
EPS_SINGLE = float(np.finfo(np.float32).eps)
DELTA = 0.05
# Noise of this length, in noise units, is within every radius at DELTA.
FREE_RADIUS = math.sqrt(2.0 * math.log(1.0 / DELTA))


@dataclass
class Problem:
    r"""Outcomes of ``offset + scale (m(x) + sum_j a_j k(c_j, x))``, and points to look at.

    Attributes:
        kernel: ``k``, float64 and frozen.
        mean_module: ``m``; None for zero.
        centres: ``c x d'`` kernel inputs, extended precision.
        weights: ``c`` values ``a``.
        X: ``n x d`` inputs, float32 for single-precision models.
        noise_std: ``n`` noise scales, outcome units; all the same unless ``several``.
        noise: ``n`` noises in the outcomes, together at most ``FREE_RADIUS`` noise units.
        queries: ``b x d`` points.
        far: ``f x d`` points 1e8 length scales away.
        norm: Upper bound on the norm of the truth minus prior mean, outcome units.
        transform: The ``Normalize`` in front of the kernel, if any.
        offset: What ``Standardize`` takes away; 0 without.
        scale: What ``Standardize`` divides by; 1 without.
        form: ``"state"``, ``"model"``, or ``"standardized"``.
    """

    kernel: Kernel
    centres: np.ndarray
    weights: np.ndarray
    X: Tensor
    noise_std: Tensor
    noise: Tensor
    queries: Tensor
    far: Tensor
    transform: Normalize | None
    form: str
    mean_module: Mean | None = None
    norm: float = 1.0
    offset: float = 0.0
    scale: float = 1.0
    several: bool = False

    @property
    def single(self) -> bool:
        r"""Whether the model is of single precision."""
        return self.X.dtype == torch.float32

    def _inputs(self, X: Tensor) -> np.ndarray:
        raw = oracle.extended(X)
        if self.transform is None:
            return raw
        offset, size = (
            oracle.extended(part).reshape(1, -1)
            for part in (self.transform.offset, self.transform.coefficient)
        )
        return (raw - offset) / size

    def truth(self, X: Tensor) -> Tensor:
        r"""Values of the truth, rounded once."""
        inputs = self._inputs(X)
        sections = oracle.covariance(self.kernel, inputs, self.centres)
        values = oracle.mean(self.mean_module, inputs) + sections @ self.weights
        return torch.from_numpy((self.offset + self.scale * values).astype(np.float64))

    def prior_std(self, X: Tensor) -> Tensor:
        r"""Prior standard deviations, outcome units."""
        rows = self._inputs(X)[:, None, :]
        variances = [oracle.covariance(self.kernel, row, row).item() for row in rows]
        return self.scale * torch.tensor(variances, dtype=torch.float64).sqrt()

    @cached_property
    def Y(self) -> Tensor:
        r"""``n`` outcomes in the dtype of the inputs."""
        return (self.truth(self.X) + self.noise).to(self.X.dtype)

    def tolerance(self, X: Tensor) -> Tensor:
        r"""What round-off may move a bound by at each point, outcome units.

        Three errors that no algorithm in this precision avoids, with a factor of 64 for how
        they add up over a few dozen terms: outcomes and prior mean are rounded; inputs
        divided by a length scale are (the length scale too, in the precision of the model),
        which moves a section by that rounding times its own length; and the band is a sum
        of terms as large as ``norm sd(x)``.
        """
        values = self.truth(X).abs() + float(self.Y.abs().max())
        level = EPS_SINGLE if self.single else EPS
        reach = self._reach(X)
        rounded = EPS + level * reach
        return 64.0 * (level * values + rounded * self.norm * self._unit(X))

    def blur(self, X: Tensor, width: float = 0.0) -> Tensor:
        r"""By how much two valid bands may differ at each point, outcome units.

        Eigenvalues below ``4 eps`` times the largest cannot be told from zero, so where a
        part of each section lies, of length up to ``sqrt(4 n eps) sd(x)``, is not known.
        A band multiplies it by the norm, or by its own width where that is larger.

        Args:
            X: ``b x d`` points.
            width: The multiplier of deviations in the band, prior units.
        """
        factor = max(self.norm, width * self.scale)
        return math.sqrt(16.0 * len(self.X) * EPS) * factor * self._unit(X)

    def _unit(self, X: Tensor) -> Tensor:
        return self.prior_std(X) / self.scale

    def _reach(self, X: Tensor) -> Tensor:
        r"""Distance from the origin in length scales, or that of the data if larger."""
        length = smallest_length(self.kernel)
        if math.isinf(length):
            return torch.zeros(len(X), dtype=torch.float64)
        own, data = (np.abs(self._inputs(each)).max(-1) for each in (X, self.X))
        reach = np.maximum(own, data.max()) / length
        return torch.from_numpy(reach.astype(np.float64))

    def model(self) -> SingleTaskGP:
        r"""The problem as a BoTorch model, with the noise in the likelihood or as Yvar."""
        dtype = self.X.dtype
        likelihood = None
        if not self.several:
            likelihood = GaussianLikelihood(noise_constraint=GreaterThan(0.0)).double()
            noise = (self.noise_std[0] / self.scale).square()
            likelihood.noise = noise.clamp_min(1e-300)
        Yvar = self.noise_std.square().unsqueeze(-1).to(dtype) if self.several else None
        model = SingleTaskGP(
            self.X,
            self.Y.unsqueeze(-1),
            train_Yvar=Yvar,
            likelihood=likelihood,
            covar_module=self.kernel,
            mean_module=self.mean_module or ZeroMean(),
            outcome_transform=Standardize(1) if self.form == "standardized" else None,
            input_transform=deepcopy(self.transform),
        )
        return model.to(dtype).eval().requires_grad_(False)


def make_problem(seed: int, largest: int = 200, plain: bool = False) -> Problem:
    r"""The problem of a seed.

    Args:
        seed: What everything is drawn from.
        largest: Largest number of observations.
        plain: Whether it must be without transforms, in double precision and with one
            noise scale.
    """
    random = stream(seed, "attack", "problem")
    dimension = int(random.integers(1, 6))
    n = int(random.integers(100, 200)) if random.random() < 0.02 else count_of(random)
    n = min(n, largest)
    length = decades(random, -3, 3) if random.random() < 0.3 else 1.0
    spread = length * decades(random, *((-6, 6) if random.random() < 0.2 else (-1, 1.5)))
    form = str(random.choice(["state", "model", "standardized"], p=[0.5, 0.3, 0.2]))
    form = "state" if plain else form
    single = form != "state" and random.random() < 0.15
    X = drawn_inputs(random, n, dimension, spread)
    X = torch.from_numpy(X).to(torch.float32 if single else torch.float64)
    transform = None
    if form != "state" and random.random() < 0.4:
        box = torch.stack([X.min(0).values - 0.1 * spread, X.max(0).values + 0.1 * spread])
        transform = Normalize(dimension, bounds=box).eval()
        length = length / spread
    kernel = random_kernel(random, dimension, length)
    queries, far = drawn_queries(random, X.double(), spread)
    size = int(random.integers(1, 9))
    pool = torch.cat([X.double(), queries[:4]])
    centres = pool[torch.from_numpy(random.choice(len(pool), size))]
    weights = random.standard_normal(size).astype(np.longdouble)
    ones = torch.ones(len(X), dtype=torch.float64)
    problem = Problem(
        kernel, pool, weights, X, ones, 0.0 * ones, queries, far, transform, form
    )
    problem.centres = problem._inputs(centres)
    if form == "standardized" and not _standardize(problem, random):
        problem.form = "model"
    if problem.form != "standardized":
        _scale(problem, random)
    _add_noise(problem, random, several=not plain and random.random() < 0.2)
    return problem


def _norm(problem: Problem) -> float:
    r"""Norm of the expansion, rounded up by what the sum may have lost."""
    gram = oracle.covariance(problem.kernel, problem.centres, problem.centres)
    squared = problem.weights @ gram @ problem.weights
    lost = np.abs(problem.weights) @ np.abs(gram) @ np.abs(problem.weights)
    squared = max(squared, 0) + 64 * np.finfo(np.longdouble).eps * lost
    return float(np.sqrt(squared)) * problem.scale * (1.0 + 4.0 * EPS)


def _scale(problem: Problem, random: np.random.Generator) -> None:
    r"""A norm of 0.1 to 30, and a prior mean of any size."""
    norm = _norm(problem)
    problem.weights *= decades(random, -1, 1.5) / norm if norm > 0 else 0.0
    problem.norm = _norm(problem)
    std = float(problem.prior_std(problem.X).max())
    kind = random.random()
    if kind < 0.3:
        size = 1e8 if random.random() < 0.2 else decades(random, -6, 6)
        problem.mean_module = ConstantMean().double()
        constant = torch.tensor(random.choice([-1.0, 1.0]) * size * std)
        problem.mean_module.constant = constant.double()
    elif kind < 0.4:
        problem.mean_module = LinearMean(problem.X.shape[-1]).double()
    if problem.mean_module is not None:
        problem.mean_module.requires_grad_(False)


def _standardize(problem: Problem, random: np.random.Generator) -> bool:
    r"""Weights whose values at the data have mean 0 and variance 1; False without any.

    ``Standardize`` then takes away exactly the offset and the scale chosen here.
    """
    inputs = problem._inputs(problem.X)
    sections = oracle.covariance(problem.kernel, inputs, problem.centres)
    sums = sections.sum(0)
    if len(inputs) < 2 or not (sums @ sums) > 0:
        return False
    typical = np.abs(sections).max() * np.abs(problem.weights).max()
    problem.weights -= sums * (sums @ problem.weights) / (sums @ sums)
    values = sections @ problem.weights
    deviation = values.std(ddof=1)
    if not deviation > 1e-3 * typical:
        return False
    problem.weights /= deviation
    problem.scale = decades(random, -6, 6)
    size = 1e8 if random.random() < 0.05 else decades(random, -6, 6)
    problem.offset = float(random.choice([-1.0, 1.0])) * size * problem.scale
    problem.norm = _norm(problem)
    return True


def _add_noise(problem: Problem, random: np.random.Generator, several: bool) -> None:
    r"""Stated noise that covers the rounding of the outcomes, and perhaps some noise."""
    n = len(problem.X)
    std = problem.prior_std(problem.X)
    level = float(std.square().mean().sqrt())
    floor = math.sqrt(n) * float(problem.tolerance(problem.X).max())
    problem.several = several
    exponents = random.uniform(-10, 3 if random.random() < 0.5 else 0, n)
    exponents = exponents if problem.several else np.full(n, exponents[0])
    problem.noise_std = torch.from_numpy(level * 10.0**exponents).clamp_min(floor)
    if problem.form == "standardized" or random.random() < 0.5:
        return
    direction = torch.from_numpy(random.standard_normal(n))
    length = 0.9 * FREE_RADIUS * random.random()
    problem.noise = problem.noise_std * direction * (length / direction.norm())
    problem.__dict__.pop("Y", None)
