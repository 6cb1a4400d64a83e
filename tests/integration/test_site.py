r"""The site builds without a warning, and what its pages lead to is there."""

import html
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from filelock import FileLock
from site_pages import read

import kernelucb

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SECONDS = 600


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    r"""The folder of the built site; one build for all workers of a test run."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    built = folder / "site"
    with FileLock(folder / "site.lock"):
        if not built.exists():
            build(built)
    return built


def build(folder):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def pages(site):
    # The page for a missing address has links from the root, for any depth.
    paths = sorted(set(site.rglob("*.html")) - {site / "404.html"})
    return {path: read(path) for path in paths}


def test_every_page_of_the_repository_is_there(site, pages):
    docs = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md")]
    tutorials = [path.relative_to(ROOT) for path in (ROOT / "tutorials").glob("*.ipynb")]
    for path in (*docs, *tutorials, Path("changelog.md")):
        assert site / path.with_suffix(".html") in pages, path


def test_every_page_can_be_reached_from_the_menu(pages, site):
    listed = (ROOT / "mkdocs.yml").read_text()
    for path in (ROOT / "docs").rglob("*.md"):
        assert path.relative_to(ROOT / "docs").as_posix() in listed
    for path in (ROOT / "tutorials").glob("*.ipynb"):
        assert f"tutorials/{path.stem}.md" in listed
        assert f"{path.stem}.html" in read(site / "tutorials/index.html").links


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


def exported():
    for room in ("", ".ax", ".plotting", ".exceptions"):
        module = f"kernelucb{room}"
        for name in importlib.import_module(module).__all__:
            yield f"{module}.{name}"


def test_every_public_name_has_an_entry(site):
    reference = [read(path) for path in (site / "api").glob("*.html")]
    entries = set().union(*(content.anchors for content in reference))
    assert not set(exported()) - entries
    assert len(set(exported())) > len(kernelucb.__all__) > 40


def test_the_first_page_of_the_reference_names_every_entry():
    pages = ROOT / "docs/api"
    listed = (pages / "index.md").read_text()
    for page in pages.glob("*.md"):
        for entry in re.findall(r"^::: kernelucb\.(.+)$", page.read_text(), re.MULTILINE):
            assert f"`{entry.split('.')[-1]}`" in listed or f"`kernelucb.{entry}`" in listed


def test_the_reference_has_no_markup_of_docstrings_left(site):
    for path in (site / "api").glob("*.html"):
        text = " ".join(read(path).words)
        assert not re.search(r"``|:\w+:`|>>>", text), path


def plain(markup):
    return html.unescape(re.sub("<[^>]+>", "", markup))


def test_signatures_of_the_reference_are_wrapped(site):
    blocks = r'<div class="language-python doc-signature highlight">(.*?)</div>'
    signatures = [
        plain(block)
        for path in (site / "api").glob("*.html")
        for block in re.findall(blocks, path.read_text(), re.DOTALL)
    ]
    assert sum("\n    " in signature for signature in signatures) > 40
    assert max(len(line) for each in signatures for line in each.splitlines()) <= 80


def test_lists_of_the_reference_have_one_name_an_entry(site):
    entries = r'<li class="doc-section-item field-body">\s*<b>(.*?)</b>'
    for path in (site / "api").glob("*.html"):
        for entry in re.findall(entries, path.read_text(), re.DOTALL):
            assert re.fullmatch(r"[\w*.]+", plain(entry)), (path.name, plain(entry))


def test_the_statements_of_the_papers_lead_to_a_line(site):
    links = [link for link in read(site / "theorems.html").links if ".py.html" in link]
    assert len(links) > 40
    assert all("#__codelineno-0-" in link for link in links)
