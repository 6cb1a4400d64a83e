r"""The comparison page: what it says of us is tested, what it says of others is pinned."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "comparison.md"
TEXT = PAGE.read_text(encoding="utf-8")
OURS = "**kernelucb**"
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")
PINNED = re.compile(
    r"https://github\.com/([^/]+/[^/]+)/(?:blob|tree)/[0-9a-f]{9,40}(?:/|$)"
)


def table(block):
    r"""The cells under the name of the library."""
    _, _, *rows = [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in block.split("\n")
    ]
    return {name: cells for name, *cells in rows}


VERSIONS = table(re.search(r"(?:^\|.*\n)+", TEXT, re.MULTILINE)[0].strip())
BLOCKS = re.findall(
    r"((?:^\|[^\n]*\n)+)\nOur tests: (.*?)\.\n(?:\n|\Z)", TEXT, re.MULTILINE | re.DOTALL
)
FEATURES = [(table(rows.strip()), LINK.findall(tests)) for rows, tests in BLOCKS]
REPOSITORIES = {
    found[1]: PINNED.match(found[2])[1]
    for name in VERSIONS
    if (found := LINK.fullmatch(name))
}


def test_every_table_has_every_library():
    assert len(FEATURES) == TEXT.count("\n|---") - 1 == 7
    assert len(REPOSITORIES) == 7
    for rows, _ in FEATURES:
        assert list(rows) == [OURS, *REPOSITORIES]


@pytest.mark.parametrize(("rows", "tests"), FEATURES)
def test_what_we_say_of_ourselves_is_tested(rows, tests):
    r"""Every link of our cells leads to the test of the same position below the table."""
    found = [link for cell in rows[OURS] for _, link in LINK.findall(cell)]
    assert found == [link for _, link in tests]
    assert all(LINK.search(cell) or cell == "no" for cell in rows[OURS])
    for name, link in tests:
        path = (PAGE.parent / link).resolve()
        assert path.is_relative_to(ROOT / "tests")
        function = name.strip("`").split(".")[-1]
        assert function.startswith("test_")
        assert re.search(rf"^ *def {function}\(", path.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("name", REPOSITORIES)
def test_what_we_say_of_others_is_pinned(name):
    for cell in [cell for rows, _ in FEATURES for cell in rows[name]]:
        links = LINK.findall(cell)
        assert links or cell == "?"
        assert all(PINNED.match(link)[1] == REPOSITORIES[name] for _, link in links)


def test_every_link_to_code_is_pinned():
    links = re.findall(r"https://github\.com/[^)\s]*", TEXT)
    assert links
    assert all(map(PINNED.match, links))
