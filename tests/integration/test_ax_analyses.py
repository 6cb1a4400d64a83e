r"""Bands, gaps and reports as analysis cards of a real Ax client."""

import json
import logging
from html import unescape

import pytest
import torch
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.analysis_card import ErrorAnalysisCard, NotApplicableStateAnalysisCard
from ax_bench import GUARDED_WARNINGS, begun, curve, fixed_client, make_client, run
from constrained_bench import constrained_client, observed
from test_ax_contexts import PLANE, ask, in_plane

import kernelucb.ax
from kernelucb.ax.analyses import _spread

pytestmark = [pytest.mark.slow, *GUARDED_WARNINGS]
ALL = [
    kernelucb.ax.BandAnalysis("x", num_points=9),
    kernelucb.ax.GapAnalysis(most_rounds=3),
    kernelucb.ax.OptimumAnalysis(max_evaluations=2000),
]


def computed(client, *analyses):
    return client.compute_analyses(analyses=list(analyses), display=False)


def note(card):
    r"""The text below the picture, as it is read."""
    (text,) = (each.text for each in card.get_figure().layout.annotations)
    return unescape(text.replace("<br>", " ")).replace("\xa0", " ")


@pytest.fixture(scope="module")
def cards():
    client = begun(5)
    return client, computed(client, *ALL)


def test_each_is_a_card_that_ax_can_show(cards):
    client, made = cards
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
    client, (card, _, _) = cards
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
    trials = [trial.arm for trial in client._experiment.trials.values()]
    assert seen.name == "outcomes on this line"  # there is no other parameter
    assert list(seen.x) == [arm.parameters["x"] for arm in trials]
    assert list(seen.y) == pytest.approx([curve(arm.parameters)["y"] for arm in trials])


def test_the_last_gap_is_the_one_that_the_stopping_rule_sees(cards):
    client, (_, card, _) = cards
    decision = kernelucb.ax.CertifiedGapStoppingStrategy(0.1, client).decide()
    assert card.df["trial_index"].tolist() == [1, 2, 4]
    assert card.df["gap"].iloc[-1] == pytest.approx(decision.certificate.gap)
    assert card.df["arm_name"].iloc[-1] == decision.arm.name
    (drawn,) = card.get_figure().data
    assert list(drawn.y) == card.df["gap"].tolist()
    assert drawn.name == "certified gap"
    assert f"arm {decision.arm.name}" in card.title


def test_earlier_gaps_are_those_of_the_trials_until_then(cards):
    _, (_, card, _) = cards
    decision = kernelucb.ax.CertifiedGapStoppingStrategy(0.1, begun(3)).decide()
    assert card.df["gap"].iloc[1] == pytest.approx(decision.certificate.gap)


def test_the_optimum_is_that_of_the_report(cards):
    client, (_, _, card) = cards
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
    client = make_client(
        [RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0))],
        options={"norm_bound": 4.0, "noise_std": 0.1},
    )
    run(client, 3, curve)
    band, gap = computed(client, ALL[0], ALL[1])
    assert band.title.endswith("heuristic: kernel, mean estimated")
    assert gap.title.endswith("heuristic: kernel, mean estimated")
    assert gap.get_figure().data[0].name == "gap, heuristic: kernel, mean estimated"
    assert not gap.df["certified"].any()


def test_constraints_and_contexts():
    client = constrained_client(
        "safe", parameters=PLANE, constraints=["z >= -100"], safe_arms=[{"x": 0.5}]
    )
    for step in range(3):
        ask(client, {"t": 0.5 + 0.01 * step}, in_plane)
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
    kinds = ChoiceParameterConfig(
        name="kind", parameter_type="str", values=["a", "b", "c"], is_ordered=False
    )
    client = fixed_client(parameters=[kinds], num_initial=2)
    for index, parameters in client.get_next_trials(max_trials=2).items():
        client.complete_trial(
            trial_index=index, raw_data={"y": float(parameters["kind"] == "a")}
        )
    (card,) = computed(client, kernelucb.ax.BandAnalysis("kind"))
    assert card.df["kind"].tolist() == ["a", "b", "c"]
    marks, seen = card.get_figure().data
    assert list(seen.y) == [0.0, 1.0]
    half = 0.5 * (card.df["upper"] - card.df["lower"])
    assert list(marks.error_y.array) == pytest.approx(half.tolist())


def test_parameters_have_the_names_and_values_of_the_user():
    space = [
        ChoiceParameterConfig(
            name="solvent", parameter_type="str", values=list("abc"), is_ordered=False
        ),
        ChoiceParameterConfig(
            name="stirred", parameter_type="bool", values=[True, False], is_ordered=False
        ),
        RangeParameterConfig(
            name="hours", parameter_type="float", bounds=(1.0, 8.0), scaling="log"
        ),
    ]
    client = fixed_client(parameters=space, lengthscale=1.0)
    run(client, 4, lambda p: {"y": 0.1 * p["hours"] - (p["solvent"] == "a")})
    report = kernelucb.ax.optimum_report(client, max_evaluations=500)
    arm = kernelucb.ax.recommended_arm(client).parameters
    values = report.to_dict()
    assert values["recommended"] == arm | {"hours": pytest.approx(arm["hours"])}
    assert set(values["region"]["solvent"]) <= set("abc")
    low, high = values["region"]["hours"]
    assert 1.0 <= low < high <= 8.0 + 1e-9
    assert any("solvent" in each["values"] for each in values["combinations"])
    words = [str(report)]
    units = {"hours": "h", "y": "%"}
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


def test_progress_is_logged_round_by_round():
    messages, handler = [], logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())
    logger = logging.getLogger("kernelucb.ax.analyses")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        computed(begun(5), kernelucb.ax.GapAnalysis(most_rounds=2))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert [each.split(":")[0] for each in messages] == [
        "gap after trial 1",
        "gap after trial 4",
    ]


def test_what_cannot_be_drawn_says_why():
    client = fixed_client()
    for card in computed(client, *ALL):
        assert isinstance(card, NotApplicableStateAnalysisCard)
        assert "No trial has been observed yet" in card.blob
    run(client, 2, curve)
    wrong, metric = computed(
        client, kernelucb.ax.BandAnalysis("w"), kernelucb.ax.BandAnalysis("x", metric="w")
    )
    assert isinstance(wrong, ErrorAnalysisCard)
    assert "No parameter 'w'; there are ['x']" in wrong.blob
    assert "No band of the metric 'w'; there are ['y']" in metric.blob
    with pytest.raises(ValueError, match="num_points must be a whole number"):
        kernelucb.ax.BandAnalysis("x", num_points=0)


def test_a_strategy_without_a_bound_and_no_feasible_arm():
    plain = Client(random_seed=0)
    plain.configure_experiment(
        [RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0))]
    )
    plain.configure_optimization(objective="y")
    plain.configure_generation_strategy()
    plain.attach_trial({"x": 0.5})
    plain.complete_trial(trial_index=0, raw_data={"y": 1.0})
    (card,) = computed(plain, ALL[2])
    assert isinstance(card, NotApplicableStateAnalysisCard)
    client = constrained_client("explored", constraints=["z >= 1000"])
    observed(client, 2)
    for card in computed(client, *ALL):
        assert isinstance(card, NotApplicableStateAnalysisCard)
        assert "certainly feasible" in card.blob


def test_rounds_are_spread_and_end_with_the_last():
    assert _spread(3, 5) == [0, 1, 2]
    assert _spread(5, 3) == [1, 2, 4]
    assert _spread(100, 4) == [24, 49, 74, 99]
