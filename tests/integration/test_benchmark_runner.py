r"""The runner that all benchmarks share."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

pytest.importorskip("joblib", reason="the benchmarks need kernelucb[bench]")

from benchmarks.runner import (
    moments_table,
    paired_difference,
    ratio_of_means,
    read_table,
    spaced,
    write_table,
)
from benchmarks.runner.study import Study, grid


def study(played):
    study = Study("benchmarks.filters", "Squares.")
    runs = grid(
        {"kind": ["a", "b"], "power": 2}, [{"x": 1, "twin": 2}, {"x": 3, "twin": 4}]
    )

    def play(settings):
        if (settings["kind"], settings["x"]) in played:
            raise KeyboardInterrupt
        return {"value": settings["x"] ** settings["power"]}

    @study.table("squares", runs, play)
    def squares(frame):
        return frame[["kind", "x", "value"]]

    return study


def test_a_study_goes_on_where_it_stopped(tmp_path):
    where = ["squares", "--output", str(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        study({("a", 3)}).main(where)
    assert not (tmp_path / "results").exists(), "no table of a part"
    study({("a", 1)}).main(where)  # what is finished is not played again
    table = (tmp_path / "results" / "squares.csv").read_text().splitlines()
    assert table == ["kind,x,value", "a,1,1", "a,3,9", "b,1,1", "b,3,9"]
    study({("a", 3)}).main([*where, "--only", "x=3", "kind=b"])
    assert (tmp_path / "results" / "squares.md").read_text().endswith("| b | 3 | 9 |\n")
    study(()).main([*where, "--change", "power=3"])  # other runs
    assert "a,3,27" in (tmp_path / "results" / "squares.csv").read_text()
    assert len(list((tmp_path / "runs").rglob("*.json"))) == 8


def test_errors_of_differences_and_of_ratios():
    r"""Against SciPy, and against the delta method."""
    generator = np.random.default_rng(0)
    left, right = generator.random((2, 12))
    difference = paired_difference(left, right)
    statistic = difference.mean / difference.standard_error
    assert statistic == pytest.approx(ttest_rel(left, right).statistic, rel=1e-12)
    assert paired_difference([1.0], [0.0]).standard_error == 0.0
    below = 10.0 + generator.standard_normal(4000)
    ratio = ratio_of_means(1.5 * below + generator.standard_normal(4000), below)
    assert ratio.mean == pytest.approx(1.5, abs=0.01)
    assert ratio.standard_error == pytest.approx(0.1 / np.sqrt(4000), rel=0.1)
    assert ratio_of_means([1.0], [0.0]).mean == np.inf


def test_moments_at_some_rounds():
    assert spaced(100, 3).tolist() == [1, 10, 100]
    table = moments_table({("a",): np.array([[1.0, 2.0], [3.0, 5.0]])}, ["method"], [1, 2])
    expected = [["a", 1, 2.0, 1.0, 2, 1.0], ["a", 2, 3.5, 1.5, 2, 1.5]]
    assert table.to_numpy().tolist() == expected


def test_a_table_notes_date_and_versions_where_it_is_new(tmp_path):
    table, made = (tmp_path / "results" / name for name in ("width.csv", "made.csv"))
    table.parent.mkdir()
    table.write_text("a\n1\n")
    write_table(table, pd.DataFrame({"a": [1]}))
    assert not made.exists(), "tables from before are not given versions"
    write_table(table, pd.DataFrame({"a": [2]}))
    (row,) = read_table(made).to_dict("records")
    assert {"table", "date", "python", "torch", "botorch", "digest"} <= row.keys()
    made.write_text(made.read_text().replace(row["date"], "2020-01-01"))
    for value, date in ((2, "2020-01-01"), (3, row["date"])):
        write_table(table, pd.DataFrame({"a": [value]}))
        assert read_table(made)["date"].tolist() == [date]
