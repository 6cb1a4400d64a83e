r"""Public names in the text lead to their entry in the API reference."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "kernelucb"
ROOMS = {"_public.py": "", "ax/__init__.py": "ax.", "plotting/__init__.py": "plotting."}
# A name and what follows it; links, headings and blocks of code stay as they are.
NAME = re.compile(
    r"<a\b.*?</a>|<h\d.*?</h\d>|<pre.*?</pre>"
    r"|<code>(?P<name>(?:kernelucb\.)?(?:(?:ax|plotting)\.)?\w+)(?:[.(][^<]*)?</code>",
    re.DOTALL,
)


def entries() -> dict[str, str]:
    r"""From a name, as the text has it, to the identifier of its entry."""
    found: dict[str, str] = {}
    for file, room in ROOMS.items():
        for node in ast.parse((PACKAGE / file).read_text()).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                for name in ast.literal_eval(node.value):
                    identifier = f"kernelucb.{room}{name}"
                    found[identifier] = identifier
                    found.setdefault(name, identifier)
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
