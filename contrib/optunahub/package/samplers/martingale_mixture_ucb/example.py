import optuna
import optunahub


def objective(trial: optuna.Trial) -> float:
    x = trial.suggest_float("x", -5, 5)
    rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
    layers = trial.suggest_int("layers", 1, 4)
    kind = trial.suggest_categorical("kind", ["flat", "steep"])
    return (x - 1) ** 2 + abs(rate - 0.01) + (layers - 2) ** 2 + (kind == "steep")


module = optunahub.load_module(package="samplers/martingale_mixture_ucb")
study = optuna.create_study(sampler=module.MartingaleMixtureUCBSampler(seed=0))
study.optimize(objective, n_trials=30)
print(study.best_trial.params, study.best_value)
