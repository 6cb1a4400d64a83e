r"""Small right objects of every kind, built once; those that a call changes are copied."""

from copy import deepcopy
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel

import kernelucb as k
from kernelucb.models import BKBModel, DiscreteMetaModel, FeatureMetaModel


@cache
def world() -> Any:
    r"""Data, kernel, models and states; see the attributes."""
    generator = torch.Generator().manual_seed(3)
    X = torch.rand(8, 2, generator=generator, dtype=torch.float64)
    Y = torch.sin(4.0 * X[:, 0]) + X[:, 1]
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(0.4, dtype=torch.float64)
    kernel.requires_grad_(False)
    model = SingleTaskGP(X, Y.unsqueeze(-1), covar_module=kernel, outcome_transform=None)
    model = model.eval().requires_grad_(False)
    queries = torch.rand(5, 2, generator=generator, dtype=torch.float64)
    box = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    return SimpleNamespace(
        X=X, Y=Y, kernel=kernel, model=model, queries=queries, box=box,
        state=k.KernelRegression(X, Y, kernel, 0.1),
        nystrom=k.NystromRegression(X, Y, kernel, 0.1, X[:4]),
        bkb=BKBModel(X, Y.unsqueeze(-1), kernel, 0.01),
    )  # fmt: skip


@cache
def _prototypes() -> dict[str, Any]:
    w = world()
    given: dict[str, Any] = {"norm_bound": 5.0, "delta": 0.1}
    bandit = k.KernelBandit(w.kernel, noise_std=0.1, **given)
    budgeted = k.BKBBandit(w.X, w.kernel, noise_std=0.1, **given)
    for i in range(4):
        bandit.observe(w.X[i], float(w.Y[i]))
    budgeted.observe([0, 1, 2], w.Y[:3])
    tracker = k.StreamingNoiseTracker(5.0, k.UnknownNoise(0.01, 1.0))
    tracker.observe(w.state)
    radius = k.PrequentialRadius(0.1)
    radius.observe_predictions(torch.zeros(8), torch.ones(8), w.Y, 0.1, w.X)
    norms = k.NormTracker()
    norms.observe(w.state)
    mixture = k.MartingaleMixtureUCB(w.state, **given)
    tasks = torch.randn(40, 8, generator=torch.Generator().manual_seed(1)).double()
    discrete = DiscreteMetaModel(tasks, w.X)
    return {
        "dual": mixture,
        "grid": k.MartingaleMixtureUCB(w.state, alphas="paper", **given),
        "analytic": k.MartingaleMixtureUCB(w.state, form="analytic", **given),
        "model": k.MartingaleMixtureUCB(w.model, **given),
        "unknown": k.MartingaleMixtureUCB(w.state, noise_std=k.UnknownNoise(), **given),
        "abbasi_yadkori": k.AbbasiYadkoriUCB(w.state, **given),
        "streaming": k.StreamingKernelUCB(w.state, noise_std=k.UnknownNoise(0.01), **given),
        "sketched": k.SketchedMartingaleMixtureUCB(w.nystrom, **given),
        "bkb": k.BKBUCB(w.bkb, norm_bound=5.0),
        "scalarized": k.ScalarizedUCB([mixture, mixture], [1.0, -2.0]),
        "meta": k.MetaUCB(discrete),
        "meta_pi": k.MetaPI(discrete),
        "discrete": discrete,
        "features": FeatureMetaModel(
            w.X.expand(40, -1, -1), tasks, torch.nn.Identity(), progress=False
        ),
        "tasks": tasks,
        "thompson": k.KernelThompsonSampling(w.state, norm_bound=5.0),
        "safe": k.SafeSet(mixture, thresholds=-20.0),
        "bandit": bandit,
        "budgeted": budgeted,
        "tracker": tracker,
        "radius": radius,
        "norms": norms,
        "bkb_model": w.bkb,
        "state": w.state,
        "nystrom": w.nystrom,
    }


def one(name: str) -> Any:
    r"""A copy of an object, so that a call may change it."""
    return deepcopy(_prototypes()[name])


def shared(name: str) -> Any:
    r"""An object that a call does not change."""
    return _prototypes()[name]
