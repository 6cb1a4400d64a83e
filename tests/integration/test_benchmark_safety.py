r"""The benchmarks of safe sets, estimated norms and scale: problems and single runs."""

import pandas as pd
import pytest

pytest.importorskip("joblib", reason="the benchmarks need kernelucb[bench]")

from benchmarks.norm import __main__ as norm
from benchmarks.safety.play import constraint_of, play_edge
from benchmarks.scale.width import BANDS, play_widths

NORM = {"looks": [6], "norm": 5.0, "seed": 0, "kernel": "rbf"}


def test_problems_are_what_the_claims_say():
    constraint = constraint_of(3, 2.0)
    assert constraint.norm == pytest.approx(2.0)
    assert float(constraint.values.max()) > 0.0


def test_a_run_with_the_right_norm_is_not_unsafe():
    run = play_edge({"trial": 1, "claim": 1.0, "rounds": 4})
    assert (run["unsafe"], run["warned"]) == (0, False)
    assert 0.0 < run["found"] <= 1.0


def test_the_true_norm_is_told_where_nothing_is_estimated_and_a_kept_estimate_never_falls():
    true, kept = (norm.play(NORM | norm.TRACKERS[at]) for at in (0, 2))
    assert true["ratio"] == pytest.approx([1.0] * 6)
    assert true["regret"] >= 0.0
    assert kept["ratio"] == sorted(kept["ratio"])
    assert kept["ratio"][0] >= 2.0 / 5.0


def test_a_sketched_band_is_wider_the_less_its_radius_knows():
    own = {"kernel": "rbf", "lengthscale": 0.3, "dimension": 2, "seed": 0}
    run = play_widths(own | {"observations": 60, "sizes": [10, 40]})
    few, many = pd.DataFrame(run["rows"])[[*BANDS]].astype(float).to_dict("records")
    for row in (few, many):
        assert 1.0 <= row["weights"] <= row["band"] <= row["trace"]
        assert row["further"] <= row["trace"]
    assert many["band"] < few["band"]
