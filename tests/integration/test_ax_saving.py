r"""Ax experiments that are saved, killed, reopened, and go on as they would have."""

import json
import os
import subprocess
import sys

import pytest
import torch
from ax.api.client import Client
from ax.core.trial_status import TrialStatus
from ax_bench import (
    AX_WARNINGS,
    BINOMIAL,
    OPTIONS,
    REQUIRED,
    SEARCH,
    UNIT,
    along,
    arms_model,
    attached,
    chosen,
    count_client,
    curve,
    fixed_client,
    go_on_alike,
    make_client,
    next_trial,
    points,
    ranking,
    reopened,
    rows,
    run,
    searching_in_turns,
    stored,
    successes,
    waves,
)
from botorch.acquisition import qUpperConfidenceBound
from pandas.testing import assert_frame_equal

import kernelucb.ax
from kernelucb import KernelFamilyUCB, LikelihoodUCB, MartingaleMixtureUCB, MetaUCB
from tolerances import DIGITS, SEARCHED

pytestmark = AX_WARNINGS


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


def test_what_a_kill_has_left_is_overwritten(client, saved, path):
    partial = path.with_name("bench.json.partial")
    partial.write_text(saved * 2)  # longer than what comes
    kernelucb.ax.save(client, path)
    assert path.read_text() == saved
    assert not partial.exists()


def test_a_link_is_followed(client, saved, path):
    link = path.with_name("link.json")
    link.symlink_to(path)
    kernelucb.ax.save(client, link)
    assert link.is_symlink()
    assert path.read_text() == saved
    with pytest.raises(FileNotFoundError):
        kernelucb.ax.save(client, path.parent / "no" / "such.json")


PRIOR = {"kernel": "rbf", "lengthscale": torch.tensor([0.1, 0.2]), "outputscale": 3.0}
PRIOR |= {"norm_bound": 1.0, "noise_std": torch.tensor(0.5)}
TENSORS = {"search_options": {"beta": torch.tensor(3.0), "temperature": 0.5}}
ALL = [
    *((each, REQUIRED[each], {}) for each in [*REQUIRED][3:]),
    (LikelihoodUCB, BINOMIAL, {}),
    (MetaUCB, {"delta": 0.01}, {}),
    (MartingaleMixtureUCB, PRIOR, {}),
    (MartingaleMixtureUCB, OPTIONS, {"search": qUpperConfidenceBound} | TENSORS),
]


@pytest.mark.parametrize(("acqf_class", "options", "arguments"), ALL)
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
