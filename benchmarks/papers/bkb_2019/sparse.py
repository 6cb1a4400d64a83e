r"""Sparse posteriors: widths of BKB's radii, and variances far from and near the data."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.papers.bkb_2019.problems import ALL
from benchmarks.runner import fixed_kernel, markdown_table, picture, stream
from benchmarks.runner.study import Summary
from kernelucb import BKBUCB, KernelRegression
from kernelucb.models import BKBModel
from kernelucb.regression.lowrank.basis import Basis
from kernelucb.regression.lowrank.sketch import Sketch
from kernelucb.regression.prior import Prior

RADII = ("certified", "theorem2", "practical")
_LENGTHSCALE, _OBSERVATIONS = 0.05, 300
_STYLES = {
    "exact": {"color": "black", "linestyle": "-"},
    "BKB (DTC)": {"color": "#0072B2", "linestyle": (0, (6, 2))},
    "SoR, the same points": {"color": "#D55E00", "linestyle": (0, (1.2, 1.6))},
    "DTC, a random tenth": {"color": "#009E73", "linestyle": (0, (6, 2, 1.2, 2))},
}


def play_widths(settings: dict[str, Any]) -> dict[str, float]:
    r"""Each radius at one oversampling, and that of the ``exact`` posterior.

    Uniform points, zero function.
    """
    task = SimpleNamespace(**settings)
    random = stream(task.seed, "widths", task.kernel, task.dimension)
    X = torch.from_numpy(random.uniform(size=(task.observations, task.dimension)))
    Y = task.noise_std * torch.from_numpy(random.standard_normal((len(X), 1)))
    kernel, alpha = fixed_kernel(task.kernel, task.lengthscale), task.noise_std**2
    model, exact = (
        BKBModel(X, Y, kernel, alpha, qbar, task.seed) for qbar in (task.qbar, ALL)
    )
    given = {"norm_bound": task.norm_bound, "delta": task.delta}
    widths = {radius: BKBUCB(model, radius=radius, **given).width for radius in RADII}
    widths |= {"exact": BKBUCB(exact, **given).width}
    return {"inducing": len(model.inducing_points), **widths}


def starvation(seed: int, noise_std: float) -> Summary:
    r"""Picture of the deviations, and how far each is from the exact one."""
    random = stream(seed, "starvation")
    # Nine tenths of the data in the left third, as a search that has found its peak.
    near = random.uniform(0.0, 0.33, _OBSERVATIONS * 9 // 10)
    rest = random.uniform(0.33, 0.8, _OBSERVATIONS - len(near))
    X = torch.from_numpy(np.concatenate([near, rest])).unsqueeze(-1)
    noise = torch.from_numpy(random.standard_normal((len(X), 1)))
    Y = torch.sin(12.0 * X) + noise_std * noise
    grid = torch.linspace(0.0, 1.0, 801, dtype=torch.float64).unsqueeze(-1)
    kernel = fixed_kernel("rbf", _LENGTHSCALE)
    model = BKBModel(X, Y, kernel, noise_std**2, qbar=2.0, seed=seed)
    few = X[random.choice(len(X), len(model.inducing_points) // 10, replace=False)]

    def sparse(points: Tensor) -> tuple[Tensor, Tensor]:
        r"""Variances of the subset of regressors and of the DTC."""
        basis = Basis.of(Prior(kernel), points)
        features, residual_variance = basis.project(grid)
        seen = basis(X)
        sketch = Sketch.of(seen.mT @ seen, seen.mT @ Y[:, 0], noise_std**2)
        degenerate = sketch.variance(features, torch.zeros_like(residual_variance))
        return degenerate, sketch.variance(features, residual_variance)

    exact = KernelRegression(X, Y, kernel, noise_std).variance(grid)
    variances = {
        "exact": exact,
        "BKB (DTC)": model.posterior(grid.unsqueeze(-2)).variance.flatten(),
        "SoR, the same points": sparse(model.inducing_points)[0],
        "DTC, a random tenth": sparse(few)[1],
    }
    ratios = {name: variance / exact for name, variance in variances.items()}
    rows = [
        [name, f"{float(ratio.min()):.3g}", f"{float(ratio.max()):.3g}"]
        for name, ratio in ratios.items()
    ]
    text = (
        f"Variances over the exact ones on [0, 1], {len(X)} observations, "
        f"{len(model.inducing_points)} inducing points:"
    )
    table = markdown_table(["posterior", "smallest ratio", "largest ratio"], rows)

    def draw(path: Path) -> None:
        with picture(path, figsize=(6.4, 4.0), dpi=130) as (figure, axes):
            for name, variance in variances.items():
                axes.plot(grid[:, 0], variance.sqrt(), label=name, **_STYLES[name])
            axes.plot(X[:, 0], torch.full_like(X[:, 0], 1.5e-3), "|", color="0.5")
            axes.set(yscale="log", xlim=(0, 1), xlabel="$x$", ylabel="standard deviation")
            figure.legend(loc="outside lower center", ncols=2)

    return Summary(lines=[text, "", *table], draw=draw)
