r"""What an import brings, and that no module needs another to be imported before it."""

import json
import subprocess
import sys

import pytest

from test_layers import FILES, ROOT

# Of the package, without its root; a package comes before its modules.
MODULES = sorted(
    ".".join(("kernelucb", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    )
    for path in FILES
    if path != ROOT / "__init__.py"
)
TOP = {"ax", "matplotlib", "ray", "kernelucb.ax"}
TOP |= {"kernelucb._demo", "kernelucb.__main__", "rich"}
CONIC = {"cvxpy", "cvxpylayers"}

FIRST = """
import gc, sys
from importlib import import_module

gc.disable()

for module in sys.argv[1:]:
    for name in [name for name in sys.modules if name.split(".")[0] == "kernelucb"]:
        del sys.modules[name]
    import_module(module)
print("[]")
"""
STAGES = """
import gc, json, sys
gc.disable()  # nothing that is imported is garbage
stages = []
for statement in sys.argv[1:]:
    exec(statement)
    stages.append(sorted(sys.modules))
print(json.dumps(stages))
"""
# Imported anew for each room, our modules are compiled once.
COMPILED = """
import sys
sys.dont_write_bytecode, sys.pycache_prefix = False, {folder!r}
sys.argv[1:] = {rooms}
"""
MODEL = """
import torch
from botorch.models import SingleTaskGP
X = torch.linspace(0, 1, 4, dtype=torch.float64).unsqueeze(-1)
given = {"norm_bound": 5.0, "noise_std": 0.1}
model = SingleTaskGP(X, X.sin())
"""
BOUND = "MartingaleMixtureUCB(model, form={form!r}, **given).bounds(X)"


def fresh(script, *arguments):
    r"""What a script prints in a process of its own."""
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


# By modules a process of its own, which imports torch and BoTorch: five seconds.
@pytest.mark.parametrize(
    "deep", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["rooms", "modules"]
)
def test_every_module_can_be_imported_first(deep, request):
    if deep:
        fresh(FIRST, *MODULES)  # an error ends the process
    else:
        assert len(request.getfixturevalue("stages")) == 5


# A process of its own, which imports all: three seconds.
@pytest.fixture(scope="module")
def stages(tmp_path_factory):
    r"""What one process has imported after each step, of which the last are all rooms."""
    forms = [BOUND.format(form=form) for form in ("dual", "convex")]
    rooms = sorted({name for name in MODULES if name.count(".") == 1} - TOP)
    steps = ["import kernelucb", "from kernelucb import *", MODEL + forms[0], forms[1]]
    compiled = str(tmp_path_factory.mktemp("compiled"))
    steps.append(
        COMPILED.format(folder=compiled, rooms=rooms) + FIRST.replace("print", "str")
    )
    return fresh(STAGES, *steps)


def test_an_import_brings_no_more_than_is_asked_for(stages):
    root, names, dual, convex, _ = map(set, stages)
    # The root brings not even torch: a name comes when it is asked for.
    assert not {"torch", "botorch", "scipy", "kernelucb._public"} & root
    assert not (names | dual) & (TOP | CONIC)
    assert convex >= CONIC
    (command,) = fresh(STAGES, "import kernelucb.__main__")
    assert not {"torch", "botorch", "scipy"} & {*command}
