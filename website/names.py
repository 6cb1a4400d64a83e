r"""Public names in the text lead to their entry in the API reference."""

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "kernelucb"
SKIPPED = r"<a\b.*?</a>|<h\d.*?</h\d>|<pre.*?</pre>"
NAME = re.compile(rf"{SKIPPED}|<code>(?P<path>(?:kernelucb\.)?[\w.]+)(?P<rest>\(.*?\))?</code>", re.S)


def public_names() -> dict[str, str]:
    r"""From a name, as the text has it, to the identifier of its entry."""
    names = {}
    for file, room in (("_public.py", ""), ("ax/__init__.py", "ax."), ("plotting/__init__.py", "plotting.")):
        module = ast.parse((PACKAGE / file).read_text())
        (exported,) = (
            ast.literal_eval(node.value)
            for node in module.body
            if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
        )
        for name in exported:
            names[f"kernelucb.{room}{name}"] = f"kernelucb.{room}{name}"
            names.setdefault(name, f"kernelucb.{room}{name}")
    return names


NAMES = public_names()


def reference(found: re.Match[str]) -> str:
    r"""The name as a reference that ``mkdocs-autorefs`` resolves."""
    identifier = NAMES.get(found["path"] or "")
    if identifier is None:
        return found[0]
    return f'<autoref optional identifier="{identifier}">{found[0]}</autoref>'


def on_page_content(content: str, **_: object) -> str:
    r"""MkDocs: called with the HTML of each page."""
    return NAME.sub(reference, content)
