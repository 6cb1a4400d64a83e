r"""The site builds without a warning, and what its pages lead to is there."""

import importlib
import os
import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from filelock import FileLock

import kernelucb

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SECONDS = 600


NOT_TEXT = {"code", "math", "pre", "script", "style", "svg", "title"}


class Content(HTMLParser):
    r"""What stands on a page: its links, its text, what a browser fetches by itself."""

    def __init__(self):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []
        self.words, self.num_formulas, self.hidden = [], 0, []

    def handle_starttag(self, tag, attrs):
        own = dict(attrs)
        self.anchors |= {own[key] for key in ("id", "name") if own.get(key)}
        if tag == "a" and own.get("href"):
            self.links.append(own["href"])
        if tag == "link" and own.get("rel") not in {"next", "prev", "canonical"}:
            self.loaded.append(own["href"])
        if tag in {"iframe", "img", "script", "source"} and own.get("src"):
            self.loaded.append(own["src"])
        self.num_formulas += tag == "math"
        if tag in NOT_TEXT:
            self.hidden.append(tag)

    def handle_endtag(self, tag):
        if self.hidden and self.hidden[-1] == tag:
            self.hidden.pop()

    def handle_data(self, data):
        if not self.hidden and data.strip():
            self.words.append(data)


@cache
def read(path):
    content = Content()
    content.feed(path.read_text())
    return content


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    r"""The folder of the built site; one build for all workers of a test run."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    built = folder / "site"
    with FileLock(folder / "site.lock"):
        if not built.exists():
            command = ["-m", "mkdocs", "build", "--strict", "--site-dir"]
            options = {"capture_output": True, "text": True, "timeout": SECONDS}
            command = [sys.executable, *command, built]
            done = subprocess.run(command, cwd=ROOT, check=False, **options)
            assert done.returncode == 0, done.stderr
    return built


@pytest.fixture(scope="session")
def pages(site):
    # The page for a missing address has links from the root, for any depth.
    paths = sorted(set(site.rglob("*.html")) - {site / "404.html"})
    return {path: read(path) for path in paths}


def test_every_page_of_the_repository_is_there_and_in_the_menu(site, pages):
    listed = (ROOT / "mkdocs.yml").read_text()
    for path in (ROOT / "docs").rglob("*.md"):
        own = path.relative_to(ROOT / "docs")
        assert site / own.with_suffix(".html") in pages, path
        assert own.as_posix() in listed
    for path in (ROOT / "tutorials").glob("*.ipynb"):
        assert site / f"tutorials/{path.stem}.html" in pages
        assert f"tutorials/{path.stem}.md" in listed
        assert f"{path.stem}.html" in read(site / "tutorials/index.html").links
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
            if not target.is_file() or (parts.fragment and parts.fragment not in anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert not broken


def test_nothing_is_fetched_from_elsewhere(site, pages):
    for path, content in pages.items():
        for source in content.loaded:
            assert not urlsplit(source).netloc, (path, source)
            assert source.startswith("data:") or (path.parent / source).exists(), source
    for path in site.rglob("*.css"):
        for source in re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')]+)", path.read_text()):
            assert source.startswith(("data:", "#")) or not urlsplit(source).netloc, source


def test_every_formula_is_rendered(site, pages):
    for path, content in pages.items():
        text = " ".join(content.words)
        assert not re.search(r"\\[(\[a-zA-Z]|\$[^$]+\$|```", text), path
        assert "merror" not in path.read_text()
    assert pages[site / "mathematics.html"].num_formulas > 500
    assert pages[site / "tutorials/02_bo_loop.html"].num_formulas > 0


def test_every_public_name_has_an_entry_without_markup_of_docstrings(site):
    reference = [read(path) for path in (site / "api").glob("*.html")]
    entries = set().union(*(content.anchors for content in reference))
    rooms = [f"kernelucb{room}" for room in ("", ".ax", ".plotting", ".exceptions")]
    names = {f"{m}.{name}" for m in rooms for name in importlib.import_module(m).__all__}
    assert not names - entries
    assert len(names) > len(kernelucb.__all__) > 40
    for content in reference:
        assert not re.search(r"``|:\w+:`|>>>", " ".join(content.words))
