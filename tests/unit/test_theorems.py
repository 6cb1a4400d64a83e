r"""``docs/theorems.md``: each statement stands where the list says, and says so there."""

import ast
import functools
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "theorems.md").read_text()
# The paper is the heading of its section, or named first.
ROW = re.compile(
    r"^- (?:([^:]+ \(\d{4}\)), )?([^:]+): \[`([\w.]+)`\]\(([^)#]+\.py)\)$", re.MULTILINE
)
ROWS = [
    (paper or section.split("\n")[0], *row)
    for section in PAGE.split("\n## ")[1:]
    for paper, *row in ROW.findall(section)
]


@functools.cache
def parsed(path):
    return ast.parse((DOCS / path).read_text())


def docstrings(path, name):
    r"""Of a module, of the class or function in it, and of the method."""
    node = parsed(path)
    texts = [ast.get_docstring(node) or ""]
    for part in name.split("."):
        kinds = ast.ClassDef | ast.FunctionDef
        (node,) = (n for n in node.body if isinstance(n, kinds) and n.name == part)
        texts.append(ast.get_docstring(node) or "")
    return " ".join(" ".join(texts).split())


def test_every_function_is_there_and_names_its_source():
    for paper, statement, name, path in ROWS:
        text = docstrings(path, name)
        if paper == "Ours":
            assert re.search(r"\bours\b", text, re.IGNORECASE), name
            continue
        authors, year = re.fullmatch(r"(.+) \((\d{4})\)", paper).groups()
        assert authors.split()[0].rstrip(",") in text, name
        assert year in text, name
        # "(band)" is for readers.
        for part in re.sub(r" \(\D+\)", "", statement).split("; "):
            assert re.search(rf"{re.escape(part)}(?!\.?\d)", text), (name, part)


def test_each_statement_has_one_place_and_every_row_is_read():
    found = [(paper, part) for paper, text, *_ in ROWS for part in text.split("; ")]
    assert len(found) == len(set(found))
    lines = re.findall(r"^[-|]", PAGE, flags=re.MULTILINE)
    assert len(lines) == len(ROWS) > 40


def test_notation_uses_the_names_of_the_code():
    notation = (DOCS / "notation.md").read_text()
    names = re.findall(r"^\| `(\w+)`(?:, `(\w{3,})`)?", notation, flags=re.MULTILINE)
    code = "\n".join(path.read_text() for path in (DOCS.parent / "src").rglob("*.py"))
    used = set(re.findall(r"\w+", code))
    assert len(names) > 15
    assert {name for pair in names for name in pair if name} <= used
