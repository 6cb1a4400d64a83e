r"""Pictures: what is drawn, not how it looks."""

import sys

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from gpytorch.kernels import MaternKernel

from kernelucb import (
    AbbasiYadkoriUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    ScalarizedUCB,
)
from kernelucb.plotting import band_widths, plot_bands, slice_points, slice_weights

LINE = torch.linspace(0, 1, 20, dtype=torch.float64).unsqueeze(-1)


def acquisitions(dimension=1):
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(6, dimension, generator=generator, dtype=torch.float64)
    state = KernelRegression(X, X.sin().sum(-1), MaternKernel(nu=2.5).double(), 0.1)
    exact = MartingaleMixtureUCB(state, norm_bound=3.0)
    return {"exact": exact, "AY": AbbasiYadkoriUCB(state, norm_bound=3.0)}


def test_first_band_is_filled_and_the_others_are_outlines(ax):
    bands = acquisitions()
    plot_bands(bands, LINE, show_mean=False, ax=ax)
    lower, upper = bands["exact"].bounds(LINE)
    filled = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert filled.min() == pytest.approx(lower.min().item())
    assert filled.max() == pytest.approx(upper.max().item())
    outline = next(line for line in ax.lines if line.get_label() == "AY")
    assert outline.get_ydata() == pytest.approx(bands["AY"].bounds(LINE)[1].numpy())


def test_legend_names_everything(ax):
    bands = acquisitions()
    points = (LINE[:3], LINE[:3].sin())
    plot_bands(bands, LINE, data=points, chosen=points, true_function=torch.sin, ax=ax)
    names = set(ax.get_legend_handles_labels()[1])
    assert names == {"exact", "AY", "mean", "true function", "data", "chosen points"}


def test_the_mean_of_a_weighted_sum_is_drawn_and_its_points_cannot_fade(ax):
    one, other = acquisitions().values()
    total = ScalarizedUCB([one, other], [2.0, -1.0], offset=0.5)
    plot_bands({"sum": total}, LINE, ax=ax)
    drawn = next(line for line in ax.lines if line.get_label() == "mean").get_ydata()
    expected = 0.5 + 2.0 * one.regression.mean(LINE) - other.regression.mean(LINE)
    assert drawn == pytest.approx(expected.numpy())
    with pytest.raises(UnsupportedError, match="leave out fade"):
        plot_bands({"sum": total}, LINE, data=(LINE[:3], LINE[:3]), fade=True, ax=ax)


def test_slice_weights_are_one_on_the_line_and_fall_off():
    bands = acquisitions(dimension=2)
    line = slice_points(
        torch.tensor([0.5, 0.2], dtype=torch.float64), 0, 0.0, 1.0, num_points=5
    )
    assert line[:, 1].unique().tolist() == [0.2]
    points = torch.tensor([[0.3, 0.2], [0.3, 0.5], [0.3, 0.9]], dtype=torch.float64)
    on, near, far = slice_weights(bands["exact"], points, line, 0).tolist()
    assert on == pytest.approx(1.0)
    assert 1.0 > near > far > 0.0


def test_widths_are_means_over_the_points():
    bands = acquisitions()
    lower, upper = bands["AY"].bounds(LINE)
    widths = band_widths(bands, LINE)
    assert widths["AY"] == pytest.approx((upper - lower).mean().item())
    assert widths["exact"] < widths["AY"]


def test_a_wild_outline_is_cut_off_and_the_picture_says_so(ax):
    bands = acquisitions()
    wild = AbbasiYadkoriUCB(bands["exact"].regression, norm_bound=1000.0)
    plot_bands({"exact": bands["exact"], "wild": wild}, LINE, ax=ax)
    assert ax.get_ylim()[1] < wild.bounds(LINE)[1].max()
    assert "cut off" in ax.texts[0].get_text()


def test_bad_input(ax):
    with pytest.raises(ValueError, match="at least one acquisition"):
        plot_bands({}, LINE, ax=ax)
    with pytest.raises(BotorchTensorDimensionError, match="`n x d`"):
        plot_bands(acquisitions(), LINE[:, 0], ax=ax)


def test_missing_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install kernelucb\[plot\]"):
        plot_bands(acquisitions(), LINE)
