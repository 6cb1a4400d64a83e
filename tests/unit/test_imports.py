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
ONLY_FOR_THE_DEMO = {"kernelucb._demo", "kernelucb.__main__", "rich"}
OPTIONAL = {"ax", "matplotlib", "ray", "kernelucb.ax", "kernelucb.plotting"}
CONIC = {"cvxpy", "cvxpylayers"}

STAGES = f"""
import json, sys, types
from importlib import import_module

stages = {{}}
def note(stage):
    stages[stage] = sorted(sys.modules)

import kernelucb
note("root")
from kernelucb import *
note("names")

import torch
from botorch.models import SingleTaskGP
X = torch.linspace(0, 1, 4, dtype=torch.float64).unsqueeze(-1)
model = SingleTaskGP(X, X.sin())
for form in ("dual", "convex"):
    MartingaleMixtureUCB(model, norm_bound=5.0, noise_std=0.1, form=form).bounds(X)
    note(form)

failures, brought = {{}}, {{}}
for module in sys.argv[1:]:
    package = module.rpartition(".")[0]
    # An import imports the package first; what that brings has been tried with it.
    if module in brought.get(package, ()):
        continue
    for name in [name for name in sys.modules if name.split(".")[0] == "kernelucb"]:
        del sys.modules[name]
    sys.modules["kernelucb"] = types.ModuleType("kernelucb")
    sys.modules["kernelucb"].__path__ = [{str(ROOT)!r}]
    try:
        import_module(module)
    except Exception as error:
        failures[module] = str(error)
    brought[module] = set(sys.modules)
print(json.dumps([stages, failures]))
"""


def fresh(modules):
    r"""Modules there after each stage, and messages of modules that fail when first."""
    command = [sys.executable, "-c", STAGES, *modules]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    stages, failures = json.loads(output)
    return {stage: set(names) for stage, names in stages.items()}, failures


@pytest.mark.slow
def test_every_module_can_be_imported_first():
    _, failures = fresh(MODULES)
    assert failures == {}


def test_an_import_brings_no_more_than_is_asked_for():
    r"""And every room but those of optional packages can be imported first."""
    rooms = {name for name in MODULES if name.count(".") == 1}
    stages, failures = fresh(sorted(rooms - OPTIONAL - ONLY_FOR_THE_DEMO))
    assert failures == {}
    # The root brings not even torch: a name comes when it is asked for.
    assert {name for name in stages["root"] if name.startswith("kernelucb")} == {
        "kernelucb"
    }
    assert not {"torch", "botorch", "scipy"} & stages["root"]
    for stage in ("names", "dual"):
        assert not stages[stage] & (ONLY_FOR_THE_DEMO | OPTIONAL | CONIC)
    assert stages["convex"] >= CONIC
