r"""The Flynn & Reeb benchmark: what methods share, and the published table."""

import pytest

pytest.importorskip("joblib", reason="the benchmark needs kernelucb[bench]")
pytest.importorskip("matplotlib", reason="the benchmark needs kernelucb[bench]")

from benchmarks.papers.flynn_reeb_2024.__main__ import STUDY
from benchmarks.papers.flynn_reeb_2024.play import play


def test_methods_share_their_problem_and_fewer_rounds_are_the_first_of_more():
    runs = [run | {"rounds": 6} for run in STUDY.tables["table1"].runs[:8]]
    found = play(runs[0])
    assert play(runs[0] | {"rounds": 3})["played"] == found["played"][:3]
    # Beliefs are no part of the problem, and one who plays at random has none.
    loose = runs[-1] | {"norm_factor": 2.0}
    assert play(loose)["regret"] == play(runs[-1])["regret"] != found["regret"]
