r"""The demo with a function of one's own, at its edges, and as a process one stops."""

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kernelucb
from kernelucb.__main__ import main

OWN = """
import math
calls = []
def loss(x):
    calls.append(x)
    return (x[0] - 3.0) ** 2 / 10 + abs(x[1]) / 100
def words(x):
    return "many"
def late(x):
    calls.append(x)
    return 1.0 if len(calls) < 10 else math.nan
def broken(x):
    raise RuntimeError("the pump is off")
number = 3
"""
BOX = "--bounds=0:10,-50:50"
KNOWN = (BOX, "--noise-std", "0.05", "--norm-bound", "30")


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "own_black_box.py").write_text(OWN)
    (tmp_path / "own_failing.py").write_text("1 / 0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    sys.modules.pop("own_black_box", None)
    return "own_black_box"


def words(text):
    return " ".join(text.split())


def play(name, *arguments, known=KNOWN):
    own = ["--function", f"own_black_box:{name}", *known]
    return main([*own, "--rounds", "2", "--no-picture", *arguments])


def test_own_function_is_called_with_lists_and_nothing_is_said_of_its_truth(capsys):
    assert play("loss") == 0
    calls = sys.modules["own_black_box"].calls
    assert len(calls) == 8 + 2
    assert all(type(x) is list and len(x) == 2 for x in calls)
    assert all(0 <= x[0] <= 10 and -50 <= x[1] <= 50 for x in calls)
    output = words(capsys.readouterr().out)
    assert output.startswith("certified, if what was given is true: kernel, mean, noise")
    assert (
        "over [0, 10] x [-50, 50]; the noise is said to be sub-Gaussian, scale 0.05"
        in output
    )
    assert "simulation" not in output
    assert (
        "with probability 0.95, if what was given is true; the" in output.split("x = ")[-1]
    )
    assert "the range of the outcomes" in output


def test_an_estimated_norm_is_said(capsys):
    assert play("loss", known=(BOX, "--noise-std", "0.05", "--estimate")) == 0
    output = words(capsys.readouterr().out)
    assert output.startswith("heuristic: norm estimated")
    assert "(not certified; heuristic: norm estimated)." in output


def test_kernel_and_mean_can_be_given(capsys):
    assert play("loss", "--length-scale", "0.25", "--mean", "2") == 0
    output = words(capsys.readouterr().out)
    assert "length scale 0.25 of each side" in output
    assert "the mean 2 (--mean)" in output


def test_picture_of_an_own_function(tmp_path):
    arguments = ["--function", "own_black_box:loss", *KNOWN, "--rounds", "1"]
    assert main([*arguments, "--output", "own.png"]) == 0
    assert (tmp_path / "own.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_black_box:gain", "'own_black_box' has no function 'gain'"),
        ("own_black_box:number", "'own_black_box' has no function 'number'"),
        ("own_absent:loss", "cannot import 'own_absent': ModuleNotFoundError"),
        ("own_failing:loss", "cannot import 'own_failing': ZeroDivisionError"),
    ],
)
def test_a_function_that_is_not_there_is_one_line(name, message, capsys):
    assert main(["--function", name, *KNOWN]) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert (captured.err.count("\n"), captured.out) == (1, "")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("words", "own_black_box:words at x = [4.751, 9.252] returned a str, no number"),
        ("broken", "raised RuntimeError: the pump is off"),
    ],
)
def test_a_black_box_that_fails_at_once_ends_the_run(name, message, capsys):
    assert play(name) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_a_black_box_that_fails_later_leaves_what_was_played(capsys):
    assert play("late") == 1
    captured = capsys.readouterr()
    assert "stopped after 1 of 2 rounds: own_black_box:late at x = [" in captured.err
    assert "returned nan, no finite number" in captured.err
    assert "Recommended after 1 rounds" in captured.out


def test_a_disk_that_fills_up_costs_the_picture_only(monkeypatch, capsys):
    def full(run, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kernelucb._demo.picture.write_picture", full)
    arguments = ["--function", "own_black_box:loss", *KNOWN, "--rounds", "1"]
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert "no picture: [Errno 28] No space left" in captured.err
    assert "Recommended after 1 rounds" in captured.out


INTERRUPTED_IMPORT = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
except BaseException as error:  # what a library may do with a KeyboardInterrupt
    raise ImportError("something else") from error
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_interrupt_during_the_imports_is_one_line(tmp_path):
    (tmp_path / "torch.py").write_text(INTERRUPTED_IMPORT)
    source = str(Path(kernelucb.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "kernelucb"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{source}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "\nkernelucb: interrupted\n"


TWICE = """
import os, signal, sys
import kernelucb.__main__ as demo
def interrupted_twice(argv=None):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        print("tidying up", flush=True)
        os.kill(os.getpid(), signal.SIGINT)
        print("never reached", flush=True)
stub = type(sys)("kernelucb._demo.command")
sys.modules["kernelucb._demo.command"] = sys.modules["kernelucb._demo"].command = stub
stub.run_demo = interrupted_twice
sys.exit(demo.command())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_second_interrupt_ends_what_the_first_one_began():
    done = subprocess.run(
        [sys.executable, "-c", TWICE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (130, "tidying up\n")
    assert done.stderr == "\nkernelucb: interrupted\n"


def test_in_process_the_handler_of_interrupts_stays():
    before = signal.getsignal(signal.SIGINT)
    assert play("loss", "--rounds", "1") == 0
    assert signal.getsignal(signal.SIGINT) is before
    assert math.isfinite(sys.modules["own_black_box"].loss([0.0, 0.0]))
