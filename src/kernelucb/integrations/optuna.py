r"""Optuna: the certified gap as an improvement evaluator of ``optuna.terminator``."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from botorch.exceptions import UnsupportedError

from kernelucb.integrations.core import History, Settings, unit_cube

try:
    from optuna.distributions import FloatDistribution, IntDistribution
    from optuna.search_space import intersection_search_space
    from optuna.study import Study, StudyDirection
    from optuna.terminator import BaseImprovementEvaluator
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:  # pragma: no cover
    raise ImportError(
        "This adapter needs Optuna: pip install 'kernelucb[integrations]'."
    ) from error


class CertifiedGapEvaluator(BaseImprovementEvaluator):
    r"""How much better than the best trial any setting may be.

    For Optuna's ``Terminator``, which ends a study when the gap is below the value of the
    error evaluator: give the gap that you accept to ``StaticErrorEvaluator``. The best
    trial is the study's, with the best measured outcome. If the ``settings`` are true and
    their norm bound was given, a stop is wrong with probability at most ``delta``, by
    whatever rule the study chooses its trials. Until the gap closes, and where the data
    contradict the settings, the study goes on.

    Example:
        >>> gap = CertifiedGapEvaluator(Settings(norm_bound=20.0, noise_std=1.0))
        >>> terminator = Terminator(gap, StaticErrorEvaluator(constant=5.0))
        >>> study.optimize(objective, callbacks=[TerminatorCallback(terminator)])

    Args:
        settings: Assumptions for inputs in the unit cube, log-scaled parameters after the
            logarithm.
        min_trials: Number of completed trials before the gap is computed at all.
    """

    def __init__(self, settings: Settings, min_trials: int = 10) -> None:
        self.settings, self.min_trials = settings, min_trials

    def evaluate(self, trials: list[FrozenTrial], study_direction: StudyDirection) -> float:
        r"""The gap, outcome units; infinite before ``min_trials`` or if not rigorous."""
        done = [each for each in trials if each.state == TrialState.COMPLETE]
        if len(done) < self.min_trials:
            return math.inf
        maximize = study_direction == StudyDirection.MAXIMIZE
        return history_of(done, maximize).gap(self.settings)


def history_of(trials: Sequence[FrozenTrial], maximize: bool) -> History:
    r"""Completed trials as a history; failed, pruned and running trials are left out.

    Raises:
        UnsupportedError: If a parameter is a category, or not in every trial.
    """
    done = [each for each in trials if each.state == TrialState.COMPLETE]
    space = intersection_search_space(done)
    missing = {name for each in done for name in each.params} - space.keys()
    other = [
        name
        for name, each in space.items()
        if not isinstance(each, FloatDistribution | IntDistribution)
    ]
    if missing or other:
        raise UnsupportedError(
            f"The parameters {', '.join(sorted({*missing, *other}))} are categories or not "
            "in every trial; the gap is over numbers that every trial has."
        )
    rows = [[_scaled(each.params[n], space[n]) for n in space] for each in done]
    lower = [_scaled(own.low, own) for own in space.values()]
    upper = [_scaled(own.high, own) for own in space.values()]
    outcomes = [float(each.value or 0.0) for each in done]
    X = unit_cube(rows, lower, upper)
    return History(X, torch.tensor(outcomes).double(), maximize, tuple(space))


def study_history(study: Study) -> History:
    r"""The history of a study with one objective, for ``History.report``.

    Raises:
        UnsupportedError: If a parameter is a category, or not in every trial.
    """
    return history_of(study.trials, study.direction == StudyDirection.MAXIMIZE)


def _scaled(value: Any, distribution: Any) -> float:
    r"""A value, or its logarithm where the parameter is drawn on that scale."""
    return math.log(value) if distribution.log else float(value)
