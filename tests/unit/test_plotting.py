r"""Pictures: what is drawn equals what the bounds, sets and certificates say."""

import dataclasses

import numpy as np
import pytest
import torch
from botorch.models.transforms import Log
from torch.testing import assert_close

from kernelucb import (
    AbbasiYadkoriUCB,
    KernelRegression,
    MartingaleMixtureUCB,
    SafeSet,
    SrinivasUCB,
    regret_certificate,
)
from kernelucb.plotting import (
    band_widths,
    plot_bands,
    plot_gap,
    plot_replicates,
    plot_safe_set,
    plot_slice,
    slice_points,
)
from problems import float64, frozen_model, make_problem, normal, uniform

LINE = torch.linspace(0, 1, 20, dtype=torch.float64).unsqueeze(-1)
ONE_INPUT = make_problem(n=20, d=1, norm=3.0, seed=2)
PROBLEM = make_problem(n=25, d=2, norm=3.0, seed=2, kernel="matern52")
X, DATA = PROBLEM.X, (PROBLEM.X, PROBLEM.Y)
BOX, POINT = float64([[0.0, 0.0], [1.0, 2.0]]), float64([0.3, 0.8])
NAMES = ["heat (K)", "time (h)"]


def bound(model=PROBLEM.model, **options):
    return MartingaleMixtureUCB(model, **({"norm_bound": 3.0} | options))


def named(ax):
    r"""The names in the legend."""
    return [text.get_text() for text in ax.get_legend().get_texts()]


def line_of(ax, label):
    return next(line for line in ax.lines if line.get_label() == label).get_ydata()


def within_sides(ax, label):
    r"""A drawn line keeps to the band that was drawn first; its values."""
    lower, upper = (each.get_ydata() for each in ax.lines[:2])
    values = line_of(ax, label)
    assert ((lower - 1e-6 <= values) & (values <= upper + 1e-6)).all()
    return values


def test_the_first_band_is_filled_and_the_others_are_outlines(ax):
    state, points = ONE_INPUT.state, (LINE[:3], LINE[:3].sin())
    bands = {"exact": bound(state), "AY": AbbasiYadkoriUCB(state, norm_bound=3.0)}
    options = {"data": points, "chosen": points, "true_function": torch.sin}
    plot_bands(bands, LINE, **options, ax=ax)
    lower, upper = bands["exact"].bounds(LINE)
    filled = ax.collections[0].get_paths()[0].vertices[:, 1]
    ends = float(lower.min()), float(upper.max())
    assert (filled.min(), filled.max()) == pytest.approx(ends)
    assert line_of(ax, "AY") == pytest.approx(bands["AY"].bounds(LINE)[1].numpy())
    names = {"exact", "AY", "mean", "true function", "data", "chosen points"}
    assert set(named(ax)) == names


def test_the_mean_keeps_to_a_known_range(ax):
    free, mean = bound(ONE_INPUT.state), ONE_INPUT.state.mean(LINE)
    high = 0.5 * float(mean.max() + free.bounds(LINE)[0].max())
    plot_bands({"ranged": free.band.within(upper=high)}, LINE, ax=ax)
    assert line_of(ax, "mean") == pytest.approx(mean.clamp_max(high).numpy())
    assert max(line.get_ydata().max() for line in ax.lines) <= high + 1e-12


def test_outlines_far_beyond_the_band_are_cut_off(ax):
    acqfs = {"narrow": bound(), "wide": bound(norm_bound=300.0)}
    line = slice_points(POINT, 0, 0.0, 1.0, 5)
    lower, upper = acqfs["wide"].bounds(line)
    assert band_widths(acqfs, line)["wide"] == pytest.approx(float((upper - lower).mean()))
    plot_bands(acqfs, line, ax=ax)
    assert [text.get_text() for text in ax.texts] == ["what lies beyond is cut off"]
    assert lower.min() < ax.get_ylim()[0] < float(acqfs["narrow"].bounds(line)[0].min())


def test_a_slice_is_the_band_on_its_line(ax):
    acqf, names = bound(), {"names": NAMES, "outcome": "yield (%)"}
    options = {"bounds": BOX, "coordinate": 1, "num_points": 17, **names}
    assert plot_slice(acqf, POINT, **options, ax=ax) is ax
    expected = torch.stack(acqf.bounds(slice_points(POINT, 1, 0.0, 2.0, 17)))
    sides = np.array([each.get_ydata() for each in ax.lines[:2]])
    assert sides == pytest.approx(expected.numpy())
    assert ax.get_xlabel() == "time (h), at heat (K) 0.3"
    assert named(ax) == ["band, certified (95 %)", "mean"]
    assert ax.lines[-1].get_xdata() == [0.8, 0.8]


@pytest.mark.parametrize("maximize", [True, False])
def test_the_witness_meets_the_bound_at_the_point(ax, maximize):
    acqf = bound(maximize=maximize)
    plot_slice(acqf, POINT, bounds=BOX, witness=True, num_points=11, ax=ax)
    reached = float(acqf.bounds(POINT.unsqueeze(0))[1 if maximize else 0])
    star = next(c for c in ax.collections if c.get_label() == "bound at the point")
    assert star.get_offsets()[0].tolist() == pytest.approx([0.3, reached], abs=1e-6)
    # The point is the fourth of eleven on the line.
    assert within_sides(ax, "witness")[3] == pytest.approx(reached, abs=1e-6)


def test_a_model_of_logarithms_is_drawn_in_outcome_units(ax):
    given = X, PROBLEM.Y.exp(), PROBLEM.kernel, 0.1
    acqf = bound(frozen_model(*given, outcome_transform=Log()), norm_bound=9.0)
    plot_slice(acqf, X[0], bounds=BOX, data=DATA, witness=True, num_points=9, ax=ax)
    assert "data, pale off this line" in named(ax)
    within_sides(ax, "mean")
    within_sides(ax, "witness")


@pytest.mark.parametrize(
    ("acqf", "words"),
    [
        (bound(delta=0.1), "certified (90 %)"),
        (bound(norm_bound=None), "heuristic: norm estimated"),
        (SrinivasUCB(PROBLEM.model), "heuristic: domain estimated"),
    ],
)
def test_the_legend_says_what_the_assumptions_say(ax, acqf, words):
    plot_slice(acqf, POINT, bounds=BOX, ax=ax)
    assert named(ax)[0] == f"band, {words}" == f"band, {acqf.assumptions.verdict}"


def test_a_safe_set_is_filled_where_the_margin_is_not_negative(ax):
    safe_set, earlier = SafeSet(bound(), 0.3), SafeSet(bound(), 1.0)
    options = {"num_points": 13, "chosen": X, "names": NAMES}
    plot_safe_set(safe_set, bounds=BOX, earlier=earlier, **options, ax=ax)
    side = torch.linspace(0.0, 1.0, 13, dtype=torch.float64)
    grid, paths = torch.cartesian_prod(side, 2.0 * side), ax.collections[0].get_paths()
    covered = [any(path.contains_point(x) for path in paths) for x in grid.numpy()]
    margin, covered = safe_set.margin(grid), torch.tensor(covered)
    # Points on the border of the picture lie on the edge of the path.
    inner = (grid / BOX[1] - 0.5).abs().amax(-1) < 0.5
    assert bool(covered[(margin > 0.05) & inner].all())
    assert not covered[margin < -0.05].any()
    assert 0 < covered.sum() < len(grid)
    names = ["safe set, certified (95 %)", "frontier", "frontier, earlier", "evaluated"]
    assert named(ax) == names
    assert (ax.get_xlabel(), ax.get_ylabel()) == tuple(NAMES)


def test_the_frontier_of_one_input_is_where_the_margin_is_zero(ax):
    safe_set = SafeSet(bound(norm_bound=None), 0.3, allow_estimated=True)
    earlier = SafeSet(bound(), 1.0)
    options = {"coordinates": [1], "point": X[3], "num_points": 13, "chosen": X}
    plot_safe_set(safe_set, bounds=BOX, earlier=earlier, **options, ax=ax)
    line = slice_points(X[3], 1, 0.0, 2.0, 13)
    for each, name in (safe_set, "least margin"), (earlier, "least margin, earlier"):
        assert line_of(ax, name) == pytest.approx(each.margin(line).numpy())
    assert any("heuristic" in name for name in named(ax))
    assert ax.get_xlabel() == f"input 2, at input 1 {float(X[3, 0]):.4g}"


def after(n, norm_bound=3.0):
    parts = ONE_INPUT.X[:n], ONE_INPUT.Y[:n], ONE_INPUT.kernel, 0.1
    return regret_certificate(bound(KernelRegression(*parts), norm_bound=norm_bound), LINE)


RUN, GUESSES = [after(n) for n in (4, 8, 16)], [after(n, None) for n in (4, 8)]


def test_the_gap_of_a_certified_run(ax):
    options = {"rounds": [4, 8, 16, 32], "accepted": 0.5, "true_gaps": [1, 0, 0]}
    plot_gap(RUN, **options, ax=ax)
    drawn = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines[:2]]
    assert drawn == [([4, 8, 16], [each.gap for each in RUN]), ([4, 8, 16], [1, 0, 0])]
    assert ax.lines[2].get_ydata() == [0.5, 0.5]
    assert named(ax) == ["certified gap", "true gap (never seen)", "accepted"]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ([None, *GUESSES], "gap, heuristic: norm estimated"),
        ([*RUN, *GUESSES], "gap, certified in 3 of 5 rounds"),
        ([dataclasses.replace(RUN[0], rigorous=False)], "gap, heuristic: the maximum over"),
    ],
)
def test_a_run_is_called_certified_only_if_all_of_it_is(ax, run, words):
    plot_gap({"mine": RUN, "other": run}, ax=ax)
    first, second = named(ax)
    assert first == "mine: certified gap"
    assert second.startswith(f"other: {words}")
    doubtful = [i for i, each in enumerate(run, 1) if each and not each.certified]
    assert list(ax.lines[2].get_xdata()) == doubtful


def test_replicates_are_drawn_by_their_mean(ax):
    runs = uniform(60, 1, 0).repeat(4, 1)
    Y = 10.0 * runs[:, 0] + (0.2 + 2.0 * runs[:, 0]) * normal(240, 1)
    plot_replicates(runs, Y, noise_std=1.0, ax=ax)
    drawn = torch.tensor(np.array(ax.lines[0].get_data()))
    expected = Y.reshape(4, 60).mean(0), Y.reshape(4, 60).std(0)
    assert_close(drawn.sort().values, torch.stack(expected).sort().values)
    assert len(ax.containers) == 3
