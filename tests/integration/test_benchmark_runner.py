r"""The runner that all benchmarks share."""

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


def study(played):
    from benchmarks.runner.study import Study, grid

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
    from benchmarks.runner import markdown_table, read_table, write_table

    path = tmp_path / "new" / "rows.csv"
    write_table(path, [{"name": 'a, "b"', "mean": 1.5}, {"name": "c", "mean": ""}])
    assert read_table(path).to_dict("records") == [
        {"name": 'a, "b"', "mean": "1.5"},
        {"name": "c", "mean": ""},
    ]
    assert b"\r" not in path.read_bytes()
    with pytest.raises(ValueError, match="fields"):
        write_table(path, [{"name": "a"}, {"mean": 2.0}])
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


@dataclass(frozen=True)
class Protocol:
    seed: int
    delta: float = 0.1


@dataclass(frozen=True)
class Setting:
    name: str
    seed: int
    rounds: int


@dataclass(frozen=True)
class Experiment:
    protocol: Protocol
    setting: Setting
    methods: tuple[Method, ...]
    shares: tuple[float, ...] = (1.0,)
    qbar: float | str = "all"


@dataclass(frozen=True)
class Configuration:
    protocol: Protocol
    methods: dict[str, Method]
    experiments: dict[str, Experiment]


FILE = """
[protocol]
seed = 3
[methods]
a = { label = "A" }
b = { label = "B" }
[experiments.whole.setting]
rounds = 5
[experiments.part]
methods = ["b"]
shares = [1, 0.5]
qbar = 2
[experiments.part.setting]
rounds = 6
seed = 4
"""


def read(folder, text):
    from benchmarks.runner import load_configuration

    path = folder / "config.toml"
    path.write_text(text)
    return load_configuration(Configuration, path)


def test_a_table_takes_what_it_lacks_from_those_around_it(tmp_path):
    found = read(tmp_path, FILE)
    a, b = Method("a", "A"), Method("b", "B")
    assert found == Configuration(
        Protocol(3),
        {"a": a, "b": b},
        {
            "whole": Experiment(Protocol(3), Setting("whole", 3, 5), (a, b)),
            "part": Experiment(Protocol(3), Setting("part", 4, 6), (b,), (1.0, 0.5), 2.0),
        },
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rounds = 5", "round = 5", r"\[experiments.whole.setting\] has \['round'\]"),
        ("rounds = 5", "", r"setting\] lacks 'rounds': add it, a whole number"),
        ("rounds = 5", "rounds = 5.0", "whole.setting.rounds must be a whole number"),
        ("rounds = 5", "rounds = true", "rounds must be a whole number, got True"),
        ('["b"]', '["c"]', r"part.methods\[0\] is 'c', which is none of \['a', 'b'\]"),
        ('["b"]', '"b"', "part.methods must be a list, each a table"),
        ("[1, 0.5]", '[1, "0.5"]', r"part.shares\[1\] must be a number, got '0.5'"),
        ("qbar = 2", "qbar = [2]", "qbar must be a number or a text"),
        ("seed = 3", "seed = 3\nsede = 4", r"\[protocol\] has \['sede'\]"),
        ("[methods]", "[methods", "line 4"),
    ],
)
def test_what_is_wrong_in_a_configuration_is_named(tmp_path, old, new, message):
    from benchmarks.runner import BenchmarkError

    assert old in FILE
    with pytest.raises(BenchmarkError, match=message) as raised:
        read(tmp_path, FILE.replace(old, new))
    assert str(tmp_path / "config.toml") in str(raised.value)


def test_a_command_line(tmp_path, capsys):
    from benchmarks.runner import RUN_OPTIONS, Benchmark, BenchmarkError, number

    benchmark = Benchmark("benchmarks.norm", "Words.", *RUN_OPTIONS)

    @benchmark.command("one", "two", options=[number("--rounds", "how many", 7)])
    def run(call):
        if call.command == "two":
            raise BenchmarkError("change it")
        store = call.play(
            [make_task()], Run, lambda task: Run([float(call.options.rounds)])
        )
        assert store.load(make_task()) == Run([7.0])
        path = call.folders.results / "one.md"
        path.parent.mkdir()
        path.write_text("the table")
        return [path]

    for _ in range(2):  # the second time nothing is left to play
        benchmark.main(["one", "--output", str(tmp_path)])
        assert "the table" in capsys.readouterr().out
        (tmp_path / "results" / "one.md").unlink()
        (tmp_path / "results").rmdir()
    with pytest.raises(SystemExit, match="change it"):
        benchmark.main(["two", "--output", str(tmp_path)])
    for arguments in (["three"], [], ["one", "--rounds", "0"]):
        with pytest.raises(SystemExit, match="2"):
            benchmark.main(arguments)


def test_moments_at_some_rounds():
    from benchmarks.runner import moments_table, spaced

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
    from benchmarks.runner import ratio_of_means

    generator = np.random.default_rng(0)
    below = 10.0 + generator.standard_normal(4000)
    ratio = ratio_of_means(1.5 * below + generator.standard_normal(4000), below)
    assert ratio.mean == pytest.approx(1.5, abs=0.01)
    assert ratio.standard_error == pytest.approx(0.1 / np.sqrt(4000), rel=0.1)
    assert ratio_of_means([1.0], [0.0]).mean == np.inf


def test_a_table_notes_date_and_versions_until_it_changes(tmp_path):
    from benchmarks.runner import recorded, write_table

    table = tmp_path / "results" / "width.csv"
    write_table(table, [{"a": 1}])
    row = recorded(table)
    assert {"date", "python", "torch", "botorch", "kernelucb"} <= set(row)
    made = table.with_name("made.csv")
    made.write_text(made.read_text().replace(row["date"], "2020-01-01"))
    write_table(table, [{"a": 1}])
    write_table(table.with_name("other.csv"), [{"a": 1}])
    assert recorded(table)["date"] == "2020-01-01"
    table.write_text("a\n2\n")
    assert recorded(table) is None
    write_table(table, [{"a": 2}])
    assert recorded(table) is None, "tables from before are not given versions"
    write_table(table, [{"a": 3}])
    assert recorded(table)["date"] == row["date"]
    write_table(tmp_path / "elsewhere.csv", [{"a": 1}])
    assert not (tmp_path / "made.csv").exists()
