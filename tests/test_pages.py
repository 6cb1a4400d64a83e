r"""What README, the first hour and the page on successes print, run and say is so."""

import re
from pathlib import Path

import pytest
import torch

import kernelucb
from benchmarks.pictures.readme_norm import norms

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
START = (DOCS / "get_started.md").read_text()
README = (ROOT / "README.md").read_text()
SUCCESSES = (DOCS / "successes.md").read_text()


def blocks(language, text=START):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture
def first_hour(tmp_path, monkeypatch):
    r"""Runs the first blocks of the page beside its table; returns their names."""
    monkeypatch.chdir(tmp_path)
    (table,) = blocks("csv")
    Path("runs.csv").write_text(table)

    def run(count=None):
        names: dict = {}
        for block in blocks("python")[:count]:
            exec(block, names)
        return names

    return run


def test_get_started_begins_as_printed(first_hour, capsys):
    names, output = first_hour(1), capsys.readouterr().out
    assert bool((names["lower"] <= names["upper"]).all())
    (printed,) = blocks("text")
    assert printed in output
    assert "it is about twice the least norm that explains the data" in START
    assert "the norm bound is 2.1 times that" in output


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # BoTorch's, where a search starts again
def test_get_started_runs_to_its_end(first_hour, capsys):
    names, output = first_hour(), capsys.readouterr().out
    assert output.count("certified, if what was given is true") == 3
    assert names["decision"].stop
    assert names["decision"].certificate.gap <= 9.0


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


def command_after(marker: str) -> str:
    return re.search(rf"<!-- {marker} -->\n```bash\n(.+)\n```", README).group(1)


def test_example_runs(capsys):
    (example,) = blocks("python", README)
    assert len([line for line in example.splitlines() if line.strip()]) <= 30
    names: dict = {}
    exec(example, names)
    assert bool((names["lower"] <= names["upper"]).all())
    output = capsys.readouterr().out
    assert "certified, if what was given is true" in output
    assert "Flynn & Reeb" in output


def test_the_examples_norm_bound_covers_its_function():
    assert f"norm under this kernel is {norms()[1200]:.1f}" in README.replace("\n", " ")
    assert max(norms().values()) < 10.0


def test_the_example_searches_with_what_it_names():
    r"""The printed call is qLogNEI within the guard, not the turn of the upper bound."""
    (example,) = blocks("python", README)
    for seed in range(3):
        torch.manual_seed(seed)
        names: dict = {}
        exec(example, names)
        candidate, guarded = names["candidate"], names["acqf"]
        assert guarded.ucb_every == 4
        same = names["improvement"](candidate)
        # Values within the guard are those of qLogNEI, up to 0.02 units at its edge.
        torch.testing.assert_close(guarded(candidate), same, rtol=0.0, atol=0.02)
        at_an_end = (candidate < 1e-3) | (candidate > 1 - 1e-3)
        assert not bool(at_an_end.all())


def test_the_ranks_are_the_recorded_ones():
    r"""The column that flatters and the one that hurts, for us and for qLogNEI."""
    table = (ROOT / "benchmarks/practical/results/compare_ranks.md").read_text()
    table = table.partition("| method | fit")[0]
    ranks = {
        row[0]: row[1:]
        for row in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|", table, re.MULTILINE)
    }
    guarded, rival = ranks["Guarded qLogNEI, every fourth by U"], ranks["qLogNEI"]
    text = README.replace("\n", " ")
    assert f"mean rank of a run {guarded[0]} against {rival[0]}, rank of the mean" in text
    assert f"regret {guarded[1]} against {rival[1]};" in text
    ours = {"Guarded qLogNEI, every fourth by U", "qLogNEI", "method", "---"}
    others = [ranks[name] for name in ranks if name not in ours and " ± " in ranks[name][0]]
    best = [
        min((row[i] for row in others), key=lambda x: float(x.split()[0])) for i in (0, 1)
    ]
    run, mean = (number.split()[0] for number in best)
    assert f"the next rules have {run} and {mean} (" in text
    page = (ROOT / "docs/search.md").read_text()
    assert f"| mean rank of a run | {guarded[0]} | {rival[0]} | {best[0]} (" in page
    assert f"| rank of the mean regret | {guarded[1]} | {rival[1]} | {best[1]} (" in page
    assert f"mean rank is {ranks['MartingaleMixtureUCB'][0]}." in page.replace("\n", " ")


def test_the_call_for_ax_is_the_guarded_search_with_what_is_given():
    ax, page = pytest.importorskip("kernelucb.ax"), (DOCS / "ax.md").read_text()
    (call,) = re.findall(r"`(kernelucb\.ax\.generation_strategy\([^`]+\))`", README)
    given = re.search(r"options=(\{.+?\}),\n", page, flags=re.DOTALL).group(1)
    names = {"kernelucb": kernelucb, "MartingaleMixtureUCB": kernelucb.MartingaleMixtureUCB}
    strategy = eval(call, names | {"given": eval(given)})  # a fitted kernel would warn
    assert "qLogNoisyExpectedImprovement within MartingaleMixtureUCB" in strategy.name
    ax.CertifiedGapStoppingStrategy(0.5, strategy)  # refuses estimates


def test_classes_in_tables_exist():
    claims = (DOCS / "claim.md").read_text().split("### Every bound")[1]
    bounds = set(re.findall(r"^\| `(\w+)", claims.split("\n## ")[0], flags=re.MULTILINE))
    table = README[README.index("| you want to |") :].partition("\n\n")[0]
    names = set(re.findall(r"`(\w+)`", table))
    assert len(bounds) > 10
    assert len(names) >= 6
    assert (bounds - {"kernelucb"}) | names <= set(kernelucb.__all__)


def test_commands_install_with_the_pins():
    for page in ("index.md", "get_started.md"):
        commands = blocks("bash", (DOCS / page).read_text())
        assert "pip install -c constraints.txt" in commands[0]
        assert commands[0].endswith("-m kernelucb demo\n")
    for marker in ("demo", "tests"):
        assert "-c constraints.txt" in command_after(marker)
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()


def test_ci_runs_the_test_command():
    script = (ROOT / ".ci/run").read_text()
    assert "<!-- tests -->" in script
    assert "pytest" in command_after("tests")
