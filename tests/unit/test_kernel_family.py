r"""Families of length scales: which kernels they hold, and what lies between them."""

import copy
import itertools
import math
import pickle

import pytest
import torch
from botorch.exceptions import UnsupportedError
from gpytorch.kernels import (
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)
from hypothesis import given
from hypothesis import strategies as st

from kernelucb import lengthscale_family
from problems import uniform
from tolerances import REARRANGED

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


def test_from_the_longest_to_the_shortest():
    family = lengthscale_family(RBFKernel(), 0.1, 0.8)
    assert lengths(family) == [[pytest.approx(value)] for value in (0.8, 0.4, 0.2, 0.1)]
    assert family.norm_factors(2) == pytest.approx([1.0, 2.0, 2.0, 2.0])
    assert family.norm_factors(3) == pytest.approx([1.0] + 3 * [2.0**1.5])


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


def test_the_kernel_keeps_the_rest_and_is_not_changed():
    kernel = ScaleKernel(MaternKernel(1.5))
    kernel.outputscale = 3.0
    before = copy.deepcopy(kernel.state_dict())
    family = lengthscale_family(kernel, 0.1, 0.2)
    assert all(own.outputscale == pytest.approx(3.0) for own in family)
    assert not any(p.requires_grad for own in family for p in own.parameters())
    assert all(torch.equal(before[name], kernel.state_dict()[name]) for name in before)


@pytest.mark.parametrize("base", BASES)
@given(seed=st.integers(0, 1000), d=st.integers(1, 3), step=st.floats(1.05, 4.0))
def test_norms_are_nested(base, seed, d, step):
    r"""``r^d k_{l'} - k_l`` is a kernel (Aronszajn), so ``||f||_{l'} <= r^{d/2} ||f||_l``.

    Between the shortest length scale and any other one that it covers.
    """
    family = lengthscale_family(BASES[base](), 0.3, 0.3 * step, ratio=step * 1.01)
    shorter, factor = family[-1], family.norm_factors(d)[-1]
    between = copy.deepcopy(shorter)
    between.lengthscale = 0.3 * step ** float(
        torch.rand(1, generator=torch.Generator().manual_seed(seed))
    )
    X = uniform(12, d, seed)
    difference = factor**2 * gram(shorter, X) - gram(between, X)
    least = torch.linalg.eigvalsh(difference)[0]
    assert float(least) >= -REARRANGED * factor**2


@given(seed=st.integers(0, 1000))
def test_norms_are_nested_for_each_coordinate(seed):
    family = lengthscale_family(
        RBFKernel(), [0.1, 0.5], [0.4, 0.5], ratio=2.0, each_coordinate=True
    )
    X = uniform(12, 2, seed)
    for longer, kernel, factor in zip(
        family, family[1:], family.norm_factors(2)[1:], strict=False
    ):
        difference = factor**2 * gram(kernel, X) - gram(longer, X)
        assert float(torch.linalg.eigvalsh(difference)[0]) >= -REARRANGED * factor**2


def test_each_coordinate_has_its_own():
    r"""Every cell of length scales has its kernel at the shortest corner."""
    family = lengthscale_family(
        RBFKernel(ard_num_dims=2), [0.1, 0.2], [0.4, 0.4], each_coordinate=True
    )
    assert sorted(map(tuple, lengths(family))) == [
        pytest.approx(pair) for pair in ((0.1, 0.2), (0.2, 0.2), (0.4, 0.4))
    ]
    assert family.norm_factors(2) == pytest.approx([1.0, 2.0, 2.0])
    assert "each coordinate" in family.covers


def test_together_in_the_same_number_of_steps():
    family = lengthscale_family(MaternKernel(2.5), [0.1, 0.4], [0.4, 0.8])
    assert lengths(family) == [
        pytest.approx(pair) for pair in ([0.4, 0.8], [0.2, 0.8 / math.sqrt(2)], [0.1, 0.4])
    ]
    assert family.norm_factors(2)[1:] == pytest.approx(2 * [math.sqrt(2.0**1.5)])


def test_several_kinds_of_kernel():
    family = lengthscale_family([RBFKernel(), MaternKernel(1.5)], 0.1, 0.2)
    kinds = [type(kernel) for kernel in family]
    assert kinds == [RBFKernel, MaternKernel] * 2
    assert family.covers == "RBF or Matern 3/2 with length scales from 0.1 to 0.2"


def test_active_columns_are_those_that_count():
    family = lengthscale_family(RBFKernel(active_dims=[0, 2]), 0.1, 0.2)
    assert family.norm_factors(5)[1] == pytest.approx(2.0)


def test_parts_sums_and_copies_stay_families():
    family = lengthscale_family(RBFKernel(), 0.1, 0.4)
    other = lengthscale_family(MaternKernel(2.5), 0.1, 0.4)
    joined = family + other
    assert joined.norm_factors(1) == family.norm_factors(1) + other.norm_factors(1)
    assert joined.covers == f"{family.covers}, or {other.covers}"
    assert family[1:].norm_factors(2) == family.norm_factors(2)[1:]
    assert "in part" in family[1:].covers
    for copied in (copy.deepcopy(family), pickle.loads(pickle.dumps(family))):
        assert copied.norm_factors(2) == family.norm_factors(2)


def test_ranges_in_words():
    family = lengthscale_family(RBFKernel(), 0.1, 0.8)
    words = family.ranges_in_words
    assert words([True, True, False, False]) == "length scales from 0.4 to 0.8"
    assert words([True, False, False, True]) == "length scales 0.8 and from 0.1 to 0.2"
    assert words([False] * 4) == ""
    several = lengthscale_family([RBFKernel(), MaternKernel(2.5)], 0.1, 0.2)
    assert several.ranges_in_words([True] * 4) == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"shortest": 0.0}, "shortest"),
        ({"longest": float("inf")}, "longest"),
        ({"shortest": 2.0}, "above longest"),
        ({"ratio": 1.0}, "above 1"),
        ({"kernel": []}, "empty"),
        ({"each_coordinate": True}, "each coordinate"),
        ({"shortest": [0.1, 0.2], "longest": [0.4, 0.4, 0.4]}, "one for each coordinate"),
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


@pytest.mark.parametrize(
    "kernel",
    [LinearKernel(), PeriodicKernel(), RBFKernel(batch_shape=torch.Size([2]))],
)
def test_kernels_without_an_order_are_refused(kernel):
    with pytest.raises(UnsupportedError, match="list of kernels yourself"):
        lengthscale_family(kernel, 0.1, 1.0)
