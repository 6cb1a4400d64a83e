r"""The Flynn & Reeb benchmark: what methods share, and the published table."""

import pandas as pd
import pytest

pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")
pytest.importorskip("matplotlib", reason="the benchmark needs kernelucb[bench]")

from benchmarks.papers.flynn_reeb_2024.__main__ import STUDY, published
from benchmarks.papers.flynn_reeb_2024.play import play


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
