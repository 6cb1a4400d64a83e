r"""A real Ax experiment: units, sides, trials under way; what the model gives the bound."""

import math
import sys

import pytest
import torch
from ax.api.client import Client
from ax_bench import (
    AX_WARNINGS,
    OPTIONS,
    REQUIRED,
    SEARCH,
    SPREAD,
    UNIT,
    along,
    attached,
    built,
    curve,
    fixed_client,
    make_client,
    next_trial,
    node,
    points,
    rows,
    run,
    searching,
    stopping,
    wave,
    waves,
)
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import KernelFamilyUCB, MartingaleMixtureUCB

pytestmark = AX_WARNINGS
QUERIES = torch.tensor([[0.0, 5.0], [9.0, 2.0], [-4.0, 14.0]], dtype=torch.float64)


class TestUnits:
    def test_the_bound_sees_the_outcomes_as_reported_in_every_trial(self):
        options = {"norm_bound": 2e4, "noise_std": 1.0}
        client = make_client(num_initial=4, options=options)
        reported, scales = [], set()
        for trial in range(7):
            index, parameters = next_trial(client)
            if trial >= 4:
                acqf = kernelucb.ax.last_bound(client)
                self._check_against_botorch(acqf, reported, options)
                scales.add(float(acqf.model.outcome_transform.stdvs))
            outcome = wave(parameters) + (2000.0 if parameters["v"] > 14 else 0.0)
            client.complete_trial(trial_index=index, raw_data={"y": outcome})
            reported.append((parameters, outcome))
        assert max(y for _, y in reported[:4]) > 6500.0  # Ax would winsorise it
        assert len(scales) == 3  # the model standardised anew each time, the bound did not

    def _check_against_botorch(self, acqf, reported, options):
        X = points(*(parameters for parameters, _ in reported))
        Y = torch.tensor([[y] for _, y in reported], dtype=torch.float64)
        cube = torch.tensor([[-5.0, 0.0], [10.0, 15.0]], dtype=torch.float64)
        model = SingleTaskGP(
            X,
            Y,
            input_transform=Normalize(d=2, bounds=cube),
            outcome_transform=Standardize(m=1),
        )
        model.load_state_dict(acqf.model.state_dict())
        expected = MartingaleMixtureUCB(model, **options)
        for actual, wanted in zip(
            acqf.bounds(QUERIES), expected.bounds(QUERIES), strict=True
        ):
            assert_close(actual, wanted, rtol=1e-9, atol=1e-6)
        assert acqf.norm_bound == pytest.approx(options["norm_bound"], rel=1e-12)
        lower, upper = acqf.bounds(X)
        assert ((lower < Y.squeeze(-1)) & (Y.squeeze(-1) < upper)).all()

    @pytest.mark.parametrize("objective", ["y", "-y"])
    def test_the_value_is_the_side_of_the_band_that_the_objective_asks_for(self, objective):
        client = attached(make_client(objective=objective), SPREAD, waves)
        acqf = kernelucb.ax.current_bound(client)
        lower, upper = acqf.bounds(QUERIES)
        expected = upper if objective == "y" else -lower
        assert_close(acqf(QUERIES.unsqueeze(1)), expected)

    @pytest.mark.slow
    @pytest.mark.parametrize("search", [None, SEARCH])
    @pytest.mark.parametrize(("objective", "best"), [("y", 0.8), ("-y", 0.2)])
    def test_finds_the_optimum_in_the_direction_of_the_objective(
        self, objective, best, search
    ):
        def outcome(parameters):
            return {"y": 900.0 + 40.0 * math.cos((parameters["x"] - 0.8) * math.pi / 0.6)}

        client = make_client(UNIT, objective, num_initial=2, search=search)
        run(client, 9, outcome)
        parameters, *_ = client.get_best_parameterization(use_model_predictions=False)
        assert abs(parameters["x"] - best) < 0.05
        within = "" if search is None else f"{search} within "
        assert node(client) == f"{within}MartingaleMixtureUCB"
        direction = kernelucb.ax.last_bound(client).direction
        assert direction == (1 if objective == "y" else -1)


class TestNoise:
    @pytest.mark.parametrize(
        "arguments",
        [
            {"options": {"norm_bound": 300.0}},
            {
                "acqf_class": KernelFamilyUCB,
                "options": REQUIRED[KernelFamilyUCB] | {"noise_std": None},
            },
            {
                "options": {"norm_bound": 300.0, "kernel": "rbf", "lengthscale": 0.5}
                | {"mean": 5000.0}
            },
        ],
    )
    def test_reported_standard_errors_where_none_is_given(self, arguments):
        client = attached(make_client(**arguments), SPREAD, lambda p: {"y": (wave(p), 2.5)})
        acqf = kernelucb.ax.current_bound(client)
        assert "scale 2.5" in acqf.assumptions["noise"].statement
        given = "kernel" in arguments["options"] or "acqf_class" in arguments
        assert acqf.assumptions.certified == given
        # Without any it is an estimate, of which the trial tells.
        client = attached(make_client(**arguments), SPREAD, waves)
        assert "noise" in kernelucb.ax.current_bound(client).assumptions.estimated

    @pytest.mark.filterwarnings("ignore:Very small noise values")
    @pytest.mark.parametrize("kernel", [{}, {"kernel": "rbf", "lengthscale": 0.5}])
    def test_what_is_given_counts_where_the_errors_are_zero(self, kernel):
        options = {"norm_bound": 9.0, "noise_std": 0.1} | kernel
        client = make_client(UNIT, options=options)
        attached(client, along(0.1, 0.6), lambda p: {"y": (p["x"], 0.0)})
        noise = kernelucb.ax.current_bound(client).regression.noise_std
        assert noise.tolist() == pytest.approx([0.1, 0.1], rel=1e-12)


@pytest.mark.parametrize("tracked", [1, 3])
def test_a_tracked_outcome_is_left_out(tracked):
    # Tracked in some trials, Ax models a list; tracked in all of them, a batch.
    for client in (make_client(UNIT), fixed_client()):
        client.configure_tracking_metrics(["cost"])
        arms = along(0.1, 0.5, 0.9)
        attached(client, arms[:tracked], lambda p: curve(p) | {"cost": 7.0 + p["x"]})
        attached(client, arms[tracked:], curve)
        regression = kernelucb.ax.current_bound(client).regression
        assert regression.num_observations == 3
        assert regression.train_targets.max() < 7.0


class TestTrialsUnderWay:
    @pytest.mark.parametrize("make", [make_client, searching])
    def test_failed_trials_leave_and_abandoned_ones_stay(self, make):
        client = attached(make(), SPREAD[:3], waves)
        pending = client.get_next_trials(max_trials=3)
        assert len(set(map(str, pending.values()))) == 3
        failed, abandoned, running = pending
        client.mark_trial_failed(failed)
        client.mark_trial_abandoned(abandoned)
        index, parameters = next_trial(client)
        acqf, expected = built(client).acqf, points(pending[abandoned], pending[running])
        for each in (acqf, kernelucb.ax.last_bound(client)):
            assert rows(each.X_pending) == rows(expected)
        bound = kernelucb.ax.last_bound(client)
        assert (bound(expected.unsqueeze(1)) < bound.bounds(expected)[1] - 1.0).all()
        if make is searching:
            assert rows(acqf.acqf.X_baseline[-2:]) == rows(expected)
        client.complete_trial(trial_index=index, raw_data={"y": wave(parameters)})
        next_trial(client)
        assert kernelucb.ax.last_bound(client).regression.num_observations == 4

    def test_which_trials_count_as_initial(self):
        early = make_client(num_initial=4, min_observed=1)
        trials = early.get_next_trials(max_trials=4)
        early.complete_trial(trial_index=0, raw_data={"y": wave(trials[0])})
        by_hand = attached(make_client(num_initial=2), SPREAD[:2], waves)
        lost = make_client(num_initial=3)
        for index in lost.get_next_trials(max_trials=3):
            (lost.mark_trial_failed, lost.mark_trial_abandoned)[index % 2](index)
        run(lost, 3)
        assert node(lost) == "Sobol"
        for client in (early, by_hand, lost):
            next_trial(client)
            assert node(client) == "MartingaleMixtureUCB"


def test_the_global_generators_are_left_alone():
    client = attached(fixed_client(), along(0.1, 0.4, 0.8), curve)
    client._random_seed = None
    torch.manual_seed(5)
    next_trial(client)
    kernelucb.ax.generation_strategy(MartingaleMixtureUCB, OPTIONS, search=SEARCH)
    drawn = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(3))


def test_where_there_is_no_bound():
    for use in (kernelucb.ax.last_bound, kernelucb.ax.recommended_arm, stopping):
        with pytest.raises(ValueError, match="The client has no generation strategy"):
            use(Client())
    client = run(fixed_client(), 1, curve)
    with pytest.raises(ValueError, match="the strategy is at its node `Sobol`"):
        kernelucb.ax.last_bound(client)


def test_without_ax_the_import_says_what_to_install(monkeypatch):
    for name in list(sys.modules):
        if name.split(".")[0] == "ax" or name.startswith("kernelucb.ax"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ax", None)
    with pytest.raises(ImportError, match=r"pip install 'kernelucb\[ax\]'"):
        __import__("kernelucb.ax")
