r"""The page of all results is what its command makes, and its commands exist."""

import re
from importlib import import_module

import pytest

pytest.importorskip("joblib", reason="the benchmarks need kernelucb[bench]")

from benchmarks.overview.__main__ import PAGE, main


def test_the_committed_page_is_what_the_command_makes(tmp_path):
    main(["--output", str(tmp_path / "index.md")])
    text = PAGE.read_text(encoding="utf-8")
    assert text == (tmp_path / "index.md").read_text(encoding="utf-8")
    assert not re.search(r"\bnan\b|\binf\b", text)


def test_every_page_of_results_has_a_line():
    text = PAGE.read_text(encoding="utf-8")
    for path in PAGE.parent.glob("*.md"):
        assert path == PAGE or f"]({path.name})" in text


@pytest.mark.slow
def test_commands_exist():
    text = PAGE.read_text(encoding="utf-8")
    commands = re.findall(r"<br>`python -m ([\w.]+) (\w+)`", text)
    assert len(commands) == text.count("\n- ") > 15
    for module, name in commands:
        assert name in import_module(f"{module}.__main__").STUDY.tables
