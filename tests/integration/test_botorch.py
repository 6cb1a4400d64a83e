r"""BoTorch's own optimisers run every bound and find its maximum."""

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError
from botorch.optim import optimize_acqf, optimize_acqf_discrete, optimize_acqf_mixed

from kernelucb import (
    IGPUCB,
    AbbasiYadkoriUCB,
    Grid,
    MartingaleMixtureUCB,
    SrinivasUCB,
    StreamingKernelUCB,
    UnknownNoise,
    WangDeFreitasUCB,
)
from problems import RKHSFunction, frozen_kernel, frozen_model, normal, uniform

KERNEL = frozen_kernel("matern52", lengthscale=0.4)
FUNCTION = RKHSFunction.random(KERNEL, norm=2.0, d=2, seed=8)
X = uniform(12, 2, seed=9)
MODEL = frozen_model(X, FUNCTION(X) + 0.1 * normal(12, seed=10), KERNEL, 0.1)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
GRID = torch.cartesian_prod(*2 * [torch.linspace(0.0, 1.0, 21, dtype=torch.float64)])

BOUNDS = {
    "exact": (MartingaleMixtureUCB, {"norm_bound": 3.0}),
    "grid": (MartingaleMixtureUCB, {"norm_bound": 3.0, "form": Grid()}),
    "analytic": (MartingaleMixtureUCB, {"norm_bound": 3.0, "form": "analytic"}),
    "convex": (MartingaleMixtureUCB, {"norm_bound": 3.0, "form": "convex"}),
    "Abbasi-Yadkori": (AbbasiYadkoriUCB, {"norm_bound": 3.0}),
    "IGP": (IGPUCB, {"norm_bound": 3.0}),
    "Srinivas": (SrinivasUCB, {}),
    "Wang-de Freitas": (WangDeFreitasUCB, {"norm_bound": 3.0}),
    "streaming": (
        StreamingKernelUCB,
        {"norm_bound": 3.0, "noise_std": UnknownNoise(0.1, 1.0)},
    ),
}


@pytest.fixture(params=BOUNDS)
def name(request):
    return request.param


@pytest.fixture
def acqf(name):
    acqf_class, options = BOUNDS[name]
    return acqf_class(MODEL, **options)


def settings(name):
    r"""The conic form solves a program for every point: a tiny search."""
    if name == "convex":
        return {"num_restarts": 1, "raw_samples": 8, "options": {"maxiter": 8}}
    return {"num_restarts": 8, "raw_samples": 256}


def reference(acqf):
    r"""Largest value on the grid, a lower limit of the maximum."""
    with torch.no_grad():
        return float(acqf(GRID.unsqueeze(-2)).max())


def test_continuous(name, acqf):
    candidate, value = optimize_acqf(acqf, CUBE, q=1, **settings(name))
    assert candidate.shape == (1, 2)
    assert bool(((candidate >= 0.0) & (candidate <= 1.0)).all())
    assert float(acqf(candidate)) == pytest.approx(float(value), abs=1e-7)
    tolerance = 0.5 if name == "convex" else 1e-3  # eight steps from eight points
    assert float(value) >= reference(acqf) - tolerance


def test_three_points_in_sequence(name, acqf):
    if name == "convex":
        options = {"num_restarts": 1, "raw_samples": 4, "options": {"maxiter": 3}}
    else:
        options = settings(name)
    candidates, values = optimize_acqf(acqf, CUBE, q=3, sequential=True, **options)
    assert candidates.shape == (3, 2)
    assert values.shape == (3,)
    assert acqf.X_pending is None  # BoTorch restores what was there
    distances = torch.pdist(candidates)
    assert float(distances.min()) > 1e-3  # pending points push the next ones away
    if name != "convex":  # and lower what they promise
        assert float(values[-1]) < float(values[0])


def test_several_points_at_once_are_refused(acqf):
    with pytest.raises(BotorchTensorDimensionError, match="sequential=True"):
        optimize_acqf(acqf, CUBE, q=2, num_restarts=1, raw_samples=2)


def test_discrete_choices(acqf):
    choices = GRID[::7]
    candidate, value = optimize_acqf_discrete(acqf, q=1, choices=choices)
    values = acqf(choices.unsqueeze(-2))
    assert torch.equal(candidate[0], choices[values.argmax()])
    assert float(value) == pytest.approx(float(values.max()), abs=1e-7)


def test_three_discrete_choices(acqf):
    candidates, _ = optimize_acqf_discrete(acqf, q=3, choices=GRID[::21], unique=True)
    assert len({tuple(candidate.tolist()) for candidate in candidates}) == 3
    assert acqf.X_pending is None


def test_mixed(name, acqf):
    features = [{0: 0.2}, {0: 0.6}]
    candidate, value = optimize_acqf_mixed(
        acqf, CUBE, q=1, fixed_features_list=features, **settings(name)
    )
    assert float(candidate[0, 0]) in (0.2, 0.6)
    assert float(acqf(candidate)) == pytest.approx(float(value), abs=1e-7)
    if name != "convex":
        on_lines = GRID[(GRID[:, :1] - torch.tensor([0.2, 0.6])).abs().amin(-1) < 1e-6]
        assert float(value) >= float(acqf(on_lines.unsqueeze(-2)).max()) - 1e-3


@pytest.mark.parametrize("name", ["exact", "IGP"])
def test_a_short_optimisation_improves(name):
    r"""The loop a user writes: fit nothing, ask, observe, tell."""
    acqf_class, options = BOUNDS[name]
    points, noise = X[:2], normal(10, seed=11)
    outcomes = FUNCTION(points)
    for step in range(8):
        model = frozen_model(points, outcomes, KERNEL, 0.1)
        candidate, _ = optimize_acqf(
            acqf_class(model, **options), CUBE, q=1, num_restarts=2, raw_samples=32
        )
        points = torch.cat([points, candidate])
        outcomes = torch.cat([outcomes, FUNCTION(candidate) + 0.1 * noise[step]])
    best = FUNCTION(GRID).max()
    assert FUNCTION(points).max() > FUNCTION(points[:2]).max()
    assert best - FUNCTION(points).max() < 0.25 * (best - FUNCTION(GRID).median())
