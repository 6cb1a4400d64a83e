r"""What Ax says of the optimum: stopping, batches, the orchestrator; cards and reports."""

import json
import logging
import re
from html import unescape

import pytest
import torch
from ax.analysis.plotly.plotly_analysis import PlotlyAnalysisCard
from ax.api.configs import DerivedParameterConfig
from ax.api.protocols.metric import IMetric
from ax.api.protocols.runner import IRunner
from ax.core.analysis_card import NotApplicableStateAnalysisCard
from ax.core.arm import Arm
from ax.core.trial_status import TrialStatus
from ax.orchestration.orchestrator import Orchestrator
from ax.orchestration.orchestrator_options import OrchestratorOptions
from ax_bench import *

import kernelucb.ax
from kernelucb import KernelFamilyUCB, WangDeFreitasUCB, regret_certificate

# An experiment of Ax, looked at several times, takes half a second to two.
pytestmark = [*AX_WARNINGS, pytest.mark.usefixtures("unfitted")]


FIVE = along(0.1, 0.4, 0.8, 0.6, 0.25)
FAMILY = {"shortest": 0.2, "longest": 0.8, "kernel": "matern52", "norm_bound": NORM}
FAMILY |= {"noise_std": NOISE_STD, "widest_every": 1}


def gap_of(client):
    return stopping(client).decide().certificate.gap


def level(parameters):
    r"""The curve, where ``x`` may be an integer up to 20."""
    scale = 20.0 if isinstance(parameters["x"], int) else 1.0
    return curve({"x": parameters["x"] / scale})["y"]


def family_client():
    return make_client([whole("x", 0, 20)], "-y", KernelFamilyUCB, FAMILY)


class TestDecision:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("make", "sign", "most"),
        [
            (fixed_client, 1.0, 25),
            (
                lambda: make_client([whole("x", 0, 20)], "-y", KernelFamilyUCB, FAMILY),
                -1.0,
                15,
            ),
        ],
    )
    def test_stops_with_a_true_gap_below_the_tolerance(self, make, sign, most):
        client, optimum = make(), float(CURVE(GRID).max())
        rule = stopping(client, 0.5)
        for _ in range(most):
            noise = NOISE_STD * float(torch.randn(()))
            run(client, 1, lambda p, noise=noise: {"y": sign * (level(p) + noise)})
            decision = rule.decide()
            lost = optimum - level(decision.arm.parameters)
            assert lost <= decision.certificate.gap
            if decision.stop:
                break
        assert decision.stop
        assert decision.certificate.gap <= 0.5
        assert decision.certificate.certified

    def test_is_the_certificate_of_the_best_observed_arm(self):
        def outcome(parameters):
            y = curve(parameters)["y"]
            return {"y": (y, 3.0 if y == largest else NOISE_STD)}

        largest = max(curve(arm)["y"] for arm in FIVE)
        client = fixed_client(options={"norm_bound": NORM, "noise_std": None})
        rule = stopping(attached(client, FIVE, outcome)._generation_strategy, 100.0)
        decision, band = rule.decide(), kernelucb.ax.current_bound(client)
        X = points(*FIVE, names="x")
        lower, upper = band.bounds(X)
        best = int(lower.argmax())
        assert best != int(upper.argmax())  # at worst, not at best
        assert decision.arm.parameters == FIVE[best]
        box = {"bounds": torch.tensor([[0.0], [1.0]], dtype=torch.float64)}
        box |= {"recommended": X[best], "max_evaluations": 20_000}
        assert decision.certificate.gap == regret_certificate(band, **box).gap
        assert decision.certificate.certified
        answer = rule.should_stop_optimization(client._experiment)
        assert answer == (True, decision.reason)

    # Three decisions: 0.7 seconds.
    @pytest.mark.representatives("1000000.0")
    @pytest.mark.parametrize("unit", [1e-6, 1e6])
    def test_is_in_the_units_of_the_metric(self, unit):
        plain, scaled = (
            attached(fixed_client(unit=u), FIVE, lambda p, u=u: curve(p, unit=u))
            for u in (1.0, unit)
        )
        gap = gap_of(plain)
        for factor in (0.99, 1.01):
            decision = stopping(scaled, factor * gap * unit).decide()
            assert decision.certificate.gap == pytest.approx(gap * unit, rel=1e-6)
            assert decision.stop == (factor > 1.0)

    # Decisions of three experiments: 0.6 seconds.
    @pytest.mark.filterwarnings(f"ignore::{CONTRADICTION}")
    def test_never_stops_without_a_guarantee(self):
        sizes = [choice("size", [0.0, 0.2, 0.7, 1.0], is_ordered=True), KIND]
        one_round = fixed_client(sizes, acqf_class=WangDeFreitasUCB)
        arms = [{"size": size, "kind": "b"} for size in (0.0, 0.7, 1.0)]
        attached(one_round, arms, lambda p: {"y": p["size"]})
        contradicted = attached(fixed_client(), FIVE, lambda p: curve(p, unit=100.0))
        ranged = fixed_client(outcome_range={"y": (50.0, None)})
        attached(ranged, SOME, curve)
        for client, why in (
            (one_round, "design"),
            (contradicted, "norm"),
            (ranged, "range"),
        ):
            decision = stopping(client, 1e6).decide()
            assert not decision.stop
            assert f"no guarantee: {why} violated" in decision.reason

    @pytest.mark.slow
    def test_all_outcomes_count_and_pending_trials_do_not(self):
        client = attached(fixed_client(), FIVE, curve)
        before = stopping(client).decide()
        failed, abandoned, running = client.get_next_trials(max_trials=3)
        client.mark_trial_failed(failed)
        client.attach_data(trial_index=abandoned, raw_data={"y": 1.0})
        client.mark_trial_abandoned(abandoned)
        after = stopping(client).decide()
        assert after.certificate.gap == before.certificate.gap
        assert after.arm == before.arm
        rule = stopping(client, 100.0, inactive_when_pending_trials=True)
        stop, reason = rule.should_stop_optimization(client._experiment)
        assert (stop, reason) == (False, "There are pending trials in the experiment.")
        again = stopping(reopened(client)).decide()
        assert again.arm.parameters == after.arm.parameters
        assert again.certificate.gap == pytest.approx(after.certificate.gap, rel=1e-6)
        parameters = client._experiment.trials[running].arm.parameters
        client.complete_trial(trial_index=running, raw_data=curve(parameters))
        assert kernelucb.ax.current_bound(client).data.num_observations == 6

    @pytest.mark.slow
    def test_abandoned_arms_of_a_batch_are_pending_and_not_recommended(self):
        client = attached(fixed_client(), FIVE, curve)
        trial = client._experiment.new_batch_trial()
        # The bound is best between two arms that are observed.
        trial.add_arms_and_weights([Arm({"x": x}) for x in (0.95, 0.99, 0.97)])
        trial.mark_running(no_runner_required=True)
        report(client, trial, curve)
        assert stopping(client).decide().arm.parameters in FIVE  # not completed yet
        trial.mark_arm_abandoned(trial.arms[-1].name)
        trial.mark_completed()
        decision = stopping(client).decide()
        assert decision.arm.parameters["x"] == 0.95
        assert "arms of batches abandoned: 1" in decision.reason
        assert decision.certificate.certified
        next_trial(client)
        assert rows(built(client).X_pending) == [(0.97,)]


class Instant(IRunner):
    r"""Every run is over at once; the third one fails."""

    def run_trial(self, trial_index, parameterization):
        return dict(parameterization)

    def poll_trial(self, trial_index, trial_metadata):
        return TrialStatus.FAILED if trial_index == 2 else TrialStatus.COMPLETED


class Outcome(IMetric):
    def fetch(self, trial_index, trial_metadata):
        return 0, curve(trial_metadata)[self.name]


@pytest.mark.slow
def test_the_orchestrator_stops_by_the_certificate():
    client = fixed_client()
    client.configure_metrics([Outcome("y")])
    client.configure_runner(Instant())
    settings = OrchestratorOptions(
        global_stopping_strategy=stopping(client, 0.5),
        init_seconds_between_polls=0,
        min_seconds_before_poll=0.0,
        logging_level=logging.ERROR,
        max_pending_trials=3,
        run_trials_in_batches=True,
    )
    loop = Orchestrator(client._experiment, client._generation_strategy, settings)
    loop.run_n_trials(20)
    assert 2 <= len(client._experiment.trials) < 20
    decision = stopping(client, 0.5).decide()
    assert decision.stop
    assert "trials failed: 1" in decision.reason


BAND = kernelucb.ax.BandAnalysis("x", num_points=9)
GAP = kernelucb.ax.GapAnalysis(most_rounds=3)
ARMS = along(0.15, 0.9, 0.5, 0.3, 0.75)


def computed(client, *analyses):
    return client.compute_analyses(analyses=list(analyses), display=False)


def note(card):
    r"""The text below the picture, as it is read."""
    (text,) = (each.text for each in card.get_figure().layout.annotations)
    return unescape(text.replace("<br>", " ")).replace("\xa0", " ")


class TestCards:
    # Both cards of an experiment of Ax, and the gaps beside them: 1.5 seconds.
    def test_band_and_gaps_are_those_of_the_bound_and_of_the_stopping_rule(self):
        client = attached(fixed_client(), ARMS, curve)
        band, gap = cards = computed(client, BAND, GAP)
        for card in cards:
            assert isinstance(card, PlotlyAnalysisCard)
            assert "certified" in card.title
            assert "[given] the kernel was fixed before the data" in note(card)
            assert len(card.subtitle) < 80  # Ax shows one line of it
            json.loads(card.blob)
        assert len(client._experiment.trials) == 5
        X = torch.linspace(0.0, 1.0, 9, dtype=torch.float64)
        lower, upper = kernelucb.ax.current_bound(client).bounds(X.unsqueeze(-1))
        assert band.df["x"].tolist() == pytest.approx(X.tolist())
        assert band.df["lower"].tolist() == pytest.approx(lower.tolist())
        assert band.df["upper"].tolist() == pytest.approx(upper.tolist())
        low, high, seen = band.get_figure().data
        assert [*low.y, *high.y] == [*band.df["lower"], *band.df["upper"]]
        assert high.name == "band, certified (95 %)"
        assert seen.name == "outcomes on this line"  # there is no other parameter
        assert list(seen.x) == [arm["x"] for arm in ARMS]
        assert list(seen.y) == pytest.approx([curve(arm)["y"] for arm in ARMS])
        decision = stopping(client).decide()
        assert gap.df["trial_index"].tolist() == [1, 2, 4]
        earlier = gap_of(attached(fixed_client(), ARMS[:3], curve))
        gaps = pytest.approx([earlier, decision.certificate.gap])
        assert gap.df["gap"].tolist()[1:] == gaps
        (drawn,) = gap.get_figure().data
        assert list(drawn.y) == gap.df["gap"].tolist()
        assert drawn.name == "certified gap"
        assert f"arm {decision.arm.name}" in gap.title

    # Both cards of an experiment of Ax: a second.
    @pytest.mark.representatives("options1-no guarantee: norm violated")
    @pytest.mark.filterwarnings(f"ignore::{CONTRADICTION}")
    @pytest.mark.parametrize(
        ("options", "summary"),
        [
            ({"norm_bound": 4.0, "noise_std": 0.1}, "heuristic: kernel, mean estimated"),
            (FIXED | {"norm_bound": 0.01}, "no guarantee: norm violated"),
        ],
    )
    def test_every_title_says_where_it_is_not_certified(self, options, summary):
        client = attached(make_client(UNIT, options=options), ARMS[:3], curve)
        band, gap = computed(client, BAND, GAP)
        for card in (band, gap):
            assert card.title.endswith(f": {summary}")
            assert not re.search(r"\d", re.sub(r"arm \S+", "", card.title))
        # Consent is for estimates, not for what the data contradict.
        decision = stopping(client, 1e6, allow_estimated=True).decide()
        assert decision.stop == ("estimated" in summary)
        assert f": {summary}" in decision.reason
        assert gap.get_figure().data[0].name == f"gap, {summary}"
        assert not gap.df["certified"].any()

    @pytest.mark.slow
    def test_probabilities(self):
        client = attached(count_client(), ARMS, successes)
        report = kernelucb.ax.optimum_report(client, max_evaluations=2000)
        true = float(LOG_ODDS(GRID).sigmoid().max())
        assert 0.0 < report.lower <= true <= report.upper < 1.0
        band, gap = computed(client, BAND, GAP)
        assert all("certified" in card.title for card in (band, gap))
        assert band.df["upper"].max() < 1.0
        assert gap.df["gap"].max() <= 1.0

    @pytest.mark.slow
    def test_constraints_and_choices(self):
        space, safe = [*UNIT, KIND], [{"x": 0.5, "kind": "a"}]
        client = constrained_client(parameters=space, limits=["z >= -100"], safe_arms=safe)
        arms = [*safe, {"x": 0.5, "kind": "b"}, {"x": 0.52, "kind": "b"}]
        attached(client, arms, lambda p: {"y": float(p["kind"] == "a"), "z": p["x"]})
        band, gap = computed(
            client,
            kernelucb.ax.BandAnalysis("kind", metric="z"),
            kernelucb.ax.GapAnalysis(most_rounds=1, max_evaluations=200),
        )
        assert band.title.startswith("Band of z along kind: certified")
        assert "any other feasible arm" in gap.subtitle
        assert len(gap.df) == 1
        # Every value of a choice is drawn by itself.
        assert band.df["kind"].tolist() == ["a", "b", "c"]
        low, high, *seen = band.get_figure().data
        assert (low.mode, list(high.y)) == ("markers", band.df["upper"].tolist())
        assert [list(each.y) for each in seen] == [[0.52], [0.5, 0.5]]

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("objective", "name", "more"),
        [("-2*y", "y", "less"), ("y", "y", "more"), ("-y + z", "-y + z", "more")],
    )
    def test_words_are_about_the_objective_of_the_band(self, objective, name, more):
        sums = {"acqf_class": kernelucb.ScalarizedUCB} if "z" in objective else {}
        client = fixed_client(objective=objective, **sums)
        attached(client, ARMS, lambda p: {"y": 0.3 - 0.5 * p["x"], "z": 0.2})
        band, gap = computed(client, BAND, GAP)
        assert band.title.startswith(f"Band of {name} along x: ")
        assert band.get_figure().layout.yaxis.title.text == name
        assert gap.subtitle.startswith(f"How much {more} {name} any other arm can have")
        report = kernelucb.ax.optimum_report(client, max_evaluations=500)
        _, value, *_ = str(kernelucb.ax.recommended_arm(client)).splitlines()
        assert f"; {name} there is between" in report.claims[0].statement
        assert value.startswith(f"  {name} (objective): ")

    def test_printed_intervals_hold_the_certified_ones(self):
        options = FIXED | {"mean": 1e6, "norm_bound": NORM}
        arguments = {"options": options, "limits": ["z <= 1000000.8"]}
        client = constrained_client("explored", **arguments)
        attached(client, ARMS, lambda p: {"y": 1e6 + 0.1 * p["x"], "z": 1e6})
        found = kernelucb.ax.recommended_arm(client)
        ends = re.findall(r"(\S+) to (\S+)", str(found))[:2]
        exact = [found.objective, found.outcomes["z"]]
        for (low, high), (lower, upper) in zip(ends, exact, strict=True):
            assert lower - 0.01 <= float(low) <= lower <= upper <= float(high)

    @pytest.mark.slow
    def test_derived_parameters_follow_the_others(self):
        formula = {"parameter_type": "float", "expression_str": "1.0 - x"}
        space = [*SQUARE, DerivedParameterConfig(name="rest", **formula)]
        space.append(choice("bath", [7]))  # a constant, which a baseline may leave out
        client = run(fixed_client(parameters=space), 3, curve)
        (card,) = computed(client, kernelucb.ax.BandAnalysis("x", num_points=5))
        assert card.df["x"].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
        assert "rest" not in note(card).split("\n")[0].partition("certified")[0]
        arguments = {"max_evaluations": 200, "fixed_parameters": {"x": 0.25}}
        report = kernelucb.ax.optimum_report(client, baseline={"t": 0.5}, **arguments)
        assert report.to_dict()["recommended"]["rest"] == pytest.approx(0.75)
        with pytest.raises(ValueError, match="not a valid value"):
            kernelucb.ax.optimum_report(
                client, baseline={"t": 0.5, "rest": 0.1}, **arguments
            )

    @pytest.mark.slow
    def test_names_values_and_units_are_the_user_s(self):
        space = [choice("solvent", "abc"), choice("stirred", [True, False])]
        space += [real("hours", 1.0, 8.0, scaling="log")]
        client = fixed_client(parameters=space, lengthscale=1.0)
        run(client, 3, lambda p: {"y": 0.1 * p["hours"] - (p["solvent"] == "a")})
        client.mark_trial_failed(next_trial(client)[0])
        units = {"units": {"hours": "h", "y": "%"}}
        asked = {"threshold": -100.0, "tolerance": 0.3, "max_evaluations": 200} | units
        report = kernelucb.ax.optimum_report(client, baseline="0_0", **asked)
        arm, values = kernelucb.ax.recommended_arm(client).parameters, report.to_dict()
        assert values["recommended"] == arm | {"hours": pytest.approx(arm["hours"])}
        region = values["region"]
        assert set(region["solvent"]) <= set("abc")
        assert 1.0 <= region["hours"][0] < region["hours"][1] <= 8.0 + 1e-9
        claims = {claim.kind: claim for claim in report.claims}
        first = client._experiment.arms_by_name["0_0"].parameters
        words = f"the baseline, solvent {first['solvent']}, stirred {first['stirred']}, ho"
        assert words in claims["baseline"].statement
        box = "solvent a or b or c, stirred False or True, hours 1 to 8 h"
        words = f"y is at least -100 % at every allowed point with {box}"
        assert claims["operating window"].statement == words
        assert claims["anywhere"].tested.endswith("by more than 0.3 %")
        missing = report.certificate.assumptions["missing outcomes"].statement
        assert missing.startswith("trials failed: 1; none of that depended on the noise")
        band, gap = computed(
            client,
            kernelucb.ax.BandAnalysis("hours", num_points=4, **units),
            kernelucb.ax.GapAnalysis(most_rounds=2, max_evaluations=200, **units),
        )
        assert "OH_PARAM" not in band.blob + gap.blob + str(report)
        layout = band.get_figure().layout
        titles = layout.xaxis.title.text, layout.yaxis.title.text
        assert titles == ("hours (h)", "y (%)")
        assert " %, certified" in gap.title
        for wrong, message in (("9_9", "no arm '9_9'"), ({"hours": 99.0}, "hours|stirred")):
            with pytest.raises(ValueError, match=message):
                kernelucb.ax.optimum_report(client, baseline=wrong)

    def test_where_nothing_can_be_drawn_the_card_says_why(self):
        infeasible = constrained_client("explored", limits=["z >= 1000"])
        seen = attached(fixed_client(), ARMS[:2], curve)
        for client, analysis, why in (
            (fixed_client(), GAP, "No trial has been observed yet"),
            (seen, kernelucb.ax.BandAnalysis("w"), "No parameter 'w'"),
            (seen, kernelucb.ax.BandAnalysis("x", metric="w"), "No band of the metric"),
            (attached(infeasible, ARMS[:2], problem()), BAND, "certainly feasible"),
        ):
            (card,) = computed(client, analysis)
            assert isinstance(card, NotApplicableStateAnalysisCard)
            assert why in card.blob
