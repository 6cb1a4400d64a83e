r"""What README, the first hour and the page on successes print, run and say is so."""

import re
from pathlib import Path

import pytest
import torch

import kernelucb
import kernelucb.calibration
from benchmarks.pictures.readme_norm import norms
from test_layers import FILES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
START = (DOCS / "get_started.md").read_text()
README = (ROOT / "README.md").read_text()
SUCCESSES = (DOCS / "successes.md").read_text()
CONSTRAINTS = (DOCS / "constraints.md").read_text()


def blocks(language, text=START):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def run(python):
    r"""The names that some blocks leave."""
    names: dict = {}
    for block in python:
        exec(block, names)
    return names


@pytest.fixture
def beside_its_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (table,) = blocks("csv")
    Path("runs.csv").write_text(table)


def test_get_started_begins_as_printed(beside_its_table, capsys):
    names, output = run(blocks("python")[:1]), capsys.readouterr().out
    lower, upper = names["band"].bounds(names["settings"])
    assert bool((lower <= upper).all())
    (printed,) = blocks("text")
    assert printed in output
    assert "must\nnot come from these runs" in START
    assert "the norm bound is 2.1 times that" in output


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # BoTorch's, where a search starts again
def test_get_started_runs_to_its_end(beside_its_table, capsys):
    names, output = run(blocks("python")), capsys.readouterr().out
    assert output.count("certified, if what was given is true") == 3
    assert "calibrated: true in 90 % of functions like these" in output
    assert "yield at the recommended input (temperature 1" in output
    assert names["decision"].stop
    assert names["decision"].certificate.gap <= 9.0
    # In the reader's own units, with nothing to add or scale
    assert re.search(r"the optimum is between 8\d\.\d+ and 9\d\.\d+ %", output)
    assert re.search(r"recommended: temperature 1\d\d\.\d+ °C, minutes", output)


@pytest.mark.filterwarnings("ignore")  # BoTorch's, of a model that was not fitted
def test_the_safe_set_of_its_pressure_runs_after_it(beside_its_table):
    torch.manual_seed(0)
    names = run([*blocks("python")[:1], *blocks("python", CONSTRAINTS)[:1]])
    safe, candidate = names["safe_set"], names["candidate"]
    assert "certified, if what was given is true" in str(safe)
    assert bool(safe.is_safe(candidate).all())
    assert float((candidate - names["X"]).abs().sum(-1).min()) > 1.0  # a new setting


# The whole page with its searches: a second.
@pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")  # of 0 and 1
def test_successes_run_as_printed(capsys):
    names, output = run(blocks("python", SUCCESSES)), capsys.readouterr().out
    assert "certified, if what was given is true" in output
    assert re.search(r"^certified: at most 0\.\d\d from the best", output, re.MULTILINE)
    assert "heuristic: kernel, mean estimated - certified" in output
    assert bool((names["lower"] > 0.0).all() and (names["upper"] < 1.0).all())
    assert 0 < int(names["safe_set"].is_safe(names["X"]).sum()) < len(names["X"])


# The example of the README as it stands, with its searches: a second.
@pytest.mark.representatives("0")
@pytest.mark.parametrize("seed", range(3))
def test_the_example_runs_and_searches_with_what_it_names(seed, capsys):
    r"""The printed call is qLogNEI within the guard, not the turn of the upper bound."""
    (example,) = blocks("python", README)
    assert len([line for line in example.splitlines() if line.strip()]) <= 30
    torch.manual_seed(seed)
    names = run([example])
    candidate, guarded = names["candidate"], names["acqf"]
    assert bool((names["lower"] <= names["upper"]).all())
    assert guarded.ucb_every == 4
    same = names["improvement"](candidate)
    # Values within the guard are those of qLogNEI, up to 0.02 units at its edge.
    torch.testing.assert_close(guarded(candidate), same, rtol=0.0, atol=0.02)
    assert not bool(((candidate < 1e-3) | (candidate > 1 - 1e-3)).all())
    assert "certified, if what was given is true" in capsys.readouterr().out
    # Its norm bound covers its function.
    assert f"norm under this kernel is {norms()[1200]:.1f}" in README.replace("\n", " ")
    assert max(norms().values()) < 10.0


def test_the_ranks_are_the_recorded_ones():
    r"""The column that flatters and the one that hurts, for us and for qLogNEI."""
    table = (ROOT / "benchmarks/practical/results/compare_ranks.md").read_text()
    row = re.compile(r"^\| ([^|]+) \| ([^|]+ ± [^|]+) \| ([^|]+) \|", re.MULTILINE)
    rows = row.findall(table.partition("| method | fit")[0])
    ranks = {name: numbers for name, *numbers in rows}
    ours, rival = ranks.pop("MartingaleMixtureUCB"), ranks.pop("qLogNEI")
    run, mean = (
        min(column, key=lambda number: float(number.split()[0]))
        for column in zip(*ranks.values(), strict=True)
    )
    times = dict(re.findall(r"^\| ([^|]+) \| \d+ \| (\d+) \|", table, re.MULTILINE))
    share = int(times["MartingaleMixtureUCB"]) / int(times["qLogNEI"])
    text, page = README.replace("\n", " "), (DOCS / "search.md").read_text()
    assert f"mean rank of a run {ours[0]} against {rival[0]}, rank of the mean" in text
    assert f"regret {ours[1]} against {rival[1]}, at {share:.2f} of its time" in text
    assert f"the next rules have {run.split()[0]} and {mean.split()[0]} (" in text
    assert f"| mean rank of a run | {ours[0]} | {rival[0]} | {run} (" in page
    assert f"| rank of the mean regret | {ours[1]} | {rival[1]} | {mean} (" in page


def test_the_call_for_ax_is_the_guarded_search_with_what_is_given():
    ax, page = pytest.importorskip("kernelucb.ax"), (DOCS / "ax.md").read_text()
    (call,) = re.findall(r"`(kernelucb\.ax\.generation_strategy\([^`]+\))`", README)
    given = re.search(r"options=(\{.+?\}),\n", page, flags=re.DOTALL).group(1)
    names = {"kernelucb": kernelucb, "MartingaleMixtureUCB": kernelucb.MartingaleMixtureUCB}
    strategy = eval(call, names | {"given": eval(given)})  # a fitted kernel would warn
    assert "qLogNoisyExpectedImprovement within MartingaleMixtureUCB" in strategy.name
    ax.CertifiedGapStoppingStrategy(0.5, strategy)  # refuses estimates


def test_classes_in_tables_exist():
    page = (DOCS / "api" / "bounds.md").read_text().split("## Every bound")[1]
    bounds = set(re.findall(r"^\| `(\w+)", page.split("\n## ")[0], flags=re.MULTILINE))
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
    commands = re.findall(r"<!-- (\w+) -->\n```bash\n(.+)\n```", README)
    assert [marker for marker, _ in commands] == ["demo", "tests"]
    assert all("-c constraints.txt" in command for _, command in commands)
    assert "pytest" in commands[1][1]
    assert "<!-- tests -->" in (ROOT / ".ci/run").read_text()


# Names in words and calls that stand alone: neither of a module nor of an object.
NAMED = re.compile(r"`([A-Za-z]\w+)(?:\([^`]*\))?`")
CALLED = re.compile(r"(?<![\w.])([A-Za-z]\w+)\(")
# Pages for developers, which link to the sources of what they name.
OF_DEVELOPERS = {"architecture", "mathematics", "releasing", "theorems"}


# Errors with their words, parentheses within parentheses included
RAISED = re.compile(r"raise \w+\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)")


def test_names_that_pages_and_errors_use_are_those_of_the_package():
    sources = "\n".join(file.read_text("utf-8") for file in FILES)
    ours = {*re.findall(r"^(?:class|def) ([A-Za-z]\w+)", sources, flags=re.MULTILINE)}
    # Words as well, which stand in backticks as arguments, options and methods
    ours -= {"between", "likelihood", "within"}
    texts = {page.stem: page.read_text("utf-8") for page in DOCS.glob("*.md")}
    texts = {page: text for page, text in texts.items() if page not in OF_DEVELOPERS}
    found = set()
    for text in (*texts.values(), README):
        prose, code = "".join(text.split("```")[::2]), "\n".join(blocks("python", text))
        found |= {*NAMED.findall(prose), *CALLED.findall(code)} & ours
    for error in RAISED.findall(sources):
        text = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', error))
        text = re.sub(r"\{[^}]*\}", "", text)  # of an f-string
        classes = re.findall(r"(?<![\w.])[A-Z]\w*[a-z][A-Z]\w*", text)
        found |= {*classes, *CALLED.findall(text)} & ours
    assert len(found) > 40
    assert {"outcome_bands", "BoundedNorm", "plot_replicates"} <= found
    # Pages import names of this room from there.
    found -= {*kernelucb.calibration.__all__}
    assert [name for name in found if not hasattr(kernelucb, name)] == []
