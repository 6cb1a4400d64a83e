r"""Bands, gaps and reports as analysis cards of a real Ax client."""

import json
import logging
from html import unescape

import pytest
import torch
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.client import Client
from ax.core.analysis_card import ErrorAnalysisCard, NotApplicableStateAnalysisCard
from ax_bench import (
    AX_WARNINGS,
    GRID,
    KIND,
    LOG_ODDS,
    SQUARE,
    UNIT,
    along,
    attached,
    choice,
    constrained_client,
    count_client,
    curve,
    fixed_client,
    in_square,
    make_client,
    problem,
    real,
    run,
    stopping,
    successes,
)

import kernelucb.ax

pytestmark = AX_WARNINGS
BAND = kernelucb.ax.BandAnalysis("x", num_points=9)
GAP = kernelucb.ax.GapAnalysis(most_rounds=3)
OPTIMUM = kernelucb.ax.OptimumAnalysis(max_evaluations=2000)
ALL = (BAND, GAP, OPTIMUM)
ARMS = along(0.15, 0.9, 0.5, 0.3, 0.75)


def computed(client, *analyses):
    return client.compute_analyses(analyses=list(analyses), display=False)


def note(card):
    r"""The text below the picture, as it is read."""
    (text,) = (each.text for each in card.get_figure().layout.annotations)
    return unescape(text.replace("<br>", " ")).replace("\xa0", " ")


@pytest.fixture(scope="module")
def cards():
    client = attached(fixed_client(), ARMS, curve)
    messages, handler = [], logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("kernelucb.ax.analyses")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        return client, computed(client, *ALL), messages
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


def test_each_is_a_card_that_ax_can_show(cards):
    client, made, _ = cards
    names = ["BandAnalysis", "GapAnalysis", "OptimumAnalysis"]
    assert [card.name for card in made] == names
    for card in made:
        assert isinstance(card, PlotlyAnalysisCard)
        assert "certified" in card.title
        assert "[given] the kernel was fixed before the data" in note(card)
        assert len(card.subtitle) < 80  # Ax shows one line of it
        assert card.title in card._repr_html_()
        json.loads(card.blob)
    assert len(client._experiment.trials) == 5


def test_the_band_is_that_of_all_outcomes(cards):
    client, (card, _, _), _ = cards
    bound = kernelucb.ax.current_bound(client)
    X = torch.linspace(0.0, 1.0, 9, dtype=torch.float64).unsqueeze(-1)
    lower, upper = bound.bounds(X)
    assert card.df["x"].tolist() == pytest.approx(X.flatten().tolist())
    assert card.df["lower"].tolist() == pytest.approx(lower.tolist())
    assert card.df["upper"].tolist() == pytest.approx(upper.tolist())
    low, high, seen = card.get_figure().data
    assert list(low.y) == card.df["lower"].tolist()
    assert list(high.y) == card.df["upper"].tolist()
    assert high.name == "band, certified (95 %)"
    assert seen.name == "outcomes on this line"  # there is no other parameter
    assert list(seen.x) == [arm["x"] for arm in ARMS]
    assert list(seen.y) == pytest.approx([curve(arm)["y"] for arm in ARMS])


def test_gaps_are_those_that_the_stopping_rule_sees_after_each_trial(cards):
    client, (_, card, _), messages = cards
    decision = stopping(client).decide()
    assert card.df["trial_index"].tolist() == [1, 2, 4]
    assert card.df["gap"].iloc[-1] == pytest.approx(decision.certificate.gap)
    assert card.df["arm_name"].iloc[-1] == decision.arm.name
    earlier = stopping(attached(fixed_client(), ARMS[:3], curve)).decide()
    assert card.df["gap"].iloc[1] == pytest.approx(earlier.certificate.gap)
    (drawn,) = card.get_figure().data
    assert list(drawn.y) == card.df["gap"].tolist()
    assert drawn.name == "certified gap"
    assert f"arm {decision.arm.name}" in card.title
    rounds = [each.split(":")[0] for each in messages]
    assert rounds == [f"gap after trial {i}" for i in (1, 2, 4)]


def test_the_optimum_is_that_of_the_report(cards):
    client, (_, _, card), _ = cards
    report = kernelucb.ax.optimum_report(client, max_evaluations=2000)
    assert card.df["parameter"].tolist() == ["x"]
    low, high = report.region.flatten().tolist()
    assert card.df["where the optimum may be"].tolist() == [f"{low:.4g} to {high:.4g}"]
    assert card.df["recommended"].tolist() == [f"{float(report.recommended):.4g}"]
    assert f"between {report.lower:.4g} and {report.upper:.4g}" in card.title
    (table,) = card.get_figure().data
    assert list(table.header["values"]) == list(card.df.columns)
    assert [list(column) for column in table.cells["values"]] == [
        card.df[name].tolist() for name in card.df
    ]


def test_an_estimate_is_not_called_certified():
    client = make_client(UNIT, options={"norm_bound": 4.0, "noise_std": 0.1})
    band, gap = computed(attached(client, ARMS[:3], curve), BAND, GAP)
    assert band.title.endswith("heuristic: kernel, mean estimated")
    assert gap.title.endswith("heuristic: kernel, mean estimated")
    assert gap.get_figure().data[0].name == "gap, heuristic: kernel, mean estimated"
    assert not gap.df["certified"].any()


def test_probabilities():
    client = attached(count_client(), ARMS, successes)
    report = kernelucb.ax.optimum_report(client, max_evaluations=2000)
    true = float(LOG_ODDS(GRID).sigmoid().max())
    assert 0.0 < report.lower <= true <= report.upper < 1.0
    band, gap = computed(client, BAND, GAP)
    assert all("certified" in card.title for card in (band, gap))
    assert band.df["upper"].max() < 1.0
    assert gap.df["gap"].max() <= 1.0


def test_constraints_and_contexts():
    own = {"limits": ["z >= -100"], "safe_arms": along(0.5)}
    client = constrained_client(parameters=SQUARE, **own)
    attached(client, [{"x": 0.5, "t": 0.5 + 0.01 * i} for i in range(3)], in_square)
    context = {"t": 0.52}
    band, gap, optimum = computed(
        client,
        kernelucb.ax.BandAnalysis("x", metric="z", num_points=4, fixed_parameters=context),
        kernelucb.ax.GapAnalysis(most_rounds=1, fixed_parameters=context),
        kernelucb.ax.OptimumAnalysis(max_evaluations=500, fixed_parameters=context),
    )
    assert band.title.startswith("Band of z along x: certified")
    assert "at t = 0.52" in note(band)
    assert len(gap.df) == 1
    assert optimum.df["where the optimum may be"].tolist()[1] == "0.52"


def test_every_value_of_a_choice_is_drawn_by_itself():
    client = fixed_client(parameters=[KIND])
    attached(client, along("a", "b", name="kind"), lambda p: {"y": float(p["kind"] == "a")})
    (card,) = computed(client, kernelucb.ax.BandAnalysis("kind"))
    assert card.df["kind"].tolist() == ["a", "b", "c"]
    marks, seen = card.get_figure().data
    assert list(seen.y) == [1.0, 0.0]
    half = 0.5 * (card.df["upper"] - card.df["lower"])
    assert list(marks.error_y.array) == pytest.approx(half.tolist())


def test_parameters_have_the_names_and_values_of_the_user():
    space = [choice("solvent", "abc"), choice("stirred", [True, False])]
    space += [real("hours", 1.0, 8.0, scaling="log")]
    client = fixed_client(parameters=space, lengthscale=1.0)
    run(client, 3, lambda p: {"y": 0.1 * p["hours"] - (p["solvent"] == "a")})
    report = kernelucb.ax.optimum_report(client, max_evaluations=500)
    arm = kernelucb.ax.recommended_arm(client).parameters
    values = report.to_dict()
    assert values["recommended"] == arm | {"hours": pytest.approx(arm["hours"])}
    assert set(values["region"]["solvent"]) <= set("abc")
    low, high = values["region"]["hours"]
    assert 1.0 <= low < high <= 8.0 + 1e-9
    assert any("solvent" in each["values"] for each in values["combinations"])
    words, units = [str(report)], {"hours": "h", "y": "%"}
    made = computed(
        client,
        kernelucb.ax.BandAnalysis("hours", num_points=4, units=units),
        kernelucb.ax.GapAnalysis(most_rounds=2, max_evaluations=500, units=units),
        kernelucb.ax.OptimumAnalysis(max_evaluations=500, units=units),
    )
    for card in made:
        words += [card.title, card.subtitle, note(card), card.blob, str(card.df)]
    assert not any("OH_PARAM" in each for each in words)
    assert (
        f"recommended: solvent = {arm['solvent']}, stirred = {arm['stirred']}" in words[0]
    )
    band, gap, optimum = made
    assert band.get_figure().layout.xaxis.title.text == "hours (h)"
    assert band.get_figure().layout.yaxis.title.text == "y (%)"
    assert {each.name for each in band.get_figure().data[2:]} <= {
        "outcomes elsewhere",
        "outcomes on this line",
    }
    assert " %, certified" in gap.title
    names = optimum.get_figure().data[0].cells["values"][0]
    assert set(names) == {"solvent", "stirred", "hours (h)"}


def test_what_cannot_be_drawn_says_why():
    client = fixed_client()
    for card in computed(client, *ALL):
        assert isinstance(card, NotApplicableStateAnalysisCard)
        assert "No trial has been observed yet" in card.blob
    wrong, metric = computed(
        attached(client, ARMS[:2], curve),
        kernelucb.ax.BandAnalysis("w"),
        kernelucb.ax.BandAnalysis("x", metric="w"),
    )
    assert isinstance(wrong, ErrorAnalysisCard)
    assert "No parameter 'w'; there are ['x']" in wrong.blob
    assert "No band of the metric 'w'; there are ['y']" in metric.blob
    with pytest.raises(ValueError, match="num_points must be a whole number"):
        kernelucb.ax.BandAnalysis("x", num_points=0)


def test_a_strategy_without_a_bound_and_no_feasible_arm():
    plain = Client(random_seed=0)
    plain.configure_experiment(UNIT)
    plain.configure_optimization(objective="y")
    plain.configure_generation_strategy()
    (card,) = computed(attached(plain, along(0.5), curve), OPTIMUM)
    assert isinstance(card, NotApplicableStateAnalysisCard)
    client = constrained_client("explored", limits=["z >= 1000"])
    for card in computed(attached(client, ARMS[:2], problem()), *ALL):
        assert isinstance(card, NotApplicableStateAnalysisCard)
        assert "certainly feasible" in card.blob
