r"""What the pages for the first hour and on successes print, run and say is so."""

import re
from pathlib import Path

import pytest

import kernelucb

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
START = (DOCS / "get_started.md").read_text()
SUCCESSES = (DOCS / "successes.md").read_text()


def blocks(language, text=START):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.filterwarnings("ignore")  # BoTorch's, where a search starts again
def test_get_started_runs_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (table,) = blocks("csv")
    Path("runs.csv").write_text(table)
    names: dict = {}
    for block in blocks("python"):
        exec(block, names)
    output = capsys.readouterr().out
    assert output.count("certified, if what was given is true") == 3
    assert names["decision"].stop
    assert names["decision"].certificate.gap <= 9.0
    assert float((names["lower"] <= names["upper"]).double().mean()) == 1.0
    (printed,) = blocks("text")
    assert printed in output
    assert "it is about twice the least norm that explains the data" in START
    assert "the norm bound is 2.1 times that" in output


def test_commands_install_with_the_pins():
    for page in ("index.md", "get_started.md"):
        commands = blocks("bash", (DOCS / page).read_text())
        assert "pip install -c constraints.txt" in commands[0]
        assert commands[0].endswith("-m kernelucb\n")


def test_classes_in_the_tables_of_bounds_exist():
    page = (DOCS / "claim.md").read_text().split("### Every bound")[1].split("\n## ")[0]
    names = set(re.findall(r"^\| `(\w+)", page, flags=re.MULTILINE))
    assert len(names) > 10
    assert names - {"kernelucb"} <= set(kernelucb.__all__)


@pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")  # of 0 and 1
def test_successes_run_as_printed(capsys):
    names: dict = {}
    for block in blocks("python", SUCCESSES):
        exec(block, names)
    output = capsys.readouterr().out
    assert "certified, if what was given is true" in output
    assert re.search(r"^certified: at most 0\.\d\d from the best", output, re.MULTILINE)
    assert "heuristic: kernel, mean estimated - certified" in output
    assert bool((names["lower"] > 0.0).all() and (names["upper"] < 1.0).all())
    assert 0 < int(names["safe_set"].is_safe(names["X"]).sum()) < len(names["X"])
