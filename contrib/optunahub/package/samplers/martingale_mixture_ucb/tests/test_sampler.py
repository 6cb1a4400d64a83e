r"""Every kind of distribution, both directions, several workers, repeatability."""

from __future__ import annotations

from pathlib import Path

import optuna
import optunahub
import pytest

ROOT = Path(__file__).parents[3]
MODULE = optunahub.load_local_module(
    "samplers/martingale_mixture_ucb", registry_root=str(ROOT)
)
optuna.logging.set_verbosity(optuna.logging.WARNING)


def sampler(**options):
    return MODULE.MartingaleMixtureUCBSampler(**{"n_startup_trials": 4, "seed": 0} | options)


def mixed(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -5.0, 5.0)
    rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
    share = trial.suggest_float("share", 0.0, 1.0, step=0.25)
    layers = trial.suggest_int("layers", 1, 9, step=2)
    width = trial.suggest_int("width", 1, 512, log=True)
    kind = trial.suggest_categorical("kind", ["flat", "steep", None])
    assert share in (0.0, 0.25, 0.5, 0.75, 1.0)
    assert layers in range(1, 10, 2)
    far = (x - 1.0) ** 2 + 100.0 * abs(rate - 0.01) + (layers - 3) ** 2 + share
    return far + abs(width - 32) / 64 + (kind == "steep")


def few(trial: optuna.Trial) -> float:
    return trial.suggest_int("n", 0, 4) + trial.suggest_categorical("c", [0.0, 1.0])


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@pytest.mark.parametrize("objective", [mixed, few])
def test_spaces_of_every_kind_are_searched(objective, direction):
    study = optuna.create_study(direction=direction, sampler=sampler())
    study.optimize(objective, n_trials=9)
    assert len(study.trials) == 9
    assert all(each.state == optuna.trial.TrialState.COMPLETE for each in study.trials)


def test_it_finds_more_than_chance():
    found = []
    for each in (sampler(), optuna.samplers.RandomSampler(seed=0)):
        study = optuna.create_study(sampler=each)
        study.optimize(lambda t: t.suggest_float("x", -5.0, 5.0) ** 2, n_trials=15)
        found.append(study.best_value)
    assert found[0] < 0.1 * found[1]


def test_a_seed_is_repeated_and_workers_share_a_study():
    def values():
        study = optuna.create_study(sampler=sampler())
        study.optimize(mixed, n_trials=6)
        return [each.params for each in study.trials]

    assert values() == values()
    study = optuna.create_study(sampler=sampler())
    study.optimize(mixed, n_trials=5)
    first, second = study.ask(), study.ask()  # the second sees the first one running
    for each in (first, second):
        mixed(each)
    assert first.params != second.params


def test_several_objectives_are_refused():
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler())
    with pytest.raises(ValueError, match="one objective"):
        study.optimize(lambda t: (t.suggest_float("x", 0, 1), 0.0), n_trials=1)
