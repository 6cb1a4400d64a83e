r"""Size of the house: ``python -m benchmarks.house``, beside ``house_before.json``.

Everything is counted in the checkout that ``kernelucb`` is imported from.
"""

import argparse
import ast
import inspect
import io
import json
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from botorch.acquisition import AcquisitionFunction, UpperConfidenceBound
from botorch.models import SingleTaskGP

import kernelucb

BEFORE = Path(__file__).with_name("house_before.json")
PACKAGE = Path(kernelucb.__file__).parent
ROOT = PACKAGE.parents[1]
_REPEATED = 6  # lines of a passage
_LAYOUT = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
)  # fmt: skip


@cache
def tree(text: str) -> ast.Module:
    r"""The parsed text, once for all measures."""
    return ast.parse(text)


@cache
def code_lines(text: str) -> frozenset[int]:
    r"""Numbers of the lines with code: no blanks, comments or docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _LAYOUT:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return frozenset(lines)


def size(files: Iterable[Path]) -> dict[str, int]:
    r"""Files, lines, and lines of code and of comments alone."""
    found = Counter(files=0, lines=0, code=0, comments=0)
    for file in files:
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines()
        comments = sum(line.lstrip().startswith("#") for line in lines)
        own = {"files": 1, "lines": len(lines), "comments": comments}
        found.update(own | {"code": len(code_lines(text))})
    return dict(found)


def repeated(files: Iterable[Path]) -> int:
    r"""Lines of code in passages of six and more that stand elsewhere as well.

    Imports do not count: files that use the same names import the same names.
    """
    texts, seen = [], Counter[tuple[str, ...]]()
    for file in files:
        text = file.read_text(encoding="utf-8")
        lines = text.splitlines()
        imports = {
            number
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }
        code = sorted(code_lines(text) - imports)
        texts.append([lines[number - 1].strip() for number in code])
    windows = [
        [tuple(text[i : i + _REPEATED]) for i in range(len(text) - _REPEATED + 1)]
        for text in texts
    ]
    for each in windows:
        seen.update(each)
    return sum(
        len(
            {i + j for i, one in enumerate(each) if seen[one] > 1 for j in range(_REPEATED)}
        )
        for each in windows
    )


def imported_once(files: Iterable[Path]) -> dict[str, str]:
    r"""Files that a single other one imports, packages and public names aside: by which."""
    paths = {
        ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts): file
        for file in files
    }
    users: dict[str, set[str]] = {name: set() for name in paths}
    for name, path in paths.items():
        if path.name == "__init__.py" or path.stem in ("_public", "__main__"):
            continue
        for node in ast.walk(tree(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                for target in (whole | {node.module}) & users.keys():
                    users[target].add(name)
    return {name: next(iter(by)) for name, by in users.items() if len(by) == 1}


_TESTS = ("isinstance", "issubclass")
_LOOKUPS = ("getattr", "hasattr")
_MAGIC = ("globals", "locals", "_getframe", "__signature__")
_LONG = 60  # lines of a function's body


def _names(node: ast.AST) -> set[str]:
    r"""Names and attributes that stand in a piece of code."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def _body(node: ast.FunctionDef) -> int:
    r"""Lines of a function's body, without its docstring."""
    first = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (node.end_lineno or 0) - first[0].lineno + 1 if first else 0


def habits(files: Iterable[Path]) -> dict[str, int]:
    r"""Type tests, arguments of type Any, lookups by name, magic, long functions."""
    found = Counter[str]()
    for file in files:
        for node in ast.walk(tree(file.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            name = called.id if isinstance(called, ast.Name) else ""
            attribute = node.attr if isinstance(node, ast.Attribute) else ""
            hint = node.annotation if isinstance(node, ast.arg) else None
            found["type tests"] += name in _TESTS
            found["getattr and hasattr"] += name in _LOOKUPS
            found["magic"] += name in _MAGIC or attribute in _MAGIC
            found["arguments of type Any"] += hint is not None and "Any" in _names(hint)
            long = isinstance(node, ast.FunctionDef) and _body(node) > _LONG
            found["functions above 60 lines"] += long
    return dict(found)


def calls(run: Callable[[], Any], package: Path) -> dict[str, int]:
    r"""Files and functions of a package that a call enters, and how deep."""
    entered: set[tuple[str, int]] = set()
    depth = deepest = total = 0

    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal depth, deepest, total
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(str(package)):
            return
        depth += 1 if event == "call" else -1
        deepest = max(deepest, depth)
        total += event == "call"
        entered.add((code.co_filename, code.co_firstlineno))

    run()  # imports and caches are not counted
    sys.setprofile(watch)
    try:
        run()
    finally:
        sys.setprofile(None)
    files = len({file for file, _ in entered})
    return {"files": files, "functions": len(entered), "calls": total, "depth": deepest}


def entered() -> dict[str, dict[str, int]]:
    r"""Calls of our default and of BoTorch's bound: built, and evaluated once."""
    X = torch.rand(20, 2, generator=torch.Generator().manual_seed(0)).double()
    model = SingleTaskGP(X, torch.sin(6.0 * X).sum(-1, keepdim=True)).eval()
    model.requires_grad_(False)
    model.likelihood.noise = 0.01
    query = X[:5].unsqueeze(1) + 0.01
    bounds = {
        "kernelucb": lambda: kernelucb.MartingaleMixtureUCB(model, norm_bound=10.0)(query),
        "botorch": lambda: UpperConfidenceBound(model, beta=4.0)(query),
    }
    folders = {
        "kernelucb": PACKAGE,
        "botorch": Path(inspect.getfile(SingleTaskGP)).parents[1],
    }
    return {name: calls(run, folders[name]) for name, run in bounds.items()}


def arguments() -> dict[str, int]:
    r"""Number of constructor arguments of each public acquisition class."""
    named = {name: getattr(kernelucb, name) for name in kernelucb.__all__}
    return {
        name: len(inspect.signature(each.__init__).parameters) - 1
        for name, each in named.items()
        if inspect.isclass(each) and issubclass(each, AcquisitionFunction)
    }


def beside() -> dict[str, Any]:
    r"""Sizes of what is not the package."""
    folders = ("tests", "benchmarks")
    return {folder: size((ROOT / folder).rglob("*.py")) for folder in folders}


def house() -> dict[str, Any]:
    r"""All figures of the package and its pages."""
    source = sorted(PACKAGE.rglob("*.py"))
    rooms = {room.name: room.rglob("*.py") for room in PACKAGE.iterdir() if room.is_dir()}
    rooms = {name: files for name, files in sorted(rooms.items()) if name != "__pycache__"}
    given, total = arguments(), size(source)
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    words = {
        str(page.relative_to(ROOT)): len(page.read_text(encoding="utf-8").split())
        for page in pages
    }
    return {
        "src": total,
        "rooms": {name: size(files) for name, files in rooms.items()},
        **habits(source),
        "words of docs": sum(words.values()),
        "words of the longest page but mathematics": max(
            count for name, count in words.items() if name != "docs/mathematics.md"
        ),
        "lines of code for each comment": round(total["code"] / total["comments"], 1),
        "repeated lines of code": repeated(source),
        "files that one other imports": len(imported_once(source)),
        "public names": len(kernelucb.__all__),
        "arguments, mean": round(sum(given.values()) / len(given), 1),
        "arguments, most": max(given.values()),
        "entered": entered(),
    }


def _flat(figures: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in figures.items():
        inner = isinstance(value, dict)
        flat |= _flat(value, f"{prefix}{name} ") if inner else {prefix + name: value}
    return flat


def main(arguments: Sequence[str] | None = None) -> None:
    r"""The figures now, beside those of before."""
    parser = argparse.ArgumentParser(description="Lines, files, names and calls.")
    parser.add_argument("--json", action="store_true", help="as JSON")
    figures = house() | beside()
    if parser.parse_args(arguments).json:
        print(json.dumps(figures, indent=1))
        return
    before, now = (_flat(each) for each in (json.loads(BEFORE.read_text()), figures))
    print(f"{'':44}{'before':>10}{'now':>10}")
    for name in before | now:
        print(f"{name:44}{before.get(name, '-'):>10}{now.get(name, '-'):>10}")
    for name, user in imported_once(sorted(PACKAGE.rglob("*.py"))).items():
        print(f"only {user} imports {name}")


if __name__ == "__main__":
    main()
