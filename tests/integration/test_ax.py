r"""Ax experiments: units, noise, priors, trials under way, consent, saving, reopening."""

import json
import math
import os
import subprocess
import sys

import pytest
import torch
from ax.api.client import Client
from ax.core.trial_status import TrialStatus
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
from kernelucb.acquisition import BoundedNorm
from kernelucb.exceptions import UncertifiedError
from kernelucb.models import CosineFeatures, FeatureMetaModel
from problems import frozen_kernel
from tolerances import DIGITS, LINEAR_SOLVE, SEARCHED

pytestmark = AX_WARNINGS


QUERIES = torch.tensor([[0.0, 5.0], [9.0, 2.0], [-4.0, 14.0]], dtype=torch.float64)
THEOREM = {"theorem": BoundedNorm(NORM)}


class TestUnits:
    def test_the_bound_sees_the_outcomes_as_reported_in_every_trial(self):
        options = {"norm_bound": 2e4, "noise_std": 1.0}
        client = make_client(num_initial=4, options=options)
        reported, scales = [], set()
        for trial in range(7):
            index, parameters = next_trial(client)
            if trial >= 4:
                acqf = ranking(client)
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
        (norm_bound,) = acqf.band.norm_bounds
        assert norm_bound == pytest.approx(options["norm_bound"], rel=1e-12)
        lower, upper = acqf.bounds(X)
        assert ((lower < Y.squeeze(-1)) & (Y.squeeze(-1) < upper)).all()


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
        noise = kernelucb.ax.current_bound(client).data.noise_std
        assert noise.tolist() == pytest.approx([0.1, 0.1], rel=1e-12)


@pytest.mark.parametrize("tracked", [1, 3])
def test_a_tracked_outcome_is_left_out(tracked):
    # Tracked in some trials, Ax models a list; tracked in all of them, a batch.
    for client in (make_client(UNIT), fixed_client()):
        client.configure_tracking_metrics(["cost"])
        arms = along(0.1, 0.5, 0.9)
        attached(client, arms[:tracked], lambda p: curve(p) | {"cost": 7.0 + p["x"]})
        attached(client, arms[tracked:], curve)
        regression = kernelucb.ax.current_bound(client).data
        assert regression.num_observations == 3
        assert regression.train_targets.max() < 7.0


def stopped(client, index):
    client.attach_data(index, NAN)
    client.mark_trial_early_stopped(index)


NAN = {"y": math.nan}
LOST = {
    "failed": Client.mark_trial_failed,
    "completed": Client.complete_trial,
    "not a number": lambda client, index: client.complete_trial(index, NAN),
    "stopped": stopped,
}


class TestTrialsUnderWay:
    @pytest.mark.parametrize("make", [make_client, searching])
    def test_failed_and_abandoned_ones_stay(self, make):
        client = attached(make(), SPREAD[:3], waves)
        pending = client.get_next_trials(max_trials=3)
        assert len(set(map(str, pending.values()))) == 3
        failed, abandoned, _ = pending
        client.mark_trial_failed(failed)
        client.mark_trial_abandoned(abandoned)
        index, parameters = next_trial(client)
        acqf, expected = built(client).acqf, points(*pending.values())
        bound = ranking(client)
        for each in (acqf, bound):
            assert rows(each.X_pending) == rows(expected)
        assert (bound(expected.unsqueeze(1)) < bound.bounds(expected)[1] - 1.0).all()
        if make is searching:
            assert rows(acqf.acqf.X_baseline[-3:]) == rows(expected)
        client.complete_trial(trial_index=index, raw_data={"y": wave(parameters)})
        next_trial(client)
        assert kernelucb.ax.last_bound(client).data.num_observations == 4

    @pytest.mark.parametrize("space", [UNIT, [whole("x", 0, 5)]])
    @pytest.mark.parametrize("end", LOST)
    def test_an_arm_without_an_outcome_is_not_chosen_again(self, space, end):
        def tried(end):
            client = fixed_client(space, num_initial=2)
            kind = type(space[0].bounds[0])
            attached(client, along(kind(0), kind(1)), lambda p: {"y": 0.1 * p["x"]})
            for _ in range(3):
                index, parameters = next_trial(client)
                end(client, index)
                yield parameters["x"]

        arms = [*tried(LOST[end])]
        assert len(set(arms)) == 3
        assert arms == [*tried(Client.mark_trial_abandoned)]

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


@pytest.mark.filterwarnings("default:A norm bound is given, but no kernel")
def test_a_norm_bound_for_a_fitted_kernel_warns():
    with pytest.warns(UserInputWarning, match="no theorem covers .* KernelFamilyUCB"):
        kernelucb.ax.generation_strategy(MartingaleMixtureUCB, {"norm_bound": 3.0})


def test_an_objective_that_is_configured_later_counts_from_then_on():
    client = run(fixed_client(num_initial=2), 3, curve)
    assert kernelucb.ax.last_bound(client).direction == 1
    client.configure_optimization(objective="-y")
    next_trial(client)
    assert kernelucb.ax.last_bound(client).direction == -1


def test_without_ax_the_import_says_what_to_install(monkeypatch):
    for name in list(sys.modules):
        if name.split(".")[0] == "ax" or name.startswith("kernelucb.ax"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ax", None)
    with pytest.raises(ImportError, match=r"pip install 'kernelucb\[ax\]'"):
        __import__("kernelucb.ax")


LOW = torch.tensor([-5.0, 0.0], dtype=torch.float64)


class TestGivenPriors:
    @pytest.mark.parametrize("family", [False, True])
    def test_the_bound_is_that_of_the_prior_on_the_trials_whatever_ax_fits(self, family):
        prior = {"outputscale": 400.0, "mean": 4900.0}
        given = {"norm_bound": 30.0, "noise_std": 2.0, "delta": 0.1}
        if family:
            own = {"shortest": [0.2, 0.3], "longest": 0.9, "kernel": ["rbf", "matern32"]}
        else:
            own = {"kernel": "matern32", "lengthscale": [0.3, 0.6]}
        acqf_class = KernelFamilyUCB if family else MartingaleMixtureUCB
        client = make_client(acqf_class=acqf_class, options=own | prior | given)
        acqf = kernelucb.ax.current_bound(attached(client, SPREAD, waves))
        Y = torch.tensor([wave(p) for p in SPREAD], dtype=torch.float64) - 4900.0
        X, queries = ((each - LOW) / 15.0 for each in (points(*SPREAD), QUERIES))
        if family:
            bases = [frozen_kernel(name, 1.0, 400.0) for name in own["kernel"]]
            given["kernels"] = lengthscale_family(bases, [0.2, 0.3], 0.9)
            next_trial(client)
            model = ranking(client).model
            # Ax has fitted its model, which standardises the outcomes.
            assert any(p.requires_grad for p in model.covar_module.parameters())
            assert float(model.outcome_transform.stdvs) > 1.0
        else:
            unit = torch.tensor([0.3, 0.6], dtype=torch.float64)
            X, queries = X / unit, queries / unit
        state = KernelRegression(X, Y, frozen_kernel("matern32", 1.0, 400.0), 2.0)
        expected = acqf_class(state, **given)
        for actual, wanted in zip(
            acqf.bounds(QUERIES), expected.bounds(queries), strict=True
        ):
            assert_close(actual, wanted + 4900.0, rtol=LINEAR_SOLVE, atol=1e-6)
        assert not family or acqf.consistent == expected.band.consistent
        assert acqf.assumptions.certified

    def test_a_search_is_on_the_model_that_ax_fits(self):
        client = attached(fixed_client(search=SEARCH), SOME, curve)
        next_trial(client)
        acqf = built(client).acqf
        assert type(acqf.acqf.model) is SingleTaskGP
        assert any(each.requires_grad for each in acqf.acqf.model.parameters())
        kernel = acqf.band.data.prior.covar_module
        assert not any(each.requires_grad for each in kernel.parameters())
        assert float(kernel.base_kernel.lengthscale) == pytest.approx(0.4)
        assert acqf.band.assumptions.certified


ARMS = torch.arange(8, dtype=torch.float64).unsqueeze(-1)
ARM = choice("arm", range(8), is_ordered=True)
FEATURES = CosineFeatures(torch.tensor([[0.0, 3.0, 6.0]]), torch.tensor([0.0, 0.5, 1.0]))


def feature_model():
    X = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)
    weights = torch.randn(60, 3, dtype=torch.float64)
    return FeatureMetaModel(X, weights @ FEATURES.double()(X).detach().mT, FEATURES)


def arms_client(acqf_class=MetaUCB, options=None, **arguments):
    own = {"model_config": kernelucb.ax.meta_model_config(arms_model(8)), "num_initial": 1}
    own |= {"optimizer_options": {}} | arguments
    return make_client([ARM], acqf_class=acqf_class, options=options or {}, **own)


def reward(parameters):
    return {"y": bump(parameters["arm"])}


def bump(arm):
    return float(torch.exp(-((torch.tensor(float(arm)) - 6.0) ** 2) / 4.0))


class TestEarlierTasks:
    def test_the_bound_is_that_of_the_model_on_the_trials(self):
        arms = along(1, 4, 6, name="arm")
        client = attached(arms_client(options={"delta": 0.1}), arms, reward)
        X = points(*arms, names=["arm"])
        Y = torch.tensor([[reward(arm)["y"]] for arm in arms], dtype=torch.float64)
        model = arms_model(8).condition_on_observations(X, Y)
        expected = MetaUCB(model, delta=0.1).bounds(ARMS)
        actual = kernelucb.ax.current_bound(client).bounds(ARMS)
        for left, right in zip(actual, expected, strict=True):
            assert_close(left, right)

    def test_a_continuous_prior_is_stored_and_goes_on(self):
        own = {"model_config": kernelucb.ax.meta_model_config(feature_model())}
        client = make_client(UNIT, acqf_class=MetaUCB, options={}, **own)
        twin = reopened(attached(client, SOME, lambda p: {"y": p["x"]}))
        X = torch.tensor([[0.2], [0.9]], dtype=torch.float64)
        bounds = [kernelucb.ax.current_bound(each).bounds(X) for each in (client, twin)]
        assert_close(*bounds)
        next_trial(twin)
        assert type(ranking(twin)) is MetaUCB


def fitted_client(**options):
    return make_client(UNIT, options={"norm_bound": 4.0, "noise_std": 0.1} | options)


class TestConsent:
    @pytest.mark.parametrize(
        ("make", "estimates"),
        [
            (lambda: fitted_client(norm_bound="cautious"), "kernel, mean, norm"),
            (lambda: fixed_client(options={}), "norm"),
            (lambda: reopened(fixed_client(options={"norm_bound": "cautious"})), "norm"),
        ],
    )
    def test_estimates_are_refused_before_the_first_trial(self, make, estimates):
        client = make()
        with pytest.raises(UncertifiedError, match=rf"estimates \({estimates}\), so"):
            stopping(client)
        rule = stopping(client, 1e6, allow_estimated=True)
        assert rule.decide(attached(client, SOME, curve)._experiment).stop

    @pytest.mark.filterwarnings("ignore::botorch.exceptions.BotorchWarning")
    @pytest.mark.parametrize(
        ("norm_bound", "stop", "words"),
        [
            (4.0, True, ": heuristic: kernel, mean estimated: at most"),
            (1e-3, False, "no guarantee: norm violated"),
        ],
    )
    def test_consent_is_not_for_what_the_data_contradict(self, norm_bound, stop, words):
        client = attached(fitted_client(norm_bound=norm_bound), SOME, curve)
        decision = stopping(client, 1e6, allow_estimated=True).decide()
        assert decision.stop is stop
        assert words in decision.reason
        assert not decision.certificate.certified

    def test_what_only_the_trials_show_is_refused_then(self):
        noiseless = fixed_client(options={"norm_bound": NORM, "noise_std": None})
        gain = fixed_client(acqf_class=SrinivasUCB, options=THEOREM)
        meta = arms_client(), along(3, name="arm"), reward
        for client, arms, outcome, estimates in (
            (noiseless, SOME, curve, "noise"),
            (gain, SOME, curve, "information gain"),
            (*meta, "inputs"),
        ):
            rule = stopping(client, 100.0)
            attached(client, arms, outcome)
            with pytest.raises(UncertifiedError, match=rf"estimates \({estimates}\)"):
                rule.should_stop_optimization(client._experiment)


def test_a_cautious_norm_is_estimated_anew():
    given = {"noise_std": 1.0}
    own = {"theorem": BoundedNorm("cautious")} | given
    client = make_client(UNIT, acqf_class=SrinivasUCB, options=own)
    attached(client, along(0.1, 0.3, 0.6, 0.9), curve)
    for each in (client, reopened(client)):
        next_trial(each)
        acqf = ranking(each)
        assert acqf.assumptions["norm"].status == "estimated"
        theorem = BoundedNorm(NormTracker.cautious())
        expected = SrinivasUCB(acqf.model, theorem=theorem, **given)
        for actual, wanted in zip(acqf.bounds(GRID), expected.bounds(GRID), strict=True):
            assert_close(actual, wanted, rtol=LINEAR_SOLVE, atol=LINEAR_SOLVE)


@pytest.fixture(scope="module")
def client():
    return attached(fixed_client(), along(0.1, 0.7), curve)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bench.json"


@pytest.fixture
def saved(client, path):
    kernelucb.ax.save(client, path)
    return path.read_text()


def test_what_is_saved_is_what_ax_reads(client, saved, path):
    client.save_to_json_file(str(path.with_name("theirs.json")))
    assert saved == path.with_name("theirs.json").read_text()
    assert len(Client.load_from_json_file(str(path))._experiment.trials) == 2
    kernelucb.ax.save(client, str(path))
    assert sorted(os.listdir(path.parent)) == ["bench.json", "theirs.json"]


@pytest.mark.parametrize(("owner", "name"), [(os, "fsync"), (os, "replace")])
def test_an_interrupt_leaves_the_old_file(owner, name, client, saved, path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(owner, name, stop)
    with pytest.raises(KeyboardInterrupt):
        kernelucb.ax.save(client, path)
    monkeypatch.undo()
    assert path.read_text() == saved
    assert os.listdir(path.parent) == ["bench.json"]


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
        arguments = {"model_config": kernelucb.ax.meta_model_config(arms_model())}
    given = {"num_initial": 4, "min_observed": 2} | arguments
    client = make_client(UNIT, acqf_class=acqf_class, options=options, **given)
    strategy, copy = (each._generation_strategy for each in (client, reopened(client)))
    own = stored(copy)
    assert own == stored(strategy)
    assert own["botorch_acqf_class"] is acqf_class
    assert own["botorch_acqf_options"].keys() == options.keys()
    for each in (strategy, copy):
        each._unset_non_persistent_state_fields()
    assert copy._nodes == strategy._nodes
    assert len(copy._nodes[0].transition_criteria) == 2


WITHOUT = """
import sys
from ax.api.client import Client
Client.load_from_json_file(sys.argv[1])
"""


@pytest.mark.parametrize("trials", [1, 2])
def test_the_error_in_a_new_process_says_what_to_import(trials, path):
    # Without a trial of the bound, Ax meets a node first.
    kernelucb.ax.save(run(fixed_client(num_initial=1), trials, curve), path)
    command = [sys.executable, "-W", "ignore", "-c", WITHOUT, str(path)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert "(import kernelucb.ax first)" in process.stderr
    next_trial(Client.load_from_json_file(str(path)))


REOPEN = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
import kernelucb
assert "ax" not in sys.modules, "kernelucb imports Ax"
import kernelucb.ax
from ax.api.client import Client
for path in sys.argv[1:]:
    client = Client.load_from_json_file(path)
    torch.manual_seed(3)
    (index,) = client.get_next_trials(max_trials=1)
    (generated,) = client._experiment.trials[index].generator_runs
    print(json.dumps([index, generated.gen_metadata["expected_acquisition_value"]]))
"""


@pytest.mark.slow
def test_a_saved_experiment_goes_on_in_another_process(tmp_path):
    paths, trials = [], []
    for acqf_class, search in ((KernelFamilyUCB, None), (MartingaleMixtureUCB, SEARCH)):
        paths.append(str(tmp_path / f"{acqf_class.__name__}.json"))
        options = REQUIRED[acqf_class]
        client = make_client(acqf_class=acqf_class, options=options, search=search)
        run(client, 3).save_to_json_file(paths[-1])
        torch.manual_seed(3)
        index, _ = next_trial(client)
        trials.append((index, chosen(client, index)))
    command = [sys.executable, "-c", REOPEN, *paths]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    for line, (index, value) in zip(process.stdout.splitlines()[-2:], trials, strict=True):
        expected = pytest.approx(value, rel=SEARCHED, abs=SEARCHED)
        assert json.loads(line) == [index, expected]


class TestReopened:
    r"""A reopened experiment chooses what it would have chosen."""

    def test_a_fixed_prior_without_a_seed(self):
        # The maximiser is often an end that was observed already: Ax then falls back on a
        # random point.
        client = run(fixed_client(seed=None, num_initial=2), 2, curve)
        for _ in range(2):
            ((index, parameters),) = go_on_alike(client, reopened(client)).items()
            client.complete_trial(trial_index=index, raw_data=curve(parameters))

    @pytest.mark.slow
    @pytest.mark.parametrize("make", [make_client, searching_in_turns, count_client])
    def test_with_trials_under_way(self, make):
        outcome = successes if make is count_client else waves
        client = run(make(), 3, outcome)
        with pytest.raises(ValueError, match="Ask for the next trial first"):
            kernelucb.ax.last_bound(reopened(client))
        lost, running = pending = client.get_next_trials(max_trials=2)
        client.mark_trial_abandoned(lost)
        twin = reopened(client)
        assert twin._experiment.trials[lost].status is TrialStatus.ABANDONED
        go_on_alike(client, twin)
        names = list(pending[running])
        for each in (client, twin):
            last = ranking(each)
            assert rows(last.X_pending) == rows(points(*pending.values(), names=names))

    @pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-9])
    def test_the_outcomes_in_any_unit(self, unit):
        # By itself, Ax writes ten decimals: of outcomes in nanometres, one digit or none.
        client = fixed_client(unit=unit)
        for x in (0.1, 0.33, 0.7):
            error = None if x == 0.33 else 0.1 * unit
            outcome = (curve({"x": x}, unit=unit)["y"], error)
            attached(client, along(x), lambda _, outcome=outcome: {"y": outcome})
        mine, theirs = (each._experiment.data.df for each in (reopened(client), client))
        assert_frame_equal(mine, theirs, rtol=DIGITS, atol=0.0)
