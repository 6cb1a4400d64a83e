r"""The benchmark of the mixture of filters, in small."""

import pytest

pytest.importorskip("joblib", reason="needs the extra `bench`")

from benchmarks.filters.__main__ import PROTOCOL, SETTING
from benchmarks.filters.width import play_width

SMALL = PROTOCOL | dict(zip(SETTING, ("matern52", 2, 12, 0.1), strict=True))
SMALL |= {"function": 0, "queries": 20}


def test_both_bands_are_of_the_same_data():
    run = play_width(SMALL)
    assert run == play_width(SMALL)
    assert 0.3 < run["filters_domain"] / run["martingale_domain"] < 1.05
