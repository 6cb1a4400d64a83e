r"""Slices: what is drawn equals what the bounds say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.exceptions import (
    BotorchTensorDimensionError,
    InputDataError,
    UnsupportedError,
)
from botorch.models import SingleTaskGP
from botorch.models.transforms import Log
from gpytorch.kernels import RBFKernel
from pictures import named

from kernelucb import (
    AbbasiYadkoriUCB,
    KernelFamilyUCB,
    MartingaleMixtureUCB,
    SrinivasUCB,
    lengthscale_family,
)
from kernelucb.plotting import plot_bands, plot_slice, slice_weights
from problems import make_problem

PROBLEM = make_problem(n=12, d=2, norm=3.0, seed=2, kernel="matern52")
X, DATA = PROBLEM.X, (PROBLEM.X, PROBLEM.Y)
BOX = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64)
NAMES = ["heat (K)", "time (h)"]
POINT = torch.tensor([0.3, 0.8], dtype=torch.float64)


def bound(**options):
    return MartingaleMixtureUCB(PROBLEM.model, **({"norm_bound": 3.0} | options))


def line_of(ax, label):
    return next(line for line in ax.lines if line.get_label() == label)


def test_a_slice_is_the_band_on_its_line(ax):
    acqf = bound()
    drawn = plot_slice(
        acqf,
        POINT,
        bounds=BOX,
        coordinate=1,
        input_names=NAMES,
        outcome_name="yield (%)",
        num_points=17,
        ax=ax,
    )
    assert drawn is ax
    line = POINT.repeat(17, 1)
    line[:, 1] = torch.linspace(0.0, 2.0, 17, dtype=torch.float64)
    sides = [each.get_ydata() for each in ax.lines[:2]]
    assert np.array(sides) == pytest.approx(torch.stack(acqf.bounds(line)).numpy())
    assert ax.get_xlabel() == "time (h), at heat (K) 0.3"
    assert ax.get_ylabel() == "yield (%)"
    assert named(ax) == ["band, certified (95 %)", "mean"]
    assert ax.lines[-1].get_xdata() == [0.8, 0.8]


@pytest.mark.parametrize("maximize", [True, False])
def test_the_witness_meets_the_bound_at_the_point(ax, maximize):
    acqf = bound(maximize=maximize)
    plot_slice(acqf, POINT, bounds=BOX, witness=True, num_points=11, ax=ax)
    reached = acqf.bounds(POINT.unsqueeze(0))[1 if maximize else 0]
    star = next(c for c in ax.collections if c.get_label() == "bound at the point")
    assert star.get_offsets()[0].tolist() == pytest.approx([0.3, float(reached)], abs=1e-6)
    values = line_of(ax, "witness").get_ydata()
    lower, upper = (each.get_ydata() for each in ax.lines[:2])
    assert (lower - 1e-6 <= values).all()
    assert (values <= upper + 1e-6).all()
    # The point is the fourth of eleven on the line.
    assert values[3] == pytest.approx(float(reached), abs=1e-6)


def test_data_fade_with_their_distance_from_the_line(ax):
    acqf = bound()
    plot_slice(acqf, X[0], bounds=BOX, data=DATA, ax=ax)
    marks = next(each for each in ax.collections if len(each.get_offsets()) == len(X))
    opacity = torch.as_tensor(marks.get_alpha())
    weights = slice_weights(acqf, X, X[:1], 0)
    torch.testing.assert_close(opacity, weights.clamp_min(0.08))
    assert float(opacity[0]) == 1.0
    assert any("fainter the less" in name for name in named(ax))


def test_a_family_fades_by_its_nearest_kernel(ax):
    kernels = lengthscale_family(RBFKernel(), 0.2, 0.8)
    acqf = KernelFamilyUCB(PROBLEM.model, kernels, norm_bound=9.0, noise_std=0.1)
    weights = slice_weights(acqf, X, X[:1], 0)
    assert float(weights[0]) == 1.0
    longest = torch.exp(-((X[:, 1] - X[0, 1]).square()) / 0.8**2)
    torch.testing.assert_close(weights, longest)
    plot_slice(acqf, X[0], bounds=BOX, data=DATA, ax=ax)


@pytest.mark.parametrize(
    ("acqf", "words"),
    [
        (bound(delta=0.1), "certified (90 %)"),
        (bound(norm_bound=None), "heuristic: norm estimated"),
        (SrinivasUCB(PROBLEM.model), "heuristic: domain estimated"),
        (AbbasiYadkoriUCB(PROBLEM.model, norm_bound=3.0), "certified (95 %)"),
    ],
)
def test_the_legend_says_what_the_assumptions_say(ax, acqf, words):
    plot_slice(acqf, POINT, bounds=BOX, ax=ax)
    assert named(ax)[0] == f"band, {words}" == f"band, {acqf.assumptions.verdict}"


def test_single_rounds_and_points_are_not_called_certified():
    assumptions = bound().assumptions
    assert replace(assumptions, anytime=False).verdict == "in one round only"
    assert replace(assumptions, all_points=False).verdict == "at single points only"


def test_what_a_model_of_logarithms_draws_is_in_outcome_units(ax):
    inputs = X[:, :1]
    model = SingleTaskGP(
        inputs,
        PROBLEM.Y.reshape(-1, 1).exp(),
        covar_module=RBFKernel().double().requires_grad_(False),
        outcome_transform=Log(),
    )
    acqf = MartingaleMixtureUCB(model, norm_bound=9.0, noise_std=0.1)
    box = BOX[:, :1]
    plot_slice(acqf, inputs[0], bounds=box, witness=True, num_points=9, ax=ax)
    lower, upper = (each.get_ydata() for each in ax.lines[:2])
    for label in ("mean", "witness"):
        values = line_of(ax, label).get_ydata()
        assert (lower - 1e-6 <= values).all()
        assert (values <= upper + 1e-6).all()


def test_bad_slices(ax):
    acqf = bound()
    with pytest.raises(UnsupportedError, match="SrinivasUCB has no witness"):
        plot_slice(SrinivasUCB(PROBLEM.model), POINT, bounds=BOX, witness=True, ax=ax)
    with pytest.raises(ValueError, match="columns from 0 to 1"):
        plot_slice(acqf, POINT, bounds=BOX, coordinate=2, ax=ax)
    with pytest.raises(ValueError, match="input_names has 1 entries for 2 inputs"):
        plot_slice(acqf, POINT, bounds=BOX, input_names=["heat"], ax=ax)
    with pytest.raises(BotorchTensorDimensionError, match="point must be `n x 2`"):
        plot_slice(acqf, POINT[:1], bounds=BOX, ax=ax)
    with pytest.raises(BotorchTensorDimensionError, match="bounds must be `2 x 2`"):
        plot_slice(acqf, POINT[:1], bounds=BOX[:, :1], ax=ax)
    with pytest.raises(BotorchTensorDimensionError, match="12 inputs and 3 outcomes"):
        plot_slice(acqf, POINT, bounds=BOX, data=(X, PROBLEM.Y[:3]), ax=ax)
    with pytest.raises(InputDataError, match="point"):
        plot_slice(acqf, POINT * torch.nan, bounds=BOX, ax=ax)


def test_bands_have_a_legend_unless_told_otherwise(ax):
    line = X[:1].repeat(4, 1)
    line[:, 0] = torch.linspace(0.0, 1.0, 4)
    plot_bands({"mine": bound()}, line, legend=False, ax=ax)
    assert ax.get_legend() is None
    plot_bands({"mine": bound()}, line, ax=ax)
    assert "mine" in named(ax)
