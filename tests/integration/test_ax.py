r"""Ax experiments: units, noise, priors, trials under way, consent, saving, reopening."""

import json
import math
import os
import subprocess
import sys

import pytest
import torch
from ax.api.client import Client
from ax.exceptions.core import SearchSpaceExhausted
from ax_bench import *
from botorch.acquisition import qUpperConfidenceBound
from botorch.exceptions import UserInputWarning
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from pandas.testing import assert_frame_equal
from torch.testing import assert_close

import kernelucb.ax
from kernelucb import (
    KernelFamilyUCB,
    KernelRegression,
    LikelihoodUCB,
    MartingaleMixtureUCB,
    MetaUCB,
    NormTracker,
    SrinivasUCB,
    lengthscale_family,
)
from kernelucb.acquisition.turns import SEARCH_TURNS, turn_at
from kernelucb.ax.acquisition import BoundAcquisition
from kernelucb.exceptions import UncertifiedError
from kernelucb.models import CosineFeatures, FeatureMetaModel
from kernelucb.papers import BoundedNorm
from problems import frozen_kernel
from tolerances import DIGITS, LINEAR_SOLVE, SEARCHED

# An experiment of Ax, which fits a model at each look, takes half a second to two.
pytestmark = AX_WARNINGS


# Two fits and searches in the units of the outcomes: a second.
def test_the_bound_sees_the_outcomes_as_reported_in_every_trial():
    def outcome(parameters):  # Ax would winsorise one of them
        return {"y": wave(parameters) + (2000.0 if parameters["v"] > 13.5 else 0.0)}

    options, arms, scales = {"norm_bound": 2e4, "noise_std": 1.0}, [*SPREAD], set()
    client = attached(make_client(options=options), arms, outcome)
    for _ in range(2):
        index, parameters = next_trial(client)
        acqf = built(client).bound
        Y = torch.tensor([[outcome(p)["y"]] for p in arms], dtype=torch.float64)
        scaled = {"input_transform": Normalize(d=2, bounds=CUBE)}
        scaled["outcome_transform"] = Standardize(m=1)
        model = SingleTaskGP(points(*arms), Y, **scaled)
        model.load_state_dict(acqf.model.state_dict())
        expected = MartingaleMixtureUCB(model, **options).bounds(QUERIES)
        assert_close(acqf.bounds(QUERIES), expected, rtol=1e-9, atol=1e-6)
        scales.add(float(acqf.model.outcome_transform.stdvs))
        client.complete_trial(trial_index=index, raw_data=outcome(parameters))
        arms.append(parameters)
    assert len(scales) == 2  # the model standardised anew each time, the bound did not


class TestNoise:
    @pytest.mark.representatives("MartingaleMixtureUCB-prior0")
    @pytest.mark.parametrize(
        ("acqf_class", "prior"),
        [
            (MartingaleMixtureUCB, {}),
            (MartingaleMixtureUCB, {"kernel": "rbf", "lengthscale": 0.5, "mean": 5e3}),
            (KernelFamilyUCB, REQUIRED[KernelFamilyUCB]),
        ],
    )
    def test_reported_standard_errors_where_none_is_given(self, acqf_class, prior):
        options = prior | {"norm_bound": 300.0, "noise_std": None}
        reporting, silent = (
            attached(make_client(acqf_class=acqf_class, options=options), SPREAD, outcome)
            for outcome in (lambda p: {"y": (wave(p), 2.5)}, waves)
        )
        band = kernelucb.ax.current_bound(reporting)
        assert "scale 2.5" in band.assumptions["noise"].statement
        assert band.assumptions.certified == bool(prior)
        assert "noise" in kernelucb.ax.current_bound(silent).assumptions.estimated

    @pytest.mark.filterwarnings("ignore:Very small noise values")
    @pytest.mark.parametrize("kernel", [{}, {"kernel": "rbf", "lengthscale": 0.5}])
    def test_a_given_one_counts_where_the_errors_are_zero(self, kernel):
        options = {"norm_bound": 9.0, "noise_std": 0.1} | kernel
        client = make_client(UNIT, options=options)
        attached(client, along(0.1, 0.6), lambda p: {"y": (p["x"], 0.0)})
        noise = kernelucb.ax.current_bound(client).data.noise_std
        assert noise.tolist() == pytest.approx([0.1, 0.1], rel=1e-12)


@pytest.mark.representatives("1")
@pytest.mark.parametrize("tracked", [1, 3])
def test_a_tracked_outcome_is_left_out(tracked):
    # Tracked in some trials, Ax models a list; tracked in all of them, a batch.
    for client in (make_client(UNIT), fixed_client()):
        client.configure_tracking_metrics(["cost"])
        attached(client, SOME[:tracked], lambda p: curve(p) | {"cost": 7.0 + p["x"]})
        attached(client, SOME[tracked:], curve)
        regression = kernelucb.ax.current_bound(client).data
        assert regression.num_observations == 3
        assert regression.train_targets.max() < 7.0


def without_a_number(client, index):
    client.complete_trial(index, {"y": math.nan})


def stopped(client, index):
    client.attach_data(index, {"y": math.nan})
    client.mark_trial_early_stopped(index)


LOST = (Client.mark_trial_failed, Client.mark_trial_abandoned, Client.complete_trial)
LOST += (without_a_number, stopped)


class TestTrialsUnderWay:
    # A trial for each way to lose one: 0.6 seconds.
    @pytest.mark.representatives("space1")
    @pytest.mark.parametrize("space", [UNIT, [whole("x", 0, 9)]])
    def test_an_arm_without_an_outcome_is_pending_and_not_chosen_again(self, space):
        kind, lost = type(space[0].bounds[0]), []
        client = fixed_client(space, num_initial=2)
        attached(client, along(kind(0), kind(1)), lambda p: {"y": 0.1 * p["x"]})
        for end in LOST:
            index, parameters = next_trial(client)
            if lost:
                assert rows(built(client).X_pending) == rows(points(*lost, names="x"))
            end(client, index)
            lost.append(parameters)
        assert len({p["x"] for p in lost}) == len(LOST)

    # Five trials, searched one after the other: 0.8 seconds.
    @pytest.mark.representatives("make_client")
    @pytest.mark.parametrize("make", [make_client, searching])
    def test_the_bound_is_conditioned_on_them(self, make):
        client = attached(make(), SPREAD[:3], waves)
        pending = client.get_next_trials(max_trials=3)
        assert len(set(map(str, pending.values()))) == 3
        client.mark_trial_failed(min(pending))
        index, parameters = next_trial(client)
        acqf, bound = built(client).acqf, built(client).bound
        expected = points(*pending.values())
        for each in (acqf, bound):
            assert rows(each.X_pending) == rows(expected)
        assert (bound(expected.unsqueeze(1)) < bound.bounds(expected)[1] - 1.0).all()
        if make is searching:
            assert rows(acqf.acqf.X_baseline[-3:]) == rows(expected)
        client.complete_trial(trial_index=index, raw_data=waves(parameters))
        next_trial(client)
        assert kernelucb.ax.last_bound(client).data.num_observations == 4

    @pytest.mark.slow
    def test_which_trials_count_as_initial(self):
        early = make_client(num_initial=4, min_observed=1)
        trials = early.get_next_trials(max_trials=4)
        early.complete_trial(trial_index=0, raw_data=waves(trials[0]))
        by_hand = attached(make_client(num_initial=2), SPREAD[:2], waves)
        lost = make_client(num_initial=3)
        for index in lost.get_next_trials(max_trials=3):
            LOST[index % 2](lost, index)
        run(lost, 3)
        assert node(lost) == "Sobol"
        for client in (early, by_hand, lost):
            next_trial(client)
            assert node(client) == "MartingaleMixtureUCB"


class TestSpaces:
    @pytest.mark.slow
    def test_a_finite_one_is_used_up(self):
        client = fixed_client([whole("x", 0, 3)], num_initial=1)
        run(client, 4, lambda p: {"y": 0.1 * p["x"]})
        arms = [trial.arm.parameters["x"] for trial in client._experiment.trials.values()]
        assert sorted(arms) == [0, 1, 2, 3]
        with pytest.raises(SearchSpaceExhausted):
            next_trial(client)
        certificate = stopping(client).decide().certificate
        assert (certificate.certified, certificate.resolution) == (True, 0.0)

    @pytest.mark.slow
    def test_objective_and_domain_that_change_later_count_from_then_on(self):
        client = attached(fixed_client(), SOME, lambda p: {"y": 0.3 * p["x"]})
        next_trial(client)
        assert kernelucb.ax.last_bound(client).direction == 1
        before = stopping(client).decide().certificate.gap
        client._experiment.search_space.parameters["x"].update_range(upper=2.0)
        client.configure_optimization(objective="-y")
        next_trial(client)
        band = kernelucb.ax.last_bound(client)
        assert band.direction == -1
        assert band.data.train_inputs.flatten().tolist() == [0.1, 0.4, 0.8]
        client.configure_optimization(objective="y")
        assert stopping(client).decide().certificate.gap > before


@pytest.mark.filterwarnings("default:A norm bound is given, but no kernel")
def test_a_norm_bound_for_a_fitted_kernel_warns():
    with pytest.warns(UserInputWarning, match="no theorem covers .* KernelFamilyUCB"):
        kernelucb.ax.generation_strategy(MartingaleMixtureUCB, {"norm_bound": 3.0})


@pytest.mark.slow
def test_without_arguments_three_functions_play_in_turns(
    monkeypatch,
):
    build, played = BoundAcquisition._build_bands, []

    def noted(self, *arguments):
        build(self, *arguments)
        played.append(self.bound.turn)

    monkeypatch.setattr(BoundAcquisition, "_build_bands", noted)
    client = Client(random_seed=0)
    client.configure_experiment(UNIT)
    client.configure_optimization(objective="y")
    client.set_generation_strategy(kernelucb.ax.generation_strategy())
    for _ in range(9):
        index, parameters = next_trial(client)
        client.complete_trial(index, {"y": -((parameters["x"] - 0.4) ** 2)})
    assert played == [turn_at(SEARCH_TURNS, count) for count in range(5, 9)]
    assert {*played} == {*SEARCH_TURNS}


ROUGH = {"kernel": "matern12", "lengthscale": 3.0, "noise_std": 1e-3}
ARMS = [(1000, 1000), (400, 200), (200, 700), (600, 900), (950, 1000), (1000, 950)]


def test_the_upper_bound_plays_where_the_arm_of_the_mean_was_tried(monkeypatch):
    r"""A rough kernel tells points apart that Ax rounds to the same integers."""
    plays, upper_bound_of = [], kernelucb.ax.acquisition.upper_bound_of

    def noted(acqf):
        plays.append(acqf.turn)
        return upper_bound_of(acqf)

    monkeypatch.setattr(kernelucb.ax.acquisition, "upper_bound_of", noted)
    client = make_client([whole("a", 0, 1000), whole("b", 0, 1000)], options=ROUGH)
    # After eight points the turn is that of the mean.
    arms = [{"a": a, "b": b} for a, b in [*ARMS, (500, 100), (100, 500)]]
    attached(client, arms, lambda p: {"y": 0.001 * (p["a"] + p["b"])})
    _, parameters = next_trial(client)
    assert plays == ["mean"]
    assert parameters not in arms


def test_an_arm_but_for_its_last_digits_is_not_tried_again(monkeypatch):
    beside = torch.full((1, 2), 1.0 - 2e-16, dtype=torch.float64)

    def optimize(self, n, *_, **__):
        return beside, torch.zeros(1), torch.ones(1)

    monkeypatch.setattr(BoundAcquisition, "optimize", optimize)
    client = make_client(SQUARE, options={})
    arms = [{"x": x, "t": t} for x, t in ((1.0, 1.0), (0.5, 0.2), (0.1, 0.9))]
    attached(client, arms, lambda p: {"y": p["x"] + p["t"]})
    _, parameters = next_trial(client)
    assert min(parameters.values()) < 1.0 - 1e-9


def test_without_ax_the_import_says_what_to_install(monkeypatch):
    for name in list(sys.modules):
        if name.split(".")[0] == "ax" or name.startswith("kernelucb.ax"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ax", None)
    with pytest.raises(ImportError, match=r"pip install 'kernelucb\[ax\]'"):
        __import__("kernelucb.ax")


class TestGivenPriors:
    @pytest.mark.representatives("False")
    @pytest.mark.parametrize("family", [False, True])
    def test_the_bound_is_that_of_the_prior_on_the_trials(self, family):
        prior = {"outputscale": 400.0, "mean": 4900.0, "kernel": "matern32"}
        given = {"norm_bound": 30.0, "noise_std": 2.0, "delta": 0.1}
        X, queries = ((each - CUBE[0]) / 15.0 for each in (points(*SPREAD), QUERIES))
        if family:
            acqf_class, names = KernelFamilyUCB, ["rbf", "matern32"]
            prior |= {"shortest": [0.2, 0.3], "longest": 0.9, "kernel": names}
            bases = [frozen_kernel(name, 1.0, 400.0) for name in names]
            arguments = given | {"kernels": lengthscale_family(bases, [0.2, 0.3], 0.9)}
        else:
            acqf_class, arguments, scales = MartingaleMixtureUCB, given, [0.3, 0.6]
            prior["lengthscale"] = scales
            X, queries = (each / torch.tensor(scales).double() for each in (X, queries))
        client = searching(acqf_class=acqf_class, options=prior | given)
        next_trial(attached(client, SPREAD, waves))
        acqf, model = built(client).bound, built(client).acqf.acqf.model
        # The search runs on the model that Ax has fitted to standardised outcomes.
        assert any(p.requires_grad for p in model.covar_module.parameters())
        assert float(model.outcome_transform.stdvs) > 1.0
        Y = torch.tensor([wave(p) for p in SPREAD], dtype=torch.float64) - 4900.0
        state = KernelRegression(X, Y, frozen_kernel("matern32", 1.0, 400.0), 2.0)
        expected = [
            4900.0 + side for side in acqf_class(state, **arguments).bounds(queries)
        ]
        close = {"rtol": LINEAR_SOLVE, "atol": 1e-6}
        assert_close([*acqf.bounds(QUERIES)], expected, **close)
        assert acqf.assumptions.certified


FEATURES = CosineFeatures(torch.tensor([[0.0, 3.0, 6.0]]), torch.tensor([0.0, 0.5, 1.0]))


def feature_model():
    X = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)
    weights = torch.randn(60, 3, dtype=torch.float64)
    return FeatureMetaModel(X, weights @ FEATURES.double()(X).detach().mT, FEATURES)


def arms_client(options):
    arms = [choice("x", range(8), is_ordered=True)]
    arguments = {"model_config": kernelucb.ax.meta_model_config(arms_model(8))}
    arguments |= {"acqf_class": MetaUCB, "options": options, "optimizer_options": {}}
    return make_client(arms, **arguments)


def bump(parameters):
    return {"y": math.exp(-((parameters["x"] - 6.0) ** 2) / 4.0)}


def test_the_bound_of_earlier_tasks_is_that_of_their_model_on_the_trials():
    arms = along(1, 4, 6)
    client = reopened(attached(arms_client({"delta": 0.1}), arms, bump))
    Y = torch.tensor([[bump(arm)["y"]] for arm in arms], dtype=torch.float64)
    model = arms_model(8).condition_on_observations(points(*arms, names="x"), Y)
    X = torch.arange(8, dtype=torch.float64).unsqueeze(-1)
    expected = MetaUCB(model, delta=0.1).bounds(X)
    assert_close(kernelucb.ax.current_bound(client).bounds(X), expected)
    next_trial(client)
    assert type(built(client).bound) is MetaUCB


class TestConsent:
    @pytest.mark.parametrize(
        ("make", "estimates"),
        [
            (lambda: make_client(UNIT, options={}), "kernel, mean, norm"),
            (lambda: fixed_client(options={}), "norm"),
            (lambda: reopened(fixed_client(options={"norm_bound": None})), "norm"),
        ],
    )
    def test_estimates_are_refused_before_the_first_trial(self, make, estimates):
        client = make()
        with pytest.raises(UncertifiedError, match=rf"estimates \({estimates}\), so"):
            stopping(client)
        rule = stopping(client, 1e6, allow_estimated=True)
        assert rule.decide(attached(client, SOME, curve)._experiment).stop

    def test_what_only_the_trials_show_is_refused_then(self):
        noiseless = fixed_client(options={"norm_bound": NORM, "noise_std": None})
        theorem = {"theorem": BoundedNorm(NORM)}
        gain = fixed_client(acqf_class=SrinivasUCB, options=theorem)
        for client, arms, estimates in (
            (noiseless, SOME, "noise"),
            (gain, SOME, "information gain"),
            (arms_client({}), along(3), "inputs"),
        ):
            rule = stopping(client, 100.0)
            attached(client, arms, bump)
            with pytest.raises(UncertifiedError, match=rf"estimates \({estimates}\)"):
                rule.should_stop_optimization(client._experiment)


def test_a_norm_that_is_not_given_is_estimated_anew():
    given = {"noise_std": 1.0}
    theorem = {"theorem": BoundedNorm(None)}
    client = make_client(UNIT, acqf_class=SrinivasUCB, options=theorem | given)
    attached(client, along(0.1, 0.3, 0.6, 0.9), curve)
    for each in (client, reopened(client)):
        next_trial(each)
        acqf, anew = built(each).bound, BoundedNorm(NormTracker())
        assert acqf.assumptions["norm"].status == "estimated"
        expected = SrinivasUCB(acqf.model, theorem=anew, **given).bounds(GRID)
        assert_close(acqf.bounds(GRID), expected, rtol=LINEAR_SOLVE, atol=LINEAR_SOLVE)


class TestSaved:
    def test_the_file_is_ax_s_or_the_old_one(self, tmp_path, monkeypatch):
        path, theirs = tmp_path / "bench.json", tmp_path / "theirs.json"
        client = attached(fixed_client(), SOME, curve)
        kernelucb.ax.save(client, path)
        client.save_to_json_file(str(theirs))
        assert path.read_text() == theirs.read_text()
        attached(client, SOME, curve)

        def stop(*_):
            raise KeyboardInterrupt

        for name in ("fsync", "replace"):
            with monkeypatch.context() as patched:
                patched.setattr(os, name, stop)
                with pytest.raises(KeyboardInterrupt):
                    kernelucb.ax.save(client, path)
            assert path.read_text() == theirs.read_text()
        kernelucb.ax.save(client, str(path))
        assert len(Client.load_from_json_file(str(path))._experiment.trials) == 6
        assert sorted(os.listdir(tmp_path)) == ["bench.json", "theirs.json"]

    @pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-9])
    def test_outcomes_in_any_unit(self, unit):
        # By itself, Ax writes ten decimals: of outcomes in nanometres, one digit or none.
        client = fixed_client(unit=unit)
        for x in (0.1, 0.33, 0.7):
            error = None if x == 0.33 else 0.1 * unit
            outcome = {"y": (curve({"x": x}, unit=unit)["y"], error)}
            client.complete_trial(client.attach_trial({"x": x}), outcome)
        mine, theirs = (each._experiment.data.df for each in (reopened(client), client))
        assert_frame_equal(mine, theirs, rtol=DIGITS, atol=0.0)


PRIOR = {"kernel": "rbf", "lengthscale": torch.tensor([0.1, 0.2]), "outputscale": 3.0}
PRIOR |= {"norm_bound": 1.0, "noise_std": torch.tensor(0.5)}
TENSORS = {"search_options": {"beta": torch.tensor(3.0), "temperature": 0.5}}
STORED = [
    *((each, REQUIRED[each], {}) for each in [*REQUIRED][3:]),
    (LikelihoodUCB, BINOMIAL, {}),
    (MetaUCB, {"delta": 0.01}, {}),
    (MartingaleMixtureUCB, PRIOR, {}),
    (MartingaleMixtureUCB, OPTIONS, {"search": qUpperConfidenceBound} | TENSORS),
]


@pytest.mark.parametrize(("acqf_class", "options", "arguments"), STORED)
def test_strategies_are_stored_with_their_options(acqf_class, options, arguments):
    if acqf_class is MetaUCB:
        arguments = {"model_config": kernelucb.ax.meta_model_config(feature_model())}
    given = {"num_initial": 4, "min_observed": 2} | arguments
    client = make_client(UNIT, acqf_class=acqf_class, options=options, **given)
    copy = reopened(client)
    written = [each._to_json_snapshot()["generation_strategy"] for each in (client, copy)]
    assert written[0]["nodes"] == written[1]["nodes"]
    (spec,) = copy._generation_strategy._nodes[1].generator_specs
    assert spec.generator_kwargs["botorch_acqf_options"].keys() == options.keys()


REOPEN = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
import kernelucb
assert "ax" not in sys.modules, "kernelucb imports Ax"
from ax.api.client import Client
for path in sys.argv[1:]:
    try:
        Client.load_from_json_file(path)
    except Exception as error:
        assert "(import kernelucb.ax first)" in str(error)
    else:
        raise AssertionError("a class of this package was known")
import kernelucb.ax
for path in sys.argv[1:]:
    client = Client.load_from_json_file(path)
    torch.manual_seed(3)
    (index,) = client.get_next_trials(max_trials=1)
    (generated,) = client._experiment.trials[index].generator_runs
    print(json.dumps((generated.gen_metadata or {}).get("expected_acquisition_value")))
"""


@pytest.mark.slow
def test_a_saved_experiment_goes_on_in_another_process(tmp_path):
    family = {"acqf_class": KernelFamilyUCB, "options": REQUIRED[KernelFamilyUCB]}
    paths, values = [], []
    # Without a trial of the bound, Ax meets a node first.
    for number, arguments in ((1, {}), (3, family), (3, {"search": SEARCH})):
        paths.append(str(tmp_path / f"{len(paths)}.json"))
        client = run(make_client(**arguments), number)
        kernelucb.ax.save(client, paths[-1])
        torch.manual_seed(3)
        values.append(chosen(client, next_trial(client)[0]))
    command = [sys.executable, "-c", REOPEN, *paths]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = process.stdout.splitlines()[-2:]
    for line, value in zip(lines, values[1:], strict=True):
        assert json.loads(line) == pytest.approx(value, rel=SEARCHED, abs=SEARCHED)


class TestReopened:
    r"""A reopened experiment chooses what it would have chosen."""

    @pytest.mark.slow
    def test_a_fixed_prior_without_a_seed(self):
        # The maximiser is often an end that was observed already: Ax then falls back on a
        # random point.
        client = run(fixed_client(seed=None, num_initial=2), 2, curve)
        for _ in range(2):
            index, parameters = go_on_alike(client, reopened(client))
            client.complete_trial(trial_index=index, raw_data=curve(parameters))

    # Ax reopens an experiment and goes on: two seconds.
    @pytest.mark.representatives("<lambda>-waves")
    @pytest.mark.parametrize(
        ("make", "outcome"),
        [
            (lambda: searching(search_options={"ucb_every": 3}), waves),
            (count_client, successes),
        ],
    )
    def test_with_trials_under_way(self, make, outcome):
        client = run(make(), 3, outcome)
        with pytest.raises(ValueError, match="Ask for the next trial first"):
            kernelucb.ax.last_bound(reopened(client))
        lost, running = pending = client.get_next_trials(max_trials=2)
        client.mark_trial_abandoned(lost)
        twin = reopened(client)
        go_on_alike(client, twin)
        names = list(pending[running])
        for each in (client, twin):
            expected = points(*pending.values(), names=names)
            assert rows(built(each).bound.X_pending) == rows(expected)
