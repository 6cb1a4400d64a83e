r"""Sparse posteriors: widths of BKB's radii, and variances far from and near the data."""

from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.papers.bkb_2019.problems import ALL
from benchmarks.runner import fixed_kernel, stream
from kernelucb import BKBUCB
from kernelucb.models import BKBModel

RADII = ("certified", "theorem2", "practical")
_LENGTHSCALE, _OBSERVATIONS = 0.05, 300


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
