r"""Outcomes that never came or that no model can take, in what a bound of Ax rests on."""

import math

import pytest
from ax.api.client import Client
from ax.core.arm import Arm
from ax_bench import (
    AX_WARNINGS,
    FIXED,
    UNIT,
    begun,
    curve,
    fixed_client,
    make_client,
    next_trial,
    run,
)
from botorch.exceptions import InputDataError

import kernelucb.ax
from kernelucb import ScalarizedUCB
from kernelucb.confidence.assumptions import REPORTED
from kernelucb.exceptions import UncertifiedError

pytestmark = [pytest.mark.slow, *AX_WARNINGS]

NO_NOISE = "; none of that depended on the noise of their outcomes"


def statement(acqf, name="outcomes"):
    assumption = acqf.assumptions[name]
    assert assumption.status == "given"
    return assumption.statement


def current(client):
    return statement(kernelucb.ax.current_bound(client))


def stopping(client, gap=100.0, **options):
    return kernelucb.ax.CertifiedGapStoppingStrategy(gap, client, **options)


def fail(client, index):
    client.mark_trial_failed(index)


def abandon(client, index):
    client.mark_trial_abandoned(index)


def report_and_abandon(client, index):
    client.attach_data(trial_index=index, raw_data={"y": 0.1})
    client.mark_trial_abandoned(index)


def stop_early(client, index):
    parameters = client._experiment.trials[index].arm.parameters
    client.attach_data(trial_index=index, raw_data=curve(parameters))
    client.mark_trial_early_stopped(index)


def complete_without(client, index):
    client.complete_trial(trial_index=index)


def complete_with_nan(client, index):
    client.complete_trial(trial_index=index, raw_data={"y": math.nan})


def end(client, *ends):
    trials = client.get_next_trials(max_trials=len(ends))
    for index, how in zip(trials, ends, strict=True):
        how(client, index)
    return client


class TestStatement:
    def test_nothing_is_added_where_nothing_is_missing(self):
        client = begun(4)
        client.get_next_trials(max_trials=2)
        assert kernelucb.ax.current_bound(client).assumptions["outcomes"] is REPORTED
        assert kernelucb.ax.last_bound(client).assumptions["outcomes"] is REPORTED
        assert "noise" not in stopping(client).decide().reason

    @pytest.mark.parametrize(
        ("ends", "missing"),
        [
            ([fail], "1 trial failed"),
            ([abandon], "1 trial was abandoned"),
            ([report_and_abandon], "1 trial was abandoned"),
            ([stop_early] * 2, "2 trials were stopped early"),
            ([complete_without], "1 trial was completed without an outcome"),
            (
                [complete_without, complete_with_nan],
                "2 trials were completed without an outcome",
            ),
            ([fail] * 2 + [stop_early], "2 trials failed and 1 was stopped early"),
            (
                [fail] * 3 + [abandon] + [stop_early] * 2,
                "3 trials failed, 1 was abandoned and 2 were stopped early",
            ),
        ],
    )
    def test_counts(self, ends, missing):
        client = end(begun(2), *ends)
        expected = f"{REPORTED.statement}: {missing}{NO_NOISE}"
        assert current(client) == expected
        run(client, 2, curve)
        assert statement(kernelucb.ax.last_bound(client)) == expected
        assert str(kernelucb.ax.current_bound(client).assumptions).endswith(expected)

    def test_arms_of_a_batch(self):
        client = begun(2)
        batch = client._experiment.new_batch_trial()
        batch.add_arms_and_weights([Arm({"x": 0.1}, "a"), Arm({"x": 0.2}, "b")])
        batch.mark_arm_abandoned("a")
        batch.mark_running(no_runner_required=True)
        expected = f"{REPORTED.statement}: 1 arm of a batch was abandoned{NO_NOISE}"
        assert current(client) == expected
        end(client, fail)
        expected = "1 trial failed and 1 arm of a batch was abandoned"
        assert current(client) == f"{REPORTED.statement}: {expected}{NO_NOISE}"

    def test_the_last_bound_says_what_was_missing_when_it_was_made(self):
        client = end(begun(3), fail)
        index, _ = next_trial(client)
        before = statement(kernelucb.ax.last_bound(client))
        assert ": 1 trial failed;" in before
        client.mark_trial_failed(index)
        assert statement(kernelucb.ax.last_bound(client)) == before
        assert ": 2 trials failed;" in current(client)
        assert statement(kernelucb.ax.last_bound(client)) == before
        next_trial(client)
        assert ": 2 trials failed;" in statement(kernelucb.ax.last_bound(client))

    def test_sums_say_it_of_every_outcome(self):
        client = make_client(
            UNIT,
            objective="y - 2*z",
            acqf_class=ScalarizedUCB,
            options={"norm_bound": 4.0, "noise_std": 0.1},
        )
        run(client, 3, lambda p: curve(p) | {"z": p["x"]})
        run(client, 1, curve)
        acqf = kernelucb.ax.current_bound(client)
        missing = "1 trial was completed without an outcome"
        for output in ("output 1", "output 2"):
            expected = f"{output}: {REPORTED.statement}: {missing}{NO_NOISE}"
            assert statement(acqf, f"{output}: outcomes") == expected


class TestDecision:
    def test_reason_and_certificate_name_it_after_reload_too(self, tmp_path):
        client = end(begun(3), fail, abandon, abandon)
        client.get_next_trials(max_trials=1)
        path = str(tmp_path / "bench.json")
        client.save_to_json_file(path)
        for each in (client, Client.load_from_json_file(path)):
            decision = stopping(each).decide()
            assert decision.stop
            assert decision.certificate.certified
            missing = "1 trial failed and 2 were abandoned"
            given = "given that none of this depended on the noise of the outcomes"
            assert decision.reason.endswith(f", {given}: {missing}")
            said = decision.certificate.assumptions["outcomes"].statement
            assert f": {missing};" in said

    def test_what_counts_as_an_outcome(self):
        client = begun(3)
        end(client, stop_early, fail, report_and_abandon, complete_without)
        index, parameters = next_trial(client)
        client.attach_data(trial_index=index, raw_data=curve(parameters))
        # Three completed, one stopped early, one under way that has reported.
        assert kernelucb.ax.current_bound(client).regression.num_observations == 5

    def test_progressions_are_an_input(self):
        client = begun(3)
        for steps, ending in (((1, 2), "mark_trial_early_stopped"), ((1, 2, 3), None)):
            index, parameters = next_trial(client)
            for step in steps:
                client.attach_data(
                    trial_index=index, raw_data=curve(parameters), progression=step
                )
            getattr(client, ending or "complete_trial")(trial_index=index)
        acqf = kernelucb.ax.current_bound(client)
        assert acqf.regression.dimension == 2
        # Ax scales the progression by the range that it has seen.
        assert acqf.assumptions.estimated == ("kernel",)
        assert "progression" in acqf.assumptions["kernel"].statement
        with pytest.raises(UncertifiedError, match=r"estimates \(kernel\)"):
            stopping(client).decide()
        decision = stopping(client, allow_estimated=True).decide()
        assert decision.certificate.summary == "heuristic: kernel estimated"
        # The arm is recommended for a run to the end.
        assert float(decision.certificate.recommended[1]) == 1.0
        assert ": 1 trial was stopped early;" in statement(acqf)


def with_errors(options=None, noise_std=None, **arguments):
    r"""An experiment whose standard errors are the noise, unless it is given."""
    prior = FIXED | {"noise_std": noise_std, "norm_bound": 10.0}
    return make_client(UNIT, options=prior | (options or {}), **arguments)


def reported(client, *outcomes):
    for outcome in outcomes:
        run(client, 1, lambda _, outcome=outcome: {"y": outcome})
    return client


def refused(client, message):
    trials = len(client._experiment.trials)
    for ask in (next_trial, kernelucb.ax.current_bound):
        with pytest.raises(InputDataError, match=message):
            ask(client)
    assert len(client._experiment.trials) == trials


MEAN = r"The outcome of y in trial 1 \(arm 1_0\) is "
ERROR = r"The standard error of y in trial 1 \(arm 1_0\) is "


class TestRefused:
    r"""By the name of their trial."""

    @pytest.mark.parametrize("value", [1e300, -1e76, math.inf, -math.inf])
    def test_outcomes(self, value):
        client = reported(fixed_client(), 0.5, value)
        refused(client, f"{MEAN}{value:g}".replace("+", r"\+"))
        # What the message says helps.
        client.attach_data(trial_index=1, raw_data={"y": 0.25})
        assert kernelucb.ax.current_bound(client).regression.num_observations == 2
        run(client, 2, curve)

    @pytest.mark.parametrize("error", [-1.0, math.inf, 1e300])
    @pytest.mark.parametrize("noise_std", [None, 0.1])
    def test_standard_errors(self, error, noise_std):
        client = with_errors(noise_std=noise_std)
        refused(reported(client, (0.5, 0.1), (0.5, error)), ERROR)

    @pytest.mark.parametrize("options", [None, {"noise_std": 0.1}])
    def test_some_without_a_standard_error(self, options):
        client = reported(with_errors(options), (0.5, 0.1), 0.5)
        refused(client, f"{ERROR}nan; others have a standard error")

    def test_no_noise_at_all(self):
        client = reported(with_errors(), (0.5, 0.1), (0.5, 0.0))
        refused(client, f"{ERROR}0; a bound needs a noise scale above 0: give noise_std")

    def test_one_of_several_outcomes(self):
        options = {"norm_bound": 4.0, "noise_std": [0.1, None]}
        client = make_client(UNIT, "y - 2*z", ScalarizedUCB, options)
        run(client, 1, lambda p: {"y": (p["x"], 0.1), "z": (1.0, 0.0)})
        refused(client, "The standard error of z in trial 0")

    def test_while_trials_are_under_way(self):
        client = reported(fixed_client(), 0.5, math.inf)
        client._experiment.new_trial().add_arm(client._experiment.trials[0].arm)
        refused(client, MEAN)


class TestTaken:
    @pytest.mark.filterwarnings("ignore:Very small noise values")
    @pytest.mark.parametrize("place", ["options", "model"])
    def test_no_standard_error_where_the_noise_is_given(self, place):
        if place == "options":
            client = with_errors({"noise_std": 0.1})
        else:
            client = with_errors(noise_std=0.1)
        reported(client, (0.5, 0.0), (0.25, 0.0))
        noise = kernelucb.ax.current_bound(client).regression.noise_std
        assert noise.tolist() == pytest.approx([0.1, 0.1], rel=1e-12)

    @pytest.mark.parametrize("how", ["mark_trial_failed", "mark_trial_abandoned"])
    def test_trials_that_do_not_count(self, how):
        client = reported(fixed_client(), 0.5, 0.25)
        index, _ = next_trial(client)
        client.attach_data(trial_index=index, raw_data={"y": math.inf})
        refused(client, "in trial 2")
        getattr(client, how)(index)
        run(client, 1, curve)

    def test_a_missing_outcome(self):
        client = reported(fixed_client(), 0.5, math.nan)
        acqf = kernelucb.ax.current_bound(client)
        assert acqf.regression.num_observations == 1
        assert "1 trial was completed without" in acqf.assumptions["outcomes"].statement
