r"""The Flynn & Reeb benchmark in small."""

import pandas as pd
import pytest

pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")
pytest.importorskip("matplotlib", reason="the benchmark needs kernelucb[bench]")

from benchmarks.papers.flynn_reeb_2024.__main__ import STUDY, published
from benchmarks.papers.flynn_reeb_2024.play import play

pytestmark = pytest.mark.slow

COMMANDS = {
    "table1": "method=filters,exact,dmm,random",
    "paired_filters": "repetition=0,1",
    "figure5_filters": "repetition=0",
    "figure7": "method=filters,ay,igp",
    "figure1": "repetition=0,1",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_write_their_tables(name, tmp_path):
    few = ["--only", "repetition=0,1", COMMANDS[name]]
    few += [] if name == "figure1" else ["--change", "rounds=6", "arms=10"]
    STUDY.main([name, *few, "--output", str(tmp_path)])
    rows = pd.read_csv(tmp_path / "results" / f"{name}.csv")
    assert rows["method"].iloc[0] == "filters"
    text = (tmp_path / "results" / f"{name}.md").read_text(encoding="utf-8")
    assert "filters (ours)" in text
    assert "means differ" not in text, "a thousand rounds were published"
    assert (tmp_path / "images" / f"flynn_reeb_2024_{name}.png").stat().st_size > 10_000
    if name == "table1":
        total = 0.0
        for repetition in (0, 1):
            task = STUDY.tables[name].runs[0] | {"rounds": 6, "arms": 10}
            total += sum(play(task | {"repetition": repetition})["regret"])
        assert rows["mean"].iloc[0] == pytest.approx(total / 2, abs=5e-4)


def test_methods_share_their_problem_and_fewer_rounds_are_the_first_of_more():
    runs = [run | {"rounds": 6} for run in STUDY.tables["table1"].runs[:8]]
    found = play(runs[0])
    assert play(runs[0] | {"rounds": 3})["played"] == found["played"][:3]
    # Beliefs are no part of the problem, and one who plays at random has none.
    loose = runs[-1] | {"norm_factor": 2.0}
    assert play(loose)["regret"] == play(runs[-1])["regret"] != found["regret"]


def test_published_numbers_are_complete():
    runs, paper = pd.DataFrame(STUDY.tables["table1"].runs), published()
    methods = {*runs["method"]} - {"filters", "exact", "mixture"}
    assert {*paper} == {(m, s) for m in methods for s in runs["problem"].unique()}
    assert paper["dmm", "rbf_0.5_d3"].mean == 32.2
    assert all(cell.n == 10 and 0 < cell.std < cell.mean for cell in paper.values())
