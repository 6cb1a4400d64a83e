r"""Likelihood-ratio sets without any reduction of ours: cone programs and integrals.

``X`` holds every outcome in a row of its own (nothing is added up), ``successes`` of
``trials``, or ``counts`` at an ``exposure``. The latent function is ``L g`` with
``L L^T`` the kernel matrix of the data and the query point.
"""

import cvxpy as cp
import numpy as np
import torch
from scipy.special import gammaln, log_expit, logsumexp
from torch import Tensor

from oracles.socp import square_root

# Clarabel stalls on exponential cones when asked for more.
_OPTIONS = {"tol_gap_abs": 1e-7, "tol_gap_rel": 1e-7, "tol_feas": 1e-8}


def binomial_terms(latent, successes: Tensor, trials: Tensor):
    r"""Negative log-likelihood without binomial coefficients, as a cvxpy expression."""
    total = cp.sum(cp.multiply(trials.numpy(), cp.logistic(latent)))
    return total - successes.numpy() @ latent


def poisson_terms(latent, counts: Tensor, exposure: Tensor):
    r"""The same of counts, without factorials."""
    total = cp.sum(cp.multiply(exposure.numpy(), cp.exp(latent)))
    return total - counts.numpy() @ latent


TERMS = {"bernoulli": binomial_terms, "binomial": binomial_terms, "poisson": poisson_terms}


def extreme_value(
    K_joint: Tensor, kind: str, outcomes, level: float, norm: float, sign: int
) -> float:
    r"""``max`` (or ``min``) of ``f(x)`` for the last row ``x`` of ``K_joint``.

    With two more rows than outcomes, of ``f(x) - f(z)`` for the last but one row ``z``.
    """
    root = square_root(K_joint)
    g = cp.Variable(root.shape[1])
    values, count = root.numpy() @ g, len(outcomes[0])
    terms = TERMS[kind](values[:count], *outcomes)
    goal = values[-1] - values[-2] if len(K_joint) == count + 2 else values[-1]
    problem = cp.Problem(cp.Maximize(sign * goal), [terms <= level, cp.norm(g, 2) <= norm])
    problem.solve(solver=cp.CLARABEL, **_OPTIONS)
    return sign * float(problem.value)


def extreme_values(acqf, points: Tensor, sign: int, reference: Tensor | None = None):
    r"""The same for the set of a ``LikelihoodUCB`` without repeated inputs, ``b`` values.

    Of differences to the value at a ``1 x d`` ``reference`` where there is one.
    """
    data, outcomes = acqf.band.data, acqf.band.data.outcomes
    amounts = outcomes.counts, outcomes.amounts
    given = (
        outcomes.kind,
        amounts,
        acqf.band.confidence_set.level,
        acqf.band.norm_bounds[0],
        sign,
    )
    fixed = data.train_inputs if reference is None else [*data.train_inputs, *reference]
    rows = [torch.stack([*fixed, point]) for point in points]
    found = [extreme_value(data.prior.covariance(each, each), *given) for each in rows]
    return torch.tensor(found, dtype=torch.float64)


def least_norm(K: Tensor, kind: str, outcomes, level: float) -> float:
    r"""``min |f|`` over functions whose terms add up to at most ``level``."""
    root = square_root(K)
    g = cp.Variable(root.shape[1])
    terms = TERMS[kind](root.numpy() @ g, *outcomes)
    problem = cp.Problem(cp.Minimize(cp.norm(g, 2)), [terms <= level])
    problem.solve(solver=cp.CLARABEL, **_OPTIONS)
    return float(problem.value)


def log_likelihood(latent: np.ndarray, kind: str, outcomes) -> np.ndarray:
    r"""Sum over the last axis, without terms that no latent value changes."""
    first, second = (part.numpy() for part in outcomes)
    if kind == "poisson":
        return (first * latent - second * np.exp(latent)).sum(-1)
    failures = second - first
    return (first * log_expit(latent) + failures * log_expit(-latent)).sum(-1)


def log_evidence(K: Tensor, kind: str, outcomes, scales: list[float]) -> float:
    r"""``ln int exp(log-likelihood) dQ`` for an equal mixture of ``N(0, c K)``.

    By the trapezoidal rule in two independent coordinates, so for two rows of ``K``.
    """
    grid = np.linspace(-10.0, 10.0, 801)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), -1)
    log_weights = -0.5 * (points**2).sum(-1) + 2.0 * np.log(grid[1] - grid[0])
    log_weights -= np.log(2.0 * np.pi)
    root = torch.linalg.cholesky(K).numpy()
    parts = [
        logsumexp(
            log_likelihood(np.sqrt(c) * points @ root.T, kind, outcomes) + log_weights
        )
        for c in scales
    ]
    return float(logsumexp(parts) - np.log(len(parts)))


def log_base_measure(kind: str, outcomes) -> float:
    r"""Sum of the terms that no latent value changes."""
    first, second = (part.numpy() for part in outcomes)
    if kind == "poisson":
        return float((first * np.log(second) - gammaln(first + 1)).sum())
    choose = gammaln(second + 1) - gammaln(first + 1) - gammaln(second - first + 1)
    return float(choose.sum())
