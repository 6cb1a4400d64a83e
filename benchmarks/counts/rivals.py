r"""Other bands for probabilities, some of them valid."""

import math

import numpy as np
import torch
from botorch.exceptions import InputDataWarning, OptimizationWarning
from botorch.models import SingleTaskVariationalGP
from botorch.optim.fit import fit_gpytorch_mll_scipy
from botorch.utils.sampling import manual_seed
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import BernoulliLikelihood
from gpytorch.mlls import VariationalELBO
from torch import Tensor

from benchmarks.counts.exact_set import Losses, penalised
from benchmarks.counts.problems import Interval, Problem
from benchmarks.runner import quiet
from kernelucb import KernelRegression, MartingaleMixtureUCB

_GRID = 400  # points at which a probability function is looked at
_HALVINGS = 60
_EXTRAPOLATION = 1.02  # see probability_norm
_DEVIATIONS = 2.0
_NORMAL = torch.distributions.Normal(0.0, 1.0)


def losses_of(problem: Problem, Y: Tensor) -> Losses:
    sizes = np.full(len(Y), float(problem.task.num_trials))
    return Losses(problem.task.likelihood, Y.numpy(), sizes)


def running_limit(
    rows: np.ndarray, losses: Losses, mean: float, penalty: float, delta: float, stride=1
) -> float:
    r"""Limit on the loss by predictions of running estimators.

    ``ln(1 / delta)`` plus the loss of every outcome at the estimate from those before it,
    which minimises their loss plus ``penalty / 2`` times its squared norm: the likelihood
    ratio of Emmenegger et al. (2023), all weights one. Their experiments, in the package
    ``stpy``, use it. A new estimate is made after every ``stride`` outcomes.
    """
    limit, z = math.log(1.0 / delta), np.zeros(rows.shape[1])
    for count in range(0, len(rows), stride):
        if count:
            z = penalised(rows[:count], losses.part(slice(count)), mean, penalty, z)
        fresh = slice(count, count + stride)
        limit += float(losses.part(fresh)(mean + rows[fresh] @ z)[0].sum())
    return limit


class GaussianBand:
    r"""A band on outcomes 0 and 1, whose noise is sub-Gaussian with scale 1/2.

    The function is the probability minus 1/2, and its norm is bounded by that of
    ``probability_norm`` times what the norm bound has above the norm of the log odds.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, task = problem, problem.task
        norm = probability_norm(problem, task.misfit)
        self.norm_bound = task.norm_bound / task.norm * norm

    def bounds(self, X: Tensor, Y: Tensor, queries: Tensor) -> Interval:
        r"""Of the probability, after some data."""
        state = KernelRegression(X, Y - 0.5, self.problem.kernel, 0.5)
        delta = self.problem.task.delta
        band = MartingaleMixtureUCB(state, norm_bound=self.norm_bound, delta=delta)
        lower, upper = band.bounds(queries)
        return (lower + 0.5).clamp(0.0, 1.0), (upper + 0.5).clamp(0.0, 1.0)


def probability_norm(problem: Problem, misfit: float) -> float:
    r"""Norm of the probability minus 1/2 in the kernel's space, or of what is close to it.

    The logistic function has poles, so the probability has some too, unless the log odds
    are constant: it is no entire function, as all functions of the RBF kernel's space are,
    and its norm there is infinite. For this kernel the norm is the smallest of a function
    that differs by at most ``misfit`` on a grid, in favour of the band, which knows nothing
    of the difference. For a Matérn kernel it is that of the interpolant on a grid. These
    increase to the norm when the grid is refined; 2 % are added for what is missing.
    """
    points = problem.grid(_GRID)
    target = problem.latent(points).sigmoid() - 0.5
    if problem.task.kernel == "rbf":
        return _close_norm(problem.kernel, points, target, misfit)
    return _EXTRAPOLATION * interpolant_norm(problem.kernel, points, target)


def interpolant_norm(kernel: Kernel, points: Tensor, target: Tensor) -> float:
    r"""Smallest norm of a function with these values."""
    values, vectors = torch.linalg.eigh(kernel(points).to_dense())
    coordinates = vectors.T @ target
    kept = values > len(values) * torch.finfo(values.dtype).eps * values[-1]
    return float((coordinates[kept].square() / values[kept]).sum().sqrt())


def _close_norm(kernel: Kernel, points: Tensor, target: Tensor, misfit: float) -> float:
    r"""Norm of the ridge estimate with the largest parameter that is close enough."""
    values, vectors = torch.linalg.eigh(kernel(points).to_dense())
    values, coordinates = values.clamp_min(0.0), vectors.T @ target
    low, high = -30.0, 10.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        shrunk = coordinates / (values + math.exp(middle))
        close = float((vectors @ (values * shrunk) - target).abs().max()) <= misfit
        low, high = (middle, high) if close else (low, middle)
    shrunk = coordinates / (values + math.exp(low))
    return float((values * shrunk.square()).sum().sqrt())


class VariationalBand:
    r"""BoTorch's variational Gaussian process, a Bernoulli likelihood, and two deviations.

    Nothing bounds how often the probability is outside: the posterior is an approximation,
    two standard deviations are for one point and one round, and kernel and mean are fitted.

    Args:
        inducing_points: ``m x d``, fixed.
        iterations: Of L-BFGS-B for each fit, which begins at the last one.
    """

    def __init__(self, inducing_points: Tensor, iterations: int) -> None:
        self.inducing_points, self.iterations = inducing_points, iterations
        self.model: SingleTaskVariationalGP | None = None

    def fitted(self, X: Tensor, Y: Tensor) -> "VariationalBand":
        r"""Fit kernel, mean and variational distribution to outcomes 0 and 1."""
        with quiet(InputDataWarning):  # it would have zeros and ones standardised
            model = SingleTaskVariationalGP(
                X,
                Y.unsqueeze(-1),
                likelihood=BernoulliLikelihood(),
                num_outputs=1,
                learn_inducing_points=False,
                inducing_points=self.inducing_points,
            )
        if self.model is not None:
            model.model.load_state_dict(self.model.model.state_dict())
        loss = VariationalELBO(model.likelihood, model.model, num_data=len(X))
        # The first fit begins at random, and stops after the iterations that it is given.
        with manual_seed(0), quiet(OptimizationWarning):
            fit_gpytorch_mll_scipy(loss, options={"maxiter": self.iterations})
        self.model = model.eval()
        return self

    @torch.no_grad()
    def bounds(self, X: Tensor) -> Interval:
        r"""Mean and two standard deviations, as probabilities."""
        assert self.model is not None
        posterior, link = self.model.model(X), _NORMAL.cdf  # of BernoulliLikelihood
        spread = _DEVIATIONS * posterior.stddev
        return link(posterior.mean - spread), link(posterior.mean + spread)
