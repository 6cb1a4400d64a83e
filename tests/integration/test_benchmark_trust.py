r"""The benchmark of broken promises, with few seeds and rounds."""

import pandas as pd
import pytest
import torch

from benchmarks.runner import fixed_kernel, line
from benchmarks.trust import functions, stops
from benchmarks.trust.__main__ import event_row, event_table

STOP = {"kernel": "rbf", "function": "spike", "norm_bound": "given"}
STOP |= {"allow_estimated": False, "rounds": 20, "seed": 0}


def test_functions_have_the_norm_that_is_promised():
    kernel = fixed_kernel("matern52", 0.1)
    gram = kernel(line(functions.POINTS)).to_dense()
    gram.diagonal().add_(1e-10)
    for kind in ("random", "spike"):
        values = functions.drawn_values(kind, kernel, 10.0, seed=1)
        interpolant = (values @ torch.linalg.solve(gram, values)).sqrt()
        # At most the norm of the function itself, and 20 points to a length scale, with a
        # jitter of 1e-10, leave less than a thousandth of it out.
        assert 9.99 < interpolant < 10.0


def test_an_estimate_stops_on_the_wide_hill_and_a_norm_given_does_not():
    given = stops.play_stop(STOP)
    assert given["stopped"] > 0
    assert given["regret"] <= 1.0
    estimate = STOP | {"norm_bound": "none", "allow_estimated": True}
    assert stops.play_stop(estimate)["regret"] > 1.0
    assert stops.play_stop(estimate) == stops.play_stop(estimate)


def test_rates_come_with_exact_intervals():
    def row(events, promise=0.05):
        return event_row(len(events), pd.Series(events), {"what": "x"}, promise)

    found = row([False] * 200)
    assert found["upper"] == pytest.approx(1.0 - 0.025 ** (1 / 200))
    assert (found["events"], found["rate"], found["lower"]) == (0, 0.0, 0.0)
    assert found["kept"] == "yes"
    assert row([False] * 20)["kept"] == "undecided"
    assert row([True] * 20 + [False] * 20)["kept"] == "no"
    nothing = event_table([row([True], promise=None)], "events")
    assert nothing.lines[-1].endswith("| nothing | - |")
