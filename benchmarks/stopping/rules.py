r"""Stopping rules: each looks at the run so far and says whether it would stop.

A rule that bounds the regret of the recommended point answers with its bound: it stops at
all regrets to accept that are as large. Others answer yes or no, and where they can be
told a regret to accept, they are told ``accepted``. Rules of Optuna and BoFire are run
from their packages (``pip install optuna bofire``; nothing else needs them). "After" names
a rule that is written here from its source.
"""

import importlib.util
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from scipy.stats import beta as beta_distribution
from scipy.stats import norm as normal
from torch import Tensor

import kernelucb
from benchmarks.stopping.problems import Target
from kernelucb.data.kernel_family import fixed_kernel as scaled_kernel
from kernelucb.data.kernel_family import fixed_mean

START, BUDGET = 10, 60
LENGTHSCALE = 0.5  # the guide's; fixed before the data
_LENGTHS = {"shortest": 0.2, "longest": 0.8, "ratio": 2.0}
_OPTUNA_FIRST = 20  # of its ``Terminator``
_SAMPLES = 1024


@dataclass
class Look:
    r"""What a rule sees after an evaluation.

    Attributes:
        target: Whose values no rule reads.
        taken: Positions in the pool of the ``n`` settings.
        Y: ``n`` outcomes.
        noise_std: As told.
        accepted: Largest regret to accept, outcome units, for rules that are told one.
        model: ``SingleTaskGP`` fitted to the data.
        memory: What rules keep from look to look.
    """

    target: Target
    taken: list[int]
    Y: Tensor
    noise_std: float
    accepted: float
    model: Any
    memory: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def X(self) -> Tensor:
        r"""``n x d`` settings."""
        return self.target.pool[self.taken]

    @cached_property
    def fitted(self) -> "Posterior":
        return Posterior.of(kernelucb.KernelRegression.of(self.model), self.target.pool)

    @cached_property
    def best(self) -> int:
        r"""Position of the recommended setting: the played one with the best mean."""
        return self.taken[int(self.fitted.mean[self.taken].argmax())]

    @property
    def recommended(self) -> Tensor:
        r"""``1 x d``."""
        return self.target.pool[self.best : self.best + 1]

    @cached_property
    def fixed(self) -> kernelucb.KernelRegression:
        r"""State of a kernel that the data after the first ten do not change."""
        known, first = self.target.known, self.Y[:START]
        if known is not None:
            return kernelucb.KernelRegression(self.X, self.Y, known.kernel, self.noise_std)
        kernel = scaled_kernel("matern52", LENGTHSCALE, float(first.var()))
        mean = fixed_mean(float(first.mean()))
        return kernelucb.KernelRegression(self.X, self.Y, kernel, self.noise_std, mean)

    @cached_property
    def least(self) -> kernelucb.Band:
        r"""The band at the least consistent norm."""
        band = kernelucb.MartingaleMixtureUCB(self.fixed, norm_bound=1.0).band
        least = max(float(band.relaxed().least_norms[0]), 1e-3)
        return kernelucb.MartingaleMixtureUCB(self.fixed, norm_bound=least).band


class Posterior(NamedTuple):
    r"""Of a Gaussian process over the pool: ``N`` means, ``N x N`` covariances."""

    mean: Tensor
    covariance: Tensor

    @classmethod
    def of(cls, state: kernelucb.KernelRegression, pool: Tensor) -> "Posterior":
        X, prior = state.train_inputs, state.prior
        noise = torch.diag(state.noise_scales**2)
        factor = torch.linalg.cholesky(prior.covariance(X, X) + noise)
        rest = (state.train_targets - prior.mean(X))[:, None]
        cross, weights = (
            torch.linalg.solve_triangular(factor, right, upper=False)
            for right in (prior.covariance(X, pool), rest)
        )
        mean = prior.mean(pool) + (cross.mT @ weights)[:, 0]
        return cls(mean, prior.covariance(pool, pool) - cross.mT @ cross)

    @property
    def std(self) -> Tensor:
        return self.covariance.diagonal().clamp_min(1e-12).sqrt()

    def regret(self, best: int) -> float:
        r"""Smallest number that the gain over a setting exceeds with P below 2.5 %.

        By draws on the pool, at 97.5 % confidence (Clopper and Pearson's limit).
        """
        size, directions = torch.linalg.eigh(self.covariance)
        random = torch.Generator().manual_seed(best)
        draws = torch.randn(len(size), _SAMPLES, generator=random, dtype=torch.float64)
        root = directions * size.clamp_min(0.0).sqrt()
        paths = self.mean[:, None] + root @ draws
        above = np.arange(_SAMPLES)
        limits = beta_distribution.ppf(0.975, above + 1, _SAMPLES - above)
        gains = (paths.amax(0) - paths[best]).sort(descending=True).values
        return float(gains[int((limits <= 0.025).sum())])


Answer = Callable[[Look], float | bool]


def _optuna(evaluator: str, threshold: str) -> Answer:
    r"""``Terminator.should_terminate`` with this improvement and this error evaluator."""

    def rule(look: Look) -> float | bool:
        import optuna
        from optuna import terminator as theirs

        if len(look.Y) < _OPTUNA_FIRST:
            return False
        unit = optuna.distributions.FloatDistribution(0.0, 1.0)
        runs = [{f"x{i}": x for i, x in enumerate(row)} for row in look.X.tolist()]
        space = dict.fromkeys(runs[0], unit)
        trials = [
            optuna.trial.create_trial(params=run, distributions=space, value=outcome)
            for run, outcome in zip(runs, look.Y.tolist(), strict=True)
        ]
        options = {} if threshold == "zero" else {"seed": 0}
        improvement: Any = getattr(theirs, evaluator)(**options)
        goal = optuna.study.StudyDirection.MAXIMIZE
        reached = improvement.evaluate(trials, goal)
        if threshold == "accepted":
            return reached
        if threshold == "standardized":  # EMMR is in standardized outcomes
            return reached * float(look.Y.std(correction=0))
        error: Any = theirs.StaticErrorEvaluator(0.0)
        if threshold == "median":
            error = theirs.MedianErrorEvaluator(improvement)
            error = look.memory.setdefault("median", error)
        return bool(reached < error.evaluate(trials, goal))

    return rule


def _bofire(criterion: str, **numbers: Any) -> Answer:
    r"""A criterion's evaluator, given the history and no strategy besides."""

    def rule(look: Look) -> float | bool:
        import bofire.data_models.strategies.convergence_criteria.api as criteria
        from bofire.data_models.domain.api import Domain, Inputs, Outputs
        from bofire.data_models.features.api import ContinuousInput, ContinuousOutput
        from bofire.data_models.objectives.api import MaximizeObjective
        from bofire.strategies.convergence_criteria.api import map as evaluator_of

        names = [f"x{i}" for i in range(look.X.shape[1])]
        inputs = [ContinuousInput(key=name, bounds=(0.0, 1.0)) for name in names]
        outcome = ContinuousOutput(key="y", objective=MaximizeObjective(w=1.0))
        outputs = Outputs(features=[outcome])
        experiments = pd.DataFrame(look.X.numpy(), columns=pd.Index(names))
        strategy = SimpleNamespace(
            domain=Domain(inputs=Inputs(features=inputs), outputs=outputs),
            experiments=experiments.assign(y=look.Y.numpy(), valid_y=1),
        )
        own = {} if "threshold" in numbers else {"min_improvement": look.accepted}
        asked: Any = getattr(criteria, criterion)(**numbers, **own)
        return bool(evaluator_of(asked)(asked, strategy))

    return rule


def regret_bound(look: Look) -> float:
    r"""Largest upper minus best lower bound, of Makarova et al. (2022), delta 0.1.

    As in BoFire's source after 0.5.0: beta a fifth of Srinivas et al.'s, on the model of
    the search; their default threshold is the noise variance, ours what is accepted.
    """
    count, dimension = look.X.shape
    beta = 0.4 * math.log(dimension * count**2 * math.pi**2 / 0.6)
    mean, width = look.fitted.mean, math.sqrt(beta) * look.fitted.std
    lower = (mean - width)[look.taken]
    return float((mean + width).max() - lower.max())


def expected_improvement(look: Look) -> float:
    r"""Largest expected improvement over the best outcome (LogEIPC at cost 1)."""
    gain, std = look.fitted.mean - float(look.Y.max()), look.fitted.std.clamp_min(1e-12)
    u = (gain / std).numpy()
    improvement = std.numpy() * (normal.pdf(u) + u * normal.cdf(u))
    return float(improvement.max())


def ax_improvement(look: Look, window: int = 5, bar: float = 0.1) -> bool:
    r"""``ImprovementGlobalStoppingStrategy``: the best outcome over a window."""
    outcomes = look.Y.numpy()
    best = np.maximum.accumulate(outcomes)
    upper, lower = np.percentile(outcomes, [75, 25])
    return bool((best[-1] - best[-window]) / (upper - lower) < bar)


def _gap(look: Look, band: Any) -> float:
    r"""Of a function that no kernel made the norm is an estimate, and the gap heuristic."""
    allowed = look.target.known is None or "norm" in band.assumptions.estimated
    largest = 1e9 * look.target.spread
    rule = kernelucb.CertifiedGapStopping(
        largest, look.target.pool, allow_estimated=allowed
    )
    decision = rule(band, look.recommended)
    return decision.certificate.gap if decision.stop else math.inf


def _single(look: Look, norm: float | None = None) -> kernelucb.Band:
    r"""At a norm, or at twice the least consistent one."""
    norm = 2.0 * float(look.least.norm_bounds[0]) if norm is None else norm
    return kernelucb.MartingaleMixtureUCB(look.fixed, norm_bound=norm).band


def _given(build: Callable[[Look, float], Any]) -> Answer:
    r"""The gap of a band at the norm that is known."""
    return lambda look: _gap(look, build(look, look.target.known.norm))


def _margin(least: float) -> Answer:
    r"""The gap that stands at so many times the least norm."""

    def rule(look: Look) -> float:
        band, where = look.least.relaxed(least), {"recommended": look.recommended}
        gap = kernelucb.regret_certificate(band, look.target.pool, **where).gap
        return math.inf if band.assumptions.violated else gap

    return rule


def _family(look: Look, norm: float | None = None) -> kernelucb.Band:
    r"""At a norm, or at twice the least one of any kernel."""
    known, first = look.target.known, look.Y[:START]
    base: Any = known and known.kernel
    base = base or scaled_kernel("matern52", LENGTHSCALE, float(first.var()))
    shift = first.mean() if known is None else 0.0
    state = kernelucb.KernelRegression(look.X, look.Y - shift, base, look.noise_std)
    kernels = kernelucb.lengthscale_family(base, **_LENGTHS)
    band = kernelucb.KernelFamilyUCB(state, kernels, norm_bound=norm or 1.0).band
    if norm is not None:
        return band
    band = band.relaxed()
    least = max(float(band.least_norm_factor * max(band.norm_bounds)), 1e-3)
    return kernelucb.KernelFamilyUCB(state, kernels, norm_bound=2.0 * least).band


class Rule(NamedTuple):
    r"""A rule.

    Attributes:
        answer: The regret that it bounds, or whether it would stop.
        promise: In words: the rate at which regrets at its stops are accepted ones, and
            what that rests on.
        needs: A package, or what must be known of the function.
    """

    answer: Answer
    promise: str = "none"
    needs: str = ""


_MODEL_90, _MODEL_95 = "90 % if the model is right", "95 % if the model is right"
_GIVEN = "95 % if kernel, norm, noise hold"
RULES = {
    f"budget of {n}": Rule(lambda look, n=n: len(look.Y) >= n) for n in (20, 30, 45)
} | {
    "Optuna regret bound": Rule(
        _optuna("RegretBoundEvaluator", "accepted"), _MODEL_90, "optuna"
    ),
    "Optuna EMMR at 5 %": Rule(_optuna("EMMREvaluator", "standardized"), needs="optuna"),
    "Optuna EMMR, its median": Rule(_optuna("EMMREvaluator", "median"), needs="optuna"),
    "Optuna stagnation, 30": Rule(
        _optuna("BestValueStagnationEvaluator", "zero"), needs="optuna"
    ),
    "BoFire improvement, 10": Rule(
        _bofire("ObjectiveImprovementCriterion", n_lookback=10), needs="bofire"
    ),
    "BoFire proposals, 3": Rule(
        _bofire("ProposalDeviationCriterion", threshold=0.05, n_consecutive=3),
        needs="bofire",
    ),
    "after BoFire's UCB-LCB": Rule(regret_bound, _MODEL_90),
    "after BoFire's LogEI": Rule(expected_improvement),
    "after Ax's improvement": Rule(ax_improvement),
    "after Wilson (2024)": Rule(lambda look: look.fitted.regret(look.best), _MODEL_95),
    "after Wilson, true prior": Rule(  # with the prior that the function was drawn from
        lambda look: Posterior.of(look.fixed, look.target.pool).regret(look.best),
        "95 % on average",
        "known prior",
    ),
    "gap, norm given": Rule(_given(_single), _GIVEN, "known"),
    "gap, twice the least norm": Rule(lambda look: _gap(look, _single(look))),
    "gap in range, twice the least": Rule(
        lambda look: _gap(look, _single(look).within(*look.target.outcome_range)),
        needs="range",
    ),
    "breakdown margin 2": Rule(_margin(2.0)),
    "breakdown margin 5": Rule(_margin(5.0)),
    "family, norm given": Rule(_given(_family), _GIVEN, "known"),
    "family, twice the least norm": Rule(lambda look: _gap(look, _family(look))),
}


def rules_for(target: Target, group: str) -> dict[str, Rule]:
    r"""Rules whose packages are here and whose knowledge there is."""
    have = {"": True, "known": target.known is not None, "known prior": False}
    have |= {"range": target.outcome_range is not None, group: True}
    return {
        name: rule
        for name, rule in RULES.items()
        if (have[rule.needs] if rule.needs in have else _is_installed(rule.needs))
    }


def _is_installed(package: str) -> bool:
    if importlib.util.find_spec(package) is not None:
        return True
    print(f"{package} is not installed: its rules are left out (pip install {package}).")
    return False
