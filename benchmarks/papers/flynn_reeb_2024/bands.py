r"""Figure 1: bands around functions with a gap in the data."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from benchmarks.papers.flynn_reeb_2024.play import Settings, covariance_scale
from benchmarks.runner import KnownFunction, fixed_kernel, rkhs_norm, stream
from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    Grid,
    KernelRegression,
    MartingaleMixture,
    MartingaleMixtureUCB,
)

QUERIES = torch.linspace(-1.0, 1.0, 1001, dtype=torch.float64)[:, None]


class Bands(NamedTuple):
    r"""A function, its data, and lower and upper bounds of each method at the queries."""

    truth: Tensor
    inputs: Tensor
    outcomes: Tensor
    bounds: dict[str, tuple[Tensor, Tensor]]


def bands(task: Settings) -> Bands:
    r"""The bands of a repetition: a function on [-1, 1], data on both sides of a gap."""
    random = stream(task["seed"], "figure1", task["repetition"])
    kernel = fixed_kernel(task["kernel"], task["lengthscale"])
    centres = torch.from_numpy(random.uniform(-1.0, 1.0, (task["centres"], 1)))
    weights = torch.from_numpy(random.standard_normal(task["centres"]))
    weights *= task["norm"] / rkhs_norm(kernel, centres, weights)
    function = KnownFunction(kernel, centres, weights)
    half = task["points_per_side"]
    sides = random.uniform(-0.8, -0.2, half), random.uniform(0.2, 0.8, half)
    inputs = torch.cat([torch.from_numpy(side) for side in sides])[:, None]
    noise = torch.from_numpy(random.standard_normal(len(inputs)))
    outcomes = function(inputs) + task["noise_std"] * noise
    scale = covariance_scale(task, len(inputs))
    state = KernelRegression(inputs, outcomes, kernel, task["noise_std"])
    common: dict[str, Any] = {"norm_bound": task["norm"], "delta": task["delta"]}
    paper = common | {"fit": MartingaleMixture(scale)}
    found = {
        "filters": MartingaleMixtureUCB(state, **common),
        "exact": MartingaleMixtureUCB(state, **paper),
        "dmm": MartingaleMixtureUCB(state, form=Grid(), **paper),
        "amm": MartingaleMixtureUCB(state, form="analytic", **paper),
        "ay": AbbasiYadkoriUCB(state, alpha=task["noise_std"] ** 2 / scale, **common),
        "igp": IGPUCB(state, horizon=len(inputs), **common),
    }
    bounds = {name: band.bounds(QUERIES) for name, band in found.items()}
    return Bands(function(QUERIES), inputs, outcomes, bounds)


@torch.no_grad()
def measure(task: Settings) -> dict[str, Any]:
    r"""Mean width of each band, and whether the function lies inside it everywhere."""
    found = bands(task)
    widths, inside = {}, {}
    for name, (lower, upper) in found.bounds.items():
        widths[name] = float((upper - lower).mean())
        inside[name] = bool(((lower <= found.truth) & (found.truth <= upper)).all())
    return {"widths": widths, "inside": inside}
