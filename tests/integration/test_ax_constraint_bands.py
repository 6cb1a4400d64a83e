r"""Bands of several outcomes in Ax: options by name, storage, outcomes that are missing."""

import pytest
from ax_bench import (
    FIXED,
    GUARDED_WARNINGS,
    NORM,
    SEARCH,
    UNIT,
    go_on_alike,
    next_trial,
    node,
    reopened,
)
from botorch.exceptions import InputDataError, UnsupportedError
from constrained_bench import (
    BY_NAME,
    acquisition,
    constrained_client,
    observed,
    problem,
)

import kernelucb.ax
from kernelucb import MartingaleMixtureUCB, ScalarizedUCB
from kernelucb.ax.experiments import check_kept
from kernelucb.exceptions import NoSafePointError

pytestmark = [pytest.mark.slow, *GUARDED_WARNINGS]


class TestBands:
    def test_they_share_delta(self):
        client = constrained_client("explored", options=BY_NAME | {"delta": 0.02})
        observed(client, 3)
        bands = acquisition(client).bands
        assert [bands[name].assumptions.delta for name in "yz"] == [0.01, 0.01]
        assert kernelucb.ax.recommended_arm(client).assumptions.delta == 0.02

    def test_options_by_name(self):
        options = {"norm_bound": {"z": 3.0, "y": 5.0}, "delta": 0.1}
        options |= {"kernel": {"z": "matern52", "y": "rbf"}, "mean": {"z": 0.0, "y": 1.0}}
        options |= {"lengthscale": {"z": 0.4, "y": 0.3}, "noise_std": {"z": 0.05, "y": 0.2}}
        client = constrained_client("explored", options=options)
        observed(client, 3)
        statements = {
            name: str(band.assumptions) for name, band in acquisition(client).bands.items()
        }
        assert "at most 5" in statements["y"]
        assert "scale 0.2" in statements["y"]
        assert "at most 3" in statements["z"]
        assert "scale 0.05" in statements["z"]

    def test_an_outcome_with_two_limits_has_one_band(self):
        low = problem().threshold
        client = constrained_client(
            "explored",
            objective="-y",
            constraints=[f"z >= {low}", f"z <= {low + 2.0}"],
            options=FIXED | {"norm_bound": NORM},
        )
        observed(client, 4)
        built = acquisition(client)
        assert list(built.bands) == ["y", "z"]
        assert built.band.direction == -1
        assert built.statements == [f"z >= {low:g}", f"z <= {low + 2.0:g}"]
        joined = kernelucb.ax.recommended_arm(client).assumptions
        assert joined.delta == pytest.approx(0.05)

    @pytest.mark.parametrize("kind", ["safe", "explored"])
    def test_sums(self, kind):
        client = constrained_client(
            kind,
            acqf_class=ScalarizedUCB,
            objective="y - 2*z",
            constraints=["w >= -0.1"],
            options=FIXED
            | {"norm_bound": {"w": 1.5, "y": NORM, "z": NORM}, "delta": 0.03}
            | {"lengthscale": {"w": 1.0, "y": 0.4, "z": 0.4}},
        )
        for _ in range(4):
            index, p = next_trial(client)
            assert kind == "explored" or p["x"] - problem().start >= -0.1
            outcomes = problem()(p) | {"w": p["x"] - problem().start}
            client.complete_trial(trial_index=index, raw_data=outcomes)
        built = acquisition(client)
        assert built.band.weights == (1.0, -2.0)
        assert [built.bands[name].assumptions.delta for name in "wyz"] == [0.01] * 3
        joined = kernelucb.ax.recommended_arm(client).assumptions
        assert joined.delta == pytest.approx(0.03)


class TestStorage:
    @pytest.mark.parametrize(
        ("kind", "arguments"),
        [
            ("safe", {}),
            ("safe", {"search": SEARCH, "expand_every": 2}),
            ("explored", {}),
            ("explored", {"search": SEARCH}),
        ],
    )
    def test_a_reopened_experiment_goes_on_as_it_would_have(self, kind, arguments):
        client = constrained_client(kind, **arguments)
        for number in (1, 2):
            observed(client, number)
            client.get_next_trials(max_trials=1)
            (index,) = go_on_alike(client, reopened(client))
            for each in (index - 1, index):
                p = client._experiment.trials[each].arm.parameters
                client.complete_trial(trial_index=each, raw_data=problem()(p))
        assert kernelucb.ax.recommended_arm(reopened(client)).arm.name == (
            kernelucb.ax.recommended_arm(client).arm.name
        )


class TestMissingOutcomes:
    @pytest.mark.parametrize("kind", ["safe", "explored"])
    def test_a_constraint_that_was_never_observed(self, kind):
        client = constrained_client(kind)
        for _ in range(2):
            index, parameters = next_trial(client)
            outcomes = {"y": problem()(parameters)["y"]}
            client.complete_trial(trial_index=index, raw_data=outcomes)
        with pytest.raises(InputDataError, match="No trial has reported z"):
            kernelucb.ax.recommended_arm(client)
        next_trial(client)
        assert node(client) == ("Safe arms" if kind == "safe" else "Sobol")

    @pytest.mark.parametrize("end", ["mark_trial_failed", "mark_trial_abandoned"])
    def test_trials_that_were_lost_do_not_count(self, end):
        client = constrained_client()
        index, parameters = next_trial(client)
        client.attach_data(trial_index=index, raw_data=problem()(parameters))
        getattr(client, end)(index)
        index, parameters = next_trial(client)
        client.complete_trial(trial_index=index, raw_data={"y": 1.0})
        with pytest.raises(InputDataError, match="No trial has reported z"):
            kernelucb.ax.recommended_arm(client)

    def test_a_constraint_that_ax_would_drop(self):
        config = constrained_client()._experiment.optimization_config
        check_kept([f"z >= {problem().threshold}"], config)
        with pytest.raises(InputDataError, match=r"Of the constraints .*z >= .* only"):
            check_kept([], config)

    def test_trials_without_one_outcome_are_said(self):
        client = constrained_client()
        observed(client, 2)
        index, parameters = next_trial(client)
        outcomes = {"y": problem()(parameters)["y"]}
        client.complete_trial(trial_index=index, raw_data=outcomes)
        best = kernelucb.ax.recommended_arm(client)
        assert "1 trial was completed without an outcome" in str(best.assumptions)

    def test_nothing_is_feasible(self):
        client = constrained_client("explored", constraints=["z >= 1.99"])
        observed(client, 3)
        with pytest.raises(NoSafePointError, match="No completed arm is certainly feas"):
            kernelucb.ax.recommended_arm(client)

    def test_without_constraints_every_arm_counts(self):
        strategy = kernelucb.ax.generation_strategy(
            MartingaleMixtureUCB, FIXED | {"norm_bound": {"y": NORM}}
        )
        client = constrained_client("explored")
        client.configure_optimization(objective="y")
        client.set_generation_strategy(strategy)
        observed(client, 3)
        best = kernelucb.ax.recommended_arm(client)
        assert best.outcomes == {}
        with pytest.raises(UnsupportedError, match="the experiment has none"):
            next_trial(constrained_client_without())


def constrained_client_without():
    client = constrained_client("explored", parameters=UNIT)
    client.configure_optimization(objective="y")
    return client
