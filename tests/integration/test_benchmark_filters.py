r"""The benchmark of the mixture of filters, in small."""

import pytest

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.filters.__main__ import PROTOCOL, SETTING
from benchmarks.filters.calibrated import play_calibrated
from benchmarks.filters.weights import play_weights
from benchmarks.filters.width import play_width

pytestmark = pytest.mark.slow

SMALL = PROTOCOL | dict(zip(SETTING, ("matern52", 2, 12, 0.1), strict=True))
SMALL |= {"function": 0, "queries": 20}


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
