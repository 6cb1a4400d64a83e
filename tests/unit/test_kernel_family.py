r"""Families of length scales: which kernels they hold, and what lies between them."""

import copy
import itertools
import math

import numpy as np
import pytest
import torch
from botorch.exceptions import UnsupportedError
from gpytorch.kernels import (
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)
from hypothesis import given
from hypothesis import strategies as st

from kernelucb import KernelRegression, lengthscale_family
from kernelucb.certificates.boxes import largest_change
from kernelucb.regression.kernel_family import _log_weight, cover_of_all
from problems import RKHSFunction, frozen_kernel, uniform
from tolerances import ORDER, REARRANGED

X = uniform(3, 2, 0)
BASES = {
    "rbf": RBFKernel,
    "matern12": lambda: MaternKernel(0.5),
    "matern52": lambda: MaternKernel(2.5),
    "rq": RQKernel,
}


def lengths(family):
    return [kernel.lengthscale.reshape(-1).tolist() for kernel in family]


def gram(kernel, X):
    return kernel(X).to_dense()


def assert_covered(kernel, factor, cover, points, scale):
    r"""``factor^2 cover - kernel`` is a kernel (Aronszajn): the ball holds the other."""
    difference = factor**2 * gram(cover, points) - gram(kernel, points)
    assert float(torch.linalg.eigvalsh(difference)[0]) >= -REARRANGED * scale


@given(
    ends=st.tuples(st.floats(0.01, 1.0), st.floats(1.0, 100.0)),
    ratio=st.floats(1.2, 5.0),
)
def test_the_ratio_is_never_exceeded_and_the_ends_are_met(ends, ratio):
    family = lengthscale_family(RBFKernel(), *ends, ratio=ratio)
    values = [own for (own,) in lengths(family)]
    assert values[0] == pytest.approx(ends[1])
    assert values[-1] == pytest.approx(ends[0])
    for longer, shorter in itertools.pairwise(values):
        assert longer / shorter <= ratio * (1.0 + 1e-6)
    own = family.covering(2)[0]  # the longest covers itself and no other
    assert (own.kernel, own.norm_factor) == (family[0], 1.0)


def test_the_kernel_keeps_the_rest_and_is_not_changed():
    kernel = ScaleKernel(MaternKernel(1.5))
    kernel.outputscale = 3.0
    before = copy.deepcopy(kernel.state_dict())
    family = lengthscale_family(kernel, 0.1, 0.2)
    assert all(own.outputscale == pytest.approx(3.0) for own in family)
    assert not any(p.requires_grad for own in family for p in own.parameters())
    assert all(torch.equal(before[name], kernel.state_dict()[name]) for name in before)


@pytest.mark.parametrize("base", BASES)
@given(
    seed=st.integers(0, 1000),
    d=st.integers(1, 6),
    step=st.floats(1.05, 6.0),
    place=st.floats(0.0, 1.0),
)
def test_what_lies_between_is_covered(base, seed, d, step, place):
    r"""Any length scale from a member's own to the next longer one."""
    family = lengthscale_family(BASES[base](), 0.3, 0.3 * step, ratio=step * 1.01)
    cover, between = family.covering(d)[-1], copy.deepcopy(family[-1])
    between.lengthscale = 0.3 * step**place
    points = 3.0 * uniform(12, d, seed)
    assert_covered(between, cover.norm_factor, cover.kernel, points, step**d)


@given(d=st.integers(1, 12), step=st.floats(1.01, 8.0))
def test_the_weight_is_enough_at_every_frequency(d, step):
    r"""The densities themselves, RBF: ``S_s + c S_l >= S`` for all length scales between.

    Shortest length scale 1, ``x`` half the squared frequency; over ``exp(-x)``. And at
    twelve tenths of the least that is enough the weight is not far from needed.
    """
    shorter, longer = (frozen_kernel("rbf", scale) for scale in (1.0, step))
    cover = cover_of_all(shorter, longer, step, d)
    if cover.norm_factor > 1.0:
        assert cover.norm_factor == pytest.approx(step ** (d / 2))
        return
    weight = gram(cover.kernel, X[:1]).item() - 1.0
    assert weight <= step**d - 1.0
    lengths = torch.linspace(1.0, step, 301, dtype=torch.float64).unsqueeze(-1)
    x = torch.cat([torch.zeros(1), torch.logspace(-4, 2, 601)]).double()
    log_sum = torch.logaddexp(
        torch.zeros_like(x), math.log(weight * step**d) - (step**2 - 1.0) * x
    )
    own = d * lengths.log() - (lengths.square() - 1.0) * x
    assert float((log_sum - own).min()) >= 0.0
    assert float((log_sum - own).min()) <= math.log1p(2e-3)


@pytest.mark.parametrize("ratio", [1.2, 1.87, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("d", [1, 6, 20, 1000])
def test_no_length_scale_falls_between_the_points_of_the_grid(ratio, d):
    r"""``1 + C h >= (1 + t p)^(d/2) h^t``, at the worst ``h`` of very many ``t``."""
    log_weight = _log_weight(ratio, d)
    t = np.concatenate([np.logspace(-15.0, -1.0, 400_001), np.linspace(0.1, 1.0, 10_001)])
    log_values = 0.5 * d * np.log1p(t[:-1] * (ratio**2 - 1.0))
    log_h = (log_values + np.log(t[:-1]) - log_weight) / (1.0 - t[:-1])
    log_h = np.minimum(log_h, 0.0)
    above = np.logaddexp(0.0, log_weight + log_h) - (log_values + t[:-1] * log_h)
    assert above.min() >= -1e-12 * np.abs(log_values).max()


@pytest.mark.parametrize(("ratio", "most"), [(2.0, 5), (math.sqrt(2.0), 15)])
def test_the_sum_has_less_than_twice_the_variance(ratio, most):
    r"""As far as the documentation says, ``2 - ratio^-d``; beyond that it grows."""
    family = lengthscale_family(RBFKernel(), 0.5 / ratio, 0.5, ratio=1.01 * ratio)
    for d in range(1, most + 1):
        cover = family.covering(d)[1]
        variance = gram(cover.kernel, uniform(1, d, 0)).item()
        assert variance < 2.0
        assert variance == pytest.approx(2.0 - ratio**-d, rel=1e-3)
    beyond = family.covering(2 * most)[1].kernel
    assert gram(beyond, uniform(1, 2 * most, 0)).item() > 2.5


@given(seed=st.integers(0, 1000))
def test_each_coordinate_has_its_own(seed):
    r"""Each cell of length scales has its kernel at the shortest corner; it covers all."""
    family = lengthscale_family(
        RBFKernel(ard_num_dims=2), [0.1, 0.2], [0.4, 0.4], each_coordinate=True
    )
    assert lengths(family) == [
        pytest.approx(pair) for pair in ((0.4, 0.4), (0.2, 0.2), (0.1, 0.2))
    ]
    covers = family.covering(2)
    assert [cover.norm_factor for cover in covers] == pytest.approx([1.0, 2.0, 2.0])
    assert "each coordinate" in family.covers
    points = uniform(12, 2, seed)
    for longer, cover in zip(family, covers[1:], strict=False):
        assert_covered(longer, cover.norm_factor, cover.kernel, points, 4.0)


def test_several_kinds_of_kernel_and_the_columns_that_count():
    family = lengthscale_family([RBFKernel(), MaternKernel(1.5)], 0.1, 0.2)
    kinds = [type(kernel) for kernel in family]
    assert kinds == [RBFKernel, MaternKernel] * 2
    assert family.covers == "RBF or Matern 3/2 with length scales from 0.1 to 0.2"
    family = lengthscale_family(RBFKernel(active_dims=[0, 2]), 0.1, 0.2)
    kernel = family.covering(5)[1].kernel
    assert gram(kernel, uniform(1, 5, 0)).item() == pytest.approx(1.75, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"shortest": 2.0}, "above longest"),
        ({"ratio": 1.0}, "above 1"),
        ({"each_coordinate": True}, "each coordinate"),
        ({"kernel": RBFKernel(ard_num_dims=3), "shortest": [0.1, 0.1]}, "3 coordinates"),
        ({"ratio": 1.001}, "64 is the limit"),
        (
            {"shortest": [0.1] * 4, "longest": [1.0] * 4, "each_coordinate": True},
            "257 kernels",
        ),
    ],
)
def test_what_is_wrong_is_said(arguments, words):
    valid = {"kernel": RBFKernel(), "shortest": 0.1, "longest": 1.0}
    with pytest.raises(ValueError, match=words):
        lengthscale_family(**valid | arguments)


def test_kernels_without_an_order_are_refused():
    for kernel in (PeriodicKernel(), RBFKernel(batch_shape=torch.Size([2]))):
        with pytest.raises(UnsupportedError, match="list of kernels yourself"):
            lengthscale_family(kernel, 0.1, 1.0)


@given(seed=st.integers(0, 100), product=st.booleans())
def test_no_function_of_a_sum_changes_more_than_its_metric(seed, product):
    r"""Branch and bound takes sums and products of kernels that fall with the distance."""
    kernel = lengthscale_family(RBFKernel(), 0.2, 0.4).covering(2)[1].kernel
    if product:
        kernel = (kernel * frozen_kernel("matern52", 0.5)).requires_grad_(False)
    function = RKHSFunction.random(kernel, 3.0, d=2, seed=seed)
    state = KernelRegression(uniform(3, 2, seed), torch.zeros(3).double(), kernel, 0.1)
    change = largest_change(state, 3.0)
    centre, half = uniform(1, 2, seed), 0.3 * uniform(1, 2, seed + 1)
    inside = centre + half * (2.0 * uniform(50, 2, seed + 2) - 1.0)
    largest = (function(inside) - function(centre)).abs().max()
    assert float(largest) <= float(change(centre, half)) + ORDER
