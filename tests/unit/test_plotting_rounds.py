r"""Gaps over the rounds: what is drawn, and what it is called."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions import UnsupportedError
from pictures import named

from kernelucb import (
    CertifiedGapStopping,
    KernelRegression,
    MartingaleMixtureUCB,
    optimum_report,
    regret_certificate,
)
from kernelucb.ax.analyses import _gap_figure
from kernelucb.certificates.regret import gaps_in_words
from kernelucb.plotting import plot_gap
from problems import make_problem

PROBLEM = make_problem(n=20, d=1, norm=3.0, seed=2)
ARMS = torch.linspace(0.0, 1.0, 11, dtype=torch.float64).unsqueeze(-1)


def bound(n=20, norm_bound=3.0):
    state = KernelRegression(PROBLEM.X[:n], PROBLEM.Y[:n], PROBLEM.kernel, 0.1)
    return MartingaleMixtureUCB(state, norm_bound=norm_bound)


RUN = [regret_certificate(bound(n), ARMS) for n in (4, 8, 16)]
GUESSES = [regret_certificate(bound(n, None), ARMS) for n in (4, 8)]


def test_the_gap_of_a_certified_run(ax):
    drawn = plot_gap(RUN, rounds=[4, 8, 16, 32], accepted=0.5, true_gaps=[1, 0, 0], ax=ax)
    assert drawn is ax
    line, true = ax.lines[0], ax.lines[1]
    assert list(line.get_xdata()) == [4, 8, 16]
    assert list(line.get_ydata()) == [each.gap for each in RUN]
    assert list(true.get_ydata()) == [1, 0, 0]
    assert ax.lines[2].get_ydata() == [0.5, 0.5]
    assert named(ax) == ["certified gap", "true gap (never seen)", "accepted"]


def test_a_run_with_estimates_is_not_called_certified(ax):
    plot_gap({"mine": RUN, "other": [None, *GUESSES]}, ax=ax)
    assert named(ax) == ["mine: certified gap", "other: gap, heuristic: norm estimated"]
    other, marks = ax.lines[1], ax.lines[2]
    assert np.isnan(other.get_ydata()[0])
    assert list(marks.get_xdata()) == [2, 3]
    assert list(marks.get_ydata()) == [each.gap for each in GUESSES]


def test_a_run_that_is_certified_in_some_rounds_says_how_many(ax):
    plot_gap([*GUESSES, *RUN], ax=ax)
    assert named(ax) == ["gap, certified in 3 of 5 rounds"]
    assert list(ax.lines[1].get_xdata()) == [1, 2]


def test_a_card_of_ax_says_the_same_of_its_rounds():
    run = [*GUESSES, *RUN]
    rows = [(i, f"{i}_0", each.gap, each.certified) for i, each in enumerate(run)]
    df = pd.DataFrame(rows, columns=["trial_index", "arm_name", "gap", "certified"])
    figure = _gap_figure(df, gaps_in_words(run))
    (line,) = figure.data
    assert line.name == "gap, certified in 3 of 5 rounds"
    assert line.marker.symbol == ("circle-open",) * 2 + ("circle",) * 3


def test_a_search_is_not_called_certified(ax):
    searched = dataclasses.replace(RUN[0], rigorous=False)
    plot_gap([searched], ax=ax)
    assert named(ax) == ["gap, heuristic: the maximum over the domain comes from a search"]


def test_decisions_and_reports_are_taken_as_their_certificates(ax):
    decision = CertifiedGapStopping(0.5, candidates=ARMS)(bound())
    report = optimum_report(bound(), ARMS)
    plot_gap([decision, report, RUN[-1]], ax=ax)
    gaps = [decision.certificate.gap, report.gap, RUN[-1].gap]
    assert list(ax.lines[0].get_ydata()) == gaps


def test_bad_gaps(ax):
    with pytest.raises(ValueError, match="at least one certificate"):
        plot_gap([None], ax=ax)
    with pytest.raises(ValueError, match="at least one certificate"):
        plot_gap({}, ax=ax)
    with pytest.raises(ValueError, match="rounds has 2 entries for 3 certificates"):
        plot_gap(RUN, rounds=[1, 2], ax=ax)
    with pytest.raises(ValueError, match="one number for each certificate"):
        plot_gap(RUN, true_gaps=[0.1], ax=ax)
    with pytest.raises(UnsupportedError, match="float is no certificate"):
        plot_gap([0.5], ax=ax)
    with pytest.raises(ValueError, match="accepted must not be negative"):
        plot_gap(RUN, accepted=-1.0, ax=ax)
