r"""The comparison page: what it says of us is tested, what it says of others is pinned."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "comparison.md"
OURS = "**kernelucb**"
LINK = re.compile(r'\[([^\]]+)\]\(([^)\s]+)(?: "([^"]*)")?\)')
PINNED = re.compile(
    r"https://github\.com/([^/]+/[^/]+)/(?:blob|tree)/[0-9a-f]{9,40}(?:/|$)"
)


def tables():
    r"""Every table but that of the versions, as cells under the name of the library."""
    for block in re.findall(
        r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    ):
        _, _, *rows = [[cell.strip() for cell in line.strip("|\n ").split("|")]
                       for line in block.splitlines()]  # fmt: skip
        yield {name: cells for name, *cells in rows}


VERSIONS, *FEATURES = tables()
REPOSITORIES = {
    found[1]: PINNED.match(found[2])[1]
    for name in VERSIONS
    if (found := LINK.fullmatch(name))
}


def cells(name):
    return [cell for table in FEATURES for cell in table[name]]


def test_every_table_has_every_library():
    assert len(FEATURES) == 7
    assert len(REPOSITORIES) == 7
    for table in FEATURES:
        assert list(table) == [OURS, *REPOSITORIES]


@pytest.mark.parametrize("cell", cells(OURS))
def test_what_we_say_of_ourselves_is_tested(cell):
    links = LINK.findall(cell)
    assert links or cell == "no"
    for _, target, name in links:
        path = (PAGE.parent / target).resolve()
        assert path.is_relative_to(ROOT / "tests")
        assert re.search(
            rf"^ *def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE
        )


@pytest.mark.parametrize("name", REPOSITORIES)
def test_what_we_say_of_others_is_pinned(name):
    for cell in cells(name):
        links = LINK.findall(cell)
        assert links or cell == "?"
        assert all(PINNED.match(link)[1] == REPOSITORIES[name] for _, link, _ in links)


def test_every_link_to_code_is_pinned():
    links = re.findall(r"https://github\.com/[^)\s]*", PAGE.read_text(encoding="utf-8"))
    assert links
    assert all(map(PINNED.match, links))
