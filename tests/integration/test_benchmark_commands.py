r"""Every command of every study, in small: it plays, and writes its table."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("joblib", reason="the benchmarks need kernelucb[bench]")

pytestmark = pytest.mark.slow

RESULTS = Path(__file__).parents[2] / "docs" / "results"
BKB, GP_UCB, PEM = "papers.bkb_2019", "papers.srinivas_2010", "papers.wang_2018"
CMM, NOISE = "papers.flynn_reeb_2024", "papers.durand_2018"
TASKS = "evaluations=3 pooled_points=300"
SEQUENCES = "arms=40 rounds=15 checks=[1,5,15]"
TWO, SIX = "rounds=2", "rounds=6 arms=10"
LEVELS = "candidates=25 rounds=14 since=13 shown=[13,14] replays=9"
FEW_LEVELS = "candidates=25 rounds=14 firsts=[12,13] replays=9"
# Study, command, --only, --change, rows of the table.
COMMANDS = [
    ("filters", "width", "observations=10 dimension=1 function=0", "queries=20", 9),
    ("filters", "lengths", "observations=10 dimension=1 function=0", "queries=20", 4),
    (CMM, "table1", "repetition=0,1 method=filters,exact,dmm,random", SIX, 24),
    (CMM, "paired_filters", "repetition=0,1", SIX, 6),
    (CMM, "figure5_filters", "repetition=0", SIX, 72),
    (CMM, "figure7", "repetition=0,1 method=filters,ay,igp", SIX, 12),
    (NOISE, "noise", "repetition=0,1", "rounds=60", 160),
    (NOISE, "band", "repetition=0,1", "rounds=60", 160),
    (NOISE, "joint", "repetition=0,1", "rounds=16", None),
    (BKB, "regret", "trial=0,1", "arms=40 rounds=15", 286),
    (BKB, "theorem1", "trial=0", SEQUENCES, 24),
    (BKB, "time", "", "shown=[3,6]", 3),
    ("confirm", "calls", "law=Gaussian effect=0.0,1.0", "runs=5", None),
    ("hpob", "compare", "problem=4796_3549,5889_9971 seed=0,1 method=ucb_2", TWO, None),
    ("hpob", "random", "", "", None),
    ("hpob", "tasks", "problem=4796_3549 seed=0", "points=12 tasks=2", None),
    ("practical", "compare", "problem=branin seed=440 method=ucb_2,random", TWO, None),
    ("practical", "simulators", "problem=column seed=440 method=random", TWO, None),
    ("practical", "circuit_choice", "seed=100", "trials=10 initial=9", None),
    ("sets", "sequences", "seed=0 norm_factor=0.5", "sequences=1 rounds=2", None),
    ("sets", "failures", "problem=throw seed=0", "shown=[5,10] sample=200", None),
    ("sets", "margins", "policy='averaged over 16 draws'", FEW_LEVELS, None),
    ("sets", "calibrated", "function=throw seed=0", LEVELS, None),
    ("sets", "front_seconds", "seed=0 objectives=2", "candidates=20 runs=5", None),
    ("speed", "optimize_acqf", "n=50 problem=branin seed=0", "n=6", 4),
    ("speed", "search", "n=20 problem=branin seed=0", "n=6", 25),
    ("speed", "filters", "n=50 problem=branin seed=0", "n=6", 5),
    ("speed", "counts", "n=50 seed=0 kernel=rbf", "n=6", 16),
    ("speed", "family", "n=50 d=2 seed=0", "n=6", 8),
    ("speed", "growth", "n=200 task=build,bounds", "n=20 points=300", 5),
    ("speed", "bandit", "n=250", "n=20", 4),
    ("speed", "imports", "repeat=0 case=import", "", 2),
    (GP_UCB, "synthetic", "trial=0,1", "rounds=3 points=40", None),
    (GP_UCB, "temperature", "trial=0,1,2,3", "rounds=3", None),
    ("stopping", "stops", "seed=0 problem=throw,drawn-rbf-1d", "budget=12", None),
    (PEM, "grasp", "problem=0 method=pem_ucb,pem_pi,plain,tlsm,random", TASKS, 15),
]


@pytest.fixture
def own_replays(tmp_path, monkeypatch):
    from benchmarks.sets import levels

    monkeypatch.setattr(levels, "REPLAYS", tmp_path / "replays")


@pytest.mark.usefixtures("small_data", "own_replays")
@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
@pytest.mark.parametrize(("study", "name", "only", "change", "rows"), COMMANDS)
def test_a_command_writes_its_table(tmp_path, study, name, only, change, rows):
    from benchmarks.runner import read_table

    study, arguments = import_module(f"benchmarks.{study}.__main__").STUDY, []
    for flag, text in (("--only", only), ("--change", change)):
        arguments += [flag, *shlex.split(text)] if text else []
    study.main([name, *arguments, "--output", str(tmp_path)])
    if rows is not None:
        assert len(read_table(tmp_path / "results" / f"{name}.csv")) == rows
    assert list((tmp_path / "results").glob(f"{name}*.md"))


def test_every_page_of_results_has_a_line_and_commands_on_the_pages_exist():
    index = (RESULTS / "index.md").read_text(encoding="utf-8")
    for path in {*RESULTS.glob("*.md")} - {RESULTS / "index.md"}:
        assert f"]({path.name})" in index
        text = path.read_text(encoding="utf-8")
        # A page of several studies says anew what the dots stand for; up to the next one.
        start, *rest = re.split(r"`\.\.\.`\s+stands\s+for\s+`([^`]+)`", text)
        for said, part in zip(rest[::2], rest[1::2], strict=True):
            start += f"`{said}`" + part.replace(
                "    ... ", f"    {' '.join(said.split())} "
            )
        text = start
        index += text
    commands = {*re.findall(r"python -m benchmarks\.([\w.]+) (\w+)", index)}
    assert len(commands) > 20
    for study, name in commands:
        assert name in import_module(f"benchmarks.{study}.__main__").STUDY.tables
