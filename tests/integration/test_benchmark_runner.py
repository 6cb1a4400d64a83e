r"""The runner that all benchmarks share; its engines are tested with a real benchmark."""

import csv
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import ClassVar

import numpy as np
import pytest

pytest.importorskip("joblib", reason="the benchmarks need kernelucb[bench]")


@pytest.fixture(autouse=True)
def repository_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))


@dataclass(frozen=True)
class Method:
    name: str
    label: str


@dataclass(frozen=True)
class Run:
    regret: list[float]


def make_task(**changes):
    from benchmarks import runner

    @dataclass(frozen=True)
    class Task(runner.Task):
        cosmetic: ClassVar = frozenset({"label"})

        method: Method
        repetition: int

        @property
        def location(self) -> PurePath:
            return PurePath(self.method.name, f"{self.repetition}.json")

    return replace(Task(Method("ucb", "UCB"), 3), **changes)


def test_a_label_may_change_and_a_setting_may_not(tmp_path):
    from benchmarks.runner import RunStore

    store = RunStore(tmp_path, Run)
    store.save(make_task(), Run([0.1, 1 / 3]))
    assert (tmp_path / "ucb" / "3.json").exists()
    assert store.load(make_task(method=Method("ucb", "other"))) == Run([0.1, 1 / 3])
    assert not store.finished(make_task(repetition=4))

    moved = make_task(repetition=4)
    store.path(make_task()).rename(store.path(moved))
    with pytest.raises(ValueError, match="other settings"):
        store.finished(moved)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: text[:-1],
        lambda text: "[1, 2]",
        lambda text: "null",
        lambda text: text.replace('"task"', '"tusk"'),
        lambda text: text.replace('"regret"', '"regrets"'),
        lambda text: text.replace("0.5", '"half"'),
        lambda text: text.replace("0.5", "null"),
        lambda text: text.replace("[0.5]", "0.5"),
        lambda text: text.replace("[0.5]", '[0.5], "more": 1'),
        lambda text: text.replace('{"method"', '["method"], "method": {"method"'),
        lambda text: "[" * 100_000,
        lambda text: text.encode("utf-16"),
    ],
)
def test_a_damaged_run_is_named(tmp_path, damage):
    from benchmarks.runner import RunStore

    store, task = RunStore(tmp_path, Run), make_task()
    store.save(task, Run([0.5]))
    path = store.path(task)
    damaged = damage(path.read_text(encoding="utf-8"))
    path.write_bytes(damaged if isinstance(damaged, bytes) else damaged.encode())
    for read in (store.load, store.finished):
        with pytest.raises(ValueError, match=r"is damaged .* Move it away") as raised:
            read(task)
        assert str(path) in str(raised.value)
        assert "config.toml" not in str(raised.value)


def test_rows_survive_the_disk(tmp_path):
    from benchmarks.runner import markdown_table, read_rows, write_rows

    path = tmp_path / "new" / "rows.csv"
    write_rows(path, [{"name": 'a, "b"', "mean": 1.5}, {"name": "c", "mean": ""}])
    assert read_rows(path) == [
        {"name": 'a, "b"', "mean": "1.5"},
        {"name": "c", "mean": ""},
    ]
    assert b"\r" not in path.read_bytes()
    with pytest.raises(ValueError, match="fields"):
        write_rows(path, [{"name": "a"}, {"mean": 2.0}])
    with path.open(newline="") as file:
        assert len(list(csv.reader(file))) == 3, "a failed write keeps the old file"
    assert markdown_table(["a", "b"], [["1", "2"]]) == [
        "| a | b |",
        "|---|---|",
        "| 1 | 2 |",
    ]


def test_paired_differences_are_those_of_scipy():
    from scipy.stats import ttest_rel

    from benchmarks.runner import paired_difference

    left, right = np.random.default_rng(0).random((2, 12))
    difference = paired_difference(left, right)
    expected = ttest_rel(left, right)
    statistic = difference.mean / difference.standard_error
    np.testing.assert_allclose(statistic, expected.statistic, rtol=1e-12)
    assert paired_difference([1.0], [0.0]).standard_error == 0.0


def test_streams_are_named():
    from benchmarks.runner import stream

    assert stream(1, "noise", 0).random() == stream(1, "noise", 0).random()
    different = {stream(*name).random() for name in [(1, "a", 0), (1, "a", 1), (2, "a", 0)]}
    assert len(different | {stream(1, "b", 0).random()}) == 4


def test_a_report_takes_its_tables_between_markers(tmp_path):
    from benchmarks.runner import update_report, write_atomically

    report = tmp_path / "report.md"
    report.write_text("before\n<!-- begin one -->\nold\n<!-- end one -->\nafter\n")
    with pytest.raises(FileNotFoundError, match="'one'"):
        update_report(report, tmp_path)
    write_atomically(tmp_path / "one.md", "new\n")
    for _ in range(2):
        update_report(report, tmp_path)
        expected = "before\n<!-- begin one -->\n\nnew\n\n<!-- end one -->\nafter\n"
        assert report.read_text() == expected


def test_absent_data_are_said_to_be_absent(tmp_path, monkeypatch):
    from benchmarks.runner import load_data

    monkeypatch.setenv("KERNELUCB_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"KERNELUCB_DATA.*set\.npz"):
        load_data("set")
    np.savez(tmp_path / "set.npz", X=np.arange(3.0))
    assert load_data("set")["X"].tolist() == [0.0, 1.0, 2.0]


def test_unknown_names_are_refused():
    from benchmarks.runner import chosen

    methods = [Method("a", ""), Method("b", ""), Method("c", "")]
    assert [m.name for m in chosen(methods, ["c", "a"], "--methods")] == ["a", "c"]
    assert chosen(methods, None, "--methods") == methods
    with pytest.raises(SystemExit, match=r"--methods: unknown \['d'\]"):
        chosen(methods, ["d"], "--methods")
