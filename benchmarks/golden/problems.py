r"""Problems of many kinds: kernels, dimensions, noise, transforms, repeated inputs."""

from dataclasses import dataclass
from typing import Any

import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.models import SingleTaskGP
from botorch.models.transforms import Log, Normalize, Standardize
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import Kernel, LinearKernel, RBFKernel, RQKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean, Mean, ZeroMean
from torch import Tensor

from benchmarks.runner import fixed_kernel, rkhs_norm, stream
from kernelucb import KernelRegression

DELTA, NORM, QUERIES = 0.05, 3.0, 20
_COUNTS = (8, 20, 1, 13, 30, 2, 40)
_DIMENSIONS = (1, 2, 3, 2, 6)
_NOISES = (0.1, 0.02, 0.5)
_FORMS = ("state", "transformed", "state", "several", "model", "state", "log", "several")
_KERNELS = 9
_OFFSET, _SCALE, _BOX = 4.0, 2.5, 7.0  # of outcomes and inputs in front of transforms


@dataclass(frozen=True)
class Problem:
    r"""One function's data, as the bounds take them.

    Attributes:
        X: ``n x d`` inputs, some of them repeated.
        Y: ``n`` outcomes.
        further: ``n`` outcomes of another function, on the same scale.
        kernel: Frozen.
        mean: Prior mean.
        noise_std: One scale, or ``n``.
        norm_bound: 1.5 times the norm of the function, outcome units.
        queries: ``20 x d`` points: random, one observed, one far away.
        options: ``noise_std``, ``delta``, ``maximize``, ``posterior_transform`` and
            ``X_pending`` of the bounds.
        form: ``"state"``, or how the model is made.
    """

    X: Tensor
    Y: Tensor
    further: Tensor
    kernel: Kernel
    mean: Mean
    noise_std: Any
    norm_bound: float
    queries: Tensor
    options: dict[str, Any]
    form: str

    @property
    def box(self) -> Tensor:
        r"""``2 x d`` limits of the domain."""
        side = _BOX if self.form in ("transformed", "log") else 1.0
        limits = torch.zeros(2, self.X.shape[-1], dtype=torch.float64)
        limits[1] = side
        return limits

    @property
    def noise(self) -> float:
        r"""The largest noise scale."""
        return float(torch.as_tensor(self.noise_std, dtype=torch.float64).max())

    def state(self, Y: Tensor | None = None) -> KernelRegression:
        r"""The data without transforms, or others at the same inputs."""
        Y = self.Y if Y is None else Y
        return KernelRegression(self.X, Y, self.kernel, self.noise_std, self.mean)

    def model(self) -> Any:
        r"""What a bound is built on: a regression state or a ``SingleTaskGP``."""
        if self.form == "state":
            return self.state()
        several, transformed = self.form == "several", self.form in ("transformed", "log")
        likelihood = None
        if not several:
            likelihood = GaussianLikelihood(noise_constraint=GreaterThan(0.0)).double()
            likelihood.noise = torch.tensor(self.noise**2).double()
        outcome = {"transformed": Standardize(1), "log": Log()}.get(self.form)
        model = SingleTaskGP(
            self.X,
            self.Y.unsqueeze(-1),
            train_Yvar=self.noise_std.square().unsqueeze(-1) if several else None,
            likelihood=likelihood,
            covar_module=self.kernel,
            mean_module=self.mean,
            outcome_transform=outcome,
            input_transform=Normalize(len(self.box[0]), bounds=self.box)
            if transformed
            else None,
        )
        return model.double().eval().requires_grad_(False)


def make_kernel(number: int, dimension: int) -> Kernel:
    r"""One of nine kernels, frozen."""
    length = 0.3 * dimension**0.5
    names = ("matern52", "rbf", "matern32", "rbf", "matern52", "rbf", "matern32")
    kind = number % _KERNELS
    if kind == 7:
        kernel: Kernel = RQKernel().double()
        kernel.lengthscale = torch.tensor(length).double()
        return kernel.requires_grad_(False)
    if kind == 8:
        linear = fixed_kernel("rbf", length) + LinearKernel().double()
        return linear.requires_grad_(False)
    if kind == 3:
        kernel = RBFKernel(ard_num_dims=dimension).double()
        kernel.lengthscale = length * (1.0 + torch.arange(dimension).double() / 2.0)
        return kernel.requires_grad_(False)
    kernel = fixed_kernel(names[kind], length)
    if kind in (4, 5):
        kernel = ScaleKernel(kernel).double()
        kernel.outputscale = torch.tensor((0.2, 6.0)[kind - 4]).double()
    return kernel.requires_grad_(False)


def make_problem(number: int, form: str | None = None, most: int = 40) -> Problem:
    r"""The problem of a number.

    Args:
        number: What everything is drawn from.
        form: Instead of the number's own.
        most: Largest number of observations.
    """
    random = stream(number, "golden")
    dimension = _DIMENSIONS[number % len(_DIMENSIONS)]
    count = min(_COUNTS[number % len(_COUNTS)], most)
    form = form or _FORMS[number % len(_FORMS)]
    kernel = make_kernel(number, dimension)
    unit = torch.from_numpy(random.random((count, dimension)))
    if number % 4 == 1 and count > 4:
        unit[1], unit[-1], unit[-2] = unit[0], unit[0], unit[3]
    centres = torch.from_numpy(random.random((8, dimension)))
    weights = torch.from_numpy(random.standard_normal((2, 8)))
    for own in weights:
        own *= NORM / rkhs_norm(kernel, centres, own)
    level = _NOISES[number % len(_NOISES)]
    spread = torch.from_numpy(0.5 + random.random(count)) if form == "several" else 1.0
    normal = torch.from_numpy(random.standard_normal((2, count)))
    Y = weights @ kernel(centres, unit).to_dense() + level * spread * normal
    places = torch.from_numpy(random.random((QUERIES, dimension)))
    places[-1], places[-2] = 3.0, unit[0]
    pending = torch.from_numpy(random.random((2, dimension)))
    side, scale, mean = 1.0, 1.0, ZeroMean()
    if form == "transformed":
        side, scale = _BOX, _SCALE
        Y = _OFFSET + _SCALE * Y
    elif form == "log":
        side, scale, Y = _BOX, 0.3, (0.3 * Y).exp()  # scale of the log
    elif number % 3 == 1:
        mean = ConstantMean().double().requires_grad_(False)
        mean.constant = torch.tensor(_OFFSET).double()
        Y = Y + _OFFSET
    noise_std = scale * level * spread
    options = {
        "noise_std": noise_std if form == "transformed" else None,
        "delta": (DELTA, 0.2, 0.01)[number % 3],
        "maximize": number % 2 == 0,
        "posterior_transform": ScalarizedPosteriorTransform(torch.tensor([-1.0]).double())
        if number % 7 == 3
        else None,
        "X_pending": side * pending if number % 5 == 2 else None,
    }
    X, queries, norm_bound = side * unit, side * places, 1.5 * scale * NORM
    return Problem(X, *Y, kernel, mean, noise_std, norm_bound, queries, options, form)
