r"""Safe sets: what is drawn equals what the sets say."""

import numpy as np
import pytest
import torch
from pictures import named

from kernelucb import MartingaleMixtureUCB, SafeSet
from kernelucb.plotting import plot_safe_set
from problems import make_problem

PROBLEM = make_problem(n=25, d=2, norm=3.0, seed=2, kernel="matern52")
X = PROBLEM.X
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
NAMES = ["heat (K)", "time (h)"]
COUNT = 13


def bound(**options):
    return MartingaleMixtureUCB(PROBLEM.model, **({"norm_bound": 3.0} | options))


def grid():
    side = torch.linspace(0.0, 1.0, COUNT, dtype=torch.float64)
    columns, rows = torch.meshgrid(side, side, indexing="xy")
    return torch.stack([columns.flatten(), rows.flatten()], -1)


def covered(collection, point):
    return any(path.contains_point(point) for path in collection.get_paths())


def test_the_safe_set_is_filled_where_the_margin_is_not_negative(ax):
    safe_set = SafeSet(bound(), 0.3)
    drawn = plot_safe_set(
        safe_set,
        bounds=BOX,
        num_points=COUNT,
        chosen=X,
        earlier=SafeSet(bound(), 1.0),
        input_names=NAMES,
        ax=ax,
    )
    assert drawn is ax
    filled = ax.collections[0]
    margin = safe_set.margin(grid())
    inside = [covered(filled, x) for x in grid()[margin > 0.05].numpy()]
    outside = [covered(filled, x) for x in grid()[margin < -0.05].numpy()]
    assert len(inside) > 0
    assert len(outside) > 0
    # Points on the border of the picture lie on the edge of the path.
    interior = (grid()[margin > 0.05] - 0.5).abs().amax(-1) < 0.5
    assert all(np.array(inside)[interior.numpy()])
    assert not any(outside)
    assert named(ax) == [
        "safe set, certified (95 %)",
        "frontier",
        "frontier, earlier",
        "evaluated",
    ]
    assert ax.get_legend().get_title().get_text() == "looked at 13 x 13 points"
    assert (ax.get_xlabel(), ax.get_ylabel()) == tuple(NAMES)


def test_the_frontier_of_one_input_is_where_the_margin_is_zero(ax):
    safe_set = SafeSet(bound(norm_bound=None), 0.3, allow_estimated=True)
    plot_safe_set(
        safe_set, bounds=BOX, coordinates=[1], point=X[3], num_points=COUNT, ax=ax
    )
    line = X[3].repeat(COUNT, 1)
    line[:, 1] = torch.linspace(0.0, 1.0, COUNT, dtype=torch.float64)
    margins = next(each for each in ax.lines if each.get_label() == "least margin")
    assert margins.get_ydata() == pytest.approx(safe_set.margin(line).numpy())
    label = f"safe set, {safe_set.assumptions.verdict}"
    assert "heuristic" in label
    assert label in named(ax)
    assert "frontier" in named(ax)
    assert "margin" in ax.get_ylabel()
    assert ax.get_xlabel() == f"input 2, at input 1 {float(X[3, 0]):.4g}"


@pytest.mark.parametrize(
    ("threshold", "words"),
    [(99.0, "no point here is in the safe set"), (-99.0, "safe set, certified")],
)
def test_a_set_without_a_frontier(ax, threshold, words):
    plot_safe_set(SafeSet(bound(), threshold), bounds=BOX, num_points=5, ax=ax)
    assert named(ax)[0].startswith(words)
    assert "frontier" not in named(ax)


def test_bad_input(ax):
    with pytest.raises(ValueError, match="num_points must be a whole number"):
        plot_safe_set(SafeSet(bound()), bounds=BOX, num_points=0, ax=ax)
    with pytest.raises(ValueError, match="columns from 0 to 1"):
        plot_safe_set(SafeSet(bound()), bounds=BOX, coordinates=[2], ax=ax)
