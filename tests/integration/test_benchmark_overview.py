r"""The page of all results is what its command makes, and tables know their versions."""

import re
from pathlib import Path

import pytest

pytest.importorskip("joblib", reason="the benchmarks need kernelucb[bench]")

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results" / "index.md"


@pytest.fixture(autouse=True)
def repository_importable(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def test_the_committed_page_is_what_the_command_makes(tmp_path):
    from benchmarks.overview.__main__ import BENCHMARK

    BENCHMARK.main(["--output", str(tmp_path)])
    text = PAGE.read_text(encoding="utf-8")
    assert text == (tmp_path / "index.md").read_text(encoding="utf-8")
    assert not re.search(r"\bnan\b|\binf\b", text)


def test_every_page_of_results_has_a_line():
    text = PAGE.read_text(encoding="utf-8")
    for path in PAGE.parent.glob("*.md"):
        assert path == PAGE or f"]({path.name})" in text


def test_commands_exist():
    from importlib import import_module

    commands = re.findall(
        r"`python -m ([\w.]+) ?(\w*)` \(", PAGE.read_text(encoding="utf-8")
    )
    assert len(commands) == 19
    for module, name in commands:
        is_package = (ROOT / module.replace(".", "/")).is_dir()
        entry = import_module(f"{module}.__main__" if is_package else module)
        study = getattr(entry, "STUDY", None)
        known = entry.BENCHMARK.commands if study is None else study.tables
        assert name in known


def test_a_new_table_notes_date_and_versions(tmp_path):
    from benchmarks.runner import recorded, write_table

    results = tmp_path / "results"
    table = results / "width.csv"
    write_table(table, [{"a": 1}])
    row = recorded(table)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", row["date"])
    assert {"python", "torch", "botorch", "kernelucb"} < set(row)
    write_table(results / "other.csv", [{"a": 1}])
    assert recorded(table) == row == recorded(results / "other.csv")


def test_a_record_stands_until_the_table_changes(tmp_path):
    from benchmarks.runner import recorded, write_table

    table = tmp_path / "results" / "width.csv"
    write_table(table, [{"a": 1}])
    made = table.with_name("made.csv")
    made.write_text(made.read_text().replace(recorded(table)["date"], "2020-01-01"))
    write_table(table, [{"a": 1}])
    assert recorded(table)["date"] == "2020-01-01"
    table.write_text("a\n2\n")
    assert recorded(table) is None
    write_table(table, [{"a": 3}])
    assert recorded(table)["date"] != "2020-01-01"


def test_tables_from_before_are_not_given_versions(tmp_path):
    from benchmarks.runner import recorded, write_table

    table = tmp_path / "results" / "width.csv"
    table.parent.mkdir()
    table.write_text("a\n1\n")
    write_table(table, [{"a": 1}])
    assert recorded(table) is None
    write_table(tmp_path / "elsewhere.csv", [{"a": 1}])
    assert sorted(path.name for path in tmp_path.rglob("*.csv")) == [
        "elsewhere.csv",
        "width.csv",
    ]
