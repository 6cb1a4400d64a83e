r"""What stands on a page of the built site: its links, its text, what it loads."""

from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

NOT_TEXT = {"code", "math", "pre", "script", "style", "svg", "title"}
VOID = {"br", "col", "hr", "img", "input", "link", "meta", "path", "wbr"}


@dataclass
class Content:
    r"""Of one page.

    Attributes:
        anchors: What a link to this page may name.
        links: Targets of ``<a>``.
        loaded: What a browser fetches by itself: scripts, styles, pictures, frames.
        words: The text outside code and formulas.
        num_formulas: How many formulas there are.
    """

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    num_formulas: int = 0


class Reader(HTMLParser):
    r"""Collects the content of one page."""

    def __init__(self):
        super().__init__()
        self.content = Content()
        self.hidden = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        for key in ("id", "name"):
            if attributes.get(key):
                self.content.anchors.add(attributes[key])
        if tag == "a" and attributes.get("href"):
            self.content.links.append(attributes["href"])
        if tag == "link" and attributes.get("rel") not in {"next", "prev", "canonical"}:
            self.content.loaded.append(attributes["href"])
        if tag in {"iframe", "img", "script", "source"} and attributes.get("src"):
            self.content.loaded.append(attributes["src"])
        self.content.num_formulas += tag == "math"
        if tag in NOT_TEXT - VOID:
            self.hidden.append(tag)

    def handle_endtag(self, tag):
        if self.hidden and self.hidden[-1] == tag:
            self.hidden.pop()

    def handle_data(self, data):
        if not self.hidden and data.strip():
            self.content.words.append(data)


@cache
def read(path: Path) -> Content:
    r"""The content of the page at ``path``."""
    reader = Reader()
    reader.feed(path.read_text())
    return reader.content
