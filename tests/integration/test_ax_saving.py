r"""A save of an Ax experiment that is stopped loses nothing."""

import json
import os
from pathlib import Path

import pytest
import torch
from ax.api.client import Client
from ax_bench import (
    AX_WARNINGS,
    REQUIRED,
    begun,
    curve,
    fixed_client,
    go_on_alike,
    make_client,
    next_trial,
    node,
    reopened,
    run,
    wave,
    waves,
)
from pandas.testing import assert_frame_equal

import kernelucb.ax
from kernelucb.ax import storage
from tolerances import DIGITS

pytestmark = [pytest.mark.slow, *AX_WARNINGS]


@pytest.fixture(scope="module")
def client():
    return begun(2)


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


class Stopped(BaseException):
    r"""Like a KeyboardInterrupt: no ``except Exception`` catches it."""


def stop(*_, **__):
    raise Stopped


STAGES = {
    "encoding": (Client, "_to_json_snapshot"),
    "text": (json, "dumps"),
    "opening": (Path, "open"),
    "syncing": (os, "fsync"),
    "renaming": (os, "replace"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupt_at_any_stage(client, saved, path, stage, monkeypatch):
    monkeypatch.setattr(*STAGES[stage], stop)
    with pytest.raises(Stopped):
        kernelucb.ax.save(client, path)
    monkeypatch.undo()
    assert path.read_text() == saved
    assert os.listdir(path.parent) == ["bench.json"]


def die(*_):
    os._exit(9)


class HalfAndDie:
    r"""A file whose writer is killed half way."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def write(self, text):
        with open(self.path, "w") as file:
            file.write(text[: len(text) // 2])
        die()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a forked process")
@pytest.mark.parametrize(
    "kill",
    [
        (Path, "open", lambda path, mode, *_: HalfAndDie(path)),
        (os, "fsync", die),
        (os, "replace", die),
    ],
)
def test_a_kill_and_what_it_leaves(client, saved, path, kill):
    child = os.fork()
    if child == 0:
        try:
            setattr(*kill)
            kernelucb.ax.save(client, path)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert path.read_text() == saved
    partial = path.with_name("bench.json.partial")
    assert partial.exists()
    partial.write_text(saved * 2)  # longer than what comes
    kernelucb.ax.save(client, path)
    assert path.read_text() == saved
    assert not partial.exists()


def test_a_client_that_cannot_be_stored(saved, path):
    class Own(storage.KernelUCBNode):
        pass

    other = fixed_client()
    strategy = other._generation_strategy
    strategy._nodes[0].__class__ = Own
    with pytest.raises(Exception, match="Own"):
        kernelucb.ax.save(other, path)
    assert path.read_text() == saved
    assert os.listdir(path.parent) == ["bench.json"]


def test_a_link_is_followed(client, saved, path):
    link = path.with_name("link.json")
    link.symlink_to(path)
    kernelucb.ax.save(client, link)
    assert link.is_symlink()
    assert path.read_text() == saved
    with pytest.raises(FileNotFoundError):
        kernelucb.ax.save(client, path.parent / "no" / "such.json")


class TestReopened:
    r"""A reopened experiment chooses what it would have chosen."""

    @pytest.mark.parametrize("seed", [0, None])
    def test_a_fixed_prior(self, seed):
        # The maximiser is often an end that was observed already: Ax then falls back on a
        # random point.
        client = run(fixed_client(seed=seed), 3, curve)
        for _ in range(2):
            ((index, parameters),) = go_on_alike(client, reopened(client)).items()
            client.complete_trial(trial_index=index, raw_data=curve(parameters))

    @pytest.mark.parametrize("acqf_class", REQUIRED)
    def test_every_bound(self, acqf_class):
        client = make_client(acqf_class=acqf_class, options=REQUIRED[acqf_class])
        for step in range(4):
            parameters = {"u": 3.3 * step - 4.0, "v": (7.0 * step) % 15.0}
            index = client.attach_trial(parameters=parameters)
            client.complete_trial(trial_index=index, raw_data={"y": wave(parameters)})
        twin = reopened(client)
        go_on_alike(client, twin)
        assert node(twin) == acqf_class.__name__

    def test_with_trials_under_way(self):
        client = begun(3, make_client, waves)
        lost, _ = client.get_next_trials(max_trials=2)
        client.mark_trial_abandoned(lost)
        go_on_alike(client, reopened(client), max_trials=2)

    @pytest.mark.parametrize("unit", [1.0, 1e-3, 1e-9])
    def test_the_outcomes_in_any_unit(self, unit):
        # By itself, Ax writes ten decimals: of outcomes in nanometres, one digit or none.
        client = fixed_client(unit=unit)
        for x in (0.1, 0.33, 0.7):
            index = client.attach_trial(parameters={"x": x})
            outcome = (curve({"x": x}, unit=unit)["y"], None if x == 0.33 else 0.1 * unit)
            client.complete_trial(trial_index=index, raw_data={"y": outcome})
        mine, theirs = (each._experiment.data.df for each in (reopened(client), client))
        assert_frame_equal(mine, theirs, rtol=DIGITS, atol=0.0)

    def test_the_global_generators_are_left_alone(self):
        client = begun(3)
        client._random_seed = None
        torch.manual_seed(5)
        next_trial(client)
        drawn = torch.rand(3)
        torch.manual_seed(5)
        assert torch.equal(drawn, torch.rand(3))
