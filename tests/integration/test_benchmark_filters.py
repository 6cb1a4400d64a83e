r"""The benchmark of the mixture of filters, in small."""

import pytest

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.filters.__main__ import PROTOCOL, SETTING, STUDY
from benchmarks.filters.calibrated import play_calibrated
from benchmarks.filters.weights import play_weights
from benchmarks.filters.width import play_width
from benchmarks.runner import read_table

pytestmark = pytest.mark.slow

SMALL = PROTOCOL | dict(zip(SETTING, ("matern52", 2, 12, 0.1), strict=True))
SMALL |= {"function": 0, "queries": 20}


@pytest.mark.parametrize(
    ("name", "only", "change", "count"),
    [
        ("width", "observations=10 dimension=1 function=0", "queries=20", 9),
        ("lengths", "observations=10 dimension=1 function=0", "queries=20", 4),
        ("calibrated", "observations=30 function=0", "simulations=2000", 2),
        ("weights", "observations=30 function=0", "steps=3 points=2", 2),
        ("branin", "seed=0", "observations=[3,5]", 8),
    ],
)
def test_commands_write_their_tables(tmp_path, name, only, change, count):
    options = ["--only", *only.split(), "--change", *change.split()]
    STUDY.main([name, *options, "--output", str(tmp_path)])
    assert len(read_table(tmp_path / "results" / f"{name}.csv")) == count


def test_both_bands_are_of_the_same_data():
    run = play_width(SMALL)
    assert run == play_width(SMALL)
    assert 0.3 < run["filters_domain"] / run["martingale_domain"] < 1.05


def test_a_calibrated_radius_is_below_the_anytime_one():
    run = play_calibrated(SMALL | {"simulations": 2000})
    assert run["quantile"] < run["squared_radius"]
    assert run["forms"][:2] == ["chosen", "identity"]
    filters, chosen = run["bands"][0], run["calibrated"][0]
    assert all(ours > theirs for ours, theirs in zip(filters, chosen, strict=True))


def test_descent_does_not_end_above_where_it_started():
    few, many = (
        play_weights(SMALL | {"steps": steps, "points": 3})["domain"][1]
        for steps in (1, 30)
    )
    # Half-widths at a grid of regularisers are descended, widths of the band compared.
    assert many <= few * 1.01
