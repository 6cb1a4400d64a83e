r"""The runner that all benchmarks share."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

pytest.importorskip("joblib", reason="the benchmarks need kernelucb[bench]")

from benchmarks.runner import (
    load_data,
    markdown_table,
    moments_table,
    paired_difference,
    ratio_of_means,
    read_table,
    spaced,
    stream,
    write_table,
)
from benchmarks.runner.study import Study, grid


def study(played):
    study = Study("benchmarks.guarded", "Squares.")
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


def test_a_changed_setting_is_another_run(tmp_path):
    where = ["squares", "--output", str(tmp_path)]
    study(()).main(where)
    study(()).main([*where, "--change", "power=3"])
    assert "a,3,27" in (tmp_path / "results" / "squares.csv").read_text()
    assert len(list((tmp_path / "runs").rglob("*.json"))) == 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "x=1"], "needs --output"),
        (["--only", "y=1", "--output", "."], "with a name of"),
        (["--only", "x=5", "--output", "."], r"No run has x=\['5'\]; there are"),
    ],
)
def test_a_study_says_what_to_change(arguments, message):
    with pytest.raises(SystemExit, match=message):
        study(()).main(["squares", *arguments])


def test_rows_survive_the_disk(tmp_path):
    path = tmp_path / "new" / "rows.csv"
    write_table(path, pd.DataFrame({"name": ['a, "b"', "c"], "mean": [1.5, ""]}))
    assert read_table(path).to_dict("records") == [
        {"name": 'a, "b"', "mean": "1.5"},
        {"name": "c", "mean": ""},
    ]
    assert b"\r" not in path.read_bytes()
    table = markdown_table(["a", "b"], [["1", "2"]])
    assert table == ["| a | b |", "|---|---|", "| 1 | 2 |"]


def test_paired_differences_are_those_of_scipy():
    left, right = np.random.default_rng(0).random((2, 12))
    difference = paired_difference(left, right)
    expected = ttest_rel(left, right)
    statistic = difference.mean / difference.standard_error
    np.testing.assert_allclose(statistic, expected.statistic, rtol=1e-12)
    assert paired_difference([1.0], [0.0]).standard_error == 0.0


def test_streams_are_named():
    assert stream(1, "noise", 0).random() == stream(1, "noise", 0).random()
    different = {stream(*name).random() for name in [(1, "a", 0), (1, "a", 1), (2, "a", 0)]}
    assert len(different | {stream(1, "b", 0).random()}) == 4


def test_absent_data_are_said_to_be_absent(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELUCB_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"KERNELUCB_DATA.*set\.npz"):
        load_data("set")
    np.savez(tmp_path / "set.npz", X=np.arange(3.0))
    assert load_data("set")["X"].tolist() == [0.0, 1.0, 2.0]


def test_moments_at_some_rounds():
    assert spaced(100, 3).tolist() == [1, 10, 100]
    curves = {("a",): np.array([[1.0, 2.0], [3.0, 5.0]])}
    table = moments_table(curves, ["method"], [1, 2])
    assert table["method"].tolist() == ["a", "a"]
    assert table["mean"].tolist() == [2.0, 3.5]
    assert table["std"].tolist() == [1.0, 1.5]
    assert table["standard_error"].tolist() == [1.0, 1.5]
    assert table["n"].tolist() == [2, 2]
    rounded = moments_table({("a",): np.array([[1 / 3]])}, ["method"], [1], digits=2)
    assert rounded.to_dict("records") == [
        {"method": "a", "round": 1, "mean": 0.33, "std": 0.0, "n": 1}
    ]


def test_a_ratio_of_means_has_the_error_of_the_delta_method():
    generator = np.random.default_rng(0)
    below = 10.0 + generator.standard_normal(4000)
    ratio = ratio_of_means(1.5 * below + generator.standard_normal(4000), below)
    assert ratio.mean == pytest.approx(1.5, abs=0.01)
    assert ratio.standard_error == pytest.approx(0.1 / np.sqrt(4000), rel=0.1)
    assert ratio_of_means([1.0], [0.0]).mean == np.inf


def test_a_table_notes_date_and_versions_where_it_is_new(tmp_path):
    table, made = tmp_path / "results" / "width.csv", tmp_path / "results" / "made.csv"

    def noted(path=table):
        frame = read_table(made) if made.exists() else pd.DataFrame({"table": []})
        return frame[frame["table"] == path.name].drop(columns="table").to_dict("records")

    table.parent.mkdir()
    table.write_text("a\n1\n")
    write_table(table, pd.DataFrame({"a": [1]}))
    assert noted() == [], "tables from before are not given versions"
    write_table(table, pd.DataFrame({"a": [2]}))
    (row,) = noted()
    assert {"date", "python", "torch", "botorch", "kernelucb", "digest"} <= set(row)
    write_table(table.with_name("other.csv"), pd.DataFrame({"a": [2]}))
    assert noted() == [row] == noted(table.with_name("other.csv"))
    made.write_text(made.read_text().replace(row["date"], "2020-01-01"))
    write_table(table, pd.DataFrame({"a": [2]}))
    assert noted()[0]["date"] == "2020-01-01"
    write_table(table, pd.DataFrame({"a": [3]}))
    assert noted()[0]["date"] == row["date"]
