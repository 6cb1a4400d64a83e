r"""What is refused of successes and counts."""

import warnings

from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models import SingleTaskGP, SingleTaskVariationalGP
from botorch.models.transforms.input import Warp
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import BernoulliLikelihood
from gpytorch.means import ConstantMean
from gpytorch.models import ApproximateGP
from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

from kernelucb import LikelihoodUCB, OutcomeConstraints
from problems import float64, frozen_kernel, likelihood_ucb, uniform

X, Y, KERNEL = (
    uniform(6, 2, 1),
    float64([0.0, 1.0, 1.0, 0.0, 1.0, 1.0]),
    frozen_kernel("rbf"),
)
SEEN, GIVEN = {"train_X": X, "train_Y": Y}, {"norm_bound": 3.0}
EIGHT = {"likelihood": "binomial", "num_trials": 8.0, "kernel": KERNEL}


class Other(ApproximateGP):
    r"""A forward that is not made of kernel and mean, if ``warp`` is not 1."""

    def __init__(self, warp):
        distribution = CholeskyVariationalDistribution(5).double()
        super().__init__(VariationalStrategy(self, X[:5].clone(), distribution))
        self.mean_module, self.covar_module, self.warp = ConstantMean(), KERNEL, warp

    def forward(self, inputs):
        inputs = self.warp * inputs
        return MultivariateNormal(self.mean_module(inputs), self.covar_module(inputs))


def variational(outcomes=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of BoTorch, about input transforms
        return SingleTaskVariationalGP(
            X, outcomes, likelihood=BernoulliLikelihood(), covar_module=KERNEL, **options
        )


def exact(**options):
    return lambda: read(SingleTaskGP(X, Y.unsqueeze(-1)), likelihood="bernoulli", **options)


def read(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of BoTorch, about the scale of the outcomes
        return LikelihoodUCB.from_model(model, **GIVEN, **options)


def of(outcomes=Y, **options):
    return lambda: likelihood_ucb(X, outcomes, KERNEL, **GIVEN, **options)


def warped():
    return variational(Y.unsqueeze(-1), input_transform=Warp(2, [0, 1]))


def rates():
    return SingleTaskGP(X, 0.1 * Y.unsqueeze(-1))


DOUBLE = ScalarizedPosteriorTransform(float64([2.0]))
KEPT, NO_FORWARD = "give train_X and train_Y as well", {"likelihood": "bernoulli", **SEEN}
TRIALS, POISSON = {"likelihood": "binomial"}, {"likelihood": "poisson"}
Data, Unread = InputDataError, UnsupportedError
ROWS = [
    ("no outcomes kept", lambda: read(variational()), Data, KEPT),
    ("a trained transform", lambda: read(warped()), Data, KEPT),
    ("no likelihood", lambda: read(Other(1.0), **SEEN), Unread, "its outcomes are"),
    ("another forward", lambda: read(Other(0.5), **NO_FORWARD), Unread, "forward"),
    ("a kernel of outcomes", exact(), Unread, "log odds"),
    ("no lengthscale", exact(kernel="rbf"), ValueError, "lengthscale"),
    ("rates as counts", lambda: read(rates(), **EIGHT), Data, "whole numbers"),
    ("no successes", of(2.0 * Y), Data, "0 or 1"),
    ("no counts", of(Y - 0.5, **POISSON), Data, "whole numbers"),
    ("no trials", of(**TRIALS), ValueError, "needs num_trials"),
    ("trials of one", of(num_trials=3.0), ValueError, "leave it out"),
    ("half a trial", of(**TRIALS, num_trials=0.5), Data, "num_trials must hold whole"),
    ("too many", of(3.0 * Y, **TRIALS, num_trials=2), Data, "more successes"),
    ("no exposure", of(**POISSON, exposure=0.0), ValueError, "exposure"),
    ("a weight of two", of(posterior_transform=DOUBLE), Unread, "weight 1 or -1"),
    ("threshold", lambda: OutcomeConstraints(of()(), 1.0), ValueError, "after Logit, got"),
]
