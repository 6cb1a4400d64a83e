r"""Safe sets and possible maximisers: what is drawn equals what the sets say."""

import numpy as np
import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.exceptions import BotorchTensorDimensionError, UnsupportedError
from pictures import named

from kernelucb import (
    ConstrainedUCB,
    GuardedAcquisition,
    MartingaleMixtureUCB,
    OutcomeConstraints,
    SafeSet,
)
from kernelucb.exceptions import NoSafePointError
from kernelucb.plotting import plot_possible_maximizers, plot_safe_set
from kernelucb.plotting.maximizers import stretches
from problems import make_problem

PROBLEM = make_problem(n=25, d=2, norm=3.0, seed=2, kernel="matern52")
X, DATA = PROBLEM.X, (PROBLEM.X, PROBLEM.Y)
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


def colours(ax, X):
    r"""Whether each of ``n x 2`` points lies in a bar or filled part of the picture."""
    filled = [c for c in ax.collections if type(c).__name__ == "PolyCollection"]
    return torch.tensor([any(covered(c, x) for c in filled) for x in X.numpy()])


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


@pytest.mark.parametrize(
    ("threshold", "words"),
    [(99.0, "no point here is in the safe set"), (-99.0, "safe set, certified")],
)
def test_a_set_without_a_frontier(ax, threshold, words):
    plot_safe_set(SafeSet(bound(), threshold), bounds=BOX, num_points=5, ax=ax)
    assert named(ax)[0].startswith(words)
    assert "frontier" not in named(ax)


@pytest.mark.parametrize("maximize", [True, False])
def test_possible_maximizers_are_those_that_some_function_prefers(ax, maximize):
    acqf = bound(maximize=maximize)
    lower, upper = acqf.bounds(X)
    reference = X[lower.argmax() if maximize else upper.argmin()]
    drawn = plot_possible_maximizers(
        acqf, bounds=BOX, reference=reference, num_points=COUNT, ax=ax
    )
    assert drawn is ax
    sign = 1 if maximize else -1
    gains = acqf.confidence_set.max_gain_over(grid(), reference.unsqueeze(0), sign)
    expected = gains >= 0.0
    assert 0 < int(expected.sum()) < len(expected)
    # Just beside the points: the first and last ones lie on the edge of their cell.
    inner = grid().clamp(0.01, 0.99)
    torch.testing.assert_close(colours(ax, inner), expected)
    what = "maximum" if maximize else "minimum"
    assert named(ax) == [f"where the {what} may be,\ncertified (95 %)", "compared with"]


def test_what_lies_outside_the_domain_is_no_reference(ax):
    r"""An observed point there may be better than all of it, and ruled it out."""
    acqf = bound()
    best = X[acqf.bounds(X)[0].argmax()]
    away = int(best[0] < 0.5)
    part = BOX.clone()
    part[1 - away, 0] = 0.5
    assert not bool(((part[0] <= best) & (best <= part[1])).all())
    with pytest.raises(ValueError, match="reference lies outside the domain"):
        plot_possible_maximizers(acqf, bounds=part, reference=best, ax=ax)
    plot_possible_maximizers(acqf, bounds=part, num_points=COUNT, ax=ax)
    marks = [c for c in ax.collections if type(c).__name__ == "PathCollection"]
    compared = marks[-1].get_offsets().tolist()
    assert compared != [best.tolist()]
    assert part[0, 0] <= compared[0][0] <= part[1, 0]


def test_the_best_observed_point_is_the_reference(ax):
    acqf = bound()
    plot_possible_maximizers(acqf, bounds=BOX, num_points=2, data=DATA, ax=ax)
    marks = [c for c in ax.collections if type(c).__name__ == "PathCollection"]
    best = X[acqf.bounds(X)[0].argmax()]
    assert marks[-1].get_offsets().tolist() == [best.tolist()]
    assert "data" in named(ax)


def test_along_a_line_the_band_is_drawn_too(ax):
    acqf = bound(norm_bound=None)
    plot_possible_maximizers(
        acqf,
        bounds=BOX,
        coordinates=[0],
        point=X[0],
        data=DATA,
        outcome_name="yield (%)",
        num_points=COUNT,
        ax=ax,
    )
    assert ax.get_ylabel() == "yield (%)"
    assert "band, heuristic: norm estimated" in named(ax)
    assert "largest lower bound here" in named(ax)
    line = X[0].repeat(COUNT, 1)
    line[:, 0] = torch.linspace(0.0, 1.0, COUNT, dtype=torch.float64)
    lower, upper = acqf.bounds(line)
    band = next(c for c in ax.collections if "band" in c.get_label())
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == pytest.approx(lower.min().item())
    assert heights.max() == pytest.approx(upper.max().item())


def test_constraints_exclude_points(ax):
    constraints = OutcomeConstraints(bound(), 0.0)
    acqf = ConstrainedUCB(bound(), constraints)
    plot_possible_maximizers(acqf, bounds=BOX, num_points=COUNT, ax=ax)
    possible = constraints.may_be_feasible(grid())
    assert not bool(colours(ax, grid()[~possible].clamp(0.01, 0.99)).any())
    label = named(ax)[0]
    assert label == "where the maximum may be,\ncertified (90 %)"  # of two bands


def test_a_guard_is_drawn_by_its_band(ax):
    guard = GuardedAcquisition(UpperConfidenceBound(PROBLEM.model, beta=2.0), bound())
    plot_possible_maximizers(guard, bounds=BOX, num_points=5, ax=ax)
    assert "certified" in named(ax)[0]


def test_stretches_join_neighbours():
    side = torch.linspace(0.0, 1.0, 5)
    mask = torch.tensor([True, True, False, False, True])
    assert stretches(side, mask) == [(0.0, 0.375), (0.875, 0.125)]
    assert stretches(side, ~mask) == [(0.375, 0.5)]


def test_bad_input(ax):
    with pytest.raises(UnsupportedError, match="SingleTaskGP has no confidence band"):
        plot_possible_maximizers(PROBLEM.model, bounds=BOX, ax=ax)
    with pytest.raises(BotorchTensorDimensionError, match="bounds must be `2 x 2`"):
        plot_possible_maximizers(bound(), bounds=BOX[:, :1], ax=ax)
    hopeless = ConstrainedUCB(bound(), OutcomeConstraints(bound(), 99.0))
    with pytest.raises(NoSafePointError):
        plot_possible_maximizers(hopeless, bounds=BOX, num_points=3, ax=ax)
    with pytest.raises(UnsupportedError, match="instance of SafeSet"):
        plot_safe_set(bound(), bounds=BOX, ax=ax)
    with pytest.raises(ValueError, match="num_points must be a whole number"):
        plot_safe_set(SafeSet(bound()), bounds=BOX, num_points=0, ax=ax)
