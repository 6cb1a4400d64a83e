r"""The benchmark of safe sets runs, and its tables stand in the report."""

import pytest

from benchmarks.runner import read_table
from benchmarks.safety.__main__ import BENCHMARK
from benchmarks.safety.play import along_the_edge
from benchmarks.safety.problems import random_problem, two_hills

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("command", "rows"), [("coverage", 5), ("expansion", 4)])
@pytest.mark.filterwarnings("ignore::kernelucb.exceptions.InconsistentConfidenceSetWarning")
def test_commands(tmp_path, capsys, command, rows):
    BENCHMARK.main([command, "--runs", "2", "--rounds", "2", "--output", str(tmp_path)])
    results = tmp_path / "results"
    assert len(read_table(results / f"{command}.csv")) == rows
    assert (results / f"{command}.md").read_text() in capsys.readouterr().out + "\n"


def test_problems_are_what_the_claims_say():
    hills = two_hills()
    assert float(hills.constraint.values.min()) > 0.5
    assert int(hills.objective.values.argmax()) > len(hills.arms) // 2 > hills.seed_arm
    problem = random_problem(3)
    assert problem.constraint.norm == pytest.approx(2.0)
    assert float(problem.constraint.values[problem.seed_arm]) > 0.0


def test_a_run_with_the_right_norm_is_not_unsafe():
    run = along_the_edge(random_problem(1), 1.0, seed=1, rounds=4)
    assert (run.unsafe, run.unsafe_evaluations, run.warned) == (False, 0, False)
    assert 0.0 < run.found <= 1.0
