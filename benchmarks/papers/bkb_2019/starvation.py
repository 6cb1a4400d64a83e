r"""Figure 2: standard deviations of sparse posteriors far from and near the data."""

from pathlib import Path

import numpy as np
import torch

from benchmarks.runner import (
    Folders,
    fixed_kernel,
    markdown_table,
    picture,
    stream,
    write_lines,
)
from kernelucb import KernelRegression
from kernelucb.models import BKBModel
from kernelucb.regression.lowrank.basis import Basis
from kernelucb.regression.lowrank.sketch import Sketch
from kernelucb.regression.prior import Prior

_NOISE_STD, _LENGTHSCALE, _OBSERVATIONS = 0.1, 0.05, 300
_STYLES = {
    "exact": {"color": "black", "linestyle": "-"},
    "BKB (DTC)": {"color": "#0072B2", "linestyle": (0, (6, 2))},
    "SoR, the same points": {"color": "#D55E00", "linestyle": (0, (1.2, 1.6))},
    "DTC, a random tenth": {"color": "#009E73", "linestyle": (0, (6, 2, 1.2, 2))},
}


def run_starvation(seed: int, folders: Folders) -> list[Path]:
    r"""Picture of the deviations, and how far each is from the exact one."""
    random = stream(seed, "starvation")
    # Nine tenths of the data in the left third, as a search that has found its peak.
    near = random.uniform(0.0, 0.33, _OBSERVATIONS * 9 // 10)
    rest = random.uniform(0.33, 0.8, _OBSERVATIONS - len(near))
    X = torch.from_numpy(np.concatenate([near, rest])).unsqueeze(-1)
    Y = torch.sin(12.0 * X) + _NOISE_STD * torch.from_numpy(
        random.standard_normal((len(X), 1))
    )
    grid = torch.linspace(0.0, 1.0, 801, dtype=torch.float64).unsqueeze(-1)
    kernel = fixed_kernel("rbf", _LENGTHSCALE)
    model = BKBModel(X, Y, kernel, _NOISE_STD**2, qbar=2.0, seed=seed)
    few = X[random.choice(len(X), len(model.inducing_points) // 10, replace=False)]
    exact = KernelRegression(X, Y, kernel, _NOISE_STD).variance(grid)
    bkb = model.posterior(grid.unsqueeze(-2)).variance.flatten()
    degenerate, _ = _sparse(kernel, model.inducing_points, X, Y, grid)
    variances = {
        "exact": exact,
        "BKB (DTC)": bkb,
        "SoR, the same points": degenerate,
        "DTC, a random tenth": _sparse(kernel, few, X, Y, grid)[1],
    }
    rows = [
        [
            name,
            f"{float((variance / exact).min()):.3g}",
            f"{float((variance / exact).max()):.3g}",
        ]
        for name, variance in variances.items()
    ]
    lines = [
        f"Variances over the exact ones on [0, 1], {len(X)} observations, "
        f"{len(model.inducing_points)} inducing points:",
        "",
        *markdown_table(["posterior", "smallest ratio", "largest ratio"], rows),
    ]
    table = folders.results / "starvation.md"
    write_lines(table, lines)
    return [table, _draw(X, grid, variances, folders.picture("starvation"))]


def _sparse(kernel, points, X, Y, grid) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Variances of the subset of regressors and of the DTC, for given points."""
    basis = Basis.of(Prior(kernel), points)
    features, residual_variance = basis.project(grid)
    seen = basis(X)
    sketch = Sketch.of(seen.mT @ seen, seen.mT @ Y[:, 0], _NOISE_STD**2)
    degenerate = sketch.variance(features, torch.zeros_like(residual_variance))
    return degenerate, sketch.variance(features, residual_variance)


def _draw(X, grid, variances, path: Path) -> Path:
    with picture(path, figsize=(6.4, 4.0), dpi=130) as (figure, axes):
        for name, variance in variances.items():
            axes.plot(grid[:, 0], variance.sqrt(), label=name, **_STYLES[name])
        axes.plot(X[:, 0], torch.full_like(X[:, 0], 1.5e-3), "|", color="0.5")
        axes.set(yscale="log", xlim=(0, 1), xlabel="$x$", ylabel="standard deviation")
        figure.legend(loc="outside lower center", ncols=2)
    return path
