r"""The methods of the comparison.

``base`` says what a method is; ``rivals`` and ``ax_default`` are what people use today,
``ours`` the methods of this package.
"""

from collections.abc import Callable
from functools import partial

from benchmarks.practical.learners import ax_default, ours, rivals
from benchmarks.practical.learners.base import Learner

__all__ = ["METHODS", "Learner", "ax_default", "ours", "rivals"]

_improvement = partial(rivals.LogNoisyExpectedImprovement, samples=128)
_guarded = partial(ours.GuardedImprovement, samples=128)
_floor_2 = partial(ours.EstimatedNorm, inflation=1.0, floor=2.0)
# A method's label, and its learner, a new one for each run.
METHODS: dict[str, tuple[str, Callable[[], Learner]]] = {
    "ucb_02": ("UCB, beta 0.2", partial(rivals.UpperConfidenceBound, 0.2)),
    "ucb_2": ("UCB, beta 2", partial(rivals.UpperConfidenceBound, 2.0)),
    "ucb_4": ("UCB, beta 4", partial(rivals.UpperConfidenceBound, 4.0)),
    "log_ei": ("LogEI", rivals.LogExpectedImprovement),
    "q_log_nei": ("qLogNEI", _improvement),
    "thompson": ("Thompson sampling", rivals.ThompsonSampling),
    "irgp_ucb": ("IRGP-UCB", partial(rivals.RandomizedUpperConfidenceBound, mean=2.0)),
    "random": ("Random search", rivals.RandomSearch),
    "q_log_nei_around": (
        "qLogNEI, samples around best",
        partial(_improvement, around_best=True),
    ),
    "q_log_nei_joint": ("qLogNEI, joint batches", partial(_improvement, joint=True)),
    "q_ucb_2": (
        "qUCB, beta 2",
        partial(rivals.BatchUpperConfidenceBound, beta=2.0, samples=128),
    ),
    "gibbon": ("GIBBON", partial(rivals.MaxValueEntropy, candidates=1000)),
    "ax_default": ("Ax's default", ax_default.AxDefault),
    "guarded": ("Guarded qLogNEI", _guarded),
    "guarded_every_4": ("Guarded qLogNEI, every fourth by U", partial(_guarded, every=4)),
    "guarded_joint": ("Guarded qLogNEI, joint batches", partial(_guarded, joint=True)),
    "mixture_ucb": ("MartingaleMixtureUCB", ours.MixtureOfFilters),
    "recommended": ("Martingale mixture", ours.MartingaleMixture),
    "floor_1": (
        "Norm estimate, floor 1",
        partial(ours.EstimatedNorm, inflation=1.0, floor=1.0),
    ),
    "floor_2": ("Norm estimate, floor 2 (the default)", _floor_2),
    "floor_3": (
        "Norm estimate, floor 3",
        partial(ours.EstimatedNorm, inflation=1.0, floor=3.0),
    ),
    "inflated": (
        "Norm estimate, floor 2, inflation 1.5",
        partial(ours.EstimatedNorm, inflation=1.5, floor=2.0),
    ),
    "kept": (
        "Norm estimate, floor 2, kept over the rounds",
        partial(_floor_2, keep=True),
    ),
    "mixture": (
        "Norm estimate, floor 2, mixture of scales",
        partial(_floor_2, covariance_scale="mixture"),
    ),
}
