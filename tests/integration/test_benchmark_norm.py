r"""The benchmark of estimated norm bounds, with few rounds."""

from dataclasses import replace

import pytest

from benchmarks.norm import __main__ as command
from benchmarks.norm.play import Task, play

pytestmark = pytest.mark.slow

TASK = Task("rbf", 5.0, 1.0, 2.0, False, 6, 0)


def test_the_true_norm_is_told_where_nothing_is_estimated():
    run = play(replace(TASK, inflation=0.0))
    assert run.ratio == pytest.approx([1.0] * 6)
    assert all(regret >= 0.0 for regret in run.regret)


def test_a_kept_estimate_never_falls():
    run = play(replace(TASK, kept=True))
    assert run.ratio == sorted(run.ratio)
    assert run.ratio[0] >= 2.0 / 5.0


def test_a_seed_gives_the_same_run_again():
    assert play(TASK) == play(TASK)


def test_commands_write_the_table(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "ROUNDS", 3)
    monkeypatch.setattr(command, "AT", (1, 3))
    monkeypatch.setattr(command, "KERNELS", ("rbf",))
    arguments = ["estimate", "--seeds", "1", "--output", str(tmp_path)]
    command.BENCHMARK.main(arguments)
    table = (tmp_path / "results" / "estimate.md").read_text()
    assert table.count("\n") == 2 + len(command.NORMS) * len(command.BOUNDS)
    monkeypatch.setattr("benchmarks.norm.__main__.play", None)  # all runs are kept
    command.BENCHMARK.main(arguments)
