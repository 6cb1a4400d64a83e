r"""Families of kernels from names and numbers."""

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.exceptions import UnsupportedError
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from torch.testing import assert_close

from kernelucb import (
    KernelFamily,
    KernelFamilyUCB,
    lengthscale_family,
)
from problems import make_problem

PROBLEM = make_problem(n=6, d=2)
GIVEN = {"norm_bound": 3.0, "noise_std": 0.2}
ENDS = {"shortest": 0.2, "longest": 0.8}
KERNELS = lengthscale_family(RBFKernel(), 0.2, 0.8)


def construct(**options):
    build = get_acqf_input_constructor(KernelFamilyUCB)
    return KernelFamilyUCB(**build(model=PROBLEM.model, **options))


def scaled(base, variance):
    kernel = ScaleKernel(base).double()
    kernel.outputscale = torch.tensor(variance, dtype=torch.float64)
    return kernel.requires_grad_(False)


def described():
    r"""Two bounds from the same description, by the class and by BoTorch."""
    options = {"kernel": ["rbf", "matern32"], "ratio": 1.7, "each_coordinate": True}
    options |= {"shortest": [0.3, 0.4], "longest": torch.tensor([0.8, 0.4])}
    options |= {"outputscale": 2.5, "mean": 0.5, "delta": 0.1, **GIVEN}
    return KernelFamilyUCB.from_model(PROBLEM.model, **options), construct(**options)


@pytest.mark.parametrize("index", [0, 1])
def test_is_the_family_that_is_described(index):
    bases = [scaled(RBFKernel(), 2.5), scaled(MaternKernel(nu=1.5), 2.5)]
    ends = ([0.3, 0.4], [0.8, 0.4])
    kernels = lengthscale_family(bases, *ends, 1.7, each_coordinate=True)
    mean = ConstantMean().double().requires_grad_(False)
    mean.constant.fill_(0.5)
    family = KernelFamily(kernels, mean=mean)
    expected = KernelFamilyUCB(PROBLEM.model, family, delta=0.1, **GIVEN)
    actual = described()[index]
    assert_close(actual.bounds(PROBLEM.test_X), expected.bounds(PROBLEM.test_X))
    assert actual.norm_bounds == pytest.approx(expected.norm_bounds)
    assert actual.report() == expected.report()
    assert actual.assumptions.certified


def test_kernels_themselves_still_go_through_the_constructor():
    mean = ConstantMean().double().requires_grad_(False)
    for family in (KERNELS, KernelFamily(KERNELS, mean=mean)):
        actual = construct(kernels=family, **GIVEN)
        expected = KernelFamilyUCB(PROBLEM.model, KERNELS, **GIVEN)
        assert_close(actual.bounds(PROBLEM.test_X), expected.bounds(PROBLEM.test_X))
        assert "from 0.2 to 0.8" in actual.assumptions["kernel"].statement


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs the option `kernels`, or `shortest` and `longest`"),
        ({"shortest": 0.1}, "needs the option `kernels`, or `shortest` and `longest`"),
        ({"longest": 0.1}, "needs the option `kernels`, or `shortest` and `longest`"),
        ({"kernels": KERNELS, "shortest": 0.1}, "Both kernels and shortest are given"),
        ({"kernels": KERNELS, "longest": [0.1]}, "Both kernels and longest are given"),
        ({"kernels": KERNELS, "kernel": "matern52"}, "Both kernels and kernel are given"),
        ({"kernels": KERNELS, "kernel": ["rbf"]}, "Both kernels and kernel are given"),
        ({"kernels": KERNELS, "ratio": 1.5}, "Both kernels and ratio are given"),
        ({"kernels": KERNELS, "outputscale": 2.0}, "Both kernels and outputscale are"),
        ({"kernels": KERNELS, "each_coordinate": True}, "Both kernels and each_coordinate"),
        ({"kernels": KERNELS, "mean": 1.0}, "Both kernels and mean are given"),
        ({"kernels": KERNELS, "combine": "all"}, "Both kernels and combine are given"),
        (ENDS | {"kernel": "cubic"}, "kernel must be one of rbf, matern12"),
        (ENDS | {"kernel": []}, "kernel is empty"),
        (ENDS | {"kernel": [RBFKernel()]}, "kernel must be one of rbf, matern12"),
        (ENDS | {"outputscale": 0.0}, "outputscale must be a finite number above 0"),
        (ENDS | {"mean": float("nan")}, "mean must be a finite number"),
        (ENDS | {"ratio": 1.01}, "kernels, and 64 is the limit"),
    ],
)
def test_what_does_not_fit_together(options, message):
    with pytest.raises(ValueError, match=message):
        construct(**options, **GIVEN)


def test_other_arguments_are_those_of_the_class():
    with pytest.raises(ValueError, match="KernelFamilyUCB needs the option `norm_bound`"):
        construct(**ENDS)
    with pytest.raises(TypeError, match="normbound"):
        KernelFamilyUCB.from_model(PROBLEM.model, **ENDS, **GIVEN, normbound=1.0)
    with pytest.raises(UnsupportedError, match="Expected a BoTorch model"):
        KernelFamilyUCB.from_model(None, **ENDS, **GIVEN)


@pytest.mark.parametrize("d", [1, 2])
def test_a_length_scale_for_each_input(d):
    model, lengths = make_problem(n=6, d=d).model, [0.1, 0.2, 0.3]
    options = ENDS | {"shortest": lengths}
    with pytest.raises(UnsupportedError, match=f"inputs (have|of) {d} columns"):
        KernelFamilyUCB.from_model(model, **options, **GIVEN)
