r"""Imports go one way; the statements themselves are read.

``_numerics -> data -> confidence -> {acquisition, bandit, certificates} ->
{optim, safety} -> ax``. ``papers``, the bounds of other authors, stand on ``acquisition``
and ``bandit``; only ``ax`` and ``models``, the door to their BoTorch models, read them.
``diagnostics`` stands beside ``certificates`` on ``confidence``; ``pairs`` on
``_numerics`` and ``tables`` alone, without torch.
``_public`` collects the public names, which the package root hands out; ``plotting``,
``page``, ``__main__`` and its ``_demo`` stand on top.
"""

import ast
import functools
from pathlib import Path

import kernelucb

ROOT = Path(kernelucb.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# What each layer may import of the package, itself and `exceptions` aside.
LOWER = {
    "exceptions": set(),
    "_numerics": set(),
    "tables": set(),
    "pairs": {"_numerics", "tables"},
    "rounds": {"pairs", "tables"},
    "data": {"_numerics"},
    "confidence": {"_numerics", "data"},
    "bandit": {"_numerics", "data", "confidence"},
    "acquisition": {"_numerics", "data", "confidence"},
    "certificates": {"_numerics", "data", "confidence", "pairs"},
    "diagnostics": {"_numerics", "data", "confidence"},
    "calibration": {
        *("_numerics", "data", "confidence", "acquisition", "certificates"),
    },
    "papers": {"_numerics", "data", "confidence", "acquisition", "bandit"},
    "models": {"papers"},
    "optim": {"_numerics", "data", "confidence", "acquisition"},
    "safety": {"_numerics", "data", "confidence", "acquisition", "certificates"},
    "ax": {
        *("_numerics", "data", "confidence", "acquisition", "certificates"),
        *("papers", "safety", "calibration", "diagnostics"),
    },
}
# Applications and the collection of public names; no layer imports them.
TOP = {"__init__", "__main__", "_demo", "_public", "page", "plotting", "testing"}
MODEL_INTERNALS = {
    *("_original_train_inputs", "covar_module", "input_transform", "likelihood"),
    *("mean_module", "outcome_transform", "transform_inputs"),
}


def layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


@functools.cache
def imported_modules(path: Path) -> set[str]:
    modules = set()
    for node in nodes(path):
        if isinstance(node, ast.Import | ast.ImportFrom):
            # `from kernelucb import x` may name a module as well
            above = [node.module] if isinstance(node, ast.ImportFrom) else []
            assert not getattr(node, "level", 0), f"{path}: a relative import"
            modules.update(above, (".".join([*above, each.name]) for each in node.names))
    return modules


def imported_layers(path: Path) -> set[str]:
    public = {"kernelucb"} if layer(path) not in TOP | {"ax"} else set()
    assert not public & imported_modules(path), f"{path} imports the package root"
    split = [module.split(".") for module in imported_modules(path)]
    return {parts[1] for parts in split if parts[0] == "kernelucb" and len(parts) > 1}


def importers(module: str) -> set[str]:
    r"""Files that import a package, relative to ours."""
    return {
        str(path.relative_to(ROOT))
        for path in FILES
        if any(name.split(".")[0] == module for name in imported_modules(path))
    }


# The first to parse every file of the package: a second.
def test_imports_go_one_way():
    assert {layer(path) for path in FILES} <= LOWER.keys() | TOP
    for path in FILES:
        if layer(path) not in TOP:
            allowed = LOWER[layer(path)] | {layer(path), "exceptions"}
            # Ax may use the public names of the root.
            allowed |= {*kernelucb.__all__} if layer(path) == "ax" else set()
            assert imported_layers(path) <= allowed, path


def test_nothing_imports_what_stands_on_top():
    for path in FILES:
        if layer(path) not in {"__main__", "_demo", "_public", "page"}:
            above = {"plotting", "ax", "_demo", "page"} - {layer(path)}
            assert not imported_layers(path) & above


def test_the_core_imports_no_paper():
    readers = {layer(path) for path in FILES if "papers" in imported_layers(path)}
    assert readers - TOP == {"papers", "models", "ax"}
    # A door for users; the package itself reads the papers.
    assert not any("models" in imported_layers(p) for p in FILES if layer(p) != "models")


def test_extras_stay_behind_their_doors():
    assert importers("cvxpylayers") == importers("cvxpy") == {"_numerics/conic.py"}
    assert importers("ray") == {"optim/sharded.py"}
    assert {Path(name).parts[0] for name in importers("ax")} == {"ax"}
    assert importers("matplotlib") == {"plotting.py"}
    assert importers("jinja2") == {"page/study.py"}
    for tool in ("optuna", "bofire", "baybe"):
        assert importers(tool) == set()


def test_only_data_reads_the_internals_of_models():
    readers = set()
    for path in FILES:
        attributes = {node.attr for node in nodes(path) if isinstance(node, ast.Attribute)}
        if attributes & MODEL_INTERNALS:
            readers.add(layer(path))
    assert {"data"} <= readers - TOP <= {"data", "papers", "ax"}
