r"""The inducing points of BKB for BoTorch's own variational GP."""

import pytest
import torch
from botorch.models import SingleTaskVariationalGP
from torch.testing import assert_close

from kernelucb.models import BKBInducingPointAllocator
from kernelucb.regression.lowrank import basis
from kernelucb.regression.prior import Prior
from oracles.weak_duality import nystrom_split
from problems import frozen_kernel, normal, uniform

X, Y = uniform(40, 2, 0), normal(40, 9).unsqueeze(-1)
RBF = frozen_kernel("rbf")


def allocated(inputs, kernel, count, alpha=0.04, seed=0, batch=()):
    allocator = BKBInducingPointAllocator(alpha, seed)
    return allocator.allocate_inducing_points(inputs, kernel, count, torch.Size(batch))


def explained(kernel, inputs, points):
    r"""Mean prior variance that the points leave over."""
    return float(nystrom_split(kernel, inputs, points)[1].trace()) / len(inputs)


@pytest.mark.parametrize("outputs", [1, 2])
def test_in_botorch(outputs):
    scaled = (Y - Y.mean()) / Y.std()
    model = SingleTaskVariationalGP(
        X,
        scaled.expand(-1, outputs),
        num_outputs=outputs,
        inducing_points=12,
        inducing_point_allocator=BKBInducingPointAllocator(0.04),
        learn_inducing_points=False,
    )
    strategy = model.model.variational_strategy
    strategy = getattr(strategy, "base_variational_strategy", strategy)
    points = strategy.inducing_points
    assert len(points.reshape(-1, 2).unique(dim=0)) == 12
    assert bool((points.reshape(-1, 1, 2) == X).all(-1).any(-1).all())
    assert model.posterior(X[:3]).mean.shape == (3, outputs)


def test_batches_and_fewer_distinct_inputs_than_asked():
    assert allocated(torch.stack([X, X + 1.0]), RBF, 7, batch=[2]).shape == (2, 7, 2)
    points = allocated(torch.zeros(5, 2), RBF, 3)
    assert_close(points, torch.zeros(1, 2))
    with pytest.raises(ValueError, match="alpha"):
        BKBInducingPointAllocator(0.0)


def test_prefers_lonely_points():
    r"""99 inputs side by side and one apart: the lonely one is always drawn."""
    inputs = torch.cat([1e-3 * uniform(99, 1, 0), torch.tensor([[5.0]]).double()])
    for seed in range(20):
        assert bool((allocated(inputs, RBF, 10, seed=seed) == 5.0).any())


def test_explains_more_than_a_random_subset():
    r"""Most inputs in one corner: what 30 points leave of the prior variance."""
    inputs = torch.cat([0.1 * uniform(950, 2, 0), uniform(50, 2, 1)])
    kernel, drawn, random = frozen_kernel("matern52"), 0.0, 0.0
    for seed in range(5):
        order = uniform(1000, 1, seed)[:, 0].argsort()
        drawn += explained(kernel, inputs, allocated(inputs, kernel, 30, seed=seed))
        random += explained(kernel, inputs, inputs[order[:30]])
    assert drawn < 0.5 * random


@pytest.mark.parametrize("m", [20, 30])
def test_no_part_is_left_out(m):
    r"""Hardly more points than resolved directions, and far more inputs."""
    inputs, kernel = uniform(2000, 1, 7), frozen_kernel("rbf", 0.1)
    drawn = [allocated(inputs, kernel, m, 1e-4, seed) for seed in range(5)]
    assert sum(explained(kernel, inputs, points) for points in drawn) / 5 < 0.03


def test_inputs_from_the_same_seed():
    r"""The draws have nothing to do with ``torch.manual_seed`` of the same seed."""
    inputs = torch.rand(4000, 1, generator=torch.Generator().manual_seed(0)).double()
    points = allocated(inputs, frozen_kernel("rbf", 0.1), 40)
    quarters = (4.0 * points).floor().long().flatten().bincount(minlength=4)
    assert bool((quarters >= 4).all())


def test_never_more_covariances_at_once_than_a_block(monkeypatch):
    sizes, call, rows = [], Prior.covariance, 128

    def counted(self, left, right):
        sizes.append(len(left) * len(right))
        return call(self, left, right)

    monkeypatch.setattr(Prior, "covariance", counted)
    monkeypatch.setattr(basis, "ROWS", rows)
    inputs = uniform(3000, 2, 0)
    assert allocated(inputs, frozen_kernel("matern52"), 64).shape == (64, 2)
    assert max(sizes) <= rows * 64
    assert sum(sizes) <= 6 * len(inputs) * 64  # 3 for each halving, and 3 at the end
