r"""Outcomes that no model can take are refused by the name of their trial."""

import math

import pytest
from ax_bench import (
    AX_WARNINGS,
    UNIT,
    curve,
    fixed_client,
    make_client,
    next_trial,
    run,
)
from botorch.exceptions import InputDataError

import kernelucb.ax
from kernelucb import ScalarizedUCB

pytestmark = AX_WARNINGS


def with_errors(options=None, noise_std=None, **arguments):
    r"""An experiment whose standard errors are the noise, unless it is given."""
    config = kernelucb.ax.fixed_model_config("matern52", 0.4, noise_std=noise_std)
    options = {"norm_bound": 10.0} | (options or {})
    return make_client(UNIT, options=options, model_config=config, **arguments)


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
