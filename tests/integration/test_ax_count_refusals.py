r"""Metrics and options of successes and counts in Ax that cannot be served."""

import math

import pytest
from ax.api.client import Client
from ax_bench import AX_WARNINGS, PLANE, UNIT, next_trial, run
from botorch.exceptions import InputDataError, UnsupportedError
from count_bench import BINOMIAL, LIKELIHOODS, count_client, successes

import kernelucb.ax
from kernelucb import LikelihoodUCB
from problems import frozen_kernel

pytestmark = [pytest.mark.slow, *AX_WARNINGS]


class TestRefusedOutcomes:
    @pytest.mark.parametrize(
        ("likelihood", "outcome", "message"),
        [
            ("bernoulli", 0.5, "one is a count of 0.5"),
            ("bernoulli", -1.0, "must be 0 or 1"),
            ("binomial", 7.0, "more successes than num_trials"),
            ("binomial", 0.33, "counts over num_trials or exposure"),
            ("binomial", -0.05, "must hold whole numbers from 0"),
            ("poisson", 0.5, "one is a count of 1.25"),
            ("poisson", -2.0, "must hold whole numbers from 0"),
        ],
    )
    def test_outcomes_that_cannot_be(self, likelihood, outcome, message):
        client = count_client(options=LIKELIHOODS[likelihood])
        index, _ = next_trial(client)
        client.complete_trial(index, raw_data={"y": outcome})
        with pytest.raises(InputDataError, match=message):
            kernelucb.ax.current_bound(client)
        client.attach_data(index, raw_data={"y": 0.0})
        kernelucb.ax.current_bound(client)

    def test_metrics_that_nothing_is_about(self):
        client = count_client()
        run(client, 4, lambda p: successes(p) | {"seconds": 0.1 + p["x"]})
        assert kernelucb.ax.current_bound(client).assumptions.certified


def without(*names):
    return {name: value for name, value in BINOMIAL.items() if name not in names}


class TestErrors:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (without("likelihood"), "needs the option `likelihood`"),
            (without("kernel"), "needs the option `kernel`"),
            (without("lengthscale"), "LikelihoodUCB needs the option `lengthscale`"),
            (without("num_trials"), "num_trials"),
            (BINOMIAL | {"likelihood": "gaussian"}, "likelihood must be"),
            (BINOMIAL | {"likelihood": "bernoulli"}, "num_trials is for"),
            (BINOMIAL | {"exposure": 2.0}, "exposure is for"),
            (BINOMIAL | {"num_trials": [20, 30]}, "num_trials must be"),
            (BINOMIAL | {"num_trials": 2.5}, "num_trials must"),
            (BINOMIAL | {"num_trials": 0}, "num_trials must"),
            (LIKELIHOODS["poisson"] | {"exposure": -1.0}, "exposure must"),
            (LIKELIHOODS["poisson"] | {"exposure": [1.0, 2.0]}, "exposure must be"),
            (BINOMIAL | {"noise_std": 0.1}, "has no option `noise_std`"),
            (BINOMIAL | {"outcomes": "counts"}, "`outcomes`: a metric is a proportion"),
            (BINOMIAL | {"shortest": 0.1}, "LikelihoodUCB has no option `shortest`"),
            (BINOMIAL | {"kernel": "cubic"}, "kernel must be one of rbf, matern12"),
            (BINOMIAL | {"kernel": frozen_kernel("rbf")}, "which Ax cannot store"),
            (BINOMIAL | {"lengthscale": 0.0}, "lengthscale must be"),
            (BINOMIAL | {"outputscale": -1.0}, "outputscale must be"),
            (BINOMIAL | {"mean": "a"}, "mean must be"),
            (BINOMIAL | {"mean": math.inf}, "mean must be a finite number"),
            (BINOMIAL | {"norm_bound": -1.0}, "norm_bound must be"),
            (BINOMIAL | {"train_Y": 1.0}, "Leave out the option `train_Y`: Ax passes"),
        ],
    )
    def test_before_the_strategy_exists(self, options, message):
        with pytest.raises((ValueError, InputDataError), match=message):
            kernelucb.ax.generation_strategy(LikelihoodUCB, options)

    def test_a_length_scale_for_each_input(self):
        client = count_client(PLANE, BINOMIAL | {"lengthscale": [0.5] * 3})
        with pytest.raises(ValueError, match="lengthscale has 3 entries for 2 inputs"):
            client.get_next_trials(max_trials=1)
        assert len(client._experiment.trials) == 0

    def test_sums_of_counts(self):
        client = Client(random_seed=0)
        client.configure_experiment(parameters=UNIT)
        client.configure_optimization(objective="y - 2*z")
        client.set_generation_strategy(
            kernelucb.ax.generation_strategy(LikelihoodUCB, BINOMIAL)
        )
        with pytest.raises(UnsupportedError, match="LikelihoodUCB is for one outcome"):
            client.get_next_trials(max_trials=1)
