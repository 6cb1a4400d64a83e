r"""Pictures of optimum reports: what is drawn, not how it looks."""

import sys

import pytest
import torch
from botorch.exceptions import BotorchTensorDimensionError

from kernelucb import MartingaleMixtureUCB, MixedSpace, SrinivasUCB, optimum_report
from kernelucb.plotting import plot_optimum_report
from problems import make_problem

BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
NAMES = ["heat", "time"]
FEW = {"names": NAMES, "max_evaluations": 500}


def bound():
    problem = make_problem(n=25, d=2, norm=3.0, seed=2, kernel="matern52")
    return MartingaleMixtureUCB(problem.model, norm_bound=3.0)


def report_of(**options):
    return optimum_report(bound(), **({"bounds": BOX} | FEW | options))


def drawn(ax, label):
    r"""The ends of the bars with a label, ``d`` pairs from top to bottom."""
    bars = next(bars for bars in ax.containers if bars.get_label() == label)
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]
    return torch.tensor(ends, dtype=torch.float64)


def marks(ax, label):
    found = next(each for each in ax.collections if each.get_label() == label)
    return torch.as_tensor(found.get_offsets().data)


def test_region_and_points_are_shares_of_the_bounds(ax):
    report = report_of()
    wide = torch.tensor([[-1.0, 0.0], [1.0, 4.0]], dtype=torch.float64)
    assert plot_optimum_report(report, bounds=wide, ax=ax) is ax

    def shares(X):
        return (X - wide[0]) / (wide[1] - wide[0])

    torch.testing.assert_close(drawn(ax, "domain"), BOX.T)
    region = drawn(ax, "where the optimum may be")
    torch.testing.assert_close(region, shares(report.region).T)
    torch.testing.assert_close(marks(ax, "recommended")[:, 0], shares(report.recommended))
    assert marks(ax, "recommended")[:, 1].tolist() == [0.0, 1.0]


def test_without_bounds_the_report_fills_the_bars(ax):
    report = report_of()
    plot_optimum_report(report, ax=ax)
    ends = drawn(ax, "where the optimum may be")
    ends = torch.cat([ends, marks(ax, "recommended")[:, :1]], -1)
    torch.testing.assert_close(ends.amin(-1), torch.zeros(2).double())
    torch.testing.assert_close(ends.amax(-1), torch.ones(2).double())


def test_title_legend_and_labels_say_what_is_known(ax):
    report = report_of()
    plot_optimum_report(report, bounds=BOX, ax=ax)
    title = ax.get_title(loc="left")
    numbers = (report.lower, report.upper, report.gap)
    assert all(f"{number:.4g}" in title for number in numbers)
    assert title.startswith("certified\n")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert set(names) == {"domain", "where the optimum may be", "recommended"}
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels == ["heat\n0 to 1", "time\n0 to 1"]
    low, high = report.region[:, 0].tolist()
    assert ax.texts[0].get_text() == f"{low:.4g} to {high:.4g}"


def test_one_value_is_drawn_in_the_middle_and_can_be_seen(ax):
    space = MixedSpace(BOX, discrete_dims={1: [0.0, 0.5, 1.0]})
    report = report_of(bounds=None, space=space, fixed_features={1: 0.5})
    plot_optimum_report(report, ax=ax)
    low, high = drawn(ax, "where the optimum may be")[1].tolist()
    assert low < 0.5 < high
    assert marks(ax, "recommended")[1].tolist() == [0.5, 1.0]
    assert ax.get_yticklabels()[1].get_text() == "time\n0.5"
    assert ax.texts[1].get_text() == "0.5"


def test_what_comes_from_a_search_is_called_that(ax):
    problem = make_problem(n=25, d=2, norm=3.0, seed=2, kernel="matern52")
    report = optimum_report(SrinivasUCB(problem.model), bounds=BOX, **FEW)
    plot_optimum_report(report, ax=ax)
    title = ax.get_title(loc="left")
    assert report.summary == " ".join(title.split("\n"))[: len(report.summary)]
    assert max(map(len, title.split("\n"))) <= 70
    names = ax.get_legend_handles_labels()[1]
    assert any("of the points looked at" in name for name in names)


def test_new_axes():
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = plot_optimum_report(report_of())
    assert len(ax.get_yticks()) == 2
    plt.close(ax.figure)


def test_bad_bounds(ax):
    report = report_of()
    with pytest.raises(ValueError, match="bounds must hold the report: time is from"):
        plot_optimum_report(report, bounds=BOX * BOX.new_tensor([1.0, 0.1]), ax=ax)
    with pytest.raises(BotorchTensorDimensionError, match="`2 x 2`"):
        plot_optimum_report(report, bounds=BOX[:, :1], ax=ax)


def test_missing_matplotlib_says_what_to_install(monkeypatch):
    report = report_of()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install kernelucb\[plot\]"):
        plot_optimum_report(report)
