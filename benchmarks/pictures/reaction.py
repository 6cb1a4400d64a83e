r"""The table of the guide: 50 runs of a batch reaction, 20 spread evenly, then qLogNEI.

``python -m benchmarks.pictures.reaction`` writes ``docs/reaction.csv``.
"""

import numpy as np
import torch
from botorch.acquisition import qLogNoisyExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

from benchmarks.runner import ROOT, sobol_points, unit_cube
from benchmarks.runner.simulators import batch_reaction

TABLE = ROOT / "docs/reaction.csv"
LOW, HIGH = np.array([37.0, 0.2, 0.5]), np.array([117.0, 20.0, 2.0])  # C, h, mol %
STEPS = np.array([1.0, 0.1, 0.01])
NOISE = 1.0


def settings(X: torch.Tensor) -> np.ndarray:
    r"""What is set: shares of the box, rounded as an instrument is."""
    return STEPS * np.round((LOW + (HIGH - LOW) * X.numpy()) / STEPS)


def true_yield(runs: np.ndarray) -> np.ndarray:
    shares = (runs - LOW) / (HIGH - LOW)
    shares[:, 1] = np.log(runs[:, 1] / LOW[1]) / np.log(HIGH[1] / LOW[1])
    return batch_reaction(shares)


def main() -> None:
    torch.manual_seed(0)
    noise = np.random.default_rng(0)

    def measured(X: torch.Tensor) -> np.ndarray:
        runs = settings(X)
        outcomes = true_yield(runs) + NOISE * noise.standard_normal(len(runs))
        return np.column_stack([runs, np.round(outcomes, 1)])

    runs = measured(sobol_points(20, 3, seed=0))
    while len(runs) < 50:
        X = torch.tensor((runs[:, :3] - LOW) / (HIGH - LOW))
        model = SingleTaskGP(X, torch.tensor(runs[:, 3:]))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        improvement = qLogNoisyExpectedImprovement(model, X, prune_baseline=True)
        search = {"q": 1, "num_restarts": 4, "raw_samples": 128}
        found, _ = optimize_acqf(improvement, unit_cube(3), **search)
        runs = np.vstack([runs, measured(found)])
    lines = [f"{a:.0f},{b:.1f},{c:.2f},{y:.1f}" for a, b, c, y in runs]
    TABLE.write_text("\n".join(["temperature,hours,catalyst,yield", *lines, ""]))


if __name__ == "__main__":
    main()
