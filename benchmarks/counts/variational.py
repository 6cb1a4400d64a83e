r"""BoTorch's variational Gaussian process with a Bernoulli likelihood, and two deviations.

Nothing bounds how often the probability is outside: the posterior is an approximation,
two standard deviations are for one point and one round, and kernel and mean are fitted.
"""

import warnings

import torch
from botorch.exceptions import InputDataWarning, OptimizationWarning
from botorch.models import SingleTaskVariationalGP
from botorch.optim.fit import fit_gpytorch_mll_scipy
from botorch.utils.sampling import manual_seed
from gpytorch.likelihoods import BernoulliLikelihood
from gpytorch.mlls import VariationalELBO
from torch import Tensor

_DEVIATIONS = 2.0
_NORMAL = torch.distributions.Normal(0.0, 1.0)


class VariationalBand:
    r"""The model of the data so far, fitted again whenever data are added.

    Args:
        inducing_points: ``m x d``, fixed.
        iterations: Of L-BFGS-B for each fit, which begins at the last one.
    """

    def __init__(self, inducing_points: Tensor, iterations: int) -> None:
        self.inducing_points, self.iterations = inducing_points, iterations
        self.model: SingleTaskVariationalGP | None = None

    def fit(self, X: Tensor, Y: Tensor) -> None:
        r"""Fit kernel, mean and variational distribution to outcomes 0 and 1."""
        with warnings.catch_warnings():  # it would have zeros and ones standardised
            warnings.simplefilter("ignore", InputDataWarning)
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
        with manual_seed(0), warnings.catch_warnings():
            warnings.simplefilter("ignore", OptimizationWarning)
            fit_gpytorch_mll_scipy(loss, options={"maxiter": self.iterations})
        self.model = model.eval()

    def bounds(self, X: Tensor) -> tuple[Tensor, Tensor]:
        r"""Mean and two standard deviations, as probabilities."""
        assert self.model is not None
        with torch.no_grad():
            posterior = self.model.model(X)
        spread = _DEVIATIONS * posterior.stddev
        link = _NORMAL.cdf  # of GPyTorch's BernoulliLikelihood
        return link(posterior.mean - spread), link(posterior.mean + spread)
