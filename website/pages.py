r"""Pages of the site that are made from files outside ``docs``.

Notebooks become Markdown by Jupyter's own ``nbconvert``, so that search, links and
formulas work in them as on every page. The changelog is copied. Source files and folders
that a page links to get a page each, so that the site needs no other place for the code.
"""

import csv
import io
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from nbconvert.exporters.markdown import MarkdownExporter
from source_pages import definition_line, folder_page, source_page

ROOT = Path(__file__).parents[1]
COPIED = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
TABLE = re.compile(r"^\[Table `\w+`\]\(\.\./\.\./(?P<path>\S+/results/\w+\.md)\)$", re.M)
LINK = re.compile(r'\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?P<title> "[^"]*")?\)')
CODE_LINK = re.compile(
    r'<a href="[./]*code/(?P<path>[^"]+\.py)\.html"'
    r'(?: title="(?P<title>[\w.]+)">|><code>(?P<name>[\w.]+)</code>)'
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    r"""MkDocs: adds these pages to those found in ``docs``."""
    written = [file for file in files if file.src_uri.endswith(".md")]
    for address, name in COPIED.items():
        written.append(File.generated(config, address, content=(ROOT / name).read_text()))
    for path in sorted((ROOT / "tutorials").glob("*.ipynb")):
        page, *pictures = notebook_files(path, config)
        written.append(page)
        for file in pictures:
            files.append(file)
    for file in written:
        if files.get_file_from_path(file.src_uri) is None:
            files.append(file)
    while written:  # a folder's page may have links as well
        for target in linked_code(written.pop()):
            address = site_address(target)
            if files.get_file_from_path(address) is None:
                make = folder_page if (ROOT / target).is_dir() else source_page
                text = make(ROOT / target, target)
                beside = InclusionLevel.NOT_IN_NAV
                written.append(
                    File.generated(config, address, content=text, inclusion=beside)
                )
                files.append(written[-1])
    return files


def notebook_files(path: Path, config: MkDocsConfig) -> list[File]:
    r"""A page with the outputs of the notebook, and its pictures."""
    body, resources = MarkdownExporter().from_filename(str(path))
    pictures = []
    for name, data in resources["outputs"].items():
        address = f"{path.stem}_files/{name}"
        body = body.replace(f"]({name})", f"]({address})")
        pictures.append(File.generated(config, f"tutorials/{address}", content=data))
    return [File.generated(config, f"tutorials/{path.stem}.md", content=body), *pictures]


def repository_path(address: str) -> str:
    r"""From a page to the file it was made of."""
    if (ROOT / "docs" / address).exists():
        return f"docs/{address}"
    if address in COPIED:
        return COPIED[address]
    if address.startswith("tutorials/"):
        return address.removesuffix(".md") + ".ipynb"
    if address.startswith("code/"):
        return address.removeprefix("code/").removesuffix(".md")
    return address


def site_address(path: str) -> str:
    r"""From a file or folder of the repository to its page."""
    for address, name in COPIED.items():
        if path == name:
            return address
    if path.startswith("tutorials/"):
        return path.removesuffix(".ipynb") + ".md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"code/{path}.md"


def target_of(link: re.Match[str], address: str) -> str:
    r"""The path in the repository that a link of the page points to."""
    path = repository_path(address)
    here = path if (ROOT / path).is_dir() else posixpath.dirname(path)
    return posixpath.normpath(posixpath.join(here, link["path"]))


def linked_code(file: File) -> set[str]:
    r"""What the page links to that has no page yet."""
    text = TABLE.sub("", file.content_string)
    found = {target_of(link, file.src_uri) for link in LINK.finditer(text)}
    return {
        path
        for path in found
        if site_address(path).startswith("code/") and (ROOT / path).exists()
    }


def on_page_markdown(markdown: str, *, page: Page, files: Files, **_: object) -> str:
    r"""MkDocs: shows tables of results where they are linked; points links at pages."""
    markdown = TABLE.sub(lambda found: table_of_results(ROOT / found["path"]), markdown)
    here = posixpath.dirname(page.file.src_uri)

    def point(link: re.Match[str]) -> str:
        path = target_of(link, page.file.src_uri)
        address = site_address(path)
        if files.get_file_from_path(address) is None:
            return link[0]
        relative = posixpath.relpath(address, here or ".")
        return f"]({relative}{link['anchor'] or ''}{link['title'] or ''})"

    return LINK.sub(point, markdown)


def table_of_results(path: Path) -> str:
    r"""A table that a benchmark wrote; when and with which versions, where it was noted."""
    text, made = path.read_text(), path.with_name("made.csv")
    with made.open(newline="") if made.exists() else io.StringIO() as file:
        for row in csv.DictReader(file):
            if row.pop("table") == f"{path.stem}.csv":
                del row["digest"]
                words = (f"{name} {version}" for name, version in row.items() if version)
                text += f"\n*Made with: {', '.join(words)}.*\n"
    return text


def on_page_content(content: str, **_: object) -> str:
    r"""MkDocs: a link to a file whose text or title is a name leads to the definition."""

    def line(link: re.Match[str]) -> str:
        name = link["title"] or link["name"]
        number = definition_line(ROOT / link["path"], name)
        return link[0].replace('.html"', f'.html#__codelineno-0-{number}"', bool(number))

    return CODE_LINK.sub(line, content)
