r"""Ax experiments of successes and counts, on log odds of known norm."""

import torch
from ax.api.configs import RangeParameterConfig
from ax_bench import UNIT, make_client

from kernelucb import LikelihoodUCB
from problems import RKHSFunction, frozen_kernel

NORM = 2.0
KERNEL = {"kernel": "rbf", "lengthscale": 0.3, "norm_bound": NORM}
BINOMIAL = KERNEL | {"likelihood": "binomial", "num_trials": 20}
MANY = BINOMIAL | {"num_trials": 200}
WIDE = BINOMIAL | {"norm_bound": 5.0}
LIKELIHOODS = {
    "bernoulli": KERNEL | {"likelihood": "bernoulli"},
    "binomial": BINOMIAL,
    "poisson": KERNEL | {"likelihood": "poisson", "exposure": 2.5, "mean": 1.0},
}
LATENT = RKHSFunction.random(frozen_kernel("rbf", 0.3), NORM, 1, seed=7)
STEPS = [RangeParameterConfig(name="x", parameter_type="int", bounds=(0, 20))]
GRID = torch.linspace(0.0, 1.0, 101, dtype=torch.float64).unsqueeze(-1)


def chance(parameters, function=LATENT, mean=0.0):
    r"""Probability of a success; ``x`` is a share, or an integer up to 20."""
    x = parameters["x"] / (20.0 if isinstance(parameters["x"], int) else 1.0)
    return float((mean + function(torch.tensor([[x]], dtype=torch.float64))).sigmoid())


def drawn(probability, number, seed):
    r"""A proportion of successes, as a trial would report it."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(number, generator=generator, dtype=torch.float64) < probability
    return float(draws.double().mean())


def successes(parameters):
    return {"y": drawn(chance(parameters), 20, seed=int(1e6 * parameters["x"]))}


def count_client(parameters=UNIT, options=BINOMIAL, **arguments):
    return make_client(parameters, acqf_class=LikelihoodUCB, options=options, **arguments)


def many_successes(parameters):
    return {"y": drawn(chance(parameters), 200, seed=parameters["x"])}
