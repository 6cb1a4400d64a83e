r"""What is refused of successes and counts."""

import warnings

from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import InputDataError, UnsupportedError
from botorch.models import SingleTaskGP, SingleTaskVariationalGP
from gpytorch.likelihoods import BernoulliLikelihood

from kernelucb import LikelihoodUCB, OutcomeConstraints
from problems import float64, frozen_kernel, likelihood_ucb, uniform

X, Y = uniform(6, 2, 1), float64([0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
KERNEL, GIVEN = frozen_kernel("rbf"), {"norm_bound": 3.0}


def variational(outcomes=None):
    likelihood = BernoulliLikelihood()
    return SingleTaskVariationalGP(X, outcomes, likelihood, covar_module=KERNEL)


def warped():
    r"""Its forward is not made of kernel and mean alone."""
    model = variational(Y.unsqueeze(-1))
    forward = model.model.forward
    model.model.forward = lambda inputs: forward(0.5 * inputs)
    return model


def exact(outcomes=Y, **options):
    return lambda: read(SingleTaskGP(X, outcomes.unsqueeze(-1)), **options)


def read(model, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of BoTorch, about the scale of the outcomes
        return LikelihoodUCB.from_model(model, **GIVEN, **options)


def of(outcomes=Y, **options):
    return lambda: likelihood_ucb(X, outcomes, KERNEL, **GIVEN, **options)


DOUBLE = ScalarizedPosteriorTransform(float64([2.0]))
KEPT = "give train_X and train_Y as well"
TRIALS, POISSON = {"likelihood": "binomial"}, {"likelihood": "poisson"}
EIGHT = {**TRIALS, "num_trials": 8.0, "kernel": KERNEL}
ONE = {"likelihood": "bernoulli"}
Data, Unread = InputDataError, UnsupportedError
ROWS = [
    ("no outcomes kept", lambda: read(variational()), Data, KEPT),
    ("no likelihood", exact(), Unread, "its outcomes are"),
    ("another forward", lambda: read(warped(), **ONE), Unread, "forward"),
    ("a kernel of outcomes", exact(**ONE), Unread, "log odds"),
    ("no lengthscale", exact(kernel="rbf", **ONE), ValueError, "lengthscale"),
    ("rates as counts", exact(0.1 * Y, **EIGHT), Data, "whole numbers"),
    ("no successes", of(2.0 * Y), Data, "0 or 1"),
    ("no counts", of(Y - 0.5, **POISSON), Data, "whole numbers"),
    ("no trials", of(**TRIALS), ValueError, "needs num_trials"),
    ("trials of one", of(num_trials=3.0), ValueError, "leave it out"),
    ("too many", of(3.0 * Y, **TRIALS, num_trials=2), Data, "more successes"),
    ("a weight of two", of(posterior_transform=DOUBLE), Unread, "weight 1 or -1"),
    ("threshold", lambda: OutcomeConstraints(of()(), 1.0), ValueError, "after Logit, got"),
]
