r"""The table of a command's options is that of the function that it calls."""

import subprocess
import sys
from argparse import ArgumentTypeError
from inspect import Parameter, signature

import pytest

from kernelucb import SequentialComparison, confirm, report
from kernelucb import __main__ as commands
from kernelucb._demo import run_demo
from kernelucb.pairs import read_outcomes

OWN = {"output", "text"}  # of the command itself
CALLED = [
    (commands.REPORT, (report,), OWN),
    (
        commands.CONFIRM,
        (read_outcomes, confirm, SequentialComparison),
        {"outcomes", "table", "follow", "against", "candidates"},
    ),
    (commands.DEMO, (run_demo,), set()),
]


@pytest.mark.parametrize(
    ("table", "functions", "apart"), CALLED, ids=["report", "confirm", "demo"]
)
def test_options_are_the_arguments_with_their_defaults(table, functions, apart):
    wanted = {}
    for each in functions:
        wanted |= {n: p.default for n, p in signature(each).parameters.items()}
    got = {}
    for option in table:
        default = False if option.value is commands.SWITCH else option.default
        default = Parameter.empty if default is commands.REQUIRED else default
        got[option.flag.removeprefix("--").replace("-", "_")] = default
    assert len(got) == len(table)
    assert got.keys() - apart == wanted.keys() - apart
    if functions != (run_demo,):  # whose defaults are the command's
        assert all(got[name] == wanted[name] for name in got.keys() - apart)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--outcome", "z"], "not one column 'z'"),
        (["--outcome", "y"], "'y' has 'x' in row 3"),
        (["--outcome", "a", "--ignore", "y", "--bounds", "q=1:2"], "--bounds names 'q'"),
    ],
)
def test_a_table_is_refused_before_torch_is_imported(options, said, tmp_path):
    table = tmp_path / "runs.csv"
    table.write_text("a,b,y\n1.5,2,3\n2,3.5,x\n")
    code = (
        "import sys; from kernelucb.__main__ import main; status = main(sys.argv[1:]);"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules;"
        "sys.exit(status)"
    )
    command = [sys.executable, "-c", code, "report", str(table), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr


VALUES = [
    option.value
    for command in commands.COMMANDS
    for option in command.options
    if option.value is not commands.SWITCH
]


@pytest.mark.parametrize("value", {each.example: each for each in VALUES}.values())
def test_a_refused_text_is_told_its_own_example(value):
    assert value(value.example) is not None
    if value.read not in (str, commands.Path, commands.names):
        with pytest.raises(ArgumentTypeError, match="write it as"):
            value("a b:c")


def test_a_reader_may_close_its_pipe(tmp_path):
    table = tmp_path / "pairs.csv"
    table.write_text("old,new\n1.5,2.3\n1.9,2.1\n")
    command = [sys.executable, "-m", "kernelucb", "confirm", str(table)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", 1)  # not decided
