r"""The site builds without a warning, and what its pages lead to is there."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from filelock import FileLock

import kernelucb

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SECONDS = 600
NOT_TEXT = ["code", "math", "pre", "script", "style", "svg", "title"]
LOADED = "iframe, img, script, source, link:not([rel=next], [rel=prev], [rel=canonical])"


class Content(NamedTuple):
    anchors: set
    links: list
    loaded: list  # what a browser fetches by itself
    num_formulas: int
    text: str


def read(path):
    page = BeautifulSoup(path.read_text(), "html.parser")
    anchors = {each.get(key) for each in page.find_all(True) for key in ("id", "name")}
    links = [each["href"] for each in page.select("a[href]")]
    loaded = [each.get("src") or each.get("href") for each in page.select(LOADED)]
    num_formulas = len(page("math"))
    for each in page(NOT_TEXT):
        each.decompose()
    return Content(
        anchors, links, list(filter(None, loaded)), num_formulas, page.get_text(" ")
    )


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    r"""The folder of the built site; one build for all workers of a test run."""
    folder = tmp_path_factory.getbasetemp()
    folder = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
    built = folder / "site"
    with FileLock(folder / "site.lock"):
        if not built.exists():
            command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir"]
            subprocess.run([*command, built], cwd=ROOT, timeout=SECONDS, check=True)
    return built


@pytest.fixture(scope="session")
def pages(site):
    # The page for a missing address has links from the root, for any depth.
    return {path: read(path) for path in {*site.rglob("*.html")} - {site / "404.html"}}


def test_every_page_of_the_repository_is_there_and_in_the_menu(site, pages):
    listed, docs = (ROOT / "mkdocs.yml").read_text(), ROOT / "docs"
    addresses = [path.relative_to(docs).as_posix() for path in docs.rglob("*.md")]
    tutorials = [path.stem for path in (ROOT / "tutorials").glob("*.ipynb")]
    for address in (*addresses, *(f"tutorials/{name}.md" for name in tutorials)):
        assert site / address.replace(".md", ".html") in pages, address
        assert address in listed
    links = pages[site / "tutorials/index.html"].links
    assert {f"{name}.html" for name in tutorials} <= {*links}
    assert site / "changelog.html" in pages


def test_pages_of_results_show_every_table(site):
    shown = 0
    for path in (ROOT / "docs" / "results").glob("*.md"):
        linked = re.findall(r"^\[Table `\w+`\]\(\.\./\.\./(.+)\)$", path.read_text(), re.M)
        page = (site / "results" / f"{path.stem}.html").read_text()
        assert page.count("<table>") >= len(linked), path
        assert all((ROOT / name).is_file() for name in linked), path
        shown += len(linked)
    assert shown > 60


def test_no_link_is_broken(site, pages):
    broken = []
    for path, content in pages.items():
        for link in content.links:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("#__"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else set()
            if not target.is_file() or parts.fragment not in {"", *anchors}:
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_nothing_is_fetched_from_elsewhere(site, pages):
    sources = [(path, link) for path, page in pages.items() for link in page.loaded]
    for path in site.rglob("*.css"):
        found = re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')]+)", path.read_text())
        sources += [(path, source) for source in found if not source.startswith("#")]
    for path, source in sources:
        if not source.startswith("data:"):
            assert not urlsplit(source).netloc, (path, source)
            assert path.suffix == ".css" or (path.parent / source).exists(), (path, source)


def test_every_formula_is_rendered(site, pages):
    for path, content in pages.items():
        assert not re.search(r"\\[(\[a-zA-Z]|\$[^$]+\$|```", content.text), path
        assert "merror" not in path.read_text()
    assert pages[site / "mathematics.html"].num_formulas > 500
    assert pages[site / "tutorials/02_bo_loop.html"].num_formulas > 0


def test_every_public_name_has_an_entry_without_markup_of_docstrings(site, pages):
    reference = [content for path, content in pages.items() if path.parent == site / "api"]
    entries = set().union(*(content.anchors for content in reference))
    rooms = [f"kernelucb{room}" for room in ("", ".ax", ".plotting", ".exceptions")]
    names = {f"{m}.{name}" for m in rooms for name in importlib.import_module(m).__all__}
    assert not names - entries
    assert len(names) > len(kernelucb.__all__) > 40
    assert not any(re.search(r"``|:\w+:`|>>>", content.text) for content in reference)
