r"""Public names in the text lead to their entry in the API reference."""

import re
from importlib import import_module

ROOMS = "kernelucb", "kernelucb.ax", "kernelucb.plotting"
# A name and what follows it; links, headings and blocks of code stay as they are.
NAME = re.compile(
    r"<a\b.*?</a>|<h\d.*?</h\d>|<pre.*?</pre>"
    r"|<code>(?P<name>(?:kernelucb\.)?(?:(?:ax|plotting)\.)?\w+)(?:[.(][^<]*)?</code>",
    re.DOTALL,
)


def entries() -> dict[str, str]:
    r"""From a name, as the text has it, to the identifier of its entry."""
    found: dict[str, str] = {}
    for room in ROOMS:
        for name in import_module(room).__all__:
            found[f"{room}.{name}"] = f"{room}.{name}"
            found.setdefault(name, f"{room}.{name}")
    return found


ENTRIES = entries()


def reference(found: re.Match[str]) -> str:
    r"""The name as a reference that ``mkdocs-autorefs`` resolves."""
    identifier = ENTRIES.get(found["name"] or "")
    if identifier is None:
        return found[0]
    return f'<autoref optional identifier="{identifier}">{found[0]}</autoref>'


def on_page_content(content: str, **_: object) -> str:
    r"""MkDocs: called with the HTML of each page."""
    return NAME.sub(reference, content)
