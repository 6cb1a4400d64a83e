r"""Every command of every study, in small: it plays, and writes its table."""

import shlex
from importlib import import_module

import pytest

pytest.importorskip("joblib", reason="the benchmarks need kernelucb[bench]")

pytestmark = pytest.mark.slow

BKB = "papers.bkb_2019"
LARGE = "observations=300 candidates=500 inducing=40 threads=1"
SEQUENCES = "arms=40 rounds=15 checks=[1,5,15]"
# Study, command, --only, --change, rows of the table.
COMMANDS = [
    (BKB, "regret", "trial=0,1", "arms=40 rounds=15", 286),
    (BKB, "theorem1", "trial=0", SEQUENCES, 24),
    (BKB, "widths", "dimension=4", "observations=60", 3),
    (BKB, "time", "", "shown=[3,6]", 3),
    (BKB, "long", "", "rounds=30 threads=1", None),
    ("norm", "estimate", "seed=0 kernel=rbf", "looks=[1,3]", 15),
    ("safety", "coverage", "trial=0,1", "rounds=2", 5),
    ("safety", "expansion", "trial=0,1", "rounds=2", 4),
    ("scale", "width", "observations=200 seed=0 kernel=rbf", "sizes=[10,40]", 2),
    ("scale", "large", "", f"further=100 {LARGE}", 13),
    ("scale", "large_pairs", "", LARGE, 8),
    ("speed", "optimize_acqf", "n=50 problem=branin seed=0", "n=6", 4),
    ("speed", "search", "n=20 problem=branin seed=0", "n=6", 25),
    ("speed", "filters", "n=50 problem=branin seed=0", "n=6", 5),
    ("speed", "counts", "n=50 seed=0 kernel=rbf", "n=6", 16),
    ("speed", "family", "n=50 d=2 seed=0", "n=6", 8),
    ("speed", "growth", "n=200 task=build,bounds", "n=20 points=300", 5),
    ("speed", "bandit", "n=250", "n=20", 4),
    ("speed", "imports", "repeat=0 case=import", "", 2),
]


@pytest.mark.usefixtures("small_data")
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
