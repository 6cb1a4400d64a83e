r"""``docs/theorems.md``: each statement stands where the table says, and says so there."""

import ast
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "theorems.md").read_text()
OURS = "Ours"
ROW = re.compile(r"^\| ([^|]+) \| \[`([\w.]+)`\]\(([^)#]+\.py)\) \|", re.MULTILINE)


def rows():
    for section in PAGE.split("\n## ")[1:]:
        paper = section.split("\n")[0]
        for statement, name, path in ROW.findall(section):
            yield pytest.param(paper, statement, name, path, id=f"{paper}: {statement}")


ROWS = list(rows())


def docstring(node):
    return ast.get_docstring(node) or ""


def scopes(path, name):
    r"""Docstrings of a module, of the class or function in it, and of the method."""
    node = ast.parse((DOCS / path).read_text())
    texts = [docstring(node)]
    for part in name.split("."):
        kinds = ast.ClassDef | ast.FunctionDef
        (node,) = (n for n in node.body if isinstance(n, kinds) and n.name == part)
        texts.append(docstring(node))
    return " ".join(" ".join(texts).split())


@pytest.mark.parametrize(("paper", "statement", "name", "path"), ROWS)
def test_the_function_is_there_and_names_its_source(paper, statement, name, path):
    text = scopes(path, name)
    if paper == OURS:
        assert re.search(r"\bours\b", text, re.IGNORECASE)
        return
    authors, year = re.fullmatch(r"(.+) \((\d{4})\)", paper).groups()
    assert authors.split()[0].rstrip(",") in text
    assert year in text
    for part in re.sub(r" \(\D+\)", "", statement).split("; "):  # "(band)" is for readers
        assert re.search(rf"{re.escape(part)}(?!\.?\d)", text), part


def test_one_place_for_each_statement():
    found = [(row.values[0], part) for row in ROWS for part in row.values[1].split("; ")]
    assert len(found) == len(set(found))


def test_every_row_of_the_page_is_read():
    lines = re.findall(r"^\| (?!statement|---)", PAGE, flags=re.MULTILINE)
    assert len(lines) == len(ROWS) > 40


def test_notation_uses_the_names_of_the_code():
    notation = (DOCS / "notation.md").read_text()
    names = re.findall(r"^\| `(\w+)`(?:, `(\w{3,})`)?", notation, flags=re.MULTILINE)
    code = "\n".join(path.read_text() for path in (DOCS.parent / "src").rglob("*.py"))
    used = set(re.findall(r"\w+", code))
    assert len(names) > 15
    assert {name for pair in names for name in pair if name} <= used
